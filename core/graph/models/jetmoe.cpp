// SPDX-License-Identifier: Apache-2.0
// JetMoE (Y. Shen et al., arXiv:2404.07413): decoders whose tokens choose experts for their queries as well as for the
// feed-forward layer. An expert of attention has a product that makes queries of a token and another that takes what
// their heads make back; keys and values are the same for all. A query head of each choice reads each key head.
//
// The choices of a token are told apart by their rank, each of which has room of its own at every expert. Ops are named
// "blk<layer>.attn.router", ".attn.choice<rank>.q", ".attn.core", ".attn.choice<rank>.out", ".moe.router", ...
//
// Dimensions besides a transformer's: queries, all numbers of one choice's heads.
#include <algorithm>
#include <cmath>

#include "core/graph/models/family_keys.h"
#include "core/graph/models/parts/transformer_builder.h"

namespace meshwright {

namespace {

using namespace keys;

Transformer jetmoe(const ModelConfig& model) {
  return {
      .attention = {.kv_heads = model.heads, .group = size_of(model, "top_k"), .head_dim = size_of(model, "head_dim")},
      .feed_forward = {.width = size_of(model, "intermediate"), .activation = Activation::Silu, .gated = true},
      .mixture = MixturePart{.experts = size_of(model, "experts"),
                             .top_k = size_of(model, "top_k"),
                             .width = size_of(model, "intermediate"),
                             .capacity_factor = model.factors.at("capacity_factor")},
      .layers = {},
      .norm = Norm::Rms,
      .epsilon = model.factors.at("epsilon"),
      .positions = Positions::Rotary,
      .rotary_base = model.factors.at("rotary_base"),
      .tied = is_set(model, "tied")};
}

// The room of one rank of choices: an even load times the capacity factor.
std::int64_t places_of_rank(const MixturePart& part, std::int64_t seq) {
  const double even = static_cast<double>(seq) / static_cast<double>(part.experts);
  return std::clamp(static_cast<std::int64_t>(std::ceil(std::min(even * part.capacity_factor, 1e12))), std::int64_t{1},
                    seq);
}

struct JetMoeBuilder : TransformerBuilder {
  JetMoeBuilder(Graph& into, const ModelConfig& model, const Transformer& what)
      : TransformerBuilder(into, model, what),
        expert{"expert", what.mixture->experts},
        queries{"queries", kv_heads.size * head_dim.size},
        places(places_of_rank(*what.mixture, model.seq)) {}

  struct Choices {
    std::vector<TensorId> slots;  // [rank]: of the experts that tokens choose in this place
    TensorId weights;             // (batch, seq, expert), of all choices of a token 1
  };
  [[nodiscard]] Choices choose(const std::string& name, TensorId x);
  [[nodiscard]] TensorId attend(const std::string& name, TensorId x);
  [[nodiscard]] TensorId layer(std::int64_t number, TensorId x);

