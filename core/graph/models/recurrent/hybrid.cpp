// SPDX-License-Identifier: Apache-2.0
// Decoders of scans, attention, feed-forward layers and mixtures of experts in any order: Mamba (A. Gu, T. Dao,
// arXiv:2312.00752), Mamba-2 (T. Dao, A. Gu, arXiv:2405.21060), Nemotron-H (NVIDIA, arXiv:2504.03624); Jamba, Bamba,
// Granite 4, Falcon-H1 and LFM2, whose layers are two of these. A layer is one of the four behind an RMS norm, added to
// its input; there are no positions, as a scan knows the order of its tokens, but where attention is asked to rotate.
// With `beside` an attention layer (Falcon-H1) has a scan as well, which reads the same norm.
//
// A scan layer has projections to its gate z, its input x, the group's b and c, and the steps dt, each apart so that it
// splits along its own groups and heads; x, b and c go through a causal convolution of each channel by itself and SiLU;
// the result, times SiLU of the gate, is normalised, over all heads or over those of each group; with a `scan_norm` of
// 2 the gate is behind the norm, with 0 there is none. Ops are named "blk<layer>.scan.z", ".scan.x", ".scan.x.conv",
// ..., ".scan.core", ".scan.out".
//
// With a `scan_rank` (Mamba) each channel is a head of width 1 in one group, with a rate for each number of its state;
// b, c and the steps are made from x behind the convolution, the steps through that rank, and there is no norm, but
// with `operand_norms` (Jamba) one of each of these three, with 2 (Falcon Mamba) without weights.
//
// With `short_conv` (LFM2) there are gated convolutions where other models have scans: of two gates and an input, one
// gate multiplies what the convolution of each channel reads, the other what it makes. Ops are named
// "blk<layer>.conv.b",
// ".conv.c", ".conv.x", ".conv.x.conv", ".conv.out".
//
// Attention of some layers has windows, in the order of the layers that attend, and a rotation of its own there; with
// `result_norms` (LFM3) what a layer makes has a norm, too.
//
// Feed-forward layers may be of several widths. Each module for further tokens has the layers of mtp_kinds, whose ops
// are named "mtp<k>.<layer>.".
//
// Dimensions besides a transformer's: (batch, seq, scan_groups, scan_heads, scan_dim), where scan_heads are those of a
// group; (batch, seq, scan_groups, state). Around the scan seq is (chunks, chunk).
#include <algorithm>
#include <array>
#include <optional>

#include "core/base/errors.h"
#include "core/graph/models/families.h"
#include "core/graph/models/parts/layer_digits.h"
#include "core/graph/models/parts/scan_builder.h"

