// SPDX-License-Identifier: Apache-2.0
// How the steps of a run are issued: op by op, until one could be captured; replayed from then on. The numbers are the
// same either way.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "executor/base/run_options.h"
#include "executor/base/run_result.h"
#include "executor/device/step_replayer.h"
#include "executor/runner/device_runner.h"

namespace meshwright {

class StepReplay {
 public:
  // `devices`: of this process. `why_not`: the steps are issued op by op, and this is why; empty: they are captured
  // where the backend can.
  StepReplay(int devices, RunContext& context, std::string why_not);

  // `device`: its number among them. By its thread, in turn.
  void run_step(int device, DeviceRunner& runner, int step, bool record);
  // Between two steps, the devices being idle: captures, if steps can be and none was.
  void prepare(int device, DeviceRunner& runner);

  // Whether something failed that only steps which are captured do: a run that issues its steps op by op may go well.
  [[nodiscard]] bool failed_to_capture() const { return capturing_; }
  [[nodiscard]] IssuedSteps issued() const;

 private:
  struct State {
    int attempts = 0;
    bool replays = false;
    int replayed = 0;
  };
  [[nodiscard]] bool all_say(int device, bool yes);

  MadeReplayer made_;
  std::vector<State> states_;  // [device], the same for all but while they change
  std::vector<char> votes_;    // [device]
  Barrier voted_;
  std::atomic<bool> capturing_{false};  // from the capture to the end of the first replay
};

}  // namespace meshwright
