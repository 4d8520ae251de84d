// SPDX-License-Identifier: Apache-2.0
// A plan used again for other work: another batch, sequence, number of microbatches or schedule (of a kind, or given
// run by run), or a cluster of the same shape with other devices or links. Layers, stages, devices and splits stay as
// they are; what of them no longer holds is said.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan/plan.h"
#include "core/plan/program/check_program.h"
#include "core/sharding/cost_model.h"

namespace meshwright {

// Unset: as in the plan.
struct PlanChanges {
  std::optional<std::int64_t> batch, seq, microbatches;
  std::optional<ScheduleKind> schedule;  // not Custom
  std::optional<Schedule> runs;          // in the place of `schedule`: a Custom one, or the kind whose schedule it is
  std::optional<Cluster> cluster;
  [[nodiscard]] bool any() const { return batch || seq || microbatches || schedule || runs || cluster; }
};

struct Adapted {
  Plan plan;  // with the changes and the fingerprint of its new graph; everything predicted is 0
  // Why it cannot be lowered: a batch that does not divide into its microbatches, else check_plan's sentences. Empty:
  // it is sound.
  std::vector<std::string> broken;
};

// Throws InputError for changes that suit no plan of this kind: a sequence for a model without one or beyond what it
// takes, inference for training, a cluster of another shape or without a rate for the plan's type, another number of
// microbatches where the plan's schedule is given run by run.
[[nodiscard]] Adapted adapt_plan(const Plan& plan, const PlanChanges& changes);

// The nearest values, at most one below and one above what was asked, with which the plan is sound; of the numbers that
// are asked wrongly. Every value is tried by adapt_plan: of the batch and the microbatches with the other as asked.
struct SoundValues {
  std::vector<std::int64_t> batch, microbatches, seq;
};
[[nodiscard]] SoundValues nearest_sound_values(const Plan& plan, const PlanChanges& changes);

// adapt_plan for callers that need a sound plan. Throws InputError when `plan` itself is not sound, else with the first
// sentence of `broken`, how many more there are, and the nearest sound values.
[[nodiscard]] Plan adapt_soundly(const Plan& plan, const PlanChanges& changes);

// Memory of a stage's fullest device.
struct StageFit {
  Bytes needs, usable;
  int in_flight;  // microbatches whose activations it keeps at most, each counted for every stage that keeps some
  [[nodiscard]] bool fits() const { return needs <= usable; }
};
[[nodiscard]] std::vector<StageFit> stage_fits(const Plan& plan, const Program& program, const ProgramCheck& check);

// The fewest microbatches above the plan's own with which it is sound and fits every stage, found by lowering and
// counting; nullopt: none, or its schedule is given run by run. REQUIRES: the plan is sound.
[[nodiscard]] std::optional<std::int64_t> fewest_microbatches_that_fit(const Plan& plan, const CostModel& costs);

}  // namespace meshwright
