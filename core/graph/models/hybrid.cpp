// SPDX-License-Identifier: Apache-2.0
// Decoders of scans, attention, feed-forward layers and mixtures of experts in any order: Mamba (A. Gu, T. Dao,
// arXiv:2312.00752), Mamba-2 (T. Dao, A. Gu, arXiv:2405.21060), Nemotron-H (NVIDIA, arXiv:2504.03624), Bamba and
// Granite 4, whose layers are two of these. A layer is one of the four behind an RMS norm, added to its input; there
// are no positions, as a scan knows the order of its tokens, but where attention is asked to rotate.
//
// A scan layer has projections to its gate z, its input x, the group's b and c, and the steps dt, each apart so that it
// splits along its own groups and heads; x, b and c go through a causal convolution of each channel by itself and SiLU;
// the result, times SiLU of the gate, is normalised, over all heads or over those of each group. Ops are named
// "blk<layer>.scan.z", ".scan.x", ".scan.x.conv", ..., ".scan.core", ".scan.out".
//
// With a `scan_rank` (Mamba) each channel is a head of width 1 in one group, with a rate for each number of its state;
// b, c and the steps are made from x behind the convolution, the steps through that rank, and there is no norm.
//
// Dimensions besides a transformer's: (batch, seq, scan_groups, scan_heads, scan_dim), where scan_heads are those of a
// group; (batch, seq, scan_groups, state). Around the scan seq is (chunks, chunk).
#include <algorithm>
#include <optional>

#include "core/base/errors.h"
#include "core/graph/models/families.h"
#include "core/graph/models/scan_builder.h"

namespace meshwright {

namespace {

// Which kind each layer is, in base 4, the first layer in the lowest digit of the first number.
enum class LayerKind { Scan, Attention, FeedForward, Mixture };
constexpr std::int64_t kLayersOfNumber = 30, kNumbers = 8;
constexpr const char* kKinds[kNumbers] = {"kinds_0", "kinds_1", "kinds_2", "kinds_3",
                                          "kinds_4", "kinds_5", "kinds_6", "kinds_7"};

bool has_flag(const ModelConfig& model, const char* key) { return size_of(model, key) != 0; }

LayerKind kind_of(const ModelConfig& model, std::int64_t layer) {
  const std::int64_t digits = size_of(model, kKinds[layer / kLayersOfNumber]);
  return static_cast<LayerKind>(digits >> (2 * (layer % kLayersOfNumber)) & 3);
}

std::optional<MixturePart> mixture_of(const ModelConfig& model) {
  if (!has_flag(model, "experts")) return std::nullopt;
  return MixturePart{.experts = size_of(model, "experts"),
                     .top_k = size_of(model, "top_k"),
                     .width = size_of(model, "expert_intermediate"),
                     .shared_width = size_of(model, "shared_intermediate"),
                     .capacity_factor = model.factors.at("capacity_factor"),
                     .sigmoid = !has_flag(model, "softmax_scores"),
                     .normalize = has_flag(model, "normalized"),
                     .selection_bias = !has_flag(model, "softmax_scores"),
                     .scale = model.factors.at("routed_scale")};
}

Transformer transformer_of(const ModelConfig& model) {
  const std::int64_t kv_heads = size_of(model, "kv_heads");
  return {.attention = {.kv_heads = kv_heads,
                        .group = model.heads / kv_heads,
                        .head_dim = size_of(model, "head_dim"),
                        .qkv_bias = has_flag(model, "qkv_bias"),
                        .out_bias = has_flag(model, "out_bias"),
                        .scale = model.factors.at("attention_scale")},
          .feed_forward = {.width = size_of(model, "intermediate"),
                           .activation = has_flag(model, "gated") ? Activation::Silu : Activation::ReluSquared,
                           .gated = has_flag(model, "gated"),
                           .bias = has_flag(model, "mlp_bias")},
          .mixture = mixture_of(model),
          .layers = {},
          .norm = Norm::Rms,
          .epsilon = model.factors.at("epsilon"),
          .positions = has_flag(model, "rotary") ? Positions::Rotary : Positions::None,
          .rotary_base = model.factors.at("rotary_base"),
          .rotary_dims = size_of(model, "rotary_dims"),
          .tied = has_flag(model, "tied"),
          .embed_scale = model.factors.at("embed_scale"),
          .residual_scale = model.factors.at("residual_scale"),
          .logit_scale = model.factors.at("logit_scale")};
}

struct HybridBuilder : ScanBuilder {
  HybridBuilder(Graph& into, const ModelConfig& of, const Transformer& what)
      : ScanBuilder(into, of, what, size_of(of, "scan_chunk")),
        model(of),
        groups{"scan_groups", size_of(of, "scan_groups")},
        heads{"scan_heads", size_of(of, "scan_heads") / groups.size},
        width{"scan_dim", size_of(of, "scan_head_dim")},
        state{"state", size_of(of, "state")} {}

