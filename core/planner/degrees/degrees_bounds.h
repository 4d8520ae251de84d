// SPDX-License-Identifier: Apache-2.0
// What a step of given degrees takes and what it keeps, at least: by the work of a micro-batch alone, which many
// degrees share, and by the stages of their plan.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/plan.h"
#include "core/planner/method/framework.h"
#include "core/planner/method/layer_options.h"
#include "core/planner/pipeline/stage_dp.h"
#include "core/planner/spans/stage_search.h"

namespace meshwright {

// How the model is cut for the stages of the degrees.
[[nodiscard]] LayerOptions::Cut cut_of(const Degrees& degrees, std::int64_t blocks);

// What a micro-batch takes on the devices that share its layers, forward and back, and what it leaves there.
struct Work {
  Seconds block{0.0};               // the least of the blocks
  Seconds before{0.0}, after{0.0};  // what the first and the last block, with what is beside them, take above that
  Seconds all{0.0};
  // The least that one block holds on one device: weights, gradients and states where replicas split nothing, and what
  // is saved for the backward. 0: not known.
  Bytes resident{0.0}, saved{0.0};
};
// What single layers take and leave. REQUIRES: they are blocks, the first and the last with what is beside them or with
// that as layers of their own, and `further` modules behind the blocks count to what comes after; or any layers of a
// model without blocks.
[[nodiscard]] Work work_of_layers(std::vector<StepCost> layers, std::int64_t blocks, std::int64_t further = 0);

// The most that a rank's work takes with the passes through the stages before it, which fill and drain the pipeline.
// The work may be that of degrees with other stages and replicas, whose messages differ: two per cent are taken off.
[[nodiscard]] Seconds bound_of_work(const Work& work, const Degrees& degrees, std::int64_t blocks);
// The same by the times of the plan's stages. REQUIRES: no communication hides, and ZeRO gathers no weights.
[[nodiscard]] Seconds bound_of_stages(const Plan& plan, const Degrees& degrees);

// What a device of some rank holds of the blocks' weights, states and saved activations. The largest rank counts.
// `split`: the share of `work.resident` that is left on a device.
[[nodiscard]] Bytes least_memory_of_work(const Work& work, const Degrees& degrees, std::int64_t blocks, double split);
// The same of all that its stages hold, by the stages' costs.
[[nodiscard]] Bytes least_memory(const Degrees& degrees, const StageSearch& search, const TablePipeline& pipeline);

}  // namespace meshwright
