// SPDX-License-Identifier: Apache-2.0
// Times what is queued on a stream, each repetition by itself, with operands that lie in memory, not in the L2.
//
// Before each repetition a buffer of three times the L2's size is read, which leaves nothing of what was there before,
// and nothing that must be written back while the repetition is timed. Meanwhile the host runs ahead: a short
// repetition's time holds the launches' work on the device, not the host's.
#pragma once

#include <functional>
#include <vector>

#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda {

// For the device that the calling thread uses.
class ColdTimer {
 public:
  explicit ColdTimer(std::size_t l2);  // bytes
  ~ColdTimer();
  ColdTimer(const ColdTimer&) = delete;
  ColdTimer& operator=(const ColdTimer&) = delete;

  // One time per repetition; waits for the last. REQUIRES: repetitions >= 1.
  [[nodiscard]] std::vector<double> seconds_of(Stream stream, const std::function<void()>& start, int repetitions);

 private:
  ColdTimer() = default;
  struct Interval {
    Event begin, end;
  };
  std::vector<Interval> intervals_;
  std::int64_t read_ = 0;  // floats
  float *buffer_ = nullptr, *sum_ = nullptr;
  void* workspace_ = nullptr;
};

}  // namespace meshwright::kernels::cuda
