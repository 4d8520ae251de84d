// SPDX-License-Identifier: Apache-2.0
// Tokens to the slots of experts and back. `slots` (batch, seq, expert) holds, for each expert a token goes to, its
// slot in that expert's buffer of the batch row, and a negative number for the others; no two tokens of a row share a
// slot of an expert. A slot beyond the capacity is treated as none.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

struct MixtureShape {
  std::int64_t batch, seq, experts, capacity, embed;
};

// Each token chooses its `top_k` experts with the highest scores (of equals the first). In each batch row all tokens'
// first choices take slots 0, 1, ... in the order of seq, then all second choices, and so on; a choice that finds the
// expert full is lost. Reads batch, seq, experts and capacity of `shape`. REQUIRES: 1 <= top_k <= experts.
template <class T>
void top_k_slots(const T* scores,      // (batch, seq, expert)
                 std::int32_t* slots,  // (batch, seq, expert)
                 MixtureShape shape, std::int64_t top_k);

struct GateShape {
  std::int64_t rows, experts;
  bool normalize;  // divide by the sum over the row of experts
};
// weights = scores where a slot is taken, else 0; with `normalize` divided by their sum over the row of experts (0
// where none is taken). REQUIRES, with `normalize`: the scores of a token's taken experts do not sum to 0.
template <class T>
void gate_weights(const T* scores,            // (rows, experts)
                  const std::int32_t* slots,  // (rows, experts)
                  T* weights,                 // (rows, experts)
                  const GateShape& shape);
template <class T>
void gate_weights_backward(const T* scores,            // (rows, experts)
                           const std::int32_t* slots,  // (rows, experts)
                           const T* dy,                // (rows, experts)
                           T* dscores,                 // (rows, experts)
                           const GateShape& shape);

// Each token's row, times its weight unless `weights` is null, to all of its slots; free slots are 0.
template <class T>
void scatter_tokens(const T* tokens,            // (batch, seq, embed)
                    const std::int32_t* slots,  // (batch, seq, expert)
                    const T* weights,           // (batch, seq, expert) or null
                    T* buffer,                  // (expert, batch, capacity, embed)
                    MixtureShape shape);

// Each token's sum over its slots, times its weights unless `weights` is null.
template <class T>
void gather_tokens(const T* buffer,            // (expert, batch, capacity, embed)
                   const std::int32_t* slots,  // (batch, seq, expert)
                   const T* weights,           // (batch, seq, expert) or null
                   T* tokens,                  // (batch, seq, embed)
                   MixtureShape shape);

// A part of the slots of each row: `capacity` of them from `first` on.
struct SlotPart {
  std::int64_t rows, capacity, experts, first;
};
// 1 where a slot is `first` + the index of the capacity, else 0.
template <class T>
void one_hot_slots(const std::int32_t* slots,  // (rows, experts)
                   T* mask,                    // (rows, capacity, experts)
                   const SlotPart& part);

// dweights = product of the token's slot in the buffer with its dout; 0 where it has none.
template <class T>
void gather_weights_backward(const T* buffer,            // (expert, batch, capacity, embed)
                             const std::int32_t* slots,  // (batch, seq, expert)
                             const T* dout,              // (batch, seq, embed)
                             T* dweights,                // (batch, seq, expert)
                             MixtureShape shape);

}  // namespace meshwright::kernels
