// SPDX-License-Identifier: Apache-2.0
// Kimi Linear (Kimi Team, arXiv:2510.26692): decoders of delta rules in which each channel of a key decays at a rate of
// its own, with latent attention without positions in some layers. Each layer is one of these, then a feed-forward
// layer or a mixture, both behind RMS norms.
//
// A delta layer projects to queries, keys and values, which go through causal convolutions of channels and SiLU, to its
// rate b, and through a rank of one head's width each to its decays a and to a gate; the result is normalised over each
// head and multiplied by the sigmoid of the gate. Ops are named "blk<layer>.delta.q", ".delta.a_down", ".delta.a",
// ".delta.core", ".delta.out".
//
// Ling 3 (bailing_hybrid): with `direct_gates` decays and gates are products of the token itself; with
// `bounded_decays` decays are exp(-bound sigmoid(...)) (core/graph/ops/scan.cpp); with `rotary` and `head_gate`
// attention has positions, and what a head makes is times the sigmoid of a product of the token.
//
// Which layers attend is told by `attends_0`, ..., in base 2, the first layer in the lowest digit of the first number.
#include <array>

#include "core/base/errors.h"
#include "core/graph/models/families.h"
#include "core/graph/models/family_keys.h"
#include "core/graph/models/parts/layer_digits.h"
#include "core/graph/models/parts/scan_builder.h"

namespace meshwright {

namespace {

using namespace keys;

constexpr std::array kMarks = {"attends_0", "attends_1", "attends_2", "attends_3"};
constexpr LayerDigits kAttends{kMarks, 1};

bool attends_in(const ModelConfig& model, std::int64_t layer) { return kAttends.of(model, layer) != 0; }

Transformer kimi_linear(const ModelConfig& model) {
  const LatentPart latent{.q_rank = size_of(model, "q_rank"),
                          .kv_rank = size_of(model, "kv_rank"),
                          .nope = size_of(model, "nope_dim"),
                          .rope = size_of(model, "rope_dim"),
                          .value = size_of(model, "value_dim")};
  return {.attention = {.kv_heads = model.heads,
                        .group = 1,
                        .head_dim = latent.nope + latent.rope,
                        .latent = latent,
                        .head_gate = is_set(model, "head_gate")},
          .feed_forward = {.width = size_of(model, "intermediate"), .activation = Activation::Silu, .gated = true},
          .mixture = MixturePart{.experts = size_of(model, "experts"),
                                 .top_k = size_of(model, "top_k"),
                                 .width = size_of(model, "expert_intermediate"),
                                 .shared_width = size_of(model, "shared_intermediate"),
                                 .capacity_factor = model.factors.at("capacity_factor"),
                                 .sigmoid = true,
                                 .normalize = is_set(model, "normalized"),
                                 .selection_bias = is_set(model, "selection_bias"),
                                 .scale = model.factors.at("routed_scale")},
          .layers = {},
          .norm = Norm::Rms,
          .epsilon = model.factors.at("epsilon"),
          .positions = is_set(model, "rotary") ? Positions::Rotary : Positions::None,
          .rotary_base = model.factors.at("rotary_base"),
          .tied = is_set(model, "tied")};
}

struct KimiLinearBuilder : ScanBuilder {
  KimiLinearBuilder(Graph& into, const ModelConfig& of, const Transformer& what)
      : ScanBuilder(into, of, what, size_of(of, "scan_chunk")),
        model(of),
        heads{"delta_heads", size_of(of, "delta_heads")},
        member{"delta_group", 1},
        key{"key_dim", size_of(of, "delta_dim")},
        value{"delta_dim", size_of(of, "delta_dim")} {}

  [[nodiscard]] TensorId layer(std::int64_t number, TensorId x);
  [[nodiscard]] TensorId delta(const std::string& name, TensorId x);
  // Through a rank of one head's width, or directly: (batch, seq, delta_heads, delta_group, last).
  [[nodiscard]] TensorId through_rank(const std::string& name, TensorId x, const Dim& last);

