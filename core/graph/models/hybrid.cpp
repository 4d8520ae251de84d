// SPDX-License-Identifier: Apache-2.0
// Decoders of scans, attention and feed-forward layers in any order: Mamba-2 (T. Dao, A. Gu, arXiv:2405.21060) and
// Nemotron-H (NVIDIA, arXiv:2504.03624). A layer is one of the three behind an RMS norm, added to its input; there are
// no positions, as a scan knows the order of its tokens.
//
// A scan layer has projections to its gate z, its input x, the group's b and c, and the steps dt, each apart so that it
// splits along its own groups and heads; x, b and c go through a causal convolution of each channel by itself and SiLU;
// the result, times SiLU of the gate, is normalised, over all heads or over those of each group. Ops are named
// "blk<layer>.scan.z", ".scan.x", ".scan.x.conv", ..., ".scan.core", ".scan.out".
//
// Dimensions besides a transformer's: (batch, seq, scan_groups, scan_heads, scan_dim), where scan_heads are those of a
// group; (batch, seq, scan_groups, state). Around the scan seq is (chunks, chunk).
#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/models/families.h"
#include "core/graph/models/transformer.h"
#include "core/graph/models/transformer_builder.h"

namespace meshwright {

namespace {

// Which kind each layer is, in base 4, the first layer in the lowest digit of the first number.
enum class LayerKind { Scan, Attention, FeedForward };
constexpr std::int64_t kLayersOfNumber = 30, kNumbers = 8;
constexpr const char* kKinds[kNumbers] = {"kinds_0", "kinds_1", "kinds_2", "kinds_3",
                                          "kinds_4", "kinds_5", "kinds_6", "kinds_7"};

bool has_flag(const ModelConfig& model, const char* key) { return size_of(model, key) != 0; }

LayerKind kind_of(const ModelConfig& model, std::int64_t layer) {
  const std::int64_t digits = size_of(model, kKinds[layer / kLayersOfNumber]);
  return static_cast<LayerKind>(digits >> (2 * (layer % kLayersOfNumber)) & 3);
}

Transformer transformer_of(const ModelConfig& model) {
  const std::int64_t kv_heads = size_of(model, "kv_heads");
  return {.attention = {.kv_heads = kv_heads,
                        .group = model.heads / kv_heads,
                        .head_dim = size_of(model, "head_dim"),
                        .qkv_bias = has_flag(model, "qkv_bias"),
                        .out_bias = has_flag(model, "out_bias")},
          .feed_forward = {.width = size_of(model, "intermediate"),
                           .activation = Activation::Relu,
                           .bias = has_flag(model, "mlp_bias")},
          .layers = {},
          .norm = Norm::Rms,
          .epsilon = model.factors.at("epsilon"),
          .tied = has_flag(model, "tied")};
}

// The longest chunk of at most `wanted` tokens that the sequence divides into.
std::int64_t chunk_of(std::int64_t seq, std::int64_t wanted) {
  std::int64_t chunk = std::min(seq, wanted);
  while (seq % chunk != 0) --chunk;
  return chunk;
}

struct HybridBuilder : TransformerBuilder {
  HybridBuilder(Graph& into, const ModelConfig& of, const Transformer& what)
      : TransformerBuilder(into, of, what),
        model(of),
        groups{"scan_groups", size_of(of, "scan_groups")},
        heads{"scan_heads", size_of(of, "scan_heads") / groups.size},
        width{"scan_dim", size_of(of, "scan_head_dim")},
        state{"state", size_of(of, "state")},
        chunk{"chunk", chunk_of(of.seq, size_of(of, "scan_chunk"))},
        chunks{"chunks", of.seq / chunk.size} {}

  [[nodiscard]] TensorId layer(std::int64_t number, TensorId x);
  [[nodiscard]] TensorId scan(const std::string& name, TensorId x);
  [[nodiscard]] TensorId squared_feed_forward(const std::string& name, TensorId x);
  // (batch, seq, embed) -> (batch, seq, dims...).
  [[nodiscard]] TensorId widen(const std::string& name, TensorId x, const std::vector<Dim>& dims);
  // Each channel behind batch and seq by itself, over the last tokens; then SiLU.
  [[nodiscard]] TensorId convolve(const std::string& name, TensorId x);
  [[nodiscard]] TensorId in_chunks(const std::string& name, TensorId x);
  [[nodiscard]] TensorId scan_norm(const std::string& name, TensorId x);

