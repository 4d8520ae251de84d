// SPDX-License-Identifier: Apache-2.0
// Decoders of gated delta rules (S. Yang et al., arXiv:2412.06464) with attention in every n-th layer: Qwen3-Next,
// Qwen3.5, Olmo Hybrid and Lara Mini. Each layer is a delta rule or attention, then a feed-forward layer or a mixture,
// both behind RMS norms.
//
// A delta layer projects to queries, keys and values, which go through causal convolutions of channels and SiLU, to its
// rates b and a, and to a gate z; the result is normalised over each head and multiplied by SiLU of the gate. Attention
// has norms of queries and keys, rotates part of a head, and is multiplied by the sigmoid of a gate. The shared expert
// of a mixture is multiplied by the sigmoid of one number per token. Olmo Hybrid's layers with attention have norms of
// what attention and feed-forward make in place of those in front (result_norms), and no gate (attn_gate=0); updates of
// its delta rules are up to twice as large (the factor delta_strength). Where `kinds_0`, ... are not all 0, each of
// their digits of two bits tells a layer, the first one's the lowest: a delta rule (0), attention with a window (1) or
// to all keys (2). Ops are named "blk<layer>.delta.q", ..., ".delta.core", ".delta.out".
//
// Dimensions besides a transformer's: (batch, seq, delta_heads, key_dim) of queries and keys; (batch, seq, delta_heads,
// delta_group, delta_dim) of values.
#include <algorithm>
#include <array>

#include "core/base/errors.h"
#include "core/graph/models/families.h"
#include "core/graph/models/family_keys.h"
#include "core/graph/models/parts/layer_digits.h"
#include "core/graph/models/parts/scan_builder.h"

namespace meshwright {

namespace {

constexpr std::array kDeltaKindKeys = {"kinds_0", "kinds_1", "kinds_2", "kinds_3", "kinds_4"};
constexpr LayerDigits kDeltaKinds{kDeltaKindKeys, 2};

// The kind of a layer; those of modules for further tokens see all keys.
DeltaLayer kind_in(const ModelConfig& model, std::int64_t layer) {
  const bool told = std::any_of(kDeltaKindKeys.begin(), kDeltaKindKeys.end(),
                                [&](const char* key) { return size_of(model, key) != 0; });
  if (told) return static_cast<DeltaLayer>(kDeltaKinds.of(model, layer));
  const std::int64_t every = size_of(model, "full_every");
  return every > 0 && (layer + 1) % every == 0 ? DeltaLayer::Full : DeltaLayer::Delta;
}

bool is_on(const ModelConfig& model, const char* key) { return size_of(model, key) != 0; }

Transformer gated_decoder(const ModelConfig& model) {
  const std::int64_t kv_heads = size_of(model, "kv_heads");
  Transformer made{
      .attention = {.kv_heads = kv_heads,
                    .group = model.heads / kv_heads,
                    .head_dim = size_of(model, "head_dim"),
                    .qkv_bias = is_on(model, "qkv_bias"),
                    .out_bias = is_on(model, "out_bias"),
                    .norm = !is_on(model, "wide_qk_norm"),
                    .wide_norm = is_on(model, "wide_qk_norm")},
      .feed_forward = {.width = size_of(model, "intermediate"), .activation = Activation::Silu, .gated = true},
      .layers = {},
      .norm = Norm::Rms,
      .epsilon = model.factors.at("epsilon"),
      .positions = is_on(model, "rotary") ? Positions::Rotary : Positions::None,
      .rotary_base = model.factors.at("rotary_base"),
      .rotary_dims = size_of(model, "rotary_dims"),
      .tied = is_on(model, "tied"),
      .further = {size_of(model, "mtp"), model.factors.at("mtp_weight")}};
  if (is_on(model, "experts"))
    made.mixture = MixturePart{.experts = size_of(model, "experts"),
                               .top_k = size_of(model, "top_k"),
                               .width = size_of(model, "expert_intermediate"),
                               .shared_width = size_of(model, "shared_intermediate"),
                               .shared_gate = is_on(model, "shared_gate"),
                               .capacity_factor = model.factors.at("capacity_factor"),
                               .normalize = is_on(model, "normalized")};
  return made;
}

struct DeltaBuilder : ScanBuilder {
  DeltaBuilder(Graph& into, const ModelConfig& of, const Transformer& what)
      : ScanBuilder(into, of, what, size_of(of, "scan_chunk")),
        model(of),
        heads{"delta_heads", size_of(of, "delta_heads")},
        members{"delta_group", size_of(of, "delta_value_heads") / heads.size},
        key{"key_dim", size_of(of, "key_dim")},
        value{"delta_dim", size_of(of, "value_dim")} {}