  const ModelConfig& model;
  const Dim heads, member, key, value;
};

TensorId KimiLinearBuilder::through_rank(const std::string& name, TensorId x, const Dim& last) {
  if (is_set(model, "direct_gates")) return widen(name, x, {heads, member, last});
  const Dim rank{"delta_rank", key.size};
  return project(name, widen(name + "_down", x, {rank}), {rank, heads, member, last},
                 {"batch", "seq", heads.name, member.name, last.name});
}

TensorId KimiLinearBuilder::delta(const std::string& name, TensorId x) {
  const auto recent = [&](const char* which, const std::vector<Dim>& dims) {
    return in_chunks(name + which, convolve(name + which, widen(name + which, x, dims), size_of(model, "conv"), false));
  };
  const std::vector<TensorId> operands = {recent(".q", {heads, key}),
                                          recent(".k", {heads, key}),
                                          recent(".v", {heads, member, value}),
                                          in_chunks(name + ".b", widen(name + ".b", x, {heads, member})),
                                          in_chunks(name + ".a", through_rank(name + ".a", x, key)),
                                          parameter(name + ".a_log", {heads, member}),
                                          parameter(name + ".dt_bias", {heads, member, key})};
  TensorId y = add(OpKind::GatedDelta, name + ".core", operands,
                   {.value = is_set(model, "bounded_decays") ? -model.factors.at("decay_bound") : 0.0});
  y = add(OpKind::Reshape, name + ".core.seq", {y}, {.result_dims = {batch, seq, heads, member, value}});
  const TensorId gate = add(OpKind::Sigmoid, name + ".gate.sigmoid", {through_rank(name + ".gate", x, value)});
  y = add(OpKind::Multiply, name + ".gated", {norm(name + ".norm", y, value), gate});
  return project(name + ".out", y, {heads, member, value, embed}, {"batch", "seq", "embed"});
}

TensorId KimiLinearBuilder::layer(std::int64_t number, TensorId x) {
  graph.current_block = static_cast<int>(number);
  const std::string name = fmt::format("blk{}", number);
  const auto plus = [&](const std::string& part, TensorId y) {
    return add(OpKind::Add, name + part + ".residual", {x, y});
  };
  const TensorId read = norm(name + ".ln1", x, embed);
  x = attends_in(model, number)
          ? plus(".attn", attention(name + ".attn", read, read, {.causal = true, .rotary = is_set(model, "rotary")}))
          : plus(".delta", delta(name + ".delta", read));
  const TensorId inner = norm(name + ".ln2", x, embed);
  if (number >= size_of(model, "dense_layers")) return plus(".moe", mixture(name + ".moe", inner));
  return plus(".mlp", feed_forward(name + ".mlp", inner, transformer.feed_forward.width));
}

void build_kimi_linear(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer transformer = kimi_linear(model);
  KimiLinearBuilder builder(graph, model, transformer);
  build_layers(builder, graph, model, reduction);
}

std::vector<SizeField> kimi_linear_sizes() {
  constexpr std::int64_t kMaxExperts = 100'000;
  std::vector<SizeField> more = {width("intermediate"),
                                 width_or_none("q_rank"),
                                 width("kv_rank"),
                                 width("nope_dim"),
                                 width("rope_dim"),
                                 width("value_dim"),
                                 {"delta_heads", kMaxHeads},
                                 width("delta_dim"),
                                 {"scan_chunk", kMaxWidth, 1, 64},
                                 {"conv", 1'000, 1, 4},
                                 {"experts", kMaxExperts},
                                 {"top_k", kMaxExperts},
                                 width("expert_intermediate"),
                                 width_or_none("shared_intermediate"),
                                 {"dense_layers", kMaxLayers, 0, 0},
                                 flag("normalized", 1),
                                 flag("selection_bias", 1),
                                 flag("direct_gates", 0),
                                 flag("bounded_decays", 0),
                                 flag("rotary", 0),
                                 flag("head_gate", 0),
                                 flag("tied", 0)};
  return with_core_sizes(with(more, kAttends.fields()));
}

}  // namespace

void set_attending_layers(ModelConfig& model, const std::vector<bool>& attends, const std::string& place) {
  require(static_cast<std::int64_t>(attends.size()) <= kAttends.capacity(),
          "{} has {} layers; at most {} are supported.", place, attends.size(), kAttends.capacity());
  kAttends.set(model, std::vector<std::int64_t>(attends.begin(), attends.end()));
}

std::vector<Family> kimi_linear_families() {
  return {
      {"kimi_linear",
       kimi_linear_sizes(),
       {epsilon(1e-5), {"capacity_factor", 1.0}, {"routed_scale", 1.0}, {"decay_bound", 5.0}, {"rotary_base", 10000.0}},
       "kimi_linear:layers=3,hidden=64,heads=4,intermediate=128,seq=32,vocab=128,kv_rank=16,nope_dim=16,rope_dim=8,"
       "value_dim=16,delta_heads=2,delta_dim=16,experts=4,top_k=2,expert_intermediate=32,shared_intermediate=32,"
       "dense_layers=1,attends_0=4,scan_chunk=8",
       1024,
       DType::BF16,
       build_kimi_linear}};
}

}  // namespace meshwright
