// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cctype>
#include <utility>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/syntax/config_value.h"
#include "launch/syntax/shell_commands.h"
#include "launch/syntax/shell_reader.h"

namespace meshwright {

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool ShellReader::read_inner(const ShellCommand& command, int depth) {
  const std::string name = base_name(command.words[0].text);
  if ((name == "exec" || name == "nohup" || name == "time" || name == "command") && command.words.size() > 1) {
    ShellCommand rest = command;
    rest.words.erase(rest.words.begin());
    return read_inner(rest, depth);
  }
  if (name == "eval") {
    std::string text;
    for (std::size_t i = 1; i < command.words.size(); ++i) text += command.words[i].text + " ";
    return run_text(text, command.words[0].line, depth);
  }
  const bool batch = name == "sbatch" || name == "bash" || name == "sh";
  if (batch && !command.input.empty()) {
    for (std::size_t i = 1; i < command.words.size(); ++i) result_.directives.push_back(command.words[i]);
    return run_text(command.input, command.line + 1, depth);
  }
  for (std::size_t i = 0; i + 2 < command.words.size(); ++i) {
    const std::string& option = command.words[i + 1].text;
    const std::string shell = base_name(command.words[i].text);
    if (!(shell == "bash" || shell == "sh" || shell == "zsh")) continue;
    std::size_t at = i + 1;
    while (at + 1 < command.words.size() && command.words[at].text.starts_with('-') &&
           !command.words[at].text.ends_with('c'))
      ++at;
    if (!command.words[at].text.starts_with('-') || !command.words[at].text.ends_with('c') || option == "--") continue;
    if (at + 1 >= command.words.size()) continue;
    // What runs the shell (srun, docker) says something of the devices.
    if (i > 0)
      result_.commands.push_back({{command.words.begin(), command.words.begin() + static_cast<std::ptrdiff_t>(i)},
                                  "",
                                  "",
                                  command.line,
                                  command.file});
    return run_text(command.words[at + 1].text, command.words[at + 1].line, depth);
  }
  return called_script(command, name, depth) || launched_script(command, depth);
}

// "srun --mpi=pmix bash FILE", "mpirun -x N=4 ./run.sh", "sbatch -N 2 FILE".
bool ShellReader::launched_script(const ShellCommand& command, int depth) {
  for (std::size_t i = 1; i < command.words.size(); ++i) {
    const std::string& word = command.words[i].text;
    const bool shell = base_name(word) == "bash" || base_name(word) == "sh";
    if (!shell && !(word.ends_with(".sh") && starts_programs(base_name(command.words[0].text)))) continue;
    if (!script_of(shell && i + 1 < command.words.size() ? command.words[i + 1].text : word)) continue;
    const auto launcher_end = command.words.begin() + static_cast<std::ptrdiff_t>(i);
    for (auto given = command.words.begin() + 1; given != launcher_end; ++given)
      set_variables(given->text, given->line);
    result_.commands.push_back({{command.words.begin(), launcher_end}, "", "", command.line, command.file});
    ShellCommand script{{launcher_end, command.words.end()}, "", "", command.line, command.file};
    if (!shell) script.words.insert(script.words.begin(), {"bash", command.line});
    return called_script(script, "bash", depth);
  }
  return false;
}

// "N=4", "--export=ALL,N=4", "N=4,M=2" among the words of a launcher.
void ShellReader::set_variables(const std::string& word, int line) {
  const std::size_t begin = word.starts_with("--export=") ? 9 : 0;
  if (begin == 0 && word.starts_with('-')) return;
  for (const std::string& part : split(std::string_view(word).substr(begin), ',')) {
    const std::size_t equal = part.find('=');
    const std::string name = part.substr(0, equal);
    if (equal == std::string::npos || name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) != 0) continue;
    const bool plain = std::all_of(name.begin(), name.end(), [](char each) {
      return std::isalnum(static_cast<unsigned char>(each)) != 0 || each == '_';
    });
    if (plain) words_.set(name, part.substr(equal + 1), line);
  }
}

// Given, written by the script itself, or beside it.
std::optional<std::string> ShellReader::script_of(const std::string& path) const {
  const std::string file = base_name(path);
  if (const auto given = input_.files.find(file); given != input_.files.end()) return given->second;
  for (const auto& [name, text] : result_.written)
    if (base_name(name) == file) return text;
  if (!input_.beside || !is_resolved(file) || file.empty()) return std::nullopt;
  std::optional<std::string> found = input_.beside(path);
  return found ? found : input_.beside(file);
}

bool ShellReader::called_script(const ShellCommand& command, const std::string& name, int depth) {
  const bool sources = name == "source" || name == ".";
  const bool calls = sources || name == "bash" || name == "sh" || name == "sbatch";
  const std::size_t at = calls ? 1 : 0;
  if (at >= command.words.size()) return false;
  const std::string file = base_name(command.words[at].text);
  if (!calls && !file.ends_with(".sh")) return false;
  const std::optional<std::string> found = script_of(command.words[at].text);
  if (!found) {
    if (sources)
      note(command.line,
           fmt::format("{} is not read; give it as a further file if it sets what is missing", shown(file)));
    return sources;
  }
  if (std::find(running_.begin(), running_.end(), *found) != running_.end()) {
    note(command.line, fmt::format("{} starts itself again, which is not followed", shown(file)));
    return true;
  }
  require(depth < kMaxLaunchDepth, "{}:{}: scripts call one another without end.", file_, command.line);
  const std::vector<ShellWord> before = words_.arguments;
  if (command.words.size() > at + 1 || !sources)
    words_.arguments.assign(command.words.begin() + static_cast<std::ptrdiff_t>(at) + 1, command.words.end());
  running_.push_back(*found);
  const std::string& named = command.words[at].text;
  const std::string caller = std::exchange(file_, file), above = std::exchange(words_.source, named);
  const std::string called = std::exchange(words_.called, sources ? words_.called : named);
  const ShellTree tree = parse_shell(*found, file, 1);
  add_directives(tree);
  run(tree.nodes, depth + 1);
  if (!sources) stopped_ = false;
  returns_ = false;
  file_ = caller;
  words_.source = above;
  words_.called = called;
  running_.pop_back();
  words_.arguments = before;
  return true;
}

bool ShellReader::run_text(const std::string& text, int line, int depth) {
  require(depth + 1 < kMaxLaunchDepth, "{}:{}: scripts within the script are nested too deeply.", file_, line);
  const ShellTree tree = parse_shell(text, file_, line);
  add_directives(tree);
  run(tree.nodes, depth + 1);
  return true;
}

}  // namespace meshwright
