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

struct StepTimes {
  Clock::time_point begin, end;
};

// Devices write at the same time, each to its own entries.
class StepLog {
 public:
  StepLog(const std::vector<DeviceId>& devices, int steps);

  void add_times(DeviceId device, int step, StepTimes times) { times_.at(device)[step] = times; }
  // By the only device of all processes that owns the loss. `of_microbatches` are summed.
  void add_loss(int step, const std::vector<double>& of_microbatches);

  [[nodiscard]] const IndexedVector<int, StepTimes>& times(DeviceId device) const { return times_.at(device); }
  // When the first device began each step.
  [[nodiscard]] IndexedVector<int, Clock::time_point> origins() const;
  // Called for a step that all devices of the process have done.
  [[nodiscard]] StepReport report(int step) const;
  // [step]; empty where no device here owns the loss.
  [[nodiscard]] std::vector<double> losses() const { return owns_loss_ ? losses_.values() : std::vector<double>(); }

 private:
  std::map<DeviceId, IndexedVector<int, StepTimes>> times_;
  IndexedVector<int, double> losses_;
  bool owns_loss_ = false;
};

}  // namespace meshwright
