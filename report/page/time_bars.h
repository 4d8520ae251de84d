// SPDX-License-Identifier: Apache-2.0
// Where the time of a device goes, as a bar: the parts of a step add up to its length.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "report/page/step_sections.h"
#include "simulator/report/step_breakdown.h"

namespace meshwright {

using KindTimes = std::array<std::int64_t, kTimeKinds>;  // [kind] ps, exposed
[[nodiscard]] KindTimes kinds_of(const TimeParts& parts);

// Devices of one stage that spend their time alike.
struct AlikeDevices {
  StageId stage;
  std::vector<int> devices;  // of the cluster
  TimeParts parts;           // of one
};

// What is taken apart; all of it outlives its use.
struct TimeOfPage {
  const Plan& plan;
  const Program& program;
  const StepBreakdown& breakdown;
  const FoldedDevices* folded = nullptr;    // as the step was simulated
  const std::vector<TopOp>* ops = nullptr;  // null: not told
};
[[nodiscard]] TimeOfPage time_of(const StepOfPage& of);

// By stage, then by device.
[[nodiscard]] std::vector<AlikeDevices> alike_devices(const TimeOfPage& of);

[[nodiscard]] double share_of_step(std::int64_t ps, SimTime step);
[[nodiscard]] std::string time_bar(const KindTimes& times, SimTime step);
[[nodiscard]] std::string legend_of(const KindTimes& all);
// What bubbles are filled with; a page that has bars has it once.
[[nodiscard]] std::string hatch_html();

}  // namespace meshwright
