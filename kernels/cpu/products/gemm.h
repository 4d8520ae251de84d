// SPDX-License-Identifier: Apache-2.0
// Matrix product on one core, row-major: c (m, n) = op(a) (m, k) * op(b) (k, n).
//
// float goes to oneDNN, double to a blocked kernel of our own (oneDNN has none). In double each element of c is summed
// in the order of k whatever m and n are, so rows of a split batch get the bits they have in the whole batch.
#pragma once

#include <cstdint>
#include <string>

namespace meshwright::kernels {

// `lda`, `ldb`, `ldc` are row strides of the matrices as stored: a is (k, m) when `transpose_a`, b is (n, k) when
// `transpose_b`. REQUIRES: m, n, k >= 1; c overlaps neither operand. Runs on the calling thread alone.
template <class T>
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const T* a,
          std::int64_t lda, const T* b, std::int64_t ldb, T* c, std::int64_t ldc);

// Name and version of the library behind float products: "oneDNN 2.6.3".
[[nodiscard]] std::string product_library();

// The same sum in any layout: sizes of the loop nest and each operand's stride along every loop (0 where it lacks the
// axis). Loops absent from c must come last. Slow; for layouts that are no matrix product.
template <class T>
void contract_strided(int axes, const std::int64_t* sizes, const std::int64_t* a_strides, const std::int64_t* b_strides,
                      const std::int64_t* c_strides, std::int64_t c_elements, const T* a, const T* b, T* c);

}  // namespace meshwright::kernels
