// SPDX-License-Identifier: Apache-2.0
// From the job of a launch file to a better one that the same framework launches: which settings change, in an order in
// which each step can be launched, and what each gains.
//
// The order is greedy: of the changes that can be launched on top of those before, the one after which the step is
// shortest, those that fit in memory first; changes that only work together are one row. No clock decides.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "launch/setup/launch_setup.h"

namespace meshwright {

// What of a job changes as one setting.
enum class LaunchProperty { Tensor, Pipeline, Stages, Context, Expert, Sequence, Zero, Recompute, MicroBatch };

// What is known of a job: nullopt step: no plan has it.
struct LaunchOutcome {
  std::optional<Seconds> step = {};
  Bytes needs{0.0}, usable{0.0};  // of the fullest device
  [[nodiscard]] bool fits() const { return step.has_value() && needs <= usable; }
};
using LaunchJudge = std::function<LaunchOutcome(const LaunchSetup& setup)>;

struct LaunchChange {
  LaunchProperty property;
  std::string from, to;      // as the framework writes it: "--tensor-model-parallel-size 2"
  bool launchable = false;   // by itself
  LaunchOutcome alone = {};  // where it is
};
struct AdviceRow {
  std::vector<LaunchChange> changes;  // one, or those that only work together
  LaunchOutcome after;                // with those of all rows before
};
struct Advice {
  LaunchOutcome now;
  std::vector<AdviceRow> rows;  // empty: the job is the best one
};

// Both are of the same model, batch and devices. REQUIRES: neither has stages of its own; `best` breaks no rule of
// `framework`.
[[nodiscard]] Advice advise(const LaunchSetup& now, const Degrees& best, const Framework& framework,
                            const LaunchJudge& judge);

// The setting as files of the target, or in the dialect (LaunchSetup), write it; "" where the property is as if it were
// not given.
[[nodiscard]] std::string setting_text(const std::string& target, LaunchProperty property, const Degrees& degrees);

// The axes of MaxText's mesh in which the setup differs from another, as keys.
[[nodiscard]] std::string maxtext_axes_text(const LaunchSetup& setup, const LaunchSetup& other);

// How torchtitan is told the layers of each stage; "" where it cuts them so by itself.
[[nodiscard]] std::string torchtitan_stages_text(const LaunchSetup& setup);

// How `replicas` replicas split states in groups of `shard`.
[[nodiscard]] std::string groups_text(const std::string& target, int replicas, int shard);

}  // namespace meshwright
