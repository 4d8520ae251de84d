// SPDX-License-Identifier: Apache-2.0
// Ctrl-C or `kill` while a search runs: the first SIGINT or SIGTERM asks for the best found so far, the second ends the
// process at once.
#pragma once

#include <csignal>
#include <stdexcept>

namespace meshwright {

// Takes both signals while it lives, and gives them back; a signal that whoever started the command has ignored stays
// ignored. REQUIRES: no other lives.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  [[nodiscard]] bool requested() const;

 private:
  struct sigaction interrupt_before_ {};
  struct sigaction terminate_before_ {};
};

// A signal ended the work before it was done: exit code 6. The sentence says what is kept and how to go on.
struct Interrupted : std::runtime_error {
  using runtime_error::runtime_error;
};

}  // namespace meshwright
