// SPDX-License-Identifier: Apache-2.0
// MiniMax-01 (MiniMax, arXiv:2501.08313): decoders of lightning attention (Z. Qin et al., arXiv:2401.04658), with
// softmax attention in some layers, and a mixture of experts in each. A layer's residual is the norm of its input, and
// both it and what is added to it have a factor.
//
// Lightning attention sums values by products of queries and keys, with no softmax, and forgets at a rate that each
// head of each layer has: S_t = e^(-rate) S_(t-1) + k_t v_t^T, y_t = S_t^T q_t, where queries, keys and values are
// SiLUs. Head h of H in layer l of L has the rate 2^(-8 (h + 1) / H) (1 - l / (L - 1)). It is a selective scan whose
// steps are all 1, with values as its input and keys and queries as b and c. The result is normalised over all heads
// and gated by a sigmoid. Ops are named "blk<layer>.linear.q", ".linear.core", ".linear.out".
//
// Which layers attend by a softmax is told by `attends_0`, ..., in base 2, the first layer in the lowest digit.
#include <array>
#include <cmath>

#include "core/base/errors.h"
#include "core/graph/models/family_keys.h"
#include "core/graph/models/parts/layer_digits.h"
#include "core/graph/models/parts/scan_builder.h"

namespace meshwright {

namespace {

using namespace keys;

constexpr std::array kLightningMarks = {"attends_0", "attends_1", "attends_2", "attends_3"};
constexpr LayerDigits kLightningAttends{kLightningMarks, 1};
constexpr double kLightningEpsilon = 1e-6;  // of the norm over heads, whatever the other norms'
constexpr double kNoQuiteZero = 1e-5;       // keeps the last layer's rate above 0

Transformer lightning(const ModelConfig& model) {
  const std::int64_t kv_heads = size_of(model, "kv_heads");
  return {.attention = {.kv_heads = kv_heads, .group = model.heads / kv_heads, .head_dim = size_of(model, "head_dim")},
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

struct LightningBuilder : ScanBuilder {
  LightningBuilder(Graph& into, const ModelConfig& of, const Transformer& what)
      : ScanBuilder(into, of, what, size_of(of, "scan_chunk")),
        model(of),
        heads{"linear_heads", of.heads},
        member{"linear_group", 1},
        key{"key_dim", size_of(of, "head_dim")},
        value{"linear_dim", size_of(of, "head_dim")} {}

  [[nodiscard]] TensorId layer(std::int64_t number, TensorId x);
  [[nodiscard]] TensorId linear(const std::string& name, std::int64_t number, TensorId x);
  // A number for each head.
  [[nodiscard]] TensorId of_heads(const std::string& name, std::vector<double> values);

  const ModelConfig& model;
  const Dim heads, member, key, value;
};

TensorId LightningBuilder::of_heads(const std::string& name, std::vector<double> values) {
  return constant(name, {heads, member}, std::move(values));
}

TensorId LightningBuilder::linear(const std::string& name, std::int64_t number, TensorId x) {
  const auto made = [&](const char* which, const std::vector<Dim>& dims) {
    const TensorId y = add(OpKind::Silu, name + which + ".silu", {widen(name + which, x, dims)});
    return in_chunks(name + which, y);
  };
  const std::vector<double> zeros(static_cast<std::size_t>(heads.size), 0.0);
  // Steps whose softplus is 1.
  const std::vector<double> ones(zeros.size(), std::log(std::exp(1.0) - 1.0));
  const double layers = static_cast<double>(model.layers - 1) + kNoQuiteZero,
               left = 1.0 - static_cast<double>(number) / layers + kNoQuiteZero;
  std::vector<double> rates;
  for (std::int64_t h = 1; h <= heads.size; ++h)
    rates.push_back(std::log(left * std::exp2(-8.0 * static_cast<double>(h) / static_cast<double>(heads.size))));
  const TensorId none = of_heads("zeros.linear", zeros);
  const TensorId steps =
      add(OpKind::Broadcast, name + ".steps", {none}, {.result_dims = {batch, chunks, chunk, heads, member}});
  const TensorId k = made(".k", {heads, key}), q = made(".q", {heads, key}), v = made(".v", {heads, member, value});
  TensorId y = add(OpKind::SelectiveScan, name + ".core",
                   {v, steps, of_heads(name + ".rates", rates), k, q, none, of_heads("ones.linear", ones)});
  const Dim inner{"inner", heads.size * value.size};
  y = add(OpKind::Reshape, name + ".core.seq", {y}, {.result_dims = {batch, seq, inner}});
  y = norm(name + ".norm", y, inner, kLightningEpsilon);
  y = add(OpKind::Reshape, name + ".heads", {y}, {.result_dims = {batch, seq, heads, member, value}});
  const TensorId gate =
      add(OpKind::Sigmoid, name + ".gate.sigmoid", {widen(name + ".gate", x, {heads, member, value})});
  y = add(OpKind::Multiply, name + ".gated", {y, gate});
  return project(name + ".out", y, {heads, member, value, embed}, {"batch", "seq", "embed"});
}

TensorId LightningBuilder::layer(std::int64_t number, TensorId x) {
  graph.current_block = static_cast<int>(number);
  const std::string name = fmt::format("blk{}", number);
  const auto plus = [&](const std::string& part, TensorId before, TensorId y, const std::string& kind) {
    return add(OpKind::Add, name + part + ".residual",
               {scaled(name + part + ".before", before, model.factors.at(kind + "_alpha")),
                scaled(name + part, y, model.factors.at(kind + "_beta"))});
  };
  x = norm(name + ".ln1", x, embed);
  x = kLightningAttends.of(model, number) != 0
          ? plus(".attn", x, attention(name + ".attn", x, x, {.causal = true, .rotary = true}), "full")
          : plus(".linear", x, linear(name + ".linear", number, x), "linear");
  x = norm(name + ".ln2", x, embed);
  return plus(".moe", x, mixture(name + ".moe", x), "mlp");
}

void build_lightning(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer transformer = lightning(model);
  LightningBuilder builder(graph, model, transformer);
  build_layers(builder, graph, model, reduction);
}

}  // namespace

void set_softmax_layers(ModelConfig& model, const std::vector<bool>& attends, const std::string& place) {
  require(static_cast<std::int64_t>(attends.size()) <= kLightningAttends.capacity(),
          "{} has {} layers; at most {} are supported.", place, attends.size(), kLightningAttends.capacity());
  kLightningAttends.set(model, std::vector<std::int64_t>(attends.begin(), attends.end()));
}

std::vector<Family> lightning_families() {
  std::vector<SizeField> more = {width("intermediate"),
                                 {.key = "kv_heads", .maximum = kMaxHeads, .derived = heads_of},
                                 derived_width("head_dim", hidden_per_head),
                                 {"scan_chunk", kMaxWidth, 1, 256},
                                 {"experts", 100'000},
                                 {"top_k", 100'000},
                                 flag("tied", 0)};
  std::vector<FactorField> factors = {epsilon(1e-5), {"rotary_base", 10000.0}, {"capacity_factor", 1.0}};
  for (const char* factor : {"full_alpha", "full_beta", "linear_alpha", "linear_beta", "mlp_alpha", "mlp_beta"})
    factors.push_back({factor, 1.0});
  return {{"lightning", with_core_sizes(with(more, kLightningAttends.fields())), factors,
           "lightning:layers=2,hidden=64,heads=4,kv_heads=2,intermediate=64,seq=32,vocab=128,experts=4,top_k=2,"
           "attends_0=2,scan_chunk=8",
           kDefaultBatch, DType::BF16, build_lightning}};
}

}  // namespace meshwright
