// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/shell_commands.h"

#include <cctype>
#include <map>
#include <set>

namespace meshwright {

bool sets_nothing(const std::string& command) {
  static const std::set<std::string> kNothing = {":",    "true",  "echo",   "printf", "cd",      "declare",  "local",
                                                 "wait", "clear", "module", "ulimit", "typeset", "readonly", "umask",
                                                 "trap", "sleep", "mkdir",  "shopt",  "pushd",   "popd"};
  return kNothing.contains(command);
}

bool finds_programs(const std::string& command) {
  return command == "command" || command == "which" || command == "type" || command == "hash";
}

bool starts_programs(const std::string& command) {
  static const std::set<std::string> kLaunchers = {
      "srun",      "sbatch",  "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "jsrun", "aprun",
      "prun",      "flux",    "env",    "docker",  "podman",        "pdsh",    "ssh",   "singularity",
      "apptainer", "numactl", "qsub",   "bsub",    "nohup",         "time",    "nsys",  "enroot"};
  return kLaunchers.contains(command);
}

bool declares_names(const std::string& command) {
  return command == "export" || command == "declare" || command == "local" || command == "readonly" ||
         command == "typeset";
}

std::string echoed(const ShellCommand& command) {
  std::string text;
  for (std::size_t i = 1; i < command.words.size(); ++i) {
    if (i == 1 && (command.words[i].text == "-e" || command.words[i].text == "-n")) continue;
    text += command.words[i].text + (i + 1 < command.words.size() ? " " : "\n");
  }
  return text;
}

std::vector<std::string> slurm_variables(const std::string& option) {
  static const std::map<std::string, std::vector<std::string>> kNames = {
      {"--nodes", {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}},
      {"-N", {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}},
      {"--ntasks-per-node", {"SLURM_NTASKS_PER_NODE"}},
      {"--ntasks", {"SLURM_NTASKS"}},
      {"-n", {"SLURM_NTASKS"}},
      {"--gpus-per-node", {"SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"}}};
  const auto found = kNames.find(option);
  return found == kNames.end() ? std::vector<std::string>{} : found->second;
}

std::string batch_options(const std::string& comment) {
  if (comment.starts_with("#SBATCH")) return comment.substr(7);
  const bool known = comment.starts_with("#PBS") || comment.starts_with("#BSUB") || comment.starts_with("#PJM");
  if (!known) return "";
  static const std::map<std::string, const char*> kNames = {
      {"select", "--nodes"},        {"nodes", "--nodes"},        {"node", "--nodes"},       {"nnodes", "--nodes"},
      {"ngpus", "--gpus-per-node"}, {"gpus", "--gpus-per-node"}, {"gpu", "--gpus-per-node"}};
  // Names, and the numbers behind '=' or a blank: "-l", "select", "2", "ngpus", "4".
  std::vector<std::string> words = {""};
  for (const char c : comment.substr(comment.find(' ') == std::string::npos ? comment.size() : comment.find(' '))) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_')
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  std::string options;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const auto name = kNames.find(words[i]);
    const bool number = !words[i + 1].empty() && words[i + 1].find_first_not_of("0123456789") == std::string::npos;
    if (name != kNames.end() && number) options += std::string(" ") + name->second + "=" + words[i + 1];
  }
  return options;
}

}  // namespace meshwright
