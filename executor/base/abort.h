// SPDX-License-Identifier: Apache-2.0
// How threads wait for each other, and how one that fails ends the waiting of all others.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace meshwright {

// Thrown out of a wait when another thread has failed. Not an error of the thread that waited.
struct Aborted {};

// A counter that threads wait on. Waiters spin briefly (the peer is usually about to arrive), then give their core away
// (there may be more devices than cores), then sleep.
class alignas(64) Signal {
 public:
  [[nodiscard]] std::uint32_t value() const { return value_.load(std::memory_order_acquire); }
  void wait_beyond(std::uint32_t seen) const;  // returns once value() != seen
  void advance();                              // wakes every waiter

 private:
  std::atomic<std::uint32_t> value_{0};
};

class Abort {
 public:
  // Signals to advance when a thread fails. REQUIRES: called before any thread waits; the signals outlive all waits.
  void watch(Signal& signal) { watched_.push_back(&signal); }
  void raise();
  // A wait loop must read the Signal first, then call this, then wait: raise() sets the flag before it advances the
  // signals.
  void check() const {
    if (raised_.load(std::memory_order_acquire)) throw Aborted{};
  }

 private:
  std::atomic<bool> raised_{false};
  std::vector<Signal*> watched_;
};

// All `members` arrive before any leaves; reusable.
class Barrier {
 public:
  Barrier(int members, Abort& abort);
  Barrier(const Barrier&) = delete;
  Barrier& operator=(const Barrier&) = delete;
  void arrive_and_wait();

 private:
  const int members_;
  const Abort& abort_;
  std::atomic<int> arrived_{0};
  Signal generation_;
};

}  // namespace meshwright
