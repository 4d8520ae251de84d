// SPDX-License-Identifier: Apache-2.0
// Losses, in pieces that can be computed on a part of the classes: the row maximum, the sum of exponentials and the
// label's logit of a part combine by max, sum and sum. A part holds classes first..first+width.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

// The logits of a part of the classes: rows of `width` from class `first` on.
struct ClassShape {
  std::int64_t rows, width, first;
};

// What a loss reads of each row of logits: arrays of (rows).
template <class W>
struct LossRows {
  const W *largest, *sum;                // row_max and sum_exp, of all parts
  const W* picked = nullptr;             // pick_label, of all parts: forward
  const std::int32_t* labels = nullptr;  // backward
  const W* weights = nullptr;            // null: every row weighs 1. A row of weight 0 adds nothing, whatever its label
};

template <class T>
void row_max(const T* x, T* out, std::int64_t rows, std::int64_t width);  // x (rows, width) -> (rows)

// out (rows) = sum over the row of exp(x - largest).
template <class T>
void sum_exp(const T* x, const T* largest, T* out, std::int64_t rows, std::int64_t width);

// out (rows) = x at the label, zero where the label is not in this part.
template <class T>
void pick_label(const T* x, const std::int32_t* labels, T* out, const ClassShape& shape);

// scale * sum over rows of weight (largest + log(sum) - picked).
template <class T>
T cross_entropy(const LossRows<T>& of_rows, std::int64_t rows, double scale);

// dx = scale weight (exp(x - largest) / sum - onehot(label)).
template <class T>
void cross_entropy_backward(const T* x, const LossRows<T>& of_rows, T* dx, const ClassShape& shape, double scale);

template <class T>
T squared_error(const T* x, const T* y, std::int64_t n, double scale);  // scale * sum (x - y)^2
template <class T>
void squared_error_backward(const T* x, const T* y, T* dx, std::int64_t n, double scale);  // 2 scale (x - y)

}  // namespace meshwright::kernels
