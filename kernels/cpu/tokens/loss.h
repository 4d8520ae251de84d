// SPDX-License-Identifier: Apache-2.0
// Losses, in pieces that can be computed on a part of the classes: the row maximum, the sum of exponentials and the
// label's logit of a part combine by max, sum and sum. A part holds classes first..first+width.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

template <class T>
void row_max(const T* x, T* out, std::int64_t rows, std::int64_t width);  // x (rows, width) -> (rows)

// out (rows) = sum over the row of exp(x - largest).
template <class T>
void sum_exp(const T* x, const T* largest, T* out, std::int64_t rows, std::int64_t width);

// out (rows) = x at the label, zero where the label is not in this part.
template <class T>
void pick_label(const T* x, const std::int32_t* labels, T* out, std::int64_t rows, std::int64_t width,
                std::int64_t first);

// scale * sum over rows of weight (largest + log(sum) - picked). `weights` (rows; here and below) may be null: every
// row weighs 1. A row of weight 0 adds nothing, whatever its label is.
template <class T>
T cross_entropy(const T* largest, const T* sum, const T* picked, std::int64_t rows, double scale,
                const T* weights = nullptr);

// dx = scale weight (exp(x - largest) / sum - onehot(label)).
template <class T>
void cross_entropy_backward(const T* x, const T* largest, const T* sum, const std::int32_t* labels, T* dx,
                            std::int64_t rows, std::int64_t width, std::int64_t first, double scale,
                            const T* weights = nullptr);

template <class T>
T squared_error(const T* x, const T* y, std::int64_t n, double scale);  // scale * sum (x - y)^2
template <class T>
void squared_error_backward(const T* x, const T* y, T* dx, std::int64_t n, double scale);  // 2 scale (x - y)

}  // namespace meshwright::kernels
