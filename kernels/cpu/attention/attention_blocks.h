// SPDX-License-Identifier: Apache-2.0
// Attention over keys that come in blocks, in any order: the same results as of attention.h, up to rounding, with one
// block of keys and values at hand. Each row of scores keeps its largest score so far and the sum of exp(score -
// largest), so that what earlier blocks gave is rescaled when a larger score comes (M. Milakov, N. Gimelshein, Online
// normalizer calculation for softmax, 2018; H. Liu et al., Ring Attention with Blockwise Transformers, 2023).
//
//   forward    begin_rows, attend for every block, end_rows
//   backward   begin_rows, measure for every block, end_measure: each row's log of the sum, and the mean of dout .
//   value
//              under its probabilities; then attend_backward for every block, which adds to the gradients
//
// The call's shape and rule are those of all keys; its k and v, and their gradients, hold a block's keys alone. A row
// need not see a key of a block, but must see one of all blocks.
#pragma once

#include <cstdint>

#include "kernels/cpu/attention/attention.h"

namespace meshwright::kernels {

// The keys of a block.
struct KeyRange {
  std::int64_t first, count;
};

// What is known of each row of scores from the blocks so far.
template <class T>
struct RowSums {
  T* largest;  // (batch, seq, kv_heads, group): the largest score; after end_measure the logarithm of all exp(score)
  T* sum;      // (batch, seq, kv_heads, group): of exp(score - largest)
  T* along;    // (batch, seq, kv_heads, group): backward, of exp(score - largest) dout . value; then that over sum
};

template <class T>
void begin_rows(const AttentionCall<T>& call, const RowSums<T>& rows);

// `out` is cleared before the first block.
template <class T>
void attend(const AttentionCall<T>& call, KeyRange keys, const RowSums<T>& rows,
            T* out);  // (batch, seq, kv_heads, group, value_dim): sum of exp(score - largest) value
template <class T>
void end_rows(const AttentionCall<T>& call, const RowSums<T>& rows, T* out);  // divided by the sums

template <class T>
void measure(const AttentionCall<T>& call, KeyRange keys, const RowSums<T>& rows,
             const T* dout);  // (batch, seq, kv_heads, group, value_dim)
// `sink` (kv_heads, group): its gradient; null where the rule has none.
template <class T>
void end_measure(const AttentionCall<T>& call, const RowSums<T>& rows, double* sink);

// Adds to the gradients of the operands and, where they are wanted, of the biases by distance; never to the sink's.
template <class T>
void attend_backward(const AttentionCall<T>& call, KeyRange keys, const RowSums<T>& rows, const T* dout,
                     const AttentionGradients<T>& gradients);

}  // namespace meshwright::kernels
