// SPDX-License-Identifier: Apache-2.0
// Modules of a transformer's blocks: the backward recomputes each by itself, where recomputing whole blocks costs too
// much.
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
// What enters a module is kept, and the module is recomputed from it. Where its results are dropped, every op of the
// block that needs them in the backward reads the recomputed ones.
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

// The module of every forward op that belongs to one of `chosen`, in graphs of built-in transformers. Where one chosen
// module lies within another, its ops belong to the outer one.
[[nodiscard]] std::map<OpId, RecomputedModule> recomputed_modules(const Graph& graph, RecomputeModules chosen);

// All of which the blocks of the graph have any.
[[nodiscard]] RecomputeModules modules_of(const Graph& graph);

}  // namespace meshwright
