// SPDX-License-Identifier: Apache-2.0
// Matrix product on one core, row-major: c (m, n) = op(a) (m, k) * op(b) (k, n), or c plus this.
//
// float goes to oneDNN, double to a blocked kernel of our own (oneDNN has none). In double each element of c is summed
// in the order of k whatever m and n are, so rows of a split batch get the bits they have in the whole batch.
#pragma once

#include <cstdint>
#include <string>

namespace meshwright::kernels {

struct GemmShape {
  bool transpose_a = false, transpose_b = false;  // a is stored as (k, m), b as (n, k)
  std::int64_t m, n, k;
  std::int64_t lda, ldb, ldc;  // row strides of the matrices as stored
  bool accumulates = false;    // adds to c
};
// REQUIRES: m, n, k >= 1; c overlaps neither operand. Runs on the calling thread alone.
template <class T>
void gemm(const GemmShape& shape, const T* a, const T* b, T* c);

// Name and version of the library behind float products: "oneDNN 2.6.3".
[[nodiscard]] std::string product_library();

// A nest of `axes` loops: their sizes, and each operand's stride along them (0 where it lacks the axis). Loops absent
// from c must come last.
struct LoopNest {
  int axes;
  const std::int64_t *sizes, *a_strides, *b_strides, *c_strides;
  std::int64_t c_elements;
};
// The same sum in any layout. Slow; for layouts that are no matrix product.
template <class T>
void contract_strided(const LoopNest& nest, const T* a, const T* b, T* c);

}  // namespace meshwright::kernels
