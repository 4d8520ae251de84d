// SPDX-License-Identifier: Apache-2.0
// The command as a function: whoever calls it gives the words behind its name, and gets its failures as exceptions.
// Read verbs.h for what there is to run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/terminal/context.h"

namespace CLI {
class App;
}

namespace meshwright {

// A command line that is understood, and whose work has not begun. Throws InputError where a verb, an option or the
// form of a value is unknown.
class CommandLine {
 public:
  // `context` has to outlive it.
  CommandLine(Context& context, const std::vector<std::string>& words);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;
  // Does the work; none where help or the version was asked for and printed.
  void run();

 private:
  Context& context_;
  std::unique_ptr<CLI::App> app_;  // the work may print its help
  bool answered_ = false;
};

// Finds the verb in `words` ("plan", "--model", "gpt-2.6b", ...), and runs it. Throws the errors of core/base/errors.h,
// Interrupted (cli/terminal/interruption.h) and std::bad_alloc; anything else is a bug.
void run_command(Context& context, const std::vector<std::string>& words);

// The exit code and the sentence of the exception that is being handled.
struct Failure {
  int code = 0;
  std::string sentence;  // printable: what it quotes of the input cannot steer a terminal
};
[[nodiscard]] Failure current_failure();

}  // namespace meshwright
