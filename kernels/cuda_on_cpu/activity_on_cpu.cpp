// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_on_cpu/activity_on_cpu.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <utility>

#include "kernels/cuda/runtime/open_ranges.h"

namespace meshwright::kernels::cuda {

namespace {

std::atomic<bool> recording{false};
std::mutex mutex;
Recording recorded_so_far;

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::size_t number_of(const char* name) {
  std::vector<std::string>& names = recorded_so_far.names;
  const auto number = std::find(names.begin(), names.end(), name) - names.begin();
  if (number == std::ssize(names)) names.emplace_back(name);
  return static_cast<std::size_t>(number);
}

}  // namespace

namespace on_cpu {

Recorded::Recorded(Activity::Kind kind, const char* name, std::size_t bytes) : kind_(kind), name_(name), bytes_(bytes) {
  if (recording) start_ = now();
}

Recorded::~Recorded() {
  if (!start_) return;
  const std::int64_t end = now();
  const std::lock_guard lock(mutex);
  recorded_so_far.activities.push_back({kind_, used_device(), 0, *start_, end, static_cast<std::int64_t>(bytes_),
                                        number_of(name_), open_ranges::innermost()});
}

}  // namespace on_cpu

bool can_record() { return true; }
std::string describe_recorder() { return "the processor's clock"; }

void start_recording() {
  const std::lock_guard lock(mutex);
  recorded_so_far = {};
  open_ranges::start_numbering();
  recording = true;
}

Recording stop_recording() {
  recording = false;
  const std::lock_guard lock(mutex);
  recorded_so_far.ranges = open_ranges::stop_numbering();
  return std::exchange(recorded_so_far, {});
}

void note_begin_of_range(const char* name) { (void)open_ranges::open(name); }
void note_end_of_range() { (void)open_ranges::close(); }

}  // namespace meshwright::kernels::cuda
