// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/shell_commands.h"

#include <map>
#include <set>

namespace meshwright {

bool sets_nothing(const std::string& command) {
  static const std::set<std::string> kNothing = {":",    "true",  "echo",   "printf", "cd",      "declare",  "local",
                                                 "wait", "clear", "module", "ulimit", "typeset", "readonly", "umask",
                                                 "trap", "sleep", "mkdir",  "shopt",  "pushd",   "popd"};
  return kNothing.contains(command);
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

}  // namespace meshwright
