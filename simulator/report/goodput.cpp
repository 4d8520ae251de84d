// SPDX-License-Identifier: Apache-2.0
#include "simulator/report/goodput.h"

#include <cmath>

#include "core/base/errors.h"

namespace meshwright {

namespace {

constexpr int kMaxSteps = 1 << 30;

// Wall time per step with `steps` between checkpoints.
double wall_per_step(const FailureModel& model, double between_failures, double steps) {
  const double run = (steps * model.step.si() + model.checkpoint.si()) / between_failures;
  return between_failures * std::exp(model.restart.si() / between_failures) * std::expm1(run) / steps;
}

// wall_per_step falls and then rises: the first number of steps that the next is not better than.
int best_steps(const FailureModel& model, double between_failures) {
  int low = 1, high = kMaxSteps;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    const double here = wall_per_step(model, between_failures, middle);
    // Beyond the range of a double both are infinite: far too many steps.
    if (here <= wall_per_step(model, between_failures, middle + 1.0)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

Goodput expected_goodput(const FailureModel& model) {
  const auto finite = [](Seconds time) { return std::isfinite(time.si()); };
  require(finite(model.mean_time_between_failures) && model.mean_time_between_failures > Seconds(0.0),
          "the mean time between failures of a device is {} s; give one that is positive.",
          model.mean_time_between_failures.si());
  require(finite(model.step) && model.step > Seconds(0.0), "a step of {} s; give one that is positive.",
          model.step.si());
  require(finite(model.checkpoint) && model.checkpoint >= Seconds(0.0),
          "a checkpoint takes {} s; give a time that is not negative.", model.checkpoint.si());
  require(finite(model.restart) && model.restart >= Seconds(0.0),
          "a restart takes {} s; give a time that is not negative.", model.restart.si());
  require(model.devices >= 1, "{} devices can fail; give at least 1.", model.devices);
  require(!model.steps_between_checkpoints || *model.steps_between_checkpoints >= 1,
          "{} steps between checkpoints; give at least 1.", model.steps_between_checkpoints.value_or(0));

  const double between_failures = model.mean_time_between_failures.si() / model.devices;
  Goodput goodput;
  goodput.between_failures = Seconds(between_failures);
  goodput.steps_between_checkpoints = model.steps_between_checkpoints.value_or(best_steps(model, between_failures));
  goodput.wall_per_step = Seconds(wall_per_step(model, between_failures, goodput.steps_between_checkpoints));
  goodput.share = model.step / goodput.wall_per_step;
  return goodput;
}

}  // namespace meshwright
