// SPDX-License-Identifier: Apache-2.0
// The time of fused attention (one kernel, scores never in memory) on one GPU, from its shape.
//
// Query rows are worked on in blocks of 128, each by one multiprocessor of M, against key blocks of 128; a causal mask
// leaves half of the block pairs. With nq = ceil(queries / 128), nk likewise, c the softmax's work in units of width,
// and g for what heads wider than 128 cost beyond their products, as fewer of their blocks fit the registers,
//
//   pairs = nk (nk+1)/2 - (nk-nq)(nk-nq+1)/2 causal (the last nq rows of the triangle), nq nk otherwise
//   D     = key width + value width + c + g max(0, key width + value width - 256)
//   W     = batch heads (pairs + p nq) 2 128^2 D               all work; p key blocks of prologue per query block
//   w1    = (nk + p) 2 128^2 D                                 the longest query block, which no other can take over
//   work  = max(W/M + u w1 / 2, w1) causal, max((1-u) W/M + u ceil(batch heads nq / M) w1, w1) otherwise
//   t     = t0 + ((work M / (e P))^4 + (bytes / (h W_memory))^4)^(1/4)
//
// A backward pass does `backward` times the work (2.5 by counting products, more as measured).
#pragma once

#include <cstdint>

#include "core/base/units.h"
#include "costmodel/terms/products.h"

namespace meshwright {

struct AttentionShape {
  std::int64_t batch = 1, heads = 1, kv_heads = 1;
  std::int64_t queries = 1, keys = 1;               // sequence lengths; causal: keys >= queries
  std::int64_t key_width = 128, value_width = 128;  // of a head
  bool causal = true, backward = false;
  Bytes element{2.0};

  [[nodiscard]] Flops flops() const;  // of both products, with the mask taken into account; a backward pass 2.5 times
  [[nodiscard]] Bytes bytes() const;  // queries, keys, values and results; a backward pass reads and writes them twice
};

struct AttentionConstants {
  double peak_share = 0.7;    // e
  double softmax_width = 20;  // c
  double last_wave = 0.5;     // u
  Seconds start{8e-6};        // t0
  double memory_share = 0.5;  // h
  double prologue = 1.5;      // p, in key blocks
  double wide_heads = 0.3;    // g
  double backward = 2.8;      // work of a backward pass in forward passes

  friend bool operator==(const AttentionConstants&, const AttentionConstants&) = default;
};

// REQUIRES: as product_time; heads a multiple of kv_heads.
[[nodiscard]] Seconds attention_time(const AttentionShape& shape, const ProductUnit& unit,
                                     const AttentionConstants& constants);

}  // namespace meshwright
