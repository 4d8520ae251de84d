// SPDX-License-Identifier: Apache-2.0
// What a micro-batch holds in the memory of devices from its forward to its backward, and for how long at least,
// whatever the plan.
//
// The trunk is a chain of ops of which each reads what the one before made: whatever devices they are on, they run one
// after the other. A value of the forward that a backward op reads is on the devices of that op's stage from when its
// forward op ran (which read or made the value) until it runs itself. So it is held for as long as the ops of the trunk
// take that need what the forward op makes, directly or not, and without which the backward op cannot run.
#pragma once

#include <vector>

#include "core/graph/graph.h"

namespace meshwright {

struct HeldValue {
  Bytes bytes{0.0};
  bool of_samples = false;  // grows with the samples of a micro-batch
  int first = 0;            // it is held while the pairs of HeldValues from this one on run
};

// What one op makes of it, or instead all that is needed to make it again and of which nothing else is. Either is held,
// the smaller one counts here; or the ops of `again` are run once more, the maker first.
struct HeldResult {
  std::vector<HeldValue> values;
  std::vector<OpId> again;  // empty: not in a block, whose ops alone are run once more
};

struct HeldValues {
  // A forward op of the trunk, and the ops of the trunk that autodiff made from it.
  struct Pair {
    OpId forward;
    std::vector<OpId> of_trunk;
  };
  std::vector<Pair> pairs;  // in the order of the forward
  std::vector<HeldResult> results;
};

// `weight` [op]: the trunk is the chain of the most.
[[nodiscard]] HeldValues find_held_values(const Graph& graph, const std::vector<double>& weight);

}  // namespace meshwright
