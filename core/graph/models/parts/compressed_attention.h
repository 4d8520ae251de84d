// SPDX-License-Identifier: Apache-2.0
// Attention to the last tokens and to compressed ones (DeepSeek-AI, DeepSeek-V4, 2026). One vector of each token is key
// and value of all heads. Besides a window of these, queries see keys that stand for `rate` tokens each: sums of
// vectors of these tokens weighed, channel by channel, by a softmax of learned logits; with `overlap` also of other
// vectors of the tokens before. An indexer, which compresses for itself, may choose among these keys for each query.
// What a head makes is rotated back, and heads are projected in groups, through a rank each.
//
// In heads the dimensions that are rotated come first, in pairs of neighbours. Ops are named "<attn>.q_down", ".q",
// ".kv", ".compress.kv", ".compress.gate", ".index.q", ".index.compress.kv", ".core", ".out_down", ".out".
//
// Dimensions besides a transformer's: windows, of `slot` tokens each, which have one or two `series` of vectors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/models/parts/transformer_builder.h"

namespace meshwright {

struct CompressedAttentionPart {
  std::int64_t q_rank, rope, out_groups, out_rank, window;
  IndexPart index;  // of layers that choose
  double rotary_base, compressed_rotary_base;
};

struct CompressedAttention {
  TransformerBuilder& builder;
  const CompressedAttentionPart part;

  // `rate` 0: of the window alone.
  struct Use {
    std::int64_t rate = 0;
    bool overlap = false, chooses = false;
  };
  [[nodiscard]] TensorId attend(const std::string& name, TensorId x, const Use& use) const;

 private:
  // Rotated where a position stands for `rate` tokens; `backwards`: turned back.
  enum class Turn { Forwards, Backwards };
  [[nodiscard]] TensorId rotate(const std::string& name, TensorId x, const Use& use, std::int64_t rate = 1,
                                Turn turn = Turn::Forwards) const;
  [[nodiscard]] TensorId compress(const std::string& name, TensorId x, const Dim& width, const Use& use) const;
  // (batch, windows, slot, series, width), of x (batch, seq, series, width).
  [[nodiscard]] TensorId in_windows(const std::string& name, TensorId x, const Use& use) const;
  // The second series of a window behind the first one of the window before, of which the first has none: `none`.
  [[nodiscard]] TensorId overlapped(const std::string& name, TensorId x, double none) const;
  // (batch, seq, selected): the compressed keys that each query reads, and its window.
  [[nodiscard]] TensorId keys(const std::string& name, TensorId x, TensorId low_rank, const Use& use) const;
  [[nodiscard]] Dim windows(const Use& use) const { return {"windows", builder.seq.size / use.rate}; }
};

}  // namespace meshwright
