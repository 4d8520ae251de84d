// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/elementwise/vector_math.h"
#include "kernels/cpu/products/gemm.h"

namespace meshwright::kernels {

namespace {

constexpr std::int64_t kRowBlock = 128;

// One head's q, k and v inside qkv: rows of head_dim elements, `stride` apart.
template <class T>
struct Head {
  T *q, *k, *v;
};

template <class T>
Head<T> head_of(T* qkv, AttentionShape shape, std::int64_t sample, std::int64_t head) {
  const std::int64_t part = shape.heads * shape.head_dim;
  T* q = qkv + sample * shape.seq * 3 * part + head * shape.head_dim;
  return {q, q + part, q + 2 * part};
}

// Rows first..first+rows of the probabilities, (rows, columns) with columns = first + rows; zero above the diagonal.
template <class T>
void probabilities(Head<const T> head, std::int64_t stride, std::int64_t head_dim, std::int64_t first,
                   std::int64_t rows, T* p) {
  const std::int64_t columns = first + rows;
  const T scale = T(1) / std::sqrt(static_cast<T>(head_dim));
  gemm<T>(false, true, rows, columns, head_dim, head.q + first * stride, stride, head.k, stride, p, columns);
  for (std::int64_t i = 0; i < rows; ++i) {
    T* row = p + i * columns;
    const std::int64_t seen = first + i + 1;
    const T largest = lane_max(row, seen);
#pragma GCC ivdep
    for (std::int64_t j = 0; j < seen; ++j) row[j] = exp_of(scale * (row[j] - largest));
    const T inverse = T(1) / lane_sum<T>(seen, [=](std::int64_t j) { return row[j]; });
#pragma GCC ivdep
    for (std::int64_t j = 0; j < seen; ++j) row[j] *= inverse;
    std::fill(row + seen, row + columns, T(0));
  }
}

// ds = scale * p * (dp - sum_j p dp), the softmax's backward, in place of dp.
template <class T>
void softmax_backward(const T* p, T* dp, std::int64_t rows, std::int64_t columns, T scale) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* row = p + i * columns;
    T* gradient = dp + i * columns;
    const T along = lane_sum<T>(columns, [=](std::int64_t j) { return row[j] * gradient[j]; });
#pragma GCC ivdep
    for (std::int64_t j = 0; j < columns; ++j) gradient[j] = scale * row[j] * (gradient[j] - along);
  }
}

template <class T>
void zero_rows(T* to, std::int64_t rows, std::int64_t width, std::int64_t stride) {
  for (std::int64_t i = 0; i < rows; ++i) std::fill_n(to + i * stride, width, T(0));
}

// Workspaces live as long as their thread: a logical device runs the same shapes again and again.
template <class T>
T* workspace(int which, std::int64_t elements) {
  thread_local std::vector<T> spaces[3];
  std::vector<T>& space = spaces[which];
  if (space.size() < static_cast<std::size_t>(elements)) space.resize(static_cast<std::size_t>(elements));
  return space.data();
}

template <class T>
void head_backward(Head<const T> head, const T* dout, Head<T> gradient, AttentionShape shape) {
  const std::int64_t d = shape.head_dim, stride = 3 * shape.heads * d, out_stride = shape.heads * d;
  const std::int64_t block = std::min(kRowBlock, shape.seq);
  T* p = workspace<T>(0, block * shape.seq);
  T* dp = workspace<T>(1, block * shape.seq);
  T* product = workspace<T>(2, shape.seq * d);
  zero_rows(gradient.k, shape.seq, d, stride);
  zero_rows(gradient.v, shape.seq, d, stride);
  for (std::int64_t first = 0; first < shape.seq; first += kRowBlock) {
    const std::int64_t rows = std::min(kRowBlock, shape.seq - first), columns = first + rows;
    const T* dout_rows = dout + first * out_stride;
    probabilities(head, stride, d, first, rows, p);
    gemm<T>(true, false, columns, d, rows, p, columns, dout_rows, out_stride, product, d);  // dv += p^T dout
    add_rows(product, gradient.v, columns, d, stride);
    gemm<T>(false, true, rows, columns, d, dout_rows, out_stride, head.v, stride, dp, columns);  // dp = dout v^T
    softmax_backward(p, dp, rows, columns, T(1) / std::sqrt(static_cast<T>(d)));
    gemm<T>(false, false, rows, d, columns, dp, columns, head.k, stride, gradient.q + first * stride,
            stride);                                                                                   // dq = ds k
    gemm<T>(true, false, columns, d, rows, dp, columns, head.q + first * stride, stride, product, d);  // dk += ds^T q
    add_rows(product, gradient.k, columns, d, stride);
  }
}

}  // namespace

template <class T>
void attention(const T* qkv, T* out, AttentionShape shape) {
  const std::int64_t stride = 3 * shape.heads * shape.head_dim, out_stride = shape.heads * shape.head_dim;
  T* p = workspace<T>(0, std::min(kRowBlock, shape.seq) * shape.seq);
  for (std::int64_t sample = 0; sample < shape.batch; ++sample)
    for (std::int64_t h = 0; h < shape.heads; ++h) {
      const Head<const T> head = head_of(qkv, shape, sample, h);
      T* result = out + sample * shape.seq * out_stride + h * shape.head_dim;
      for (std::int64_t first = 0; first < shape.seq; first += kRowBlock) {
        const std::int64_t rows = std::min(kRowBlock, shape.seq - first), columns = first + rows;
        probabilities(head, stride, shape.head_dim, first, rows, p);
        gemm<T>(false, false, rows, shape.head_dim, columns, p, columns, head.v, stride, result + first * out_stride,
                out_stride);
      }
    }
}

template <class T>
void attention_backward(const T* qkv, const T* dout, T* dqkv, AttentionShape shape) {
  for (std::int64_t sample = 0; sample < shape.batch; ++sample)
    for (std::int64_t h = 0; h < shape.heads; ++h)
      head_backward<T>(head_of(qkv, shape, sample, h), dout + (sample * shape.seq * shape.heads + h) * shape.head_dim,
                       head_of(dqkv, shape, sample, h), shape);
}

template void attention<float>(const float*, float*, AttentionShape);
template void attention<double>(const double*, double*, AttentionShape);
template void attention_backward<float>(const float*, const float*, float*, AttentionShape);
template void attention_backward<double>(const double*, const double*, double*, AttentionShape);

}  // namespace meshwright::kernels
