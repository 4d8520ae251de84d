// SPDX-License-Identifier: Apache-2.0
// Griffin (S. De et al., arXiv:2402.19427), as RecurrentGemma has it: decoders whose layers are recurrences of channels
// or attention with a window, each followed by a gated feed-forward layer, all behind RMS norms.
//
// A recurrence projects to a gate (a GELU) and to an input, which goes through a causal convolution of channels and a
// real-gated linear recurrent unit: with gates r and i, which blocks of channels make of their own numbers,
//
//   log a_t = -8 r_t softplus(rate),   h_t = a_t h_(t-1) + sqrt(1 - a_t^2) i_t x_t,   h_0 = i_0 x_0
//
// That is a selective scan with a state of one number for each channel: its step is r, its rate 8 softplus(rate), and
// its input is divided by the step, which such a scan multiplies it by. Ops are named "blk<layer>.rnn.x", ".rnn.y",
// ".rnn.core", ".rnn.out".
//
// Dimensions besides a transformer's: (batch, seq, rnn_heads, rnn_dim), the blocks and the channels of one. Which
// layers attend is told by `attends_0`, ..., in base 2, the first layer in the lowest digit of the first number.
#include <array>

#include "core/base/errors.h"
#include "core/graph/models/family_keys.h"
#include "core/graph/models/parts/layer_digits.h"
#include "core/graph/models/parts/scan_builder.h"

namespace meshwright {

namespace {

using namespace keys;

constexpr std::array kGriffinMarks = {"attends_0", "attends_1"};
constexpr LayerDigits kGriffinAttends{kGriffinMarks, 1};
constexpr double kRateScale = 8.0;  // the paper's c

Transformer griffin(const ModelConfig& model) {
  const std::int64_t kv_heads = size_of(model, "kv_heads");
  return {.attention = {.kv_heads = kv_heads,
                        .group = model.heads / kv_heads,
                        .head_dim = size_of(model, "head_dim"),
                        .qkv_bias = is_set(model, "qkv_bias"),
                        .out_bias = true},
          .feed_forward = {.width = size_of(model, "intermediate"),
                           .activation = gelu_of(model),
                           .gated = true,
                           .bias = true},
          .layers = {},
          .norm = Norm::Rms,
          .epsilon = model.factors.at("epsilon"),
          .positions = Positions::Rotary,
          .rotary_base = model.factors.at("rotary_base"),
          .rotary_dims = size_of(model, "rotary_dims"),
          .tied = is_set(model, "tied"),
          .embed_scale = model.factors.at("embed_scale"),
          .logit_cap = model.factors.at("logit_cap")};
}

struct GriffinBuilder : ScanBuilder {
  GriffinBuilder(Graph& into, const ModelConfig& of, const Transformer& what)
      : ScanBuilder(into, of, what, size_of(of, "scan_chunk")),
        model(of),
        heads{"rnn_heads", of.heads},
        width{"rnn_dim", size_of(of, "rnn_width") / of.heads} {}

  [[nodiscard]] TensorId layer(std::int64_t number, TensorId x);
  [[nodiscard]] TensorId recurrence(const std::string& name, TensorId x);
  // The sigmoid of what each block makes of its own channels.
  [[nodiscard]] TensorId gate(const std::string& name, TensorId x);
  // sqrt(1 - a^2), but 1 for the first token, which nothing is before; from `decay`, -log a.
  [[nodiscard]] TensorId share_of_input(const std::string& name, TensorId decay);
  // x, along the dimensions of `like`.
  [[nodiscard]] TensorId broadcast(const std::string& name, TensorId x, TensorId like);
  // The same number in each place.
  [[nodiscard]] TensorId filled(const std::string& name, const std::vector<Dim>& dims, double value);
  [[nodiscard]] TensorId of_each_token(const std::string& name, const std::vector<Dim>& dims, double value);

