// SPDX-License-Identifier: Apache-2.0
// Passes over elements and rows: sums, biases, activations. An output may be one of the inputs itself (same pointer),
// never a shifted overlap.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

template <class T>
void add(const T* x, const T* y, T* out, std::int64_t n);

// out (rows, width) = x, plus bias (bias_width) on the first bias_width elements of each row.
template <class T>
void bias_add(const T* x, const T* bias, T* out, std::int64_t rows, std::int64_t width, std::int64_t bias_width);
// out (bias_width) = sum over rows of the first bias_width elements of dy (rows, width).
template <class T>
void bias_gradient(const T* dy, T* out, std::int64_t rows, std::int64_t width, std::int64_t bias_width);

template <class T>
void relu(const T* x, T* out, std::int64_t n);
template <class T>
void relu_backward(const T* x, const T* dy, T* out, std::int64_t n);

// gelu(x) = x/2 (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): the sigmoid has no cancellation.
template <class T>
void gelu(const T* x, T* out, std::int64_t n);
template <class T>
void gelu_backward(const T* x, const T* dy, T* out, std::int64_t n);

}  // namespace meshwright::kernels
