// SPDX-License-Identifier: Apache-2.0
// Follows the commands of a script, and those of the scripts, strings and functions that they call.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "launch/syntax/shell.h"
#include "launch/syntax/shell_conditions.h"
#include "launch/syntax/shell_tree.h"
#include "launch/syntax/shell_words.h"

namespace meshwright {

[[nodiscard]] std::string base_name(const std::string& path);

class ShellReader {
 public:
  ShellReader(const std::string& place, const ShellInput& input);

  void read(const std::string& text, int first_line);
  [[nodiscard]] ShellResult result() &&;

 private:
  void note(int line, const std::string& sentence);
  // The same of something that is not evaluated, so that what a function prints is not known either.
  void leave_out(int line, const std::string& sentence);
  void add_directives(const ShellTree& tree);

  // The truth of the last node.
  Truth run(const std::vector<ShellNode>& nodes, int depth);
  Truth run(const ShellNode& node, int depth);
  Truth run_pipe(std::span<const ShellNode> pipe, int depth);
  Truth run_if(const ShellNode& node, int depth);
  Truth run_for(const ShellNode& node, int depth);
  Truth run_loop(const ShellNode& node, int depth);
  Truth run_case(const ShellNode& node, int depth);
  // Whether the loop goes on behind it.
  bool run_turn(const std::vector<ShellNode>& body, int depth);
  Truth condition(const std::vector<ShellNode>& nodes, int depth);
  Truth test(const std::vector<RawWord>& raw, int line);
  std::string if_unset_empty(const std::string& text, int line);
  [[nodiscard]] bool leaves() const { return breaks_ > 0 || continues_ || returns_; }

  Truth simple(const ShellNode& node, int depth);
  Truth call(ShellCommand command, const ShellNode& node, int depth);
  bool write_output(std::span<const ShellNode> pipe);
  bool change_file(const ShellCommand& command);
  Truth call_function(const ShellCommand& command, int depth);
  std::optional<std::string> output_of(const ShellNode& call);
  // nullopt: it is no command of the shell itself.
  std::optional<Truth> builtin(const std::string& name, const ShellCommand& command, const ShellNode& node);
  Truth leave(const std::string& name, const ShellCommand& command);

  // Scripts within the script: `bash -c "..."`, `sbatch <<EOF`, `source FILE`, `bash FILE ARGUMENTS`.
  bool read_inner(const ShellCommand& command, int depth);
  bool launched_script(const ShellCommand& command, int depth);
  bool called_script(const ShellCommand& command, const std::string& name, int depth);
  void set_variables(const std::string& word, int line);
  [[nodiscard]] std::optional<std::string> script_of(const std::string& path) const;
  bool run_text(const std::string& text, int line, int depth);

  std::string place_, file_;          // the script that is asked for, and the one that runs
  std::vector<std::string> running_;  // the texts of scripts, each called by the one before it
  const ShellInput& input_;
  ShellResult result_;
  ShellWords words_;
  std::vector<std::unique_ptr<ShellNode>> kept_;  // of functions, which outlive the text that they were parsed of
  std::set<std::string> exported_, unset_;
  int branches_ = 0, conditions_ = 0, loops_ = 0, calls_ = 0;
  int doubts_ = 0;        // branches that are taken as a variable is taken for unset
  bool doubted_ = false;  // by the last test
  int breaks_ = 0;        // loops that end here
  bool stopped_ = false, continues_ = false, returns_ = false;
  Truth returned_ = true;           // where it returns
  std::string* printed_ = nullptr;  // of the function whose output is asked for
  bool unsure_ = false;             // whether it printed more than is known
  std::size_t count_ = 0;
};

}  // namespace meshwright
