// SPDX-License-Identifier: Apache-2.0
// A lower bound of every pipeline that can be made of a stage table.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/base/units.h"
#include "core/planner/spans/stage_search.h"

namespace meshwright {

// Whether ranks may also have several stages each, which together are no span.
enum class Ranks { OneStageEach, AnyStages };

// No pipeline of the table's meshes over its layers can take less, whatever its schedule, memory and recomputation: the
// larger of the best bottleneck and of the best use of all devices, times the microbatches.
[[nodiscard]] Seconds pipeline_bound(const StageSearch& stages, StageSearch::Costs costs, Ranks ranks);

// What the devices of a pipeline are busy for in a step, added up, is at least this: the least sum, over stages that
// fit with one micro-batch in flight, of their devices times the time of all their micro-batches and their step.
// Whatever the schedule, a step on D devices takes at least a D-th of it. nullopt: some layer is in no stage that fits.
[[nodiscard]] std::optional<Seconds> least_busy_time(const StageTable& table, std::int64_t microbatches);

// What a micro-batch waits for in a stage of the table.
using LatencyOfStage = std::function<Seconds(const TableStage&)>;
// [n - 1] what a micro-batch takes alone through n stages in a line, at least: the least sum over stages that fit with
// one micro-batch in flight, on no more devices than there are; infinity: there is no such pipeline. Up to `most`
// stages. REQUIRES: latencies are the same for spans of one number, but for those that begin with the first layer.
[[nodiscard]] std::vector<Seconds> least_latencies(const StageTable& table, int devices, int most,
                                                   const LatencyOfStage& latency);

// Whether the same stages fit into the memory of the table's slices and into `factor` times as much, whatever a
// schedule keeps of up to `most` micro-batches. REQUIRES: factor >= 1.
[[nodiscard]] bool fit_alike(const StageTable& table, double factor, std::int64_t most);

}  // namespace meshwright
