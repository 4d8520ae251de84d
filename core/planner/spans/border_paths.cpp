// SPDX-License-Identifier: Apache-2.0
#include "core/planner/spans/border_paths.h"

#include "core/base/errors.h"

namespace meshwright {

int cheapest_state(const StateCosts& states) {
  int best = -1;
  for (std::size_t s = 0; s < states.size(); ++s)
    // Strictly less: of equal costs the first state is kept.
    if (states[s] && (best < 0 || *states[s] < *states[best])) best = static_cast<int>(s);
  return best;
}

Seconds min_cost(const StateCosts& states) {
  const int state = cheapest_state(states);
  MW_CHECK(state >= 0, "a span has no sharding");
  return *states[state];
}

// One layer more: the min-plus product of the costs so far with the layer's matrix, O(in states * out states).
void BorderPaths::extend(const CostMatrix& matrix, std::size_t out_states) {
  const StateCosts& before = end_costs();
  const auto made = std::make_shared<Step>(Step{StateCosts(out_states), std::vector<int>(out_states, -1)});
  StateCosts& after = made->best;
  std::vector<int>& from = made->from;
  for (std::size_t in = 0; in < before.size(); ++in) {
    if (!before[in]) continue;
    for (std::size_t out = 0; out < out_states; ++out) {
      const auto& step = matrix[in * out_states + out];
      if (!step) continue;
      const Seconds total = *before[in] + *step;
      if (after[out] && *after[out] <= total) continue;  // of equal costs the first in state stays
      after[out] = total;
      from[out] = static_cast<int>(in);
    }
  }
  steps_.push_back(made);
}

std::vector<InOutStates> BorderPaths::trace(std::size_t length) const {
  std::vector<InOutStates> states(length, {0, 0});
  int state = cheapest_state(steps_[length - 1]->best);
  MW_CHECK(state >= 0, "a span has no sharding");
  for (std::size_t position = length; position-- > 0;) {
    const int in = steps_[position]->from[state];
    states[position] = {in, state};
    state = in;
  }
  return states;
}

}  // namespace meshwright
