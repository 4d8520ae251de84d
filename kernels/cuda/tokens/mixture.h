// SPDX-License-Identifier: Apache-2.0
// Tokens to the slots of experts and back, on the device: the twin of kernels/cpu/tokens/mixture.h, which says what
// slots are. Sums are kept in Wide<T>, in the order of the experts or of the embedding, and rounded once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/tokens/mixture.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

// Exactly the slots of the twin: of equal scores the first expert, first choices before second ones. A block for each
// expert of a batch row reads that row's choices twice. Workspace: batch * seq * top_k int32. REQUIRES: 1 <= top_k <=
// experts; seq * top_k < 2^31.
template <class T>
void top_k_slots(Stream stream,
                 const T* scores,      // (batch, seq, expert)
                 std::int32_t* slots,  // (batch, seq, expert)
                 MixtureShape shape, std::int64_t top_k, std::int32_t* workspace);

// weights = scores where a slot is taken, else 0; with `normalize` divided by their sum over the row of experts (0
// where none is taken). REQUIRES, with `normalize`: the scores of a token's taken experts do not sum to 0.
template <class T>
void gate_weights(Stream stream,
                  const T* scores,            // (rows, experts)
                  const std::int32_t* slots,  // (rows, experts)
                  T* weights,                 // (rows, experts)
                  const GateShape& shape);
// With S the sum of the taken scores s: dscores = (dy - sum(s dy) / S) / S where a slot is taken, else 0. Without
// `normalize` dscores = dy there.
template <class T>
void gate_weights_backward(Stream stream,
                           const T* scores,            // (rows, experts)
                           const std::int32_t* slots,  // (rows, experts)
                           const T* dy,                // (rows, experts)
                           T* dscores,                 // (rows, experts)
                           const GateShape& shape);

// Each token's row, times its weight unless `weights` is null, to all of its slots; free slots are 0. The buffer is
// written once. Workspace: expert * batch * capacity int32, which say whose each slot is.
template <class T>
void scatter_tokens(Stream stream,
                    const T* tokens,            // (batch, seq, embed)
                    const std::int32_t* slots,  // (batch, seq, expert)
                    const T* weights,           // (batch, seq, expert) or null
                    T* buffer,                  // (expert, batch, capacity, embed)
                    MixtureShape shape, std::int32_t* workspace);

// Each token's sum over its slots, times its weights unless `weights` is null.
template <class T>
void gather_tokens(Stream stream,
                   const T* buffer,            // (expert, batch, capacity, embed)
                   const std::int32_t* slots,  // (batch, seq, expert)
                   const T* weights,           // (batch, seq, expert) or null
                   T* tokens,                  // (batch, seq, embed)
                   MixtureShape shape);

// 1 where a slot is `first` + the index of the capacity, else 0.
template <class T>
void one_hot_slots(Stream stream,
                   const std::int32_t* slots,  // (rows, experts)
                   T* mask,                    // (rows, capacity, experts)
                   const SlotPart& part);

// dweights = product of the token's slot in the buffer with its dout; 0 where it has none.
template <class T>
void gather_weights_backward(Stream stream,
                             const T* buffer,            // (expert, batch, capacity, embed)
                             const std::int32_t* slots,  // (batch, seq, expert)
                             const T* dout,              // (batch, seq, embed)
                             T* dweights,                // (batch, seq, expert)
                             MixtureShape shape);

}  // namespace meshwright::kernels::cuda
