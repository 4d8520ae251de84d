// SPDX-License-Identifier: Apache-2.0
// Adapts a plan to another batch, sequence, number of microbatches or schedule (by name, or run by run), or to a
// cluster of the same shape with other devices or links. Layers, stages, devices and shardings stay; whatever no longer
// holds is reported.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan/plan.h"
#include "core/plan/program/check_program.h"
#include "core/sharding/cost_model.h"

namespace meshwright {

// Unset members stay as in the plan.
struct PlanChanges {
  std::optional<std::int64_t> batch, seq, microbatches;
  std::optional<ScheduleKind> schedule;  // not Custom
  std::optional<Schedule> runs;          // in the place of `schedule`: a Custom one, or the kind whose schedule it is
  std::optional<Cluster> cluster;
  [[nodiscard]] bool any() const { return batch || seq || microbatches || schedule || runs || cluster; }
};

struct AdaptedPlan {
  Plan plan;  // with the changes and the fingerprint of its new graph; everything predicted is 0
  // Why it cannot be lowered: a batch that does not divide into its microbatches, otherwise check_plan's sentences.
  // Empty: the plan is valid.
  std::vector<std::string> broken;
};

// Throws InputError for changes that suit no plan of this kind: a sequence for a model without one or beyond what it
// takes, inference for training, a cluster of another shape or without a rate for the plan's type, another number of
// microbatches where the plan's schedule is given run by run.
[[nodiscard]] AdaptedPlan adapt_plan(const Plan& plan, const PlanChanges& changes);

// For every number requested wrongly, the nearest values (at most one below and one above) that make the plan valid.
// Every value is tried with adapt_plan; of batch and microbatches, one is changed at a time.
struct SoundValues {
  std::vector<std::int64_t> batch, microbatches, seq;
};
[[nodiscard]] SoundValues nearest_sound_values(const Plan& plan, const PlanChanges& changes);

// adapt_plan for callers that need a valid plan. Throws InputError when `plan` itself is not valid, or with the first
// sentence of `broken`, the number of further ones, and the nearest valid values.
[[nodiscard]] Plan adapt_soundly(const Plan& plan, const PlanChanges& changes);

// Memory of a stage's fullest device.
struct StageFit {
  Bytes needs, usable;  // on the device; on its host, where only that is too small for what lies there
  int in_flight;        // microbatches whose activations it keeps at most, each counted for every stage that keeps some
  [[nodiscard]] bool fits() const { return needs <= usable; }
};
[[nodiscard]] std::vector<StageFit> stage_fits(const Plan& plan, const Program& program, const ProgramCheck& check);

// The smallest number of microbatches above the plan's own that is valid and makes every stage fit, found by lowering
// and counting; nullopt: there is none, or the schedule is custom. REQUIRES: the plan is valid.
[[nodiscard]] std::optional<std::int64_t> fewest_microbatches_that_fit(const Plan& plan, const CostModel& costs);

}  // namespace meshwright
