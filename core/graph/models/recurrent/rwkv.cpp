// SPDX-License-Identifier: Apache-2.0
// RWKV-4 (B. Peng et al., arXiv:2305.13048): decoders of recurrences of channels, whose layers mix what they read of
// each token with that of the token before. With keys k, values v and receptances r of such mixtures,
//
//   a_t = e^-w a_(t-1) + e^(k_(t-1)) v_(t-1),   b_t = e^-w b_(t-1) + e^(k_(t-1)),
//   y_t = sigmoid(r_t) (a_t + e^(u + k_t) v_t) / (b_t + e^(u + k_t)),   w = e^decay,   a_0 = b_0 = 0
//
// a and b are one selective scan with a state of one number, steps of 1 and two numbers to a channel. Its publisher's
// kernels keep the largest exponent apart, which is the same but for keys whose e^k no number of the type holds.
//
// Ops are named "blk<layer>.time.k", ".time.core", ".time.out", "blk<layer>.channel.k", ".channel.v".
//
// Dimensions besides a transformer's: (batch, seq, channels); around the scan (batch, chunks, chunk, scan_groups,
// channels, scan_dim).
#include <cmath>
#include <numbers>

#include "core/graph/models/family_keys.h"
#include "core/graph/models/parts/scan_builder.h"

namespace meshwright {

namespace {

using namespace keys;

Transformer rwkv(const ModelConfig& model) {
  return {.attention = {.kv_heads = 1, .group = 1, .head_dim = 1},
          .feed_forward = {.width = size_of(model, "intermediate"), .activation = Activation::ReluSquared},
          .layers = {},
          .epsilon = model.factors.at("epsilon"),
          .embedding_norm = true,
          .tied = is_set(model, "tied")};
}

struct RwkvBuilder : ScanBuilder {
  RwkvBuilder(Graph& into, const ModelConfig& model, const Transformer& what)
      : ScanBuilder(into, model, what, size_of(model, "scan_chunk")),
        groups{"scan_groups", 1},
        channels{"channels", size_of(model, "time_width")},
        pair{"scan_dim", 2} {}

  [[nodiscard]] TensorId layer(std::int64_t number, TensorId x);
  [[nodiscard]] TensorId time_mixing(const std::string& name, TensorId x);
  [[nodiscard]] TensorId channel_mixing(const std::string& name, TensorId x);
  // What the token before each has, and 0 for the first.
  [[nodiscard]] TensorId shifted(const std::string& name, TensorId x);
  // x mu + before (1 - mu), a number of mu for each of the embedding.
  [[nodiscard]] TensorId mixed(const std::string& name, TensorId x, TensorId before);
  // (batch, seq, channels), those of a_t and those of b_t.
  [[nodiscard]] std::pair<TensorId, TensorId> sums(const std::string& name, TensorId power, TensorId value);