  [[nodiscard]] TensorId layer(std::int64_t number, TensorId x);
  [[nodiscard]] TensorId layer(const std::string& name, TensorId x, DeltaLayer kind);
  [[nodiscard]] TensorId delta(const std::string& name, TensorId x);
  [[nodiscard]] TensorId gated_attention(const std::string& name, TensorId x, bool windowed);

  const ModelConfig& model;
  const Dim heads, members, key, value;
};

TensorId DeltaBuilder::delta(const std::string& name, TensorId x) {
  const std::vector<Dim> keys = {heads, key}, values = {heads, members, value}, rates = {heads, members};
  const auto recent = [&](const char* which, const std::vector<Dim>& dims) {
    return in_chunks(name + which, convolve(name + which, widen(name + which, x, dims), size_of(model, "conv"), false));
  };
  const auto rate = [&](const char* which) { return in_chunks(name + which, widen(name + which, x, rates)); };
  const std::vector<TensorId> operands = {recent(".q", keys),
                                          recent(".k", keys),
                                          recent(".v", values),
                                          rate(".b"),
                                          rate(".a"),
                                          parameter(name + ".a_log", rates),
                                          parameter(name + ".dt_bias", rates)};
  const TensorId gate = add(OpKind::Silu, name + ".z.silu", {widen(name + ".z", x, values)});
  TensorId y = add(OpKind::GatedDelta, name + ".core", operands, {.scale = model.factors.at("delta_strength")});
  y = add(OpKind::Reshape, name + ".core.seq", {y}, {.result_dims = {batch, seq, heads, members, value}});
  y = add(OpKind::Multiply, name + ".gated", {norm(name + ".norm", y, value, model.factors.at("delta_epsilon")), gate});
  return project(name + ".out", y, {heads, members, value, embed}, {"batch", "seq", "embed"});
}

TensorId DeltaBuilder::gated_attention(const std::string& name, TensorId x, bool windowed) {
  const bool rotary = is_on(model, "rotary") && (windowed || !is_on(model, "rotary_windows_alone"));
  const TensorId core =
      attention_core(name, x, x, {.causal = true, .window = windowed ? size_of(model, "window") : 0, .rotary = rotary});
  const auto made_out = [&](TensorId made) {
    const TensorId out = attention_out(name, made);
    return transformer.attention.out_bias ? add_bias(name + ".out", out, {embed}) : out;
  };
  if (!is_on(model, "attn_gate")) return made_out(core);
  TensorId gate = widen(name + ".gate", x, {kv_heads, group, head_dim}, transformer.attention.qkv_bias);
  gate = add(OpKind::Sigmoid, name + ".gate.sigmoid", {gate});
  return made_out(add(OpKind::Multiply, name + ".gated", {core, gate}));
}

TensorId DeltaBuilder::layer(const std::string& name, TensorId x, DeltaLayer kind) {
  const bool attends = kind != DeltaLayer::Delta;
  const bool of_results = attends && is_on(model, "result_norms");
  const auto plus = [&](const std::string& part, TensorId y) {
    if (of_results) y = norm(name + part + ".norm", y, embed);
    return add(OpKind::Add, name + part + ".residual", {x, y});
  };
  const TensorId read = of_results ? x : norm(name + ".ln1", x, embed);
  x = attends ? plus(".attn", gated_attention(name + ".attn", read, kind == DeltaLayer::Windowed))
              : plus(".delta", delta(name + ".delta", read));
  const TensorId inner = of_results ? x : norm(name + ".ln2", x, embed);
  if (transformer.mixture) return plus(".moe", mixture(name + ".moe", inner));
  return plus(".mlp", feed_forward(name + ".mlp", inner, transformer.feed_forward.width));
}

TensorId DeltaBuilder::layer(std::int64_t number, TensorId x) {
  graph.current_block = static_cast<int>(number);
  return layer(fmt::format("blk{}", number), x, kind_in(model, number));
}

void build_delta(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer transformer = gated_decoder(model);
  DeltaBuilder builder(graph, model, transformer);
  build_layers(builder, graph, model, reduction,
               [&](const std::string& name, TensorId x) { return builder.layer(name, x, DeltaLayer::Full); });
}

std::int64_t key_heads(const ModelConfig& model, const std::string&) { return size_of(model, "delta_heads"); }
std::int64_t width_of_keys(const ModelConfig& model, const std::string&) { return size_of(model, "key_dim"); }
std::int64_t dense_width(const ModelConfig& model, const std::string&) { return size_of(model, "intermediate"); }

std::vector<SizeField> delta_sizes() {
  constexpr std::int64_t kMaxWidth = 10'000'000, kMaxHeads = 1'000'000, kMaxLayers = 10'000;
  std::vector<SizeField> sizes = {{"layers", kMaxLayers},
                                  {"hidden", 1'000'000},
                                  {"heads", kMaxHeads},
                                  {"seq", 10'000'000},
                                  {"vocab", 10'000'000},
                                  {.key = "intermediate", .maximum = kMaxWidth, .derived = four_times_hidden},
                                  {.key = "kv_heads", .maximum = kMaxHeads, .derived = all_heads},
                                  {.key = "head_dim", .maximum = kMaxWidth, .derived = head_width},
                                  {"rotary_dims", 1'000'000, 0, 0},
                                  {"full_every", kMaxLayers, 0, 4},
                                  {"delta_heads", kMaxHeads},
                                  {.key = "delta_value_heads", .maximum = kMaxHeads, .derived = key_heads},
                                  {"key_dim", kMaxWidth},
                                  {.key = "value_dim", .maximum = kMaxWidth, .derived = width_of_keys},
                                  {"scan_chunk", kMaxWidth, 1, 64},
                                  {"conv", 1'000, 1, 4},
                                  {"experts", 100'000, 0, 0},
                                  {"top_k", 100'000, 0, 0},
                                  {.key = "expert_intermediate", .maximum = kMaxWidth, .derived = dense_width},
                                  {"shared_intermediate", kMaxWidth, 0, 0},
                                  {"shared_gate", 1, 0, 1},
                                  {"normalized", 1, 0, 1},
                                  {"mtp", 100, 0, 0},
                                  {"window", kMaxWidth, 0, 0},
                                  {"rotary", 1, 0, 1},
                                  {"rotary_windows_alone", 1, 0, 0},
                                  {"attn_gate", 1, 0, 1},
                                  {"wide_qk_norm", 1, 0, 0},
                                  {"result_norms", 1, 0, 0},
                                  {"qkv_bias", 1, 0, 0},
                                  {"out_bias", 1, 0, 0},
                                  {"tied", 1, 0, 0}};
  for (const SizeField& kinds : kDeltaKinds.fields()) sizes.push_back(kinds);
  return sizes;
}

}  // namespace

void set_delta_layers(ModelConfig& model, const std::vector<DeltaLayer>& kinds, const std::string& place) {
  require(static_cast<std::int64_t>(kinds.size()) <= kDeltaKinds.capacity(),
          "{} has {} layers; at most {} are supported.", place, kinds.size(), kDeltaKinds.capacity());
  require(std::any_of(kinds.begin(), kinds.end(), [](DeltaLayer kind) { return kind != DeltaLayer::Delta; }),
          "{} has delta rules in all layers, which is not supported; attention in some is.", place);
  std::vector<std::int64_t> digits;
  for (const DeltaLayer kind : kinds) digits.push_back(static_cast<std::int64_t>(kind));
  kDeltaKinds.set(model, digits);
}

std::vector<Family> delta_families() {
  return {{"delta",
           keys::with_adapters(delta_sizes()),
           {{"rotary_base", 10000.0},
            {"epsilon", 1e-6},
            {"delta_epsilon", 1e-6, "epsilon"},
            {"delta_strength", 1.0},
            {"capacity_factor", 1.0},
            {"mtp_weight", 0.3}},
           "delta:layers=4,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=32,vocab=128,delta_heads=2,"
           "delta_value_heads=4,key_dim=16,rotary_dims=4",
           1024,
           DType::BF16,
           build_delta}};
}

}  // namespace meshwright