  [[nodiscard]] TensorId layer(std::int64_t number, TensorId x);
  [[nodiscard]] TensorId scan(const std::string& name, TensorId x);
  [[nodiscard]] TensorId channel_scan(const std::string& name, TensorId x);
  [[nodiscard]] TensorId scan_norm(const std::string& name, TensorId x);

  const ModelConfig& model;
  const Dim groups, heads, width, state;
};

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
  const bool bias = has_flag(model, "scan_bias");
  const auto wide = [&](const char* which, const std::vector<Dim>& dims) { return widen(name + which, x, dims, bias); };
  const auto recent = [&](const char* which, const std::vector<Dim>& dims) {
    return convolve(name + which, wide(which, dims), size_of(model, "conv"), has_flag(model, "conv_bias"));
  };
  const TensorId gate = add(OpKind::Silu, name + ".z.silu", {wide(".z", {groups, heads, width})});
  const TensorId input = recent(".x", {groups, heads, width});
  const TensorId b = recent(".b", {groups, state}), c = recent(".c", {groups, state}), dt = wide(".dt", per_head);
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
  return bias ? add_bias(name + ".out", y, {embed}) : y;
}

// The convolution made x and what b, c and the steps come from: the steps through a low rank, b and c for all channels.
TensorId HybridBuilder::channel_scan(const std::string& name, TensorId x) {
  const std::vector<Dim> channels = {groups, heads, width};
  const Dim rank{"scan_rank", size_of(model, "scan_rank")};
  const bool bias = has_flag(model, "scan_bias");
  const TensorId gate = add(OpKind::Silu, name + ".z.silu", {widen(name + ".z", x, channels, bias)});
  const TensorId input = convolve(name + ".x", widen(name + ".x", x, channels, bias), size_of(model, "conv"),
                                  has_flag(model, "conv_bias"));
  const auto of_group = [&](const char* which, const Dim& last) {
    return project(name + which, input, {groups, heads, width, last}, {"batch", "seq", "scan_groups", last.name});
  };
  const TensorId steps = project(name + ".dt", of_group(".dt_down", rank), {groups, rank, heads},
                                 {"batch", "seq", "scan_groups", "scan_heads"});
  const std::vector<TensorId> operands = {in_chunks(name + ".x", input),
                                          in_chunks(name + ".dt", steps),
                                          parameter(name + ".a_log", {groups, heads, state}),
                                          in_chunks(name + ".b", of_group(".b", state)),
                                          in_chunks(name + ".c", of_group(".c", state)),
                                          parameter(name + ".d", {groups, heads}),
                                          parameter(name + ".dt_bias", {groups, heads})};
  TensorId y = add(OpKind::SelectiveScan, name + ".core", operands);
  y = add(OpKind::Reshape, name + ".core.seq", {y}, {.result_dims = {batch, seq, groups, heads, width}});
  y = add(OpKind::Multiply, name + ".gated", {y, gate});
  y = project(name + ".out", y, {groups, heads, width, embed}, {"batch", "seq", "embed"});
  return bias ? add_bias(name + ".out", y, {embed}) : y;
}

TensorId HybridBuilder::layer(std::int64_t number, TensorId x) {
  graph.current_block = static_cast<int>(number);
  const std::string name = fmt::format("blk{}", number);
  const TensorId read = norm(name + ".ln", x, embed);
  const auto plus = [&](const std::string& part, TensorId y) {
    return add(OpKind::Add, name + part + ".residual", {x, scaled(name + part, y, transformer.residual_scale)});
  };
  switch (kind_of(model, number)) {
    case LayerKind::Scan:
      return plus(".scan",
                  size_of(model, "scan_rank") > 0 ? channel_scan(name + ".scan", read) : scan(name + ".scan", read));
    case LayerKind::Attention:
      return plus(".attn",
                  attention(name + ".attn", read, read, {.causal = true, .rotary = has_flag(model, "rotary")}));
    case LayerKind::Mixture:
      require(transformer.mixture.has_value(), "layer {} has experts, but the model none; give experts and top_k.",
              number);
      return plus(".moe", mixture(name + ".moe", read));
    case LayerKind::FeedForward:
      break;
  }
  return plus(".mlp", feed_forward(name + ".mlp", read, transformer.feed_forward.width));
}

void build_hybrid(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer transformer = transformer_of(model);
  HybridBuilder builder(graph, model, transformer);
  build_layers(builder, graph, model, reduction);
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
                                  {"scan_rank", kMaxWidth, 0, 0},
                                  {"scan_chunk", kMaxWidth, 1, 256},
                                  {"conv", 1'000, 1, 4},
                                  {"experts", 100'000, 0, 0},
                                  {"top_k", 100'000, 0, 0},
                                  {"expert_intermediate", kMaxWidth, 0, 0},
                                  {"shared_intermediate", kMaxWidth, 0, 0},
                                  {"normalized", 1, 0, 1},
                                  {.key = "intermediate", .maximum = kMaxWidth, .derived = four_times_hidden},
                                  {.key = "kv_heads", .maximum = kMaxHeads, .derived = all_heads},
                                  {.key = "head_dim", .maximum = kMaxWidth, .derived = head_width}};
  for (const char* off :
       {"group_norm", "scan_bias", "qkv_bias", "out_bias", "mlp_bias", "tied", "gated", "softmax_scores", "rotary"})
    sizes.push_back({off, 1, 0, 0});
  sizes.push_back({"conv_bias", 1, 0, 1});
  sizes.push_back({"rotary_dims", 1'000'000, 0, 0});
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
    const std::size_t kind = std::string_view("M*-E").find(kinds[layer]);
    require(kind != std::string::npos,
            "{}: layer {} is of the kind '{}', which is not supported; M (scan), * (attention), - (feed-forward) and E "
            "(experts) are.",
            place, layer, kinds[layer]);
    require(kinds[layer] != 'E' || size_of(model, "experts") > 0,
            "{}: layer {} has experts, but the model none; give their number.", place, layer);
    const std::int64_t shift = 2 * (static_cast<std::int64_t>(layer) % kLayersOfNumber);
    model.more[kKinds[layer / static_cast<std::size_t>(kLayersOfNumber)]] += static_cast<std::int64_t>(kind) << shift;
  }
}

std::vector<Family> hybrid_families() {
  return {{"hybrid",
           hybrid_sizes(),
           {{"epsilon", 1e-5},
            {"capacity_factor", 1.0},
            {"routed_scale", 1.0},
            {"rotary_base", 10000.0},
            {"embed_scale", 1.0},
            {"residual_scale", 1.0},
            {"attention_scale", 1.0},
            {"logit_scale", 1.0}},
           "hybrid:layers=3,hidden=64,heads=4,seq=32,vocab=128,scan_heads=4,scan_head_dim=32,state=16,kinds_0=36",
           1024,
           DType::BF16,
           build_hybrid}};
}

}  // namespace meshwright
