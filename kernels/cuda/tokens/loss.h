// SPDX-License-Identifier: Apache-2.0
// Losses on the device, in pieces that can be computed on a part of the classes: the twin of kernels/cpu/tokens/loss.h.
// Logits are of T; maxima, sums and what is made of them are of Wide<T>.
//
// Each function reads each operand once, and rows of any width at 16 bytes a load. Sums are added in an order that
// depends on the sizes and on the addresses modulo 16 alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/tokens/loss.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

// What the terms of a loss are multiplied with: scale * first 2^n / total. The kernels read the device's scalars when
// they run; nobody waits for them on the host.
template <class W>
struct LossFactor {
  double scale = 1.0;
  const W* total = nullptr;    // of the weights; null: 1
  double first = 1.0;          // of the loss scaling, whose
  const W* scaling = nullptr;  // first element is n; null: neither
};

template <class T>
void row_max(Stream stream, const T* x, Wide<T>* out, std::int64_t rows, std::int64_t width);

// out (rows) = sum over the row of exp(x - largest).
template <class T>
void sum_exp(Stream stream, const T* x, const Wide<T>* largest, Wide<T>* out, std::int64_t rows, std::int64_t width);

// out (rows) = x at the label, zero where the label is not in this part.
template <class T>
void pick_label(Stream stream, const T* x, const std::int32_t* labels, Wide<T>* out, const ClassShape& shape);

// What cross_entropy reads of each row of logits: arrays of (rows).
template <class W>
struct RowTerms {
  W *largest, *sum;
  W* picked = nullptr;
};

// row_max, sum_exp and, where there are labels, pick_label in one pass over the logits, whose rows are taken in chunks.
// Sums are added in another order than sum_exp's. Maxima and picked logits have the same bits.
template <class T>
void cross_entropy_rows(Stream stream, const T* x, const std::int32_t* labels, const RowTerms<Wide<T>>& out,
                        const ClassShape& shape);

// Bytes that cross_entropy and squared_error want, whatever their sizes.
std::size_t loss_workspace();

// *out = factor * sum over rows of weight (largest + log(sum) - picked), added up in double.
template <class T>
void cross_entropy(Stream stream, const LossRows<T>& of_rows, T* out, std::int64_t rows, const LossFactor<T>& factor,
                   void* workspace);

// dx = factor * weight (exp(x - largest) / sum - onehot(label)), rounded once.
template <class T>
void cross_entropy_backward(Stream stream, const T* x, const LossRows<Wide<T>>& of_rows, T* dx, const ClassShape& shape,
                            const LossFactor<Wide<T>>& factor);

// *out = scale * sum (x - y)^2.
template <class T>
void squared_error(Stream stream, const T* x, const T* y, Wide<T>* out, std::int64_t n, double scale, void* workspace);
template <class T>
void squared_error_backward(Stream stream, const T* x, const T* y, T* dx, std::int64_t n,
                            LossFactor<Wide<T>> factor);  // 2 factor (x - y)

}  // namespace meshwright::kernels::cuda
