// SPDX-License-Identifier: Apache-2.0
// The sections about a simulated step: where the time goes, the timeline, which devices hold what, memory, links.
#pragma once

#include <optional>
#include <vector>

#include "core/plan/lowering/adapt_plan.h"
#include "report/page/page.h"
#include "report/rows/tracks.h"
#include "simulator/report/step_breakdown.h"
#include "simulator/report/top_ops.h"
#include "simulator/what_if/prediction.h"

namespace meshwright {

// What a page tells of a step; all of it outlives the page's making.
struct StepOfPage {
  const Plan& plan;
  const Program& program;
  const Graph& graph;
  const StepSimulation& step;
  const Prediction& prediction;
  const FoldedDevices* folded = nullptr;  // as the step was simulated
  const StepBreakdown& breakdown;
  const std::vector<TopOp>& ops;
  std::vector<StageFit> fits = {};  // [stage] what its fullest device needs; empty: not told
};

// All of them, with their data. Throws InputError as add_tracks.
void add_step_sections(Page& page, const StepOfPage& of);

[[nodiscard]] PageSection timeline_section(const Tracks& tracks);
// With the critical path.
[[nodiscard]] PageSection timeline_section(const StepOfPage& of, const Tracks& tracks);
[[nodiscard]] PageSection stages_section(const StepOfPage& of, const Tracks& tracks);
[[nodiscard]] PageSection memory_section(const StepOfPage& of, const Tracks& tracks);
// [stage] its layers, hosts, devices and mesh: the member "stages" of the data.
[[nodiscard]] Json stages_json(const StepOfPage& of);
// nullopt: nothing is sent.
[[nodiscard]] std::optional<PageSection> links_section(const StepOfPage& of);

// "16 (batch) x 8 (seq, mlp)": a stage's logical mesh, with what its ops split over each axis.
[[nodiscard]] std::string mesh_text(const StagePlan& stage);

// "F 88.453 ms": names of stages and rows, as all sections say them.
[[nodiscard]] std::string stage_text(StageId stage);                        // "stage 0"
[[nodiscard]] std::string devices_text(const std::vector<int>& ascending);  // "devices 0-127"

}  // namespace meshwright
