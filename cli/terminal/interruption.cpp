// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/interruption.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "core/base/errors.h"

namespace meshwright {

namespace {

// A handler reaches nothing but globals.
std::atomic<bool> requested_by_signal{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not wait for a lock");

std::atomic<bool> signals_are_callers{false};

// From here on either signal does again what it does by default; one that is ignored stays so.
void request(int) {
  // Said at once: the work may take a while to come to a place where it can stop.
  constexpr char kHeard[] =
      "\nmeshwright: interrupted; ending with what there is so far. Interrupt again to end at once.\n";
  if (!requested_by_signal.exchange(true)) {
    const int before = errno;
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kHeard, sizeof kHeard - 1);
    errno = before;
  }
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction current {};
    if (sigaction(number, nullptr, &current) == 0 && current.sa_handler == request) std::signal(number, SIG_DFL);
  }
}

struct sigaction take(int number) {
  struct sigaction before {};
  MW_CHECK(sigaction(number, nullptr, &before) == 0, "sigaction: {}", std::strerror(errno));
  if (before.sa_handler == SIG_IGN) return before;
  struct sigaction now {};
  now.sa_handler = request;
  now.sa_flags = SA_RESTART;  // a file or a database that is being written is not disturbed
  sigemptyset(&now.sa_mask);
  sigaddset(&now.sa_mask, SIGINT);
  sigaddset(&now.sa_mask, SIGTERM);
  MW_CHECK(sigaction(number, &now, nullptr) == 0, "sigaction: {}", std::strerror(errno));
  return before;
}

}  // namespace

Interruption::Interruption() {
  if (signals_are_callers.load()) return;
  requested_by_signal.store(false);
  interrupt_before_ = take(SIGINT);
  terminate_before_ = take(SIGTERM);
}

Interruption::~Interruption() {
  if (signals_are_callers.load()) return;
  sigaction(SIGINT, &interrupt_before_, nullptr);
  sigaction(SIGTERM, &terminate_before_, nullptr);
}

void leave_signals_to_caller() { signals_are_callers.store(true); }
void request_interruption() { requested_by_signal.store(true); }
void forget_interruption() { requested_by_signal.store(false); }

void end_if_caller_asks() {
  if (signals_are_callers.load() && requested_by_signal.load()) throw Interrupted("interrupted.");
}

bool Interruption::requested() const { return requested_by_signal.load(); }

}  // namespace meshwright
