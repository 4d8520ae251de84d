// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/runtime/open_ranges.h"

#include <atomic>
#include <mutex>
#include <utility>

namespace meshwright::kernels::cuda::open_ranges {

namespace {

struct Open {
  std::int64_t recording;  // that numbered it
  std::optional<std::size_t> number;
};
thread_local std::vector<Open> open_here;

std::atomic<std::int64_t> recording_now{0};  // 0: none
std::mutex mutex;
std::int64_t recordings = 0;
std::vector<Recording::Range> numbered;

}  // namespace

void start_numbering() {
  const std::lock_guard lock(mutex);
  numbered.clear();
  recording_now = ++recordings;
}

std::vector<Recording::Range> stop_numbering() {
  const std::lock_guard lock(mutex);
  recording_now = 0;
  return std::exchange(numbered, {});
}

std::optional<std::size_t> open(const char* name) {
  Open opened{recording_now, std::nullopt};
  if (opened.recording != 0) {
    const std::optional<std::size_t> around = innermost();
    const std::lock_guard lock(mutex);
    if (opened.recording == recording_now) {  // still
      opened.number = numbered.size();
      numbered.push_back({name, around});
    }
  }
  open_here.push_back(opened);
  return opened.number;
}

std::optional<std::size_t> close() {
  if (open_here.empty()) return std::nullopt;
  const Open closed = open_here.back();
  open_here.pop_back();
  return closed.number;
}

std::optional<std::size_t> innermost() {
  if (open_here.empty() || open_here.back().recording != recording_now) return std::nullopt;
  return open_here.back().number;
}

}  // namespace meshwright::kernels::cuda::open_ranges
