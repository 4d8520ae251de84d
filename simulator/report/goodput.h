// SPDX-License-Identifier: Apache-2.0
// What failures leave of a training run: devices fail, the run goes back to its last checkpoint, and starts again.
//
// The model is Daly's ("A higher order estimate of the optimum checkpoint interval for restart dumps", 2006): failures
// come at random with a constant rate and may also hit a restart; a run of steps and the checkpoint after it is done
// again from its begin when one of them fails. With M the mean time between failures of the whole cluster, R a restart,
// t a run's time between checkpoints and d a checkpoint's, the wall time of a run is M e^(R/M) (e^((t+d)/M) - 1).
#pragma once

#include <optional>

#include "core/base/units.h"

namespace meshwright {

struct FailureModel {
  Seconds mean_time_between_failures{0.0};       // of one device; positive
  int devices = 1;                               // at least one
  Seconds step{0.0};                             // of training without failures; positive
  Seconds checkpoint{0.0};                       // training stands still that long for one; not negative
  Seconds restart{0.0};                          // from a failure until training goes on; not negative
  std::optional<int> steps_between_checkpoints;  // absent: as many as are best
};

struct Goodput {
  int steps_between_checkpoints = 1;
  double share = 0.0;  // of the wall time that goes into steps that are not lost; 0 where it is below what a double has
  Seconds wall_per_step{0.0};     // infinite then
  Seconds between_failures{0.0};  // mean, of the whole cluster
};
// Throws InputError for values out of the ranges above.
[[nodiscard]] Goodput expected_goodput(const FailureModel& model);

}  // namespace meshwright
