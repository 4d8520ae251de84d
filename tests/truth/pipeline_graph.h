// SPDX-License-Identifier: Apache-2.0
// A pipeline's step as a TaskGraph: stages as single devices with given times. What simulate_pipeline is held against,
// and the workload on which the engines are held against other simulators of clusters.
//
// Streams: per device (rank of a replica) its compute; per ordered pair of ranks that exchange messages a channel;
// where replicas sum gradients, per device its communication. The meaning is that of simulate_pipeline
// (pipeline_shape.h): a message is posted when its run ends, and a channel carries one at a time. Stages on one rank
// exchange no messages.
//
// The ring: step k of replica r is a message to replica r + 1, on r's communication stream. It follows step k - 1 of
// r - 1; the first follows the last backwards of the stage on both of them. A stage's update waits for the last steps
// that its device sends and receives.
#pragma once

#include <optional>

#include "simulator/engine/task_graph.h"
#include "simulator/pipeline/pipeline_shape.h"

namespace meshwright {

// Every device has a link out and a link in: what it sends at the same time shares the one, what it receives the other.
struct SharedNics {
  BytesPerSecond rate;  // of each direction
  SimTime latency{0};   // the part of a message's, or ring step's, time that uses no link; at most all of it
};

struct PipelineStep {
  PipelineTimes times;
  // [stage] what a microbatch keeps from its forward's begin to the end of its (last) backward pass. Empty: not
  // counted.
  std::vector<Bytes> activations = {};
  // One replica stands for all: it is alone in the graph, its messages are what all of them send and its ring's steps
  // follow one another. Exact as long as replicas do not differ.
  bool folded = true;
  std::optional<SharedNics> nics = std::nullopt;  // absent: every channel, and every ring, has links of its own
};

// Device `rank` of replica r: r * shape.ranks + rank.
[[nodiscard]] TaskGraph pipeline_graph(const PipelineShape& shape, const PipelineStep& step);

}  // namespace meshwright
