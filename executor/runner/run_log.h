// SPDX-License-Identifier: Apache-2.0
// When the devices of this process began and ended each step, and the losses. Internal to the executor.
#pragma once

#include <map>
#include <vector>

#include "core/base/ids.h"
#include "core/base/indexed_vector.h"
#include "executor/base/clock.h"
#include "executor/base/run_options.h"

namespace meshwright {

struct StepSpan {
  Clock::time_point begin, end;
};

// Devices write at the same time, each to its own entries.
class RunLog {
 public:
  // `losses`: the devices of this process that speak for the loss of some microbatches, of `owners` in all processes.
  RunLog(const std::vector<DeviceId>& devices, int steps, const std::vector<DeviceId>& losses, int owners);

  void add_times(DeviceId device, int step, StepSpan times) { times_.at(device)[step] = times; }
  // By a device of `losses`. `of_microbatches` are summed; 0 of those that another device speaks for.
  void add_loss(DeviceId device, int step, const std::vector<double>& of_microbatches);

  [[nodiscard]] const IndexedVector<int, StepSpan>& times(DeviceId device) const { return times_.at(device); }
  // When the first device began each step.
  [[nodiscard]] IndexedVector<int, Clock::time_point> origins() const;
  // Called for a step that all devices of the process have done.
  [[nodiscard]] StepReport report(int step) const;
  // [step] what the devices here speak for; empty where they do for nothing.
  [[nodiscard]] std::vector<double> losses() const;

 private:
  [[nodiscard]] double loss(int step) const;

  std::map<DeviceId, IndexedVector<int, StepSpan>> times_;
  std::map<DeviceId, std::vector<double>> losses_;  // [step]
  int steps_, owners_;
};

}  // namespace meshwright