  const ModelConfig& model;
  const Dim groups, heads, width, state, chunk, chunks;
};

TensorId HybridBuilder::widen(const std::string& name, TensorId x, const std::vector<Dim>& dims) {
  std::vector<Dim> weight = {embed};
  std::vector<std::string> result = {"batch", "seq"};
  for (const Dim& dim : dims) {
    weight.push_back(dim);
    result.push_back(dim.name);
  }
  const TensorId made = project(name, x, weight, result);
  return has_flag(model, "scan_bias") ? add_bias(name, made, dims) : made;
}

TensorId HybridBuilder::convolve(const std::string& name, TensorId x) {
  const std::vector<Dim> dims = graph.tensor(x).dims;
  const Dim one{"image_width", 1}, in{"channel_in", 1}, out{"channel_out", 1};
  const Dim channel{"channel", graph.tensor(x).elements() / (batch.size * seq.size)};
  const std::int64_t kernel = size_of(model, "conv");
  const TensorId image = add(OpKind::Reshape, name + ".channels", {x}, {.result_dims = {batch, seq, one, channel, in}});
  const TensorId weight = parameter(name + ".conv.weight", {channel, {"kernel", kernel}, {"kernel_width", 1}, in, out});
  TensorId y = add(OpKind::Convolution, name + ".conv", {image, weight},
                   {.result_dims = {seq, one}, .stride = {1, 1}, .pad_before = {kernel - 1, 0}, .pad_after = {0, 0}});
  if (has_flag(model, "conv_bias")) y = add_bias(name + ".conv", y, {channel, out});
  y = add(OpKind::Reshape, name + ".parted", {y}, {.result_dims = dims});
  return add(OpKind::Silu, name + ".silu", {y});
}

TensorId HybridBuilder::in_chunks(const std::string& name, TensorId x) {
  std::vector<Dim> dims = graph.tensor(x).dims;
  dims[1] = chunk;
  dims.insert(dims.begin() + 1, chunks);
  return add(OpKind::Reshape, name + ".chunks", {x}, {.result_dims = dims});
}

TensorId HybridBuilder::scan_norm(const std::string& name, TensorId x) {
  const std::vector<Dim> dims = graph.tensor(x).dims;
  const Dim of_group{"group_width", heads.size * width.size}, inner{"inner", groups.size * of_group.size};
  const bool by_group = has_flag(model, "group_norm");
  const std::vector<Dim> last = by_group ? std::vector<Dim>{groups, of_group} : std::vector<Dim>{inner};
  std::vector<Dim> rows = {batch, seq};
  rows.insert(rows.end(), last.begin(), last.end());
  x = add(OpKind::Reshape, name + ".joined", {x}, {.result_dims = rows});
  x = add(OpKind::RmsNorm, name, {x, parameter(name + ".gamma", last)}, {.epsilon = transformer.epsilon});
  return add(OpKind::Reshape, name + ".heads", {x}, {.result_dims = dims});
}

TensorId HybridBuilder::scan(const std::string& name, TensorId x) {
  const std::vector<Dim> per_head = {groups, heads};
  const TensorId gate = add(OpKind::Silu, name + ".z.silu", {widen(name + ".z", x, {groups, heads, width})});
  const TensorId input = convolve(name + ".x", widen(name + ".x", x, {groups, heads, width}));
  const TensorId b = convolve(name + ".b", widen(name + ".b", x, {groups, state}));
  const TensorId c = convolve(name + ".c", widen(name + ".c", x, {groups, state}));
  const TensorId dt = widen(name + ".dt", x, per_head);
  const std::vector<TensorId> operands = {in_chunks(name + ".x", input),
                                          in_chunks(name + ".dt", dt),
                                          parameter(name + ".a_log", per_head),
                                          in_chunks(name + ".b", b),
                                          in_chunks(name + ".c", c),
                                          parameter(name + ".d", per_head),
                                          parameter(name + ".dt_bias", per_head)};
  TensorId y = add(OpKind::SelectiveScan, name + ".core", operands);
  y = add(OpKind::Reshape, name + ".core.seq", {y}, {.result_dims = {batch, seq, groups, heads, width}});
  y = scan_norm(name + ".norm", add(OpKind::Multiply, name + ".gated", {y, gate}));
  y = project(name + ".out", y, {groups, heads, width, embed}, {"batch", "seq", "embed"});
  return has_flag(model, "scan_bias") ? add_bias(name + ".out", y, {embed}) : y;
}

TensorId HybridBuilder::squared_feed_forward(const std::string& name, TensorId x) {
  const TensorId inner = feed_forward_inner(name, x, transformer.feed_forward.width);
  const TensorId out = feed_forward_out(name, add(OpKind::Multiply, name + ".squared", {inner, inner}));
  return transformer.feed_forward.bias ? add_bias(name + ".down", out, {embed}) : out;
}

TensorId HybridBuilder::layer(std::int64_t number, TensorId x) {
  graph.current_block = static_cast<int>(number);
  const std::string name = fmt::format("blk{}", number);
  const TensorId read = norm(name + ".ln", x, embed);
  const auto plus = [&](const std::string& part, TensorId y) {
    return add(OpKind::Add, name + part + ".residual", {x, y});
  };
  switch (kind_of(model, number)) {
    case LayerKind::Scan:
      return plus(".scan", scan(name + ".scan", read));
    case LayerKind::Attention:
      return plus(".attn", attention(name + ".attn", read, read, {.causal = true}));
    case LayerKind::FeedForward:
      break;
  }
  return plus(".mlp", squared_feed_forward(name + ".mlp", read));
}

void build_hybrid(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer transformer = transformer_of(model);
  HybridBuilder builder(graph, model, transformer);
  const TensorId tokens = builder.token_input("tokens"), labels = builder.token_input("labels");
  TensorId x = builder.embed_tokens("embed", tokens);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) x = builder.layer(layer, x);
  graph.current_block = -1;
  x = builder.norm("blk.final_norm", x, builder.embed);
  graph.loss = builder.cross_entropy(builder.logits(x), labels, reduction);
}

std::int64_t heads_of_attention(const ModelConfig& model, const std::string&) { return model.heads; }
std::int64_t width_of_head(const ModelConfig& model, const std::string&) {
  return std::max<std::int64_t>(1, model.hidden / model.heads);
}

std::vector<SizeField> hybrid_sizes() {
  constexpr std::int64_t kMaxWidth = 10'000'000, kMaxHeads = 1'000'000;
  std::vector<SizeField> sizes = {{"layers", kLayersOfNumber * kNumbers},
                                  {"hidden", 1'000'000},
                                  {"heads", kMaxHeads},
                                  {"seq", 10'000'000},
                                  {"vocab", 10'000'000},
                                  {"scan_heads", kMaxHeads},
                                  {"scan_head_dim", kMaxWidth},
                                  {"scan_groups", kMaxHeads, 1, 1},
                                  {"state", kMaxWidth},
                                  {"scan_chunk", kMaxWidth, 1, 256},
                                  {"conv", 1'000, 1, 4},
                                  {.key = "intermediate", .maximum = kMaxWidth, .derived = four_times_hidden},
                                  {.key = "kv_heads", .maximum = kMaxHeads, .derived = heads_of_attention},
                                  {.key = "head_dim", .maximum = kMaxWidth, .derived = width_of_head}};
  for (const char* off : {"group_norm", "scan_bias", "qkv_bias", "out_bias", "mlp_bias", "tied"})
    sizes.push_back({off, 1, 0, 0});
  sizes.push_back({"conv_bias", 1, 0, 1});
  for (const char* kinds : kKinds) sizes.push_back({kinds, (std::int64_t{1} << (2 * kLayersOfNumber)) - 1, 0, 0});
  return sizes;
}

}  // namespace

void set_layer_kinds(ModelConfig& model, const std::string& kinds, const std::string& place) {
  require(static_cast<std::int64_t>(kinds.size()) <= kLayersOfNumber * kNumbers,
          "{}: it has {} layers of several kinds; at most {} are supported.", place, kinds.size(),
          kLayersOfNumber * kNumbers);
  for (const char* key : kKinds) model.more[key] = 0;
  for (std::size_t layer = 0; layer < kinds.size(); ++layer) {
    const std::size_t kind = std::string_view("M*-").find(kinds[layer]);
    require(
        kind != std::string::npos,
        "{}: layer {} is of the kind '{}', which is not supported; M (scan), * (attention) and - (feed-forward) are.",
        place, layer, kinds[layer]);
    const std::int64_t shift = 2 * (static_cast<std::int64_t>(layer) % kLayersOfNumber);
    model.more[kKinds[layer / static_cast<std::size_t>(kLayersOfNumber)]] += static_cast<std::int64_t>(kind) << shift;
  }
}

std::vector<Family> hybrid_families() {
  return {{"hybrid",
           hybrid_sizes(),
           {{"epsilon", 1e-5}},
           "hybrid:layers=3,hidden=64,heads=4,seq=32,vocab=128,scan_heads=4,scan_head_dim=32,state=16,kinds_0=36",
           1024,
           DType::BF16,
           build_hybrid}};
}

}  // namespace meshwright
