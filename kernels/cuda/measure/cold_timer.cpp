// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/measure/cold_timer.h"

#include <algorithm>

#include "kernels/cuda/optimizer/optimizer.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr std::size_t kL2s = 3;
constexpr std::size_t kMinRead = std::size_t{64} << 10;  // bytes

}  // namespace

// Delegates, so that what was made is destroyed where making the rest fails.
ColdTimer::ColdTimer(std::size_t l2) : ColdTimer() {
  const std::size_t size = std::max(kL2s * l2, kMinRead);
  read_ = static_cast<std::int64_t>(size / sizeof(float));
  buffer_ = static_cast<float*>(allocate(size));
  sum_ = static_cast<float*>(allocate(sizeof(float)));
  workspace_ = allocate(sum_squares_workspace(read_));
  clear(buffer_, size, Stream{});
  synchronize(Stream{});
}

ColdTimer::~ColdTimer() {
  for (const Interval& interval : intervals_) {
    destroy(interval.begin);
    destroy(interval.end);
  }
  release(workspace_);
  release(sum_);
  release(buffer_);
}

std::vector<double> ColdTimer::seconds_of(Stream stream, const std::function<void()>& start, int repetitions) {
  const auto wanted = static_cast<std::size_t>(repetitions);
  while (intervals_.size() < wanted) {
    intervals_.emplace_back();
    intervals_.back().begin = make_event(true);
    intervals_.back().end = make_event(true);
  }
  for (std::size_t i = 0; i < wanted; ++i) {
    sum_squares(stream, buffer_, sum_, read_, workspace_);
    record(intervals_[i].begin, stream);
    start();
    record(intervals_[i].end, stream);
  }
  std::vector<double> seconds;
  for (std::size_t i = 0; i < wanted; ++i) {
    synchronize(intervals_[i].end);
    seconds.push_back(seconds_between(intervals_[i].begin, intervals_[i].end));
  }
  return seconds;
}

}  // namespace meshwright::kernels::cuda
