// SPDX-License-Identifier: Apache-2.0
// Issues the steps of a run: op by op until one is captured, and from then on as replays of the captured one. Results
// are the same either way.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "core/base/indexed_vector.h"
#include "executor/base/run_options.h"
#include "executor/base/run_result.h"
#include "executor/device/step_replayer.h"
#include "executor/runner/device_runner.h"

namespace meshwright {

class StepReplay {
 public:
  // `devices`: of this process. `why_not`: why steps must be issued op by op; empty: they are captured if the backend
  // can.
  StepReplay(int devices, RunContext& context, std::string why_not);

  // `device`: its number among them. Called by its own thread, these two in turn.
  void run_step(int device, DeviceRunner& runner, const StepTurn& turn);
  // Between two steps, while the devices are idle: captures a step unless one was captured, or none can be.
  void prepare(int device, DeviceRunner& runner);

  // Whether the run failed while it captured a step or replayed it for the first time: it may succeed op by op.
  [[nodiscard]] bool failed_to_capture() const { return capturing_; }
  [[nodiscard]] StepReplaySummary issued() const;

 private:
  struct State {
    int attempts = 0;
    bool replays = false;
    int replayed = 0;
  };
  [[nodiscard]] bool all_say(int device, bool yes);

  ReplayerResult replayer_;
  IndexedVector<int, State> states_;  // [device], the same for all but while they change
  IndexedVector<int, char> votes_;    // [device]
  Barrier voted_;
  std::atomic<bool> capturing_{false};  // from the capture to the end of the first replay
};

}  // namespace meshwright