  const Dim expert, queries;
  const std::int64_t places;
};

JetMoeBuilder::Choices JetMoeBuilder::choose(const std::string& name, TensorId x) {
  const TensorId scores = add(OpKind::Softmax, name + ".scores",
                              {project(name + ".router", x, {embed, expert}, {"batch", "seq", "expert"})});
  const auto best_of = [&](const std::string& which, TensorId of, std::int64_t top_k, std::int64_t capacity) {
    return add(OpKind::TopKSlots, which, {of}, {.top_k = top_k, .capacity = capacity});
  };
  const TensorId all = best_of(name + ".slots", scores, group.size, seq.size);
  Choices made{{}, add(OpKind::GateWeights, name + ".weights", {scores, all}, {.normalize = true})};
  TensorId left = scores;  // less than any score where a token has chosen before
  for (std::int64_t rank = 0; rank < group.size; ++rank) {
    const std::string choice = fmt::format("{}.choice{}", name, rank);
    made.slots.push_back(best_of(choice + ".slots", left, 1, places));
    if (rank + 1 == group.size) break;
    constexpr double kMoreThanAnyScore = 2.0;
    const TensorId ones =
        add(OpKind::Broadcast, choice + ".ones", {all_of("ones.", expert, 1.0)}, {.result_dims = {batch, seq, expert}});
    const TensorId chosen = add(OpKind::GateWeights, choice + ".chosen",
                                {ones, best_of(choice + ".best", left, 1, seq.size)}, {.normalize = true});
    left = add(OpKind::Add, choice + ".left", {left, scaled(choice, chosen, -kMoreThanAnyScore)});
  }
  return made;
}

TensorId JetMoeBuilder::attend(const std::string& name, TensorId x) {
  const Choices choices = choose(name, x);
  const Dim one{"choice", 1};
  const std::vector<Dim> heads_of_choice = {batch, seq, kv_heads, one, head_dim};
  const std::vector<std::string> sent = {"expert", "batch", "capacity"};
  const auto at_experts = [&](const std::string& which, TensorId from, TensorId slots, TensorId weight,
                              const Dim& result) {
    const TensorId tokens = add(OpKind::Dispatch, which + ".dispatch", {from, slots}, {.capacity = places});
    return add(OpKind::Contract, which, {tokens, weight},
               {.result_names = {"expert", "batch", "capacity", result.name}});
  };
  const TensorId q_weight = parameter(name + ".q.weight", {expert, embed, queries});
  std::vector<TensorId> by_rank;
  for (std::size_t rank = 0; rank < choices.slots.size(); ++rank) {
    const std::string which = fmt::format("{}.choice{}.q", name, rank);
    TensorId q = at_experts(which, x, choices.slots[rank], q_weight, queries);
    q = add(OpKind::DispatchBackward, which + ".gathered", {choices.slots[rank], q});
    by_rank.push_back(add(OpKind::Reshape, which + ".heads", {q}, {.result_dims = heads_of_choice}));
  }
  const std::vector<Dim> all_heads = {batch, seq, kv_heads, group, head_dim};
  const TensorId q =
      add(by_rank.size() > 1 ? OpKind::Concat : OpKind::Reshape, name + ".q", by_rank, {.result_dims = all_heads});
  const auto shared = [&](const char* which) {
    return project(name + which, x, {embed, kv_heads, head_dim}, {"batch", "seq", "kv_heads", "head_dim"});
  };
  const auto turned = [&](const char* which, TensorId y) {
    return add(OpKind::Rotary, name + which + ".rotary", {y}, {.rotary_base = transformer.rotary_base});
  };
  const TensorId k = turned(".k", shared(".k")), v = shared(".v");
  const TensorId core = add(OpKind::GroupedAttention, name + ".core",
                            {turned(".q", q), as_keys(name + ".k", k), as_keys(name + ".v", v)}, {.causal = true});
  const TensorId out_weight = parameter(name + ".out.weight", {expert, queries, embed});
  std::optional<TensorId> sum;
  for (std::size_t rank = 0; rank < choices.slots.size(); ++rank) {
    const std::string which = fmt::format("{}.choice{}.out", name, rank);
    TensorId y = core;
    if (by_rank.size() > 1)
      y = add(OpKind::Slice, which + ".heads", {core},
              {.result_dims = heads_of_choice, .start = static_cast<std::int64_t>(rank)});
    y = add(OpKind::Reshape, which + ".joined", {y}, {.result_dims = {batch, seq, queries}});
    y = at_experts(which, y, choices.slots[rank], out_weight, embed);
    y = add(OpKind::Combine, which + ".combine", {y, choices.slots[rank], choices.weights});
    sum = sum ? add(OpKind::Add, which + ".sum", {*sum, y}) : y;
  }
  return add_bias(name + ".out", *sum, {embed});
}

TensorId JetMoeBuilder::layer(std::int64_t number, TensorId x) {
  graph.current_block = static_cast<int>(number);
  const std::string name = fmt::format("blk{}", number);
  const auto plus = [&](const std::string& part, TensorId y) {
    x = add(OpKind::Add, name + part + ".residual", {x, y});
  };
  plus(".attn", attend(name + ".attn", norm(name + ".ln1", x, embed)));
  plus(".moe", add_bias(name + ".moe", mixture(name + ".moe", norm(name + ".ln2", x, embed)), {embed}));
  return x;
}

void build_jetmoe(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer transformer = jetmoe(model);
  JetMoeBuilder builder(graph, model, transformer);
  build_layers(builder, graph, model, reduction);
}

}  // namespace

std::vector<Family> jetmoe_families() {
  return {{"jetmoe",
           with_core_sizes({width("intermediate"),
                            derived_width("head_dim", hidden_per_head),
                            {"experts", 100'000},
                            {"top_k", 100'000},
                            flag("tied", 1)}),
           {{"rotary_base", 10000.0}, epsilon(1e-6), {"capacity_factor", 1.0}},
           "jetmoe:layers=2,hidden=64,heads=4,intermediate=128,seq=32,vocab=128,experts=4,top_k=2",
           kDefaultBatch,
           DType::BF16,
           build_jetmoe}};
}

}  // namespace meshwright
