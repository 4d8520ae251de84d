// SPDX-License-Identifier: Apache-2.0
// What a pipeline takes when each of its stages is seen as one device: enough to rank thousands of candidates without
// lowering them (simulator/simulate.h, simulate_pipeline).
#pragma once

#include <vector>

#include "core/base/units.h"

namespace meshwright {

struct PipelineTimes {
  // Stage `from` feeds stage `to`: the message with a microbatch's activations, and the one back with their gradient. A
  // message that takes no time still keeps the order: a forward comes after those that feed it, a backward after those
  // it feeds. Messages of an edge in one direction come one after the other.
  struct Edge {
    int from, to;
    SimTime forward{0}, backward{0};
  };
  std::vector<SimTime> forward, backward, update;  // [stage]; inference: forward only
  std::vector<Edge> edges;                         // from < to; at most one between two stages
};

}  // namespace meshwright
