// SPDX-License-Identifier: Apache-2.0
#include "executor/runner/step_log.h"

#include <algorithm>
#include <numeric>

namespace meshwright {

StepLog::StepLog(const std::vector<DeviceId>& devices, int steps) : losses_(static_cast<std::size_t>(steps), 0.0) {
  for (const DeviceId device : devices) times_[device].resize(static_cast<std::size_t>(steps));
}

void StepLog::add_loss(int step, const std::vector<double>& of_microbatches) {
  owns_loss_ = true;
  losses_[step] = std::accumulate(of_microbatches.begin(), of_microbatches.end(), 0.0);
}

StepReport StepLog::report(int step) const {
  Clock::time_point begin = Clock::time_point::max(), end = Clock::time_point::min();
  for (const auto& [device, times] : times_) {
    begin = std::min(begin, times[step].begin);
    end = std::max(end, times[step].end);
  }
  return {step, owns_loss_ ? std::optional(losses_[step]) : std::nullopt, to_seconds(since(begin, end))};
}

IndexedVector<int, Clock::time_point> StepLog::origins() const {
  IndexedVector<int, Clock::time_point> origins(losses_.size(), Clock::time_point::max());
  for (const auto& [device, times] : times_)
    for (int step = 0; step < times.count(); ++step) origins[step] = std::min(origins[step], times[step].begin);
  return origins;
}

}  // namespace meshwright
