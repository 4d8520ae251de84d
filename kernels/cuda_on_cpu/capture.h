// SPDX-License-Identifier: Apache-2.0
// What everything that takes a Stream does here: at once, or, where the stream is captured, in each launch of the
// graph.
#pragma once

#include <functional>
#include <utility>

#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda::on_cpu {

[[nodiscard]] bool is_captured(Stream stream);
void capture(Stream stream, std::function<void()> work);

// `work` keeps its arguments by value.
template <class Work>
void queue(Stream stream, Work work) {
  if (is_captured(stream)) return capture(stream, std::move(work));
  work();
}

}  // namespace meshwright::kernels::cuda::on_cpu
