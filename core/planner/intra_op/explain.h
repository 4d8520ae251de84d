// SPDX-License-Identifier: Apache-2.0
// Why a plan splits a tensor as it does: every other way, and what the best plan of that way would cost.
#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.h"
#include "core/sharding/cost_model.h"
#include "core/solver/elimination/min_marginals.h"

namespace meshwright {

// One layout that a tensor could have, with everything else in its layer chosen anew for it (what enters and leaves the
// layer stays as the plan has it, and so does what would cost the same otherwise; neither memory nor the plan's method
// limits it, so a way that is faster than the plan's takes more bytes or is one that the method excludes).
struct Alternative {
  std::string strategy;  // "mlp/1 -> S0RS1", or of a parameter "RS1/S0S1 eager": weight/state
  ShardingSpec spec;     // of the tensor
  bool chosen = false;
  Seconds time{0.0};   // of the layer, per microbatch, the step's share included
  Seconds bound{0.0};  // no layer with this strategy takes less; below `time` only where a search ended unproven
  Bytes bytes{0.0};    // of the layer: parameters, accumulators, state, and what one microbatch saves
};

// How the costs of alternatives were found: all of a layer's by one elimination, exactly, or, where its tables would be
// too large, each by a solution of its own, whose work is limited.
enum class ExplainMethod { MinMarginals, Solves };
[[nodiscard]] const char* name_of(ExplainMethod method);  // "min_marginals", "solves"

struct Explanation {
  std::string tensor, reader;  // reader: of a parameter, the op that reads it
  int stage = 0, layer = 0;
  Seconds layer_time{0.0};  // as planned
  Bytes layer_bytes{0.0};
  ExplainMethod method = ExplainMethod::MinMarginals;
  std::vector<Alternative> alternatives;  // by time; of equal specs the chosen, else the fastest
};

// Explains the tensor named `tensor` (a result or a parameter; a parameter read by several ops has several
// explanations), or of every decision of one layer of each kind when `tensor` is empty. `max_entries`: of the tables of
// one elimination. Throws InputError with the nearest names when the plan decides no such tensor.
[[nodiscard]] std::vector<Explanation> explain_plan(const Plan& plan, const Graph& graph, const CostModel& costs,
                                                    const std::string& tensor,
                                                    double max_entries = MinMarginals::kMaxEntries);

// What two plans of one training step decide differently, as sentences: cluster, software, micro-batches,
// recomputation, where the optimizer's state lies, schedule and stages, then, where these agree, tensors with the time
// of their layer in each plan. Throws InputError for plans of different steps.
[[nodiscard]] std::vector<std::string> compare_plans(const Plan& plan, const Plan& other, const Graph& graph,
                                                     const CostModel& costs);

}  // namespace meshwright