namespace meshwright {

namespace {

enum class LayerKind { Scan, Attention, FeedForward, Mixture };
constexpr std::array kKindKeys = {"kinds_0", "kinds_1", "kinds_2", "kinds_3",
                                  "kinds_4", "kinds_5", "kinds_6", "kinds_7"};
constexpr LayerDigits kKinds{kKindKeys, 2};

// `scan_norm`; 0: none.
constexpr std::int64_t kNormBehindGate = 1, kNormBeforeGate = 2;
constexpr std::int64_t kPlainNorms = 2;  // operand_norms

// Which of the widths each feed-forward layer has; other layers count for nothing.
constexpr std::array kWidthKeys = {"widths_0", "widths_1", "widths_2", "widths_3",
                                   "widths_4", "widths_5", "widths_6", "widths_7"};
constexpr LayerDigits kWidthsOfLayers{kWidthKeys, 3};
constexpr std::array kWidths = {"intermediate",   "intermediate_1", "intermediate_2", "intermediate_3",
                                "intermediate_4", "intermediate_5", "intermediate_6", "intermediate_7"};

bool has_flag(const ModelConfig& model, const char* key) { return size_of(model, key) != 0; }

LayerKind kind_of(const ModelConfig& model, std::int64_t layer) {
  return static_cast<LayerKind>(kKinds.of(model, layer));
}

std::int64_t width_of(const ModelConfig& model, std::int64_t layer) {
  std::int64_t place = 0;
  for (std::int64_t before = 0; before < layer; ++before) place += kind_of(model, before) == LayerKind::FeedForward;
  const std::int64_t which = place < kWidthsOfLayers.capacity() ? kWidthsOfLayers.of(model, place) : 0;
  return size_of(model, kWidths[static_cast<std::size_t>(which)]);
}

std::optional<MixturePart> mixture_of(const ModelConfig& model) {
  if (!has_flag(model, "experts")) return std::nullopt;
  return MixturePart{.experts = size_of(model, "experts"),
                     .top_k = size_of(model, "top_k"),
                     .width = size_of(model, "expert_intermediate"),
                     .shared_width = size_of(model, "shared_intermediate"),
                     .latent = size_of(model, "expert_latent"),
                     .capacity_factor = model.factors.at("capacity_factor"),
                     .sigmoid = !has_flag(model, "softmax_scores"),
                     .normalize = has_flag(model, "normalized"),
                     .selection_bias = has_flag(model, "selection_bias"),
                     .scale = model.factors.at("routed_scale")};
}

Transformer transformer_of(const ModelConfig& model) {
  const std::int64_t kv_heads = size_of(model, "kv_heads");
  return {.attention = {.kv_heads = kv_heads,
                        .group = model.heads / kv_heads,
                        .head_dim = size_of(model, "head_dim"),
                        .qkv_bias = has_flag(model, "qkv_bias"),
                        .out_bias = has_flag(model, "out_bias"),
                        .norm = has_flag(model, "qk_norm"),
                        .head_gate = has_flag(model, "head_gate"),
                        .scale = model.factors.at("attention_scale")},
          .feed_forward = {.width = size_of(model, "intermediate"),
                           .activation = has_flag(model, "gated") ? Activation::Silu : Activation::ReluSquared,
                           .gated = has_flag(model, "gated"),
                           .bias = has_flag(model, "mlp_bias"),
                           .gate_scale = model.factors.at("gate_scale")},
          .mixture = mixture_of(model),
          .layers = {},
          .norm = Norm::Rms,
          .epsilon = model.factors.at("epsilon"),
          .positions = has_flag(model, "rotary") ? Positions::Rotary : Positions::None,
          .rotary_base = model.factors.at("rotary_base"),
          .tied = has_flag(model, "tied"),
          .embed_scale = model.factors.at("embed_scale"),
          .residual_scale = model.factors.at("residual_scale"),
          .logit_scale = model.factors.at("logit_scale"),
          .further = {size_of(model, "mtp"), model.factors.at("mtp_weight")}};
}

// What differs from one layer of a kind to the next.
struct LayerUse {
  std::int64_t mlp_width;  // of a feed-forward layer
  bool windowed = false;   // of one that attends
};

// From first_window_layer on layers that attend have windows, except every full_every-th of them.
bool is_windowed(const ModelConfig& model, std::int64_t layer) {
  if (!has_flag(model, "window")) return false;
  std::int64_t place = -size_of(model, "first_window_layer");
  for (std::int64_t before = 0; before < layer; ++before) place += kind_of(model, before) == LayerKind::Attention;
  const std::int64_t every = size_of(model, "full_every");
  return place >= 0 && (every == 0 || (place + 1) % every != 0);
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
  [[nodiscard]] TensorId layer(const std::string& name, LayerKind kind, const LayerUse& use, TensorId x);
  [[nodiscard]] TensorId further_layers(const std::string& name, TensorId x);
  [[nodiscard]] TensorId scan(const std::string& name, TensorId x);
  [[nodiscard]] TensorId channel_scan(const std::string& name, TensorId x);
  [[nodiscard]] TensorId scan_norm(const std::string& name, TensorId x);
  [[nodiscard]] TensorId short_convolution(const std::string& name, TensorId x);
  // What a layer of scans makes, whichever these are, of the norm of its input.
  [[nodiscard]] TensorId mix_by_scan(const std::string& name, TensorId x);
  [[nodiscard]] TensorId attend(const std::string& name, TensorId x, bool windowed);
  // The last product, and its bias.
  [[nodiscard]] TensorId scan_out(const std::string& name, TensorId y);

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

TensorId HybridBuilder::scan_out(const std::string& name, TensorId y) {
  std::vector<Dim> weight(graph.tensor(y).dims.begin() + 2, graph.tensor(y).dims.end());
  weight.push_back(embed);
  y = project(name + ".out", y, weight, {"batch", "seq", "embed"});
  return has_flag(model, "scan_out_bias") ? add_bias(name + ".out", y, {embed}) : y;
}

TensorId HybridBuilder::scan(const std::string& name, TensorId x) {
  const std::vector<Dim> per_head = {groups, heads};
  const bool bias = has_flag(model, "scan_bias");
  x = scaled(name + ".in", x, model.factors.at("scan_in_scale"));
  const auto wide = [&](const std::string& which, const std::vector<Dim>& dims) {
    return scaled(name + "." + which, widen(name + "." + which, x, dims, bias),
                  model.factors.at(fmt::format("scan_{}_scale", which)));
  };
  const auto recent = [&](const std::string& which, const std::vector<Dim>& dims) {
    return convolve(name + "." + which, wide(which, dims), size_of(model, "conv"), has_flag(model, "conv_bias"));
  };
  const TensorId gate = add(OpKind::Silu, name + ".z.silu", {wide("z", {groups, heads, width})});
  const TensorId input = recent("x", {groups, heads, width});
  const TensorId b = recent("b", {groups, state}), c = recent("c", {groups, state}), dt = wide("dt", per_head);
  const std::vector<TensorId> operands = {in_chunks(name + ".x", input),
                                          in_chunks(name + ".dt", dt),
                                          parameter(name + ".a_log", per_head),
                                          in_chunks(name + ".b", b),
                                          in_chunks(name + ".c", c),
                                          parameter(name + ".d", per_head),
                                          parameter(name + ".dt_bias", per_head)};
  TensorId y = add(OpKind::SelectiveScan, name + ".core", operands);
  y = add(OpKind::Reshape, name + ".core.seq", {y}, {.result_dims = {batch, seq, groups, heads, width}});
  const std::int64_t norm_place = size_of(model, "scan_norm");
  if (norm_place == kNormBeforeGate) y = scan_norm(name + ".norm", y);
  y = add(OpKind::Multiply, name + ".gated", {y, gate});
  if (norm_place == kNormBehindGate) y = scan_norm(name + ".norm", y);
  return scan_out(name, y);
}

// The convolution made x and what b, c and the steps come from: the steps through a low rank, b and c for all channels.
TensorId HybridBuilder::channel_scan(const std::string& name, TensorId x) {
  const std::vector<Dim> channels = {groups, heads, width};
  const Dim rank{"scan_rank", size_of(model, "scan_rank")};
  const bool bias = has_flag(model, "scan_bias");
  const TensorId gate = add(OpKind::Silu, name + ".z.silu", {widen(name + ".z", x, channels, bias)});
  const TensorId input = convolve(name + ".x", widen(name + ".x", x, channels, bias), size_of(model, "conv"),
                                  has_flag(model, "conv_bias"));
  const auto of_group = [&](const std::string& which, const Dim& last) {
    const TensorId made =
        project(name + which, input, {groups, heads, width, last}, {"batch", "seq", "scan_groups", last.name});
    const std::int64_t norms = size_of(model, "operand_norms");
    if (norms == kPlainNorms) return plain_norm(name + which + ".norm", made, model.factors.at("operand_epsilon"));
    return norms != 0 ? norm(name + which + ".norm", made, last) : made;
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
  return scan_out(name, add(OpKind::Multiply, name + ".gated", {y, gate}));
}

TensorId HybridBuilder::short_convolution(const std::string& name, TensorId x) {
  const std::vector<Dim> channels = {{"conv_dim", embed.size}};
  const auto wide = [&](const char* which) { return widen(name + which, x, channels, has_flag(model, "scan_bias")); };
  const TensorId before = wide(".b"), behind = wide(".c");
  TensorId y = add(OpKind::Multiply, name + ".x.gated", {wide(".x"), before});
  y = convolution(name + ".x", y, size_of(model, "conv"), has_flag(model, "conv_bias"));
  return scan_out(name, add(OpKind::Multiply, name + ".gated", {y, behind}));
}

TensorId HybridBuilder::mix_by_scan(const std::string& name, TensorId x) {
  if (has_flag(model, "short_conv")) return short_convolution(name + ".conv", x);
  const std::string scan_name = name + ".scan";
  const TensorId y = size_of(model, "scan_rank") > 0 ? channel_scan(scan_name, x) : scan(scan_name, x);
  return scaled(scan_name + ".out", y, model.factors.at("scan_out_scale"));
}

TensorId HybridBuilder::attend(const std::string& name, TensorId x, bool windowed) {
  x = scaled(name + ".in", x, model.factors.at("attention_in_scale"));
  AttentionUse use{.causal = true, .rotary = has_flag(model, "rotary"), .rotary_dims = size_of(model, "rotary_dims")};
  if (windowed) {
    use.window = size_of(model, "window");
    use.rotary_base = model.factors.at("window_rotary_base");
    use.rotary_dims = size_of(model, "window_rotary_dims");
  }
  const TensorId y = attention(name, x, x, use);
  return scaled(name + ".out", y, model.factors.at("attention_out_scale"));
}

TensorId HybridBuilder::layer(std::int64_t number, TensorId x) {
  graph.current_block = static_cast<int>(number);
  return layer(fmt::format("blk{}", number), kind_of(model, number),
               {width_of(model, number), is_windowed(model, number)}, x);
}

TensorId HybridBuilder::further_layers(const std::string& name, TensorId x) {
  const std::int64_t digits = size_of(model, "mtp_kinds");
  for (std::int64_t at = 0; at < size_of(model, "mtp_layers"); ++at)
    x = layer(fmt::format("{}.{}", name, at), static_cast<LayerKind>(kKinds.in(digits, at)),
              {transformer.feed_forward.width}, x);
  return x;
}

TensorId HybridBuilder::layer(const std::string& name, LayerKind kind, const LayerUse& use, TensorId x) {
  const TensorId read = norm(name + ".ln", x, embed);
  const auto plus = [&](const std::string& part, TensorId y) {
    if (has_flag(model, "result_norms")) y = norm(name + part + ".norm", y, embed);
    return add(OpKind::Add, name + part + ".residual", {x, scaled(name + part, y, transformer.residual_scale)});
  };
  switch (kind) {
    case LayerKind::Scan:
      return plus(has_flag(model, "short_conv") ? ".conv" : ".scan", mix_by_scan(name, read));
    case LayerKind::Attention: {
      TensorId made = attend(name + ".attn", read, use.windowed);
      if (has_flag(model, "beside")) made = add(OpKind::Add, name + ".attn.beside", {made, mix_by_scan(name, read)});
      return plus(".attn", made);
    }
    case LayerKind::Mixture:
      require(transformer.mixture.has_value(), "layer {} has experts, but the model none; give experts and top_k.",
              name);
      return plus(".moe", mixture(name + ".moe", read));
    case LayerKind::FeedForward:
      break;
  }
  require(use.mlp_width >= 1, "layer {} is of a width that the model does not give; give intermediate_1 and its like.",
          name);
  const TensorId made = feed_forward(name + ".mlp", read, use.mlp_width);
  return plus(".mlp", scaled(name + ".mlp.out", made, model.factors.at("mlp_out_scale")));
}

void build_hybrid(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer transformer = transformer_of(model);
  HybridBuilder builder(graph, model, transformer);
  build_layers(builder, graph, model, reduction,
               [&](const std::string& name, TensorId x) { return builder.further_layers(name, x); });
}

// What scans need and gated convolutions do not.
std::int64_t only_of_scans(const ModelConfig& model, const std::string& place) {
  require(has_flag(model, "short_conv"), "{}: scan_heads, scan_head_dim and state must be given but with short_conv=1.",
          place);
  return 1;
}
std::int64_t scan_bias_of(const ModelConfig& model, const std::string& /*place*/) {
  return size_of(model, "scan_bias");
}
std::int64_t rotary_dims_of(const ModelConfig& model, const std::string& /*place*/) {
  return size_of(model, "rotary_dims");
}
std::int64_t sigmoid_scores(const ModelConfig& model, const std::string& /*place*/) {
  return has_flag(model, "experts") && !has_flag(model, "softmax_scores") ? 1 : 0;
}

std::vector<SizeField> hybrid_sizes() {
  constexpr std::int64_t kMaxWidth = 10'000'000, kMaxHeads = 1'000'000;
  std::vector<SizeField> sizes = {{"layers", kKinds.capacity()},
                                  {"hidden", 1'000'000},
                                  {"heads", kMaxHeads},
                                  {"seq", 10'000'000},
                                  {"vocab", 10'000'000},
                                  {"short_conv", 1, 0, 0},
                                  {.key = "scan_heads", .maximum = kMaxHeads, .derived = only_of_scans},
                                  {.key = "scan_head_dim", .maximum = kMaxWidth, .derived = only_of_scans},
                                  {"scan_groups", kMaxHeads, 1, 1},
                                  {.key = "state", .maximum = kMaxWidth, .derived = only_of_scans},
                                  {"scan_rank", kMaxWidth, 0, 0},
                                  {"scan_chunk", kMaxWidth, 1, 256},
                                  {"conv", 1'000, 1, 4},
                                  {"experts", 100'000, 0, 0},
                                  {"top_k", 100'000, 0, 0},
                                  {"expert_intermediate", kMaxWidth, 0, 0},
                                  {"shared_intermediate", kMaxWidth, 0, 0},
                                  {"expert_latent", kMaxWidth, 0, 0},
                                  {"normalized", 1, 0, 1},
                                  {.key = "intermediate", .maximum = kMaxWidth, .derived = four_times_hidden},
                                  {.key = "kv_heads", .maximum = kMaxHeads, .derived = all_heads},
                                  {.key = "head_dim", .maximum = kMaxWidth, .derived = head_width}};
  for (const char* off : {"group_norm", "scan_bias", "qkv_bias", "out_bias", "mlp_bias", "tied", "gated",
                          "softmax_scores", "rotary", "qk_norm", "beside", "head_gate", "result_norms"})
    sizes.push_back({off, 1, 0, 0});
  sizes.push_back({"operand_norms", kPlainNorms, 0, 0});
  sizes.push_back({.key = "scan_out_bias", .maximum = 1, .minimum = 0, .derived = scan_bias_of});
  sizes.push_back({.key = "selection_bias", .maximum = 1, .minimum = 0, .derived = sigmoid_scores});
  sizes.push_back({"scan_norm", kNormBeforeGate, 0, kNormBehindGate});
  sizes.push_back({"conv_bias", 1, 0, 1});
  sizes.push_back({"rotary_dims", 1'000'000, 0, 0});  // 0: all of a head
  sizes.push_back({.key = "window_rotary_dims", .maximum = 1'000'000, .minimum = 0, .derived = rotary_dims_of});
  sizes.push_back({"window", kMaxWidth, 0, 0});
  for (const char* of_attention : {"first_window_layer", "full_every"})
    sizes.push_back({of_attention, kKinds.capacity(), 0, 0});
  const std::vector<SizeField> kinds = kKinds.fields(), widths = kWidthsOfLayers.fields();
  sizes.insert(sizes.end(), kinds.begin(), kinds.end());
  for (std::size_t which = 1; which < kWidths.size(); ++which) sizes.push_back({kWidths[which], kMaxWidth, 0, 0});
  sizes.insert(sizes.end(), widths.begin(), widths.end());
  sizes.push_back({"mtp", 100, 0, 0});
  sizes.push_back({"mtp_layers", kKinds.per_key(), 0, 0});
  sizes.push_back({"mtp_kinds", kinds.front().maximum, 0, 0});
  return sizes;
}

std::vector<FactorField> hybrid_factors() {
  std::vector<FactorField> factors = {
      {"epsilon", 1e-5}, {"operand_epsilon", 1e-6}, {"capacity_factor", 1.0}, {"routed_scale", 1.0}};
  factors.push_back({"rotary_base", 10000.0});
  factors.push_back({"window_rotary_base", 0.0, "rotary_base"});
  factors.push_back({"mtp_weight", 0.3});
  for (const char* scale : {"embed_scale", "residual_scale", "attention_scale", "logit_scale", "attention_in_scale",
                            "attention_out_scale", "scan_in_scale", "scan_z_scale", "scan_x_scale", "scan_b_scale",
                            "scan_c_scale", "scan_dt_scale", "scan_out_scale", "gate_scale", "mlp_out_scale"})
    factors.push_back({scale, 1.0});
  return factors;
}

std::int64_t digit_of_kind(const ModelConfig& model, const std::string& kinds, std::size_t layer,
                           const std::string& place) {
  const std::size_t kind = std::string_view("M*-E").find(kinds[layer]);
  require(kind != std::string::npos,
          "{}: layer {} is of the kind '{}', which is not supported; M (scan), * (attention), - (feed-forward) and E "
          "(experts) are.",
          place, layer, kinds[layer]);
  require(kinds[layer] != 'E' || size_of(model, "experts") > 0,
          "{}: layer {} has experts, but the model none; give their number.", place, layer);
  return static_cast<std::int64_t>(kind);
}

}  // namespace

void set_further_layers(ModelConfig& model, const std::string& kinds, const std::string& place) {
  require(static_cast<std::int64_t>(kinds.size()) <= kKinds.per_key(),
          "{}: it has {} layers; at most {} are supported.", place, kinds.size(), kKinds.per_key());
  model.more["mtp_layers"] = static_cast<std::int64_t>(kinds.size());
  model.more["mtp_kinds"] = 0;
  for (std::size_t layer = 0; layer < kinds.size(); ++layer)
    model.more["mtp_kinds"] += digit_of_kind(model, kinds, layer, place) << (2 * layer);
}

void set_layer_widths(ModelConfig& model, const std::vector<std::int64_t>& widths, const std::string& place) {
  std::vector<std::int64_t> known;
  for (const std::int64_t width : widths)
    if (std::find(known.begin(), known.end(), width) == known.end()) known.push_back(width);
  require(known.size() <= kWidths.size() && static_cast<std::int64_t>(widths.size()) <= kWidthsOfLayers.capacity(),
          "{}: it has {} feed-forward layers of {} widths; at most {} of {} are supported.", place, widths.size(),
          known.size(), kWidthsOfLayers.capacity(), kWidths.size());
  for (std::size_t which = 0; which < known.size(); ++which) model.more[kWidths[which]] = known[which];
  std::vector<std::int64_t> digits;
  for (const std::int64_t width : widths)
    digits.push_back(std::find(known.begin(), known.end(), width) - known.begin());
  kWidthsOfLayers.set(model, digits);
}

void set_layer_kinds(ModelConfig& model, const std::string& kinds, const std::string& place) {
  require(static_cast<std::int64_t>(kinds.size()) <= kKinds.capacity(),
          "{}: it has {} layers of several kinds; at most {} are supported.", place, kinds.size(), kKinds.capacity());
  std::vector<std::int64_t> digits;
  for (std::size_t layer = 0; layer < kinds.size(); ++layer)
    digits.push_back(digit_of_kind(model, kinds, layer, place));
  kKinds.set(model, digits);
}

std::vector<Family> hybrid_families() {
  return {{"hybrid", hybrid_sizes(), hybrid_factors(),
           "hybrid:layers=3,hidden=64,heads=4,seq=32,vocab=128,scan_heads=4,scan_head_dim=32,state=16,kinds_0=36", 1024,
           DType::BF16, build_hybrid}};
}

}  // namespace meshwright
