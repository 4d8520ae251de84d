// SPDX-License-Identifier: Apache-2.0
// CUDA graphs: work that streams are asked for is recorded instead of done, and then done in one piece, as often as it
// is launched.
//
// A capture begins on one stream, its origin. Another stream joins it by waiting for an event that was recorded in it;
// in the end the origin has to wait for what every such stream was asked for last. What streams wait for becomes the
// graph's edges. Arguments of kernels and addresses are kept by value: whatever is to differ between launches must lie
// in memory, and what is copied from or to the host in pinned memory.
//
// While a stream is captured nothing may wait for it, and it may wait for no event that was recorded outside. One
// thread at a time may ask streams of a capture for work: what they build is one object, which CUDA does not guard.
#pragma once

#include <cstddef>

#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda {

struct Graph {
  void* handle = nullptr;
  std::size_t nodes = 0;  // kernels, copies, ...
};

// Every call of the runtime stays allowed (cudaStreamCaptureModeRelaxed); what is allocated is no part of the graph.
void begin_capture(Stream origin);
[[nodiscard]] bool is_capturing(Stream stream);
// Throws Failure where something was done in between that cannot be captured; the capture has ended all the same.
[[nodiscard]] Graph end_capture(Stream origin);
// Ends it, if there is one, and forgets what was captured.
void abandon_capture(Stream origin) noexcept;

void launch_graph(Graph graph, Stream stream);
void destroy(Graph graph) noexcept;

// REQUIRES: the stream is captured, the event is timed. Each launch records the event.
void record_in_graph(Event event, Stream stream);

}  // namespace meshwright::kernels::cuda
