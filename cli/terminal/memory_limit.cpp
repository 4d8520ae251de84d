// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/memory_limit.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

namespace meshwright {

namespace {

constexpr int kSystem = 4;  // the exit code

// Calls nothing but what a signal handler may.
void end(int) {
  constexpr char kSaid[] =
      "meshwright: error: a library did not survive that memory was refused: this process may have little of it "
      "(ulimit "
      "-v); raise the limit. If it ends so without a limit, please report it.\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kSaid, sizeof kSaid - 1);
  _exit(kSystem);
}

}  // namespace

void blame_memory_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  for (const int number : {SIGSEGV, SIGBUS}) std::signal(number, end);
}

}  // namespace meshwright
