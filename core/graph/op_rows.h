// SPDX-License-Identifier: Apache-2.0
// The families of ops: each file holds the rows of its ops with everything they name (shapes, splits, derivative).
#pragma once

#include "core/graph/op_table.h"

namespace meshwright::ops {

[[nodiscard]] std::vector<OpRow> contraction_rows();
[[nodiscard]] std::vector<OpRow> elementwise_rows();
[[nodiscard]] std::vector<OpRow> normalization_rows();
[[nodiscard]] std::vector<OpRow> attention_rows();
[[nodiscard]] std::vector<OpRow> scan_rows();
[[nodiscard]] std::vector<OpRow> embedding_rows();
[[nodiscard]] std::vector<OpRow> loss_rows();
[[nodiscard]] std::vector<OpRow> convolution_rows();
[[nodiscard]] std::vector<OpRow> layout_rows();
[[nodiscard]] std::vector<OpRow> mixture_rows();
[[nodiscard]] std::vector<OpRow> optimizer_rows();

// Split rules shared by families.
inline bool any_axis(const Op&, const IterationSpace&, int) { return true; }
inline bool no_axis(const Op&, const IterationSpace&, int) { return false; }
// The state of loss scaling is read whole.
inline bool all_but_scaling(const Op&, const IterationSpace& space, int axis) {
  return space.axes[static_cast<std::size_t>(axis)].name != "scaling";
}
// A row's statistics need the whole row.
inline bool all_but_last_of_x(const Op&, const IterationSpace& space, int axis) {
  return axis != space.inputs[0].back();
}

}  // namespace meshwright::ops
