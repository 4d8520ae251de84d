// SPDX-License-Identifier: Apache-2.0
// How a contraction over named axes becomes matrix products.
//
// Each axis of a contraction is in two or all three of (a, b, result): M is in a and the result, N in b and the result,
// K in a and b, and a batch axis in all three. When the axes of each group lie next to each other in every operand, the
// contraction is one product per batch index, possibly of transposed operands. M and N axes that lie apart are looped
// over; whatever remains goes element by element.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/graph/graph.h"

namespace meshwright {

struct Loop {
  std::int64_t size;
  std::int64_t a, b, c;  // strides
};

struct MatrixProduct {
  bool transpose_a, transpose_b;
  bool exchanged;  // c = b' a' is computed: the result lies transposed
  std::int64_t m, n, k, lda, ldb, ldc;
};

struct Contraction {
  std::vector<Loop> loops;  // around the product; without a product, all of them (those absent from c last)
  std::optional<MatrixProduct> product;
  std::int64_t result_elements = 0;
};

// `space` of a Contract op, `sizes` of its axes on a shard.
[[nodiscard]] Contraction plan_contraction(const IterationSpace& space, const std::vector<std::int64_t>& sizes);

template <class T>
void run_contraction(const Contraction& contraction, const T* a, const T* b, T* c);

}  // namespace meshwright
