// SPDX-License-Identifier: Apache-2.0
// The stage search (stage_dp.h) for models with branches side by side (layer_branches.h): exact, with the same tables.
//
// A stage is any run of consecutive layers, within a branch, over the whole of several segments, or from the middle of
// one branch to the middle of another. Stage Q follows stage P where a layer of Q follows a layer of P; stages that do
// not follow each other work side by side. With B microbatches and w = B - 1
//
//   T = longest path through the stages of the sum of t + w * largest t of all stages,      t = time + step / B
//
// and a stage fits when resident + working + in_flight(a) * saved <= its devices' memory, `a` the number of stages on
// the longest path after it. For a line both are what stage_dp.h says.
//
// StageDpRequest::stages counts all stages, side by side or not. For serving, in_flight is that of Inference.
#pragma once

#include <optional>
#include <vector>

#include "core/planner/layers/layer_branches.h"
#include "core/planner/pipeline/stage_dp.h"

namespace meshwright {

// `stages` stand in the order of their layers; `sum` is the longest path's. nullopt: a stage cannot run or does not
// fit. Devices are not counted.
[[nodiscard]] std::optional<TablePipeline> evaluate_with_branches(const StageTable& table,
                                                                  const StageDpRequest& request,
                                                                  const LayerBranches& branches,
                                                                  const std::vector<TableStage>& stages);

// Different pipelines, best first, at most `count`; none when no pipeline fits. The first has the minimum T, but for
// rounding: costs that differ by less than 1e-12 of them count as equal. None costs a quarter more than it. All are
// winners: of the pipelines whose stages take at most m, and that have n stages on their longest path (for large n: or
// more), one with the minimum sum. Over all m and n the best winners are returned, and all of them when they are fewer
// than `count`. Throws InputError for tables, requests and branches that make no sense.
[[nodiscard]] std::vector<TablePipeline> pipelines_with_branches(const StageTable& table, const StageDpRequest& request,
                                                                 const LayerBranches& branches, int count);

}  // namespace meshwright