  const Dim groups, channels, pair;
};

TensorId RwkvBuilder::shifted(const std::string& name, TensorId x) {
  const std::vector<Dim> dims = graph.tensor(x).dims;
  if (seq.size == 1) return add(OpKind::Scale, name + ".before", {x}, {.scale = 0.0});
  std::vector<Dim> without_last = dims;
  without_last[1] = {"earlier", seq.size - 1};
  x = add(OpKind::Slice, name + ".earlier", {x}, {.result_dims = without_last});
  return add(OpKind::Pad, name + ".before", {x}, {.result_dims = dims, .start = 1});
}

TensorId RwkvBuilder::mixed(const std::string& name, TensorId x, TensorId before) {
  const TensorId change = add(OpKind::Subtract, name + ".change", {x, before});
  const TensorId share = add(OpKind::Broadcast, name + ".share", {parameter(name + ".mix.gamma", {embed})},
                             {.result_dims = graph.tensor(x).dims});
  return add(OpKind::Add, name + ".mixed", {before, add(OpKind::Multiply, name + ".changed", {change, share})});
}

std::pair<TensorId, TensorId> RwkvBuilder::sums(const std::string& name, TensorId power, TensorId value) {
  const Dim one{"half", 1};
  const std::vector<Dim> half = {batch, seq, groups, channels, one}, flat = {batch, seq, channels};
  const TensorId weighed = add(OpKind::Multiply, name + ".weighed", {power, value});
  const auto widened = [&](const char* which, TensorId y) {
    return add(OpKind::Reshape, name + which, {y}, {.result_dims = half});
  };
  TensorId x = add(OpKind::Concat, name + ".pairs", {widened(".weighed.half", weighed), widened(".power.half", power)},
                   {.result_dims = {batch, seq, groups, channels, pair}});
  x = in_chunks(name, shifted(name, x));
  const auto filled = [&](const char* what, const std::vector<Dim>& dims, double number) {
    std::int64_t count = 1;
    for (const Dim& dim : dims) count *= dim.size;
    return constant(what, dims, std::vector<double>(static_cast<std::size_t>(count), number));
  };
  const auto of_each_token = [&](const std::string& which, TensorId y) {
    std::vector<Dim> dims = {batch, chunks, chunk};
    dims.insert(dims.end(), graph.tensor(y).dims.begin(), graph.tensor(y).dims.end());
    return add(OpKind::Broadcast, name + which, {y}, {.result_dims = dims});
  };
  const std::vector<Dim> rows = {groups, channels};
  // Softplus makes 1 of these.
  const TensorId steps = of_each_token(".steps", filled("unit_steps", rows, std::log(std::numbers::e_v<double> - 1.0)));
  const Dim state{"state", 1};
  const TensorId ones = filled("ones.state", {groups, state}, 1.0), zeros = filled("zeros.channels", rows, 0.0);
  TensorId y = add(
      OpKind::SelectiveScan, name + ".core",
      {x, steps, parameter(name + ".decay", rows), of_each_token(".b", ones), of_each_token(".c", ones), zeros, zeros});
  y = add(OpKind::Reshape, name + ".core.seq", {y}, {.result_dims = {batch, seq, groups, channels, pair}});
  const auto part = [&](const char* which, std::int64_t start) {
    const TensorId taken = add(OpKind::Slice, name + which, {y}, {.result_dims = half, .start = start});
    return add(OpKind::Reshape, name + which + ".flat", {taken}, {.result_dims = flat});
  };
  return {part(".values", 0), part(".weights", 1)};
}

TensorId RwkvBuilder::time_mixing(const std::string& name, TensorId x) {
  const TensorId before = shifted(name + ".x", x);
  const auto made = [&](const std::string& which) {
    return widen(name + which, mixed(name + which, x, before), {channels});
  };
  const TensorId k = made(".k"), v = made(".v");
  const TensorId gate = add(OpKind::Sigmoid, name + ".r.sigmoid", {made(".r")});
  const auto [values, weights] = sums(name, add(OpKind::Exp, name + ".k.exp", {k}), v);
  const TensorId raised = add(OpKind::BiasAdd, name + ".first", {k, parameter(name + ".first.bias", {channels})});
  const TensorId now = add(OpKind::Exp, name + ".first.exp", {raised});
  const TensorId above =
      add(OpKind::Add, name + ".above", {values, add(OpKind::Multiply, name + ".first.weighed", {now, v})});
  const TensorId y = add(OpKind::Divide, name + ".mean", {above, add(OpKind::Add, name + ".below", {weights, now})});
  return project(name + ".out", add(OpKind::Multiply, name + ".gated", {gate, y}), {channels, embed},
                 {"batch", "seq", "embed"});
}

TensorId RwkvBuilder::channel_mixing(const std::string& name, TensorId x) {
  const TensorId before = shifted(name + ".x", x);
  const Dim mlp{"mlp", transformer.feed_forward.width}, gate{"gate_embed", embed.size};
  const TensorId k = activate(name + ".k", widen(name + ".k", mixed(name + ".k", x, before), {mlp}));
  const TensorId v = project(name + ".v", k, {mlp, embed}, {"batch", "seq", "embed"});
  TensorId r = add(OpKind::Sigmoid, name + ".r.sigmoid", {widen(name + ".r", mixed(name + ".r", x, before), {gate})});
  r = add(OpKind::Reshape, name + ".r.embed", {r}, {.result_dims = {batch, seq, embed}});
  return add(OpKind::Multiply, name + ".gated", {r, v});
}

TensorId RwkvBuilder::layer(std::int64_t number, TensorId x) {
  graph.current_block = static_cast<int>(number);
  const std::string name = fmt::format("blk{}", number);
  x = add(OpKind::Add, name + ".time.residual", {x, time_mixing(name + ".time", norm(name + ".ln1", x, embed))});
  return add(OpKind::Add, name + ".channel.residual",
             {x, channel_mixing(name + ".channel", norm(name + ".ln2", x, embed))});
}

void build_rwkv(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer transformer = rwkv(model);
  RwkvBuilder builder(graph, model, transformer);
  build_layers(builder, graph, model, reduction);
}

}  // namespace

std::vector<Family> rwkv_families() {
  return {{"rwkv",
           {{"layers", kMaxLayers},
            {"hidden", kMaxWidth},
            {"seq", kMaxWidth},
            {"vocab", kMaxWidth},
            derived_width("intermediate", four_times_hidden),
            derived_width("time_width", hidden_of),
            {"scan_chunk", kMaxWidth, 1, 64},
            flag("tied", 0)},
           {epsilon(1e-5)},
           "rwkv:layers=2,hidden=64,seq=32,vocab=128",
           kDefaultBatch,
           DType::BF16,
           build_rwkv}};
}

}  // namespace meshwright
