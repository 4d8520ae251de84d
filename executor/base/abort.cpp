// SPDX-License-Identifier: Apache-2.0
#include "executor/base/abort.h"

#include <thread>

namespace meshwright {

namespace {

constexpr int kSpins = 256;  // about ten microseconds
constexpr int kYields = 32;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

void Signal::wait_beyond(std::uint32_t seen) const {
  for (int i = 0; i < kSpins; ++i) {
    if (value() != seen) return;
    relax();
  }
  for (int i = 0; i < kYields; ++i) {
    if (value() != seen) return;
    std::this_thread::yield();
  }
  while (value() == seen) value_.wait(seen, std::memory_order_acquire);
}

void Signal::advance() {
  value_.fetch_add(1, std::memory_order_acq_rel);
  value_.notify_all();
}

void Abort::raise() {
  if (raised_.exchange(true, std::memory_order_acq_rel)) return;
  for (Signal* signal : watched_) signal->advance();
}

Barrier::Barrier(int members, Abort& abort) : members_(members), abort_(abort) { abort.watch(generation_); }

void Barrier::arrive_and_wait() {
  const std::uint32_t generation = generation_.value();
  abort_.check();
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == members_) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.advance();
  } else {
    generation_.wait_beyond(generation);
    abort_.check();
  }
}

}  // namespace meshwright