  const ModelConfig& model;
  const Dim heads, width;
};

TensorId GriffinBuilder::broadcast(const std::string& name, TensorId x, TensorId like) {
  return add(OpKind::Broadcast, name, {x}, {.result_dims = graph.tensor(like).dims});
}

TensorId GriffinBuilder::filled(const std::string& name, const std::vector<Dim>& dims, double value) {
  std::int64_t count = 1;
  for (const Dim& dim : dims) count *= dim.size;
  return constant(name, dims, std::vector<double>(static_cast<std::size_t>(count), value));
}

TensorId GriffinBuilder::of_each_token(const std::string& name, const std::vector<Dim>& dims, double value) {
  std::vector<Dim> all = {batch, chunks, chunk};
  all.insert(all.end(), dims.begin(), dims.end());
  return add(OpKind::Broadcast, name, {filled("ones.rnn", dims, value)}, {.result_dims = all});
}

TensorId GriffinBuilder::gate(const std::string& name, TensorId x) {
  const Dim from{"rnn_in", width.size};
  x = add(OpKind::Reshape, name + ".in", {x}, {.result_dims = {batch, seq, heads, from}});
  x = project(name, x, {heads, from, width}, {"batch", "seq", heads.name, width.name});
  return add(OpKind::Sigmoid, name + ".sigmoid", {add_bias(name, x, {heads, width})});
}

TensorId GriffinBuilder::share_of_input(const std::string& name, TensorId decay) {
  TensorId x = add(OpKind::Exp, name + ".a_squared", {scaled(name + ".decay", decay, -2.0)});
  x = add(OpKind::Shift, name + ".rest", {scaled(name + ".a_squared", x, -1.0)}, {.value = 1.0});
  x = add(OpKind::Sqrt, name + ".share", {x});
  std::vector<double> first(static_cast<std::size_t>(seq.size), 0.0), behind(first.size(), 1.0);
  first.front() = 1.0;
  behind.front() = 0.0;
  x = add(OpKind::Multiply, name + ".share.behind",
          {x, broadcast(name + ".behind", constant("behind_first", {seq}, behind), x)});
  return add(OpKind::Add, name + ".share.all", {x, broadcast(name + ".first", constant("first", {seq}, first), x)});
}

TensorId GriffinBuilder::recurrence(const std::string& name, TensorId x) {
  const std::vector<Dim> channels = {heads, width};
  const Dim one{"rnn_state", 1}, single{"rnn_one", 1};
  const TensorId gelu = is_set(model, "erf")
                            ? add(OpKind::GeluErf, name + ".y.gelu", {widen(name + ".y", x, channels, true)})
                            : add(OpKind::Gelu, name + ".y.gelu", {widen(name + ".y", x, channels, true)});
  const TensorId input = convolution(name + ".x", widen(name + ".x", x, channels, true), size_of(model, "conv"), true);
  const TensorId step = gate(name + ".step", input), kept = gate(name + ".input", input);
  const TensorId rate =
      scaled(name + ".rate", softplus(name + ".rate", parameter(name + ".rate", channels)), kRateScale);
  const TensorId decay = add(OpKind::Multiply, name + ".decay", {step, broadcast(name + ".rate.tokens", rate, step)});
  TensorId read = add(OpKind::Multiply, name + ".kept", {input, kept});
  read = add(OpKind::Multiply, name + ".shared", {read, share_of_input(name, decay)});
  read = add(OpKind::Divide, name + ".by_step", {read, step});
  read = add(OpKind::Reshape, name + ".channels", {read}, {.result_dims = {batch, seq, heads, width, single}});
  // What a scan's softplus makes the step of.
  TensorId raw =
      add(OpKind::Shift, name + ".step.exp.rest", {add(OpKind::Exp, name + ".step.exp", {step})}, {.value = -1.0});
  raw = add(OpKind::Log, name + ".step.raw", {raw});
  TensorId rates = add(OpKind::Log, name + ".rate.log", {rate});
  rates = add(OpKind::Reshape, name + ".rate.state", {rates}, {.result_dims = {heads, width, one}});
  const TensorId none = filled("zeros.rnn", channels, 0.0);
  TensorId y =
      add(OpKind::SelectiveScan, name + ".core",
          {in_chunks(name + ".channels", read), in_chunks(name + ".step", raw), rates,
           of_each_token(name + ".b", {heads, one}, 1.0), of_each_token(name + ".c", {heads, one}, 1.0), none, none});
  y = add(OpKind::Reshape, name + ".core.seq", {y}, {.result_dims = {batch, seq, heads, width}});
  y = add(OpKind::Multiply, name + ".gated", {y, gelu});
  return add_bias(name + ".out", project(name + ".out", y, {heads, width, embed}, {"batch", "seq", "embed"}), {embed});
}

TensorId GriffinBuilder::layer(std::int64_t number, TensorId x) {
  graph.current_block = static_cast<int>(number);
  const std::string name = fmt::format("blk{}", number);
  const auto plus = [&](const std::string& part, TensorId y) {
    return add(OpKind::Add, name + part + ".residual", {x, y});
  };
  const TensorId read = norm(name + ".ln1", x, embed);
  x = kGriffinAttends.of(model, number) != 0
          ? plus(".attn", attention(name + ".attn", read, read,
                                    {.causal = true, .window = size_of(model, "window"), .rotary = true}))
          : plus(".rnn", recurrence(name + ".rnn", read));
  return plus(".mlp", feed_forward(name + ".mlp", norm(name + ".ln2", x, embed), transformer.feed_forward.width));
}

void build_griffin(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer transformer = griffin(model);
  GriffinBuilder builder(graph, model, transformer);
  build_layers(builder, graph, model, reduction);
}

}  // namespace

void set_griffin_attention(ModelConfig& model, const std::vector<bool>& attends, const std::string& place) {
  require(static_cast<std::int64_t>(attends.size()) <= kGriffinAttends.capacity(),
          "{} has {} layers; at most {} are supported.", place, attends.size(), kGriffinAttends.capacity());
  kGriffinAttends.set(model, std::vector<std::int64_t>(attends.begin(), attends.end()));
}

std::vector<Family> griffin_families() {
  std::vector<SizeField> more = {width("intermediate"),
                                 {.key = "kv_heads", .maximum = kMaxHeads, .derived = heads_of},
                                 derived_width("head_dim", hidden_per_head),
                                 derived_width("rnn_width", hidden_of),
                                 width_or_none("window"),
                                 {"rotary_dims", 1'000'000, 0, 0},
                                 {"conv", 1'000, 1, 4},
                                 {"scan_chunk", kMaxWidth, 1, 64},
                                 flag("qkv_bias", 0),
                                 erf(0),
                                 flag("tied", 1)};
  return {{"griffin",
           with_core_sizes(with(more, kGriffinAttends.fields())),
           {epsilon(1e-6), {"rotary_base", 10000.0}, {"embed_scale", 1.0}, {"logit_cap", 30.0}},
           "griffin:layers=3,hidden=64,heads=4,kv_heads=1,intermediate=96,seq=32,vocab=128,window=8,attends_0=4",
           kDefaultBatch,
           DType::BF16,
           build_griffin}};
}

}  // namespace meshwright
