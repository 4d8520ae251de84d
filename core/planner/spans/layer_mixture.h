// SPDX-License-Identifier: Apache-2.0
// Between a memory price at which a stage's sharding is too large and one at which it leaves memory unused: layers
// solved at several prices in one path, crossing over where their borders cost least, with parameters kept one by one
// as they fit.
#pragma once

#include <optional>
#include <vector>

#include "core/planner/spans/span_solver.h"

namespace meshwright {

// A sharding of all layers, each solved at a price of its own.
struct LayerMixture {
  std::vector<InOutStates> states;  // [layer]
  std::vector<int> variants;        // [layer]
  std::vector<ShardingChoice> choices;
  StepCost cost;
};

struct MixRequest {
  std::vector<int> prices;  // the layers' choices at these prices are combined; the first one guides the search
  Bytes max_working;        // of any op
  Bytes room;               // for SpanBudget::bytes_of
  Seconds below;            // only what takes less per microbatch is of use; the smaller it is, the finer the search
};

// The fastest mixture found that meets the request and fits; nullopt: none was found. The search is a heuristic: it
// keeps a limited number of labels.
[[nodiscard]] std::optional<LayerMixture> mix_layers(const LayerClasses& layers, const SpanBudget& budget,
                                                     SpanSolver& solver, const MixRequest& request);

}  // namespace meshwright
