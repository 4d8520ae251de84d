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

// For a process whose signals are its own, such as an interpreter's: from here on Interruption takes none, and the
// caller tells by request_interruption() that one has come, to all that runs until forget_interruption().
void leave_signals_to_caller();
void request_interruption();
void forget_interruption();

// Throws Interrupted if the caller has told so: between pieces of work that has no answer before its end.
void end_if_caller_asks();

// A signal ended the work before it was done: exit code 6. The sentence says what is kept and how to go on.
struct Interrupted : std::runtime_error {
  using runtime_error::runtime_error;
};

}  // namespace meshwright
