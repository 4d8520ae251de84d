// SPDX-License-Identifier: Apache-2.0
// What a shell script would run, found without running anything: commands with their words expanded as bash does.
//
// Variables, arrays, parameter expansions, arithmetic, quotes, here documents, functions, `if`, `case`, `[ ... ]` and
// `for` over known words are evaluated. No command is executed: what one would print, and variables that neither the
// script nor the caller sets, stay unresolved, and are listed. A test that depends on a variable that nobody sets takes
// it for empty, as a shell without it does; a test of what is not known leaves its branches out, and says so.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace meshwright {

// Stands for '$' in text where a part is unresolved: "\1{SLURM_PROCID}", "\1{output_of_date}".
inline constexpr char kUnresolved = '\1';
[[nodiscard]] inline bool is_resolved(const std::string& text) { return text.find(kUnresolved) == std::string::npos; }
// With '$' again.
[[nodiscard]] std::string shown(std::string text);

struct ShellWord {
  std::string text;
  int line = 0;
};

struct ShellCommand {
  std::vector<ShellWord> words;  // at least one
  std::string input = {};        // its here document
  std::string output = {};       // the file that its output goes to
  int line = 0;
  std::string file = {};  // the script that `line` is of
};

struct ShellInput {
  std::map<std::string, std::string> variables = {};  // set before the script begins
  std::vector<std::string> arguments = {};            // $1, $2, ...
  std::map<std::string, std::string> files = {};      // by name without folders: scripts that it may call or source
  std::function<std::optional<std::string>(const std::string& name)> beside = {};  // the same for others
};

struct ShellResult {
  std::vector<ShellCommand> commands;              // in the order in which they would run
  std::vector<ShellWord> directives;               // "--nodes=24", of lines "#SBATCH ..."
  std::map<std::string, std::string> environment;  // exported
  std::map<std::string, std::string> written;      // here documents by the file that they are written to
  std::map<std::string, int> unresolved;           // names, and the line that asks first
  std::vector<std::string> notes;                  // "run.sh:12: ...": what was left out
};

// Throws InputError "PLACE:LINE: ..." where a quote, bracket or block has no end, or the script is too large.
[[nodiscard]] ShellResult read_shell(const std::string& text, const std::string& place, const ShellInput& input);

}  // namespace meshwright
