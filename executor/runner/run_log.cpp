// SPDX-License-Identifier: Apache-2.0
#include "executor/runner/run_log.h"

#include <algorithm>
#include <numeric>

namespace meshwright {

RunLog::RunLog(const std::vector<DeviceId>& devices, int steps, const std::vector<DeviceId>& losses, int owners)
    : steps_(steps), owners_(owners) {
  for (const DeviceId device : losses) losses_[device].resize(static_cast<std::size_t>(steps), 0.0);
  for (const DeviceId device : devices) times_[device].resize(static_cast<std::size_t>(steps));
}

void RunLog::add_loss(DeviceId device, int step, const std::vector<double>& of_microbatches) {
  losses_.at(device)[static_cast<std::size_t>(step)] =
      std::accumulate(of_microbatches.begin(), of_microbatches.end(), 0.0);
}

double RunLog::loss(int step) const {
  double sum = 0.0;
  for (const auto& [device, of_steps] : losses_) sum += of_steps[static_cast<std::size_t>(step)];
  return sum;
}

std::vector<double> RunLog::losses() const {
  std::vector<double> all;
  for (int step = 0; step < steps_ && !losses_.empty(); ++step) all.push_back(loss(step));
  return all;
}

StepReport RunLog::report(int step) const {
  Clock::time_point begin = Clock::time_point::max(), end = Clock::time_point::min();
  for (const auto& [device, times] : times_) {
    begin = std::min(begin, times[step].begin);
    end = std::max(end, times[step].end);
  }
  const bool whole = static_cast<int>(losses_.size()) == owners_;
  return {step, whole ? std::optional(loss(step)) : std::nullopt, to_seconds(since(begin, end))};
}

IndexedVector<int, Clock::time_point> RunLog::origins() const {
  IndexedVector<int, Clock::time_point> origins(static_cast<std::size_t>(steps_), Clock::time_point::max());
  for (const auto& [device, times] : times_)
    for (int step = 0; step < times.count(); ++step) origins[step] = std::min(origins[step], times[step].begin);
  return origins;
}

}  // namespace meshwright
