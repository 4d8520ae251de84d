// SPDX-License-Identifier: Apache-2.0
// Parts of a transformer's blocks that the backward makes again, each by itself, where whole blocks would be too much.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/graph/graph.h"

namespace meshwright {

// As Megatron-Core calls them (--recompute-modules of 0.14, megatron/core/transformer/transformer_config.py).
//   Attention      of queries, keys and values alone
//   Norms          in front of attention and of what follows it. Their results are dropped, too
//   ExpertActivations, LatentProjections
//                  functions and gates inside of routed experts; queries, keys and values from their latent vectors,
//                  with rotary positions. Their results are dropped, too
//   FeedForward    of dense blocks
//   Mixture        with router, movement of tokens and shared experts
//   SharedExperts  alone
// What a module makes again it makes from what enters it, which is kept. Results that are dropped are read made again
// by all ops of their block.
enum class RecomputeModules : std::uint8_t {
  None = 0,
  Attention = 1,
  Norms = 2,
  ExpertActivations = 4,
  LatentProjections = 8,
  FeedForward = 16,
  Mixture = 32,
  SharedExperts = 64
};
[[nodiscard]] constexpr RecomputeModules operator|(RecomputeModules a, RecomputeModules b) {
  return static_cast<RecomputeModules>(static_cast<int>(a) | static_cast<int>(b));
}
[[nodiscard]] constexpr RecomputeModules operator&(RecomputeModules a, RecomputeModules b) {
  return static_cast<RecomputeModules>(static_cast<int>(a) & static_cast<int>(b));
}
[[nodiscard]] constexpr bool has(RecomputeModules modules, RecomputeModules part) {
  return (static_cast<int>(modules) & static_cast<int>(part)) != 0;
}
[[nodiscard]] std::string name_of(RecomputeModules modules);  // "none", "core_attn,layernorm"
[[nodiscard]] std::optional<RecomputeModules> recompute_module(const std::string& name);  // one; nullopt: unknown
// In any order; throws InputError for another name and for one that is given twice.
[[nodiscard]] RecomputeModules recompute_modules_from_name(const std::string& name);

// One module of each block.
struct RecomputedModule {
  RecomputeModules kind = RecomputeModules::None;
  std::string part;  // where a block has several of the kind: "ln1"
  [[nodiscard]] bool drops_results() const {
    return has(RecomputeModules::Norms | RecomputeModules::ExpertActivations | RecomputeModules::LatentProjections,
               kind);
  }
  auto operator<=>(const RecomputedModule&) const = default;
};

// Of the forward ops of built-in transformers that belong to one of `chosen`, which; a module within another that is
// chosen belongs to that.
[[nodiscard]] std::map<OpId, RecomputedModule> recomputed_modules(const Graph& graph, RecomputeModules chosen);

// All of which the blocks of the graph have any.
[[nodiscard]] RecomputeModules modules_of(const Graph& graph);

}  // namespace meshwright
