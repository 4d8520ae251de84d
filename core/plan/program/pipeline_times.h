// SPDX-License-Identifier: Apache-2.0
// What a pipeline takes when each of its stages is seen as one device: enough to rank thousands of candidates without
// lowering them (simulator/pipeline/simulate_pipeline.h).
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
  // [stage] the part of `backward` that the gradients of the weights take: a pass of its own where the schedule splits
  // the backward. At most `backward`; empty: nothing.
  std::vector<SimTime> backward_weight = {};
  // The whole pipeline runs `replicas` times side by side. Replicas sum a stage's gradients around a ring in 2
  // (replicas - 1) steps of ring_step [stage] each, after the stage's last backward and beside what its devices still
  // run; its update waits for that. Empty: that takes no time.
  int replicas = 1;
  std::vector<SimTime> ring_step = {};
};

}  // namespace meshwright
