// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/products/gemm.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/products/one_core.h"

namespace meshwright::kernels {

namespace {

// Microtile of the double kernel: 8 rows x 16 columns, 16 accumulators of 8 lanes.
constexpr std::int64_t kRows = 8;
constexpr std::int64_t kColumns = 16;
constexpr std::int64_t kDepth = 256;     // k-block: a packed panel of a and b stays in the caches
constexpr std::int64_t kRowBlock = 128;  // rows of a packed at once

struct View {
  const double* data;
  std::int64_t row_stride, column_stride;
};

// Panels of kRows rows (zero-filled beyond `rows`), k running slowest.
void pack_rows(View a, std::int64_t rows, std::int64_t depth, double* out) {
  for (std::int64_t i0 = 0; i0 < rows; i0 += kRows)
    for (std::int64_t p = 0; p < depth; ++p)
      for (std::int64_t i = i0; i < i0 + kRows; ++i)
        *out++ = i < rows ? a.data[i * a.row_stride + p * a.column_stride] : 0.0;
}

void pack_columns(View b, std::int64_t depth, std::int64_t columns, double* out) {
  for (std::int64_t j0 = 0; j0 < columns; j0 += kColumns)
    for (std::int64_t p = 0; p < depth; ++p)
      for (std::int64_t j = j0; j < j0 + kColumns; ++j)
        *out++ = j < columns ? b.data[p * b.row_stride + j * b.column_stride] : 0.0;
}

// Eight columns of one row; g++ keeps local variables of this type in vector registers of whatever width the machine
// has.
typedef double Lanes __attribute__((vector_size(64)));
constexpr std::int64_t kLanes = 8;

// One microtile: continues the sums already in c, so that the order over k is the same for every blocking. Tiles at the
// edge compute the padding as well, with the same instructions.
void multiply_tile(const double* a, const double* b, std::int64_t depth, double* c, std::int64_t ldc, std::int64_t rows,
                   std::int64_t columns) {
  double tile[kRows][kColumns] = {};
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) tile[i][j] = c[i * ldc + j];
  Lanes sums[kRows][2];
  std::memcpy(sums, tile, sizeof tile);
  for (std::int64_t p = 0; p < depth; ++p, a += kRows, b += kColumns) {
    Lanes left, right;
    std::memcpy(&left, b, sizeof left);
    std::memcpy(&right, b + kLanes, sizeof right);
#pragma GCC unroll 8
    for (std::int64_t i = 0; i < kRows; ++i) {
      sums[i][0] += a[i] * left;
      sums[i][1] += a[i] * right;
    }
  }
  std::memcpy(tile, sums, sizeof tile);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) c[i * ldc + j] = tile[i][j];
}

std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

// Adds to c.
void blocked_gemm(std::int64_t m, std::int64_t n, std::int64_t k, View a, View b, double* c, std::int64_t ldc) {
  thread_local std::vector<double> packed_a, packed_b;
  packed_a.resize(static_cast<std::size_t>(kRowBlock * kDepth));
  packed_b.resize(static_cast<std::size_t>(round_up(n, kColumns) * kDepth));
  for (std::int64_t p0 = 0; p0 < k; p0 += kDepth) {
    const std::int64_t depth = std::min(kDepth, k - p0);
    pack_columns({b.data + p0 * b.row_stride, b.row_stride, b.column_stride}, depth, n, packed_b.data());
    for (std::int64_t i0 = 0; i0 < m; i0 += kRowBlock) {
      const std::int64_t rows = std::min(kRowBlock, m - i0);
      pack_rows({a.data + i0 * a.row_stride + p0 * a.column_stride, a.row_stride, a.column_stride}, rows, depth,
                packed_a.data());
      for (std::int64_t j = 0; j < n; j += kColumns)
        for (std::int64_t i = 0; i < rows; i += kRows)
          multiply_tile(packed_a.data() + i * depth, packed_b.data() + j * depth, depth, c + (i0 + i) * ldc + j, ldc,
                        std::min(kRows, rows - i), std::min(kColumns, n - j));
    }
  }
}

}  // namespace

template <>
void gemm<float>(const GemmShape& s, const float* a, const float* b, float* c) {
  keep_to_one_core();
  const dnnl_status_t status = dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', s.m, s.n, s.k, 1.0f, a,
                                          s.lda, b, s.ldb, s.accumulates ? 1.0f : 0.0f, c, s.ldc);
  if (status != dnnl_success) throw std::runtime_error("oneDNN refused a matrix product");
}

template <>
void gemm<double>(const GemmShape& s, const double* a, const double* b, double* c) {
  for (std::int64_t i = 0; i < s.m && !s.accumulates; ++i) std::fill_n(c + i * s.ldc, s.n, 0.0);
  const View view_a = s.transpose_a ? View{a, 1, s.lda} : View{a, s.lda, 1};
  const View view_b = s.transpose_b ? View{b, 1, s.ldb} : View{b, s.ldb, 1};
  blocked_gemm(s.m, s.n, s.k, view_a, view_b, c, s.ldc);
}

std::string product_library() {
  const dnnl_version_t* version = dnnl_version();
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

template <class T>
void contract_strided(const LoopNest& nest, const T* a, const T* b, T* c) {
  std::fill_n(c, nest.c_elements, T(0));
  std::vector<std::int64_t> index(static_cast<std::size_t>(nest.axes), 0);
  const auto walk = [&](int axis, std::int64_t steps) {
    a += steps * nest.a_strides[axis], b += steps * nest.b_strides[axis], c += steps * nest.c_strides[axis];
  };
  for (;;) {
    *c += *a * *b;
    int axis = nest.axes - 1;
    for (; axis >= 0; --axis) {
      walk(axis, 1);
      if (++index[static_cast<std::size_t>(axis)] < nest.sizes[axis]) break;
      walk(axis, -nest.sizes[axis]);
      index[static_cast<std::size_t>(axis)] = 0;
    }
    if (axis < 0) return;
  }
}

template void contract_strided<float>(const LoopNest&, const float*, const float*, float*);
template void contract_strided<double>(const LoopNest&, const double*, const double*, double*);

}  // namespace meshwright::kernels
