// SPDX-License-Identifier: Apache-2.0
// Training on one device without a plan: what a run of a Program is compared with.
#pragma once

#include <functional>

#include "core/graph/graph.h"
#include "executor/base/run_options.h"
#include "executor/base/run_result.h"

namespace meshwright {

class GraphInterpreter;

// The whole training graph on one device, op after op, with no plan, no shards and (for graph.microbatches == 1) no
// microbatches: the truth run_program is compared with. `after_backward` is called in each step, before its update;
// `before_first` once, when the values that training starts from are there and may still be changed.
using StepObserver = std::function<void(const GraphInterpreter& interpreter)>;
using StartChange = std::function<void(GraphInterpreter& interpreter)>;
[[nodiscard]] RunResult run_reference(const Graph& graph, const RunOptions& options,
                                      const StepObserver& after_backward = {}, const StartChange& before_first = {});

}  // namespace meshwright
