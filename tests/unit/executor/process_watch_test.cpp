// SPDX-License-Identifier: Apache-2.0
#include "executor/peers/process_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

namespace meshwright::process_watch_test {

namespace {

// A process that does nothing until it is killed.
pid_t begin_process() {
  const pid_t process = fork();
  if (process == 0)
    for (;;) pause();
  return process;
}

TEST(ProcessWatch, TellsWhichProcessWasKilled) {
  const pid_t one = begin_process(), two = begin_process();
  ProcessWatch watch;
  watch.add(1, one);
  watch.add(2, two);
  kill(two, SIGKILL);
  EXPECT_EQ(watch.wait(), 2);
  kill(one, SIGKILL);
  waitpid(one, nullptr, 0);
  waitpid(two, nullptr, 0);
}

TEST(ProcessWatch, WaitsUntilItIsStopped) {
  const pid_t one = begin_process();
  ProcessWatch watch;
  watch.add(1, one);
  std::optional<int> told = 7;
  std::thread waiting([&] { told = watch.wait(); });
  watch.stop();
  waiting.join();
  EXPECT_EQ(told, std::nullopt);
  kill(one, SIGKILL);
  waitpid(one, nullptr, 0);
}

}  // namespace

}  // namespace meshwright::process_watch_test
