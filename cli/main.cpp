// SPDX-License-Identifier: Apache-2.0
// The program: runs the command (command.h) and turns each kind of failure into one sentence on stderr and its exit
// code (core/base/errors.h).
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>

#include "cli/command.h"
#include "cli/terminal/memory_limit.h"

namespace meshwright {

namespace {

// Says the exception that is being handled; its exit code.
int blame(const Context& context) {
  const Failure failure = current_failure();
  if (!context.quiet) std::fputs(fmt::format("meshwright: error: {}\n", failure.sentence).c_str(), stderr);
  return failure.code;
}

int run_and_blame(int argc, char** argv) {
  Context context;
  context.say_error = [&context] {
    static_cast<void>(blame(context));
    context.quiet = true;
  };
  try {
    run_command(context, std::vector<std::string>(argv + std::min(argc, 1), argv + argc));
    return 0;
  } catch (const std::exception&) {
    return blame(context);
  }
}

}  // namespace

}  // namespace meshwright

// What jemalloc reads where the program is linked with it: a search touches a gigabyte in small pieces, and the system
// gives it in pages of 2 MiB where it has them. MALLOC_CONF in the environment decides otherwise.
extern "C" const char* malloc_conf;
const char* malloc_conf = "thp:always";

int main(int argc, char** argv) {
  // A reader that goes away is a failed write with a sentence and exit code 4, not a silent death.
  std::signal(SIGPIPE, SIG_IGN);
  meshwright::blame_memory_limit();
  return meshwright::run_and_blame(argc, argv);
}
