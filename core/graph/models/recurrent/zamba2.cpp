// SPDX-License-Identifier: Apache-2.0
// Zamba2 (P. Glorioso et al., arXiv:2411.15242): decoders of Mamba-2 scans. What some scans read has a sum besides:
// what a shared block of attention and a feed-forward layer makes of the layer's input beside the word's embedding,
// through a product of the layer's own. There are a few such blocks, which take turns and keep their weights; each use
// adds products of low rank to them.
//
// Steps are at least the factor `step_min`. Ops are named "blk<layer>.scan.x", "blk<layer>.shared.attn.q",
// "blk<layer>.shared.mlp.gate", "blk<layer>.linear"; parameters of a shared block by the first layer that uses it,
// those of its use number j "blk<first>.shared.attn.q.adapter<j>.down". Which layers use one is told by `hybrid_0`,
// ..., in base 2, the first layer in the lowest digit of the first number.
//
// Dimensions besides a transformer's: wide_embed, of an input and an embedding; a scan's as in hybrid.cpp.
#include <array>
#include <cmath>

#include "core/base/errors.h"
#include "core/graph/models/family_keys.h"
#include "core/graph/models/parts/layer_digits.h"
#include "core/graph/models/parts/scan_builder.h"

namespace meshwright {

namespace {

using namespace keys;

constexpr std::array kZamba2Marks = {"hybrid_0", "hybrid_1"};
constexpr LayerDigits kZamba2Hybrids{kZamba2Marks, 1};

Transformer zamba2(const ModelConfig& model) {
  const std::int64_t kv_heads = size_of(model, "kv_heads");
  return {.attention = {.kv_heads = kv_heads,
                        .group = model.heads / kv_heads,
                        .head_dim = size_of(model, "head_dim"),
                        .scale = std::sqrt(2.0)},
          .feed_forward = {.width = size_of(model, "intermediate"), .activation = gelu_of(model), .gated = true},
          .layers = {},
          .norm = Norm::Rms,
          .epsilon = model.factors.at("epsilon"),
          .positions = is_set(model, "rotary") ? Positions::Rotary : Positions::None,
          .rotary_base = model.factors.at("rotary_base"),
          .tied = is_set(model, "tied")};
}

struct Zamba2Builder : ScanBuilder {
  Zamba2Builder(Graph& into, const ModelConfig& of, const Transformer& what)
      : ScanBuilder(into, of, what, size_of(of, "scan_chunk")),
        model(of),
        wide{"wide_embed", 2 * of.hidden},
        rank{"adapter_rank", size_of(of, "adapter_rank")},
        groups{"scan_groups", size_of(of, "scan_groups")},
        heads{"scan_heads", size_of(of, "scan_heads") / groups.size},
        width{"scan_dim", size_of(of, "scan_head_dim")},
        state{"state", size_of(of, "state")} {}

  [[nodiscard]] TensorId layer(std::int64_t number, TensorId x);
  [[nodiscard]] TensorId scan(const std::string& name, TensorId x);
  // What softplus makes a step of at least step_min.
  [[nodiscard]] TensorId steps(const std::string& name, TensorId x);
  // What a layer adds to the input of its scan: `number` of those that use shared blocks.
  [[nodiscard]] TensorId shared_block(const std::string& layer_name, std::int64_t number, TensorId x);
  [[nodiscard]] TensorId shared_attention(const std::string& name, const std::string& use, TensorId x);
  [[nodiscard]] TensorId shared_feed_forward(const std::string& name, const std::string& use, TensorId x);

  const ModelConfig& model;
  const Dim wide, rank, groups, heads, width, state;
  std::int64_t uses = 0;                // of shared blocks so far
  std::vector<std::string> first_uses;  // of each shared block: the layer's name
  std::optional<TensorId> embedded;
};

TensorId Zamba2Builder::steps(const std::string& name, TensorId x) {
  const TensorId bias = parameter(name + "_bias", {groups, heads});
  const TensorId raw = add(OpKind::BiasAdd, name + ".biased", {widen(name, x, {groups, heads}), bias});
  return add(OpKind::Clamp, name + ".bounded", {raw}, {.low = std::log(std::expm1(model.factors.at("step_min")))});
}

TensorId Zamba2Builder::scan(const std::string& name, TensorId x) {
  const std::vector<Dim> channels = {groups, heads, width}, per_head = {groups, heads};
  const auto recent = [&](const std::string& which, const std::vector<Dim>& dims) {
    return convolve(name + which, widen(name + which, x, dims), size_of(model, "conv"), true);
  };
  const TensorId gate = add(OpKind::Silu, name + ".z.silu", {widen(name + ".z", x, channels)});
  const TensorId input = recent(".x", channels), b = recent(".b", {groups, state}), c = recent(".c", {groups, state});
  const std::vector<double> zeros(static_cast<std::size_t>(groups.size * heads.size), 0.0);
  TensorId y = add(OpKind::SelectiveScan, name + ".core",
                   {in_chunks(name + ".x", input), in_chunks(name + ".dt", steps(name + ".dt", x)),
                    parameter(name + ".a_log", per_head), in_chunks(name + ".b", b), in_chunks(name + ".c", c),
                    parameter(name + ".d", per_head), constant("zeros.scan", per_head, zeros)});
  y = add(OpKind::Reshape, name + ".core.seq", {y}, {.result_dims = {batch, seq, groups, heads, width}});
  y = add(OpKind::Multiply, name + ".gated", {y, gate});
  const Dim of_group{"group_width", heads.size * width.size};
  y = add(OpKind::Reshape, name + ".norm.joined", {y}, {.result_dims = {batch, seq, groups, of_group}});
  y = add(OpKind::RmsNorm, name + ".norm", {y, parameter(name + ".norm.gamma", {groups, of_group})},
          {.epsilon = transformer.epsilon});
  y = add(OpKind::Reshape, name + ".norm.heads", {y}, {.result_dims = {batch, seq, groups, heads, width}});
  return project(name + ".out", y, {groups, heads, width, embed}, {"batch", "seq", "embed"});
}

TensorId Zamba2Builder::shared_attention(const std::string& name, const std::string& use, TensorId x) {
  const auto made = [&](const std::string& which, std::vector<Dim> dims) {
    std::vector<std::string> result = {"batch", "seq"};
    for (const Dim& dim : dims) result.push_back(dim.name);
    const auto weight = [&](const Dim& from) {
      std::vector<Dim> all = {from};
      all.insert(all.end(), dims.begin(), dims.end());
      return all;
    };
    const TensorId y = project(name + which, x, weight(wide), result);
    if (!is_set(model, "attention_adapters")) return y;
    const std::string adapter = name + which + use;
    const TensorId narrow = project(adapter + ".down", x, {wide, rank}, {"batch", "seq", rank.name});
    return add(OpKind::Add, adapter + ".sum", {y, project(adapter + ".up", narrow, weight(rank), result)});
  };
  const auto placed = [&](const std::string& which, TensorId y) {
    if (transformer.positions != Positions::Rotary) return y;
    return add(OpKind::Rotary, name + which + ".rotary", {y}, {.rotary_base = transformer.rotary_base});
  };
  const TensorId q = placed(".q", made(".q", {kv_heads, group, head_dim}));
  const TensorId k = placed(".k", made(".k", {kv_heads, head_dim}));
  const TensorId v = made(".v", {kv_heads, head_dim});
  Attributes attributes{.causal = true};
  attributes.scale = transformer.attention.scale / std::sqrt(static_cast<double>(head_dim.size));
  // A scale of 1 stands for 1 / sqrt(head_dim); the next representable number stands for 1.
  if (attributes.scale == 1.0) attributes.scale = std::nextafter(1.0, 2.0);
  const TensorId core =
      add(OpKind::GroupedAttention, name + ".core", {q, as_keys(name + ".k", k), as_keys(name + ".v", v)}, attributes);
  return attention_out(name, core);
}

TensorId Zamba2Builder::shared_feed_forward(const std::string& name, const std::string& use, TensorId x) {
  const Dim mlp{"mlp", transformer.feed_forward.width};
  const std::vector<std::string> result = {"batch", "seq", "mlp"};
  const TensorId narrow = project(name + use + ".down", x, {embed, rank}, {"batch", "seq", rank.name});
  const auto wider = [&](const char* which) {
    const std::string adapter = name + use + which;
    return add(OpKind::Add, adapter + ".sum",
               {project(name + which, x, {embed, mlp}, result), project(adapter, narrow, {rank, mlp}, result)});
  };
  const TensorId gate = activate(name, wider(".gate"));
  return feed_forward_out(name, add(OpKind::Multiply, name + ".gated", {gate, wider(".up")}));
}

TensorId Zamba2Builder::shared_block(const std::string& layer_name, std::int64_t number, TensorId x) {
  const std::int64_t blocks = size_of(model, "shared_blocks");
  if (number < blocks) first_uses.push_back(layer_name);
  const std::string name = layer_name + ".shared", use = fmt::format(".adapter{}", number);
  shared_names = SharedNames{name + ".", first_uses[static_cast<std::size_t>(number % blocks)] + ".shared."};
  TensorId y = add(OpKind::Concat, name + ".in", {x, *embedded}, {.result_dims = {batch, seq, wide}});
  y = shared_attention(name + ".attn", use, norm(name + ".ln1", y, wide));
  y = shared_feed_forward(name + ".mlp", use, norm(name + ".ln2", y, embed));
  shared_names = std::nullopt;
  const Dim out{"linear_embed", embed.size};
  y = project(layer_name + ".linear", y, {embed, out}, {"batch", "seq", out.name});
  return add(OpKind::Reshape, layer_name + ".linear.embed", {y}, {.result_dims = {batch, seq, embed}});
}

TensorId Zamba2Builder::layer(std::int64_t number, TensorId x) {
  if (!embedded) embedded = x;
  graph.current_block = static_cast<int>(number);
  const std::string name = fmt::format("blk{}", number);
  TensorId read = x;
  if (kZamba2Hybrids.of(model, number) != 0)
    read = add(OpKind::Add, name + ".linear.sum", {x, shared_block(name, uses++, x)});
  const TensorId made = scan(name + ".scan", norm(name + ".ln", read, embed));
  return add(OpKind::Add, name + ".scan.residual", {x, made});
}

void build_zamba2(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer transformer = zamba2(model);
  Zamba2Builder builder(graph, model, transformer);
  build_layers(builder, graph, model, reduction);
}

// A head is as wide as if what attention reads were all heads'.
std::int64_t twice_per_head(const ModelConfig& model, const std::string&) {
  return std::max<std::int64_t>(1, 2 * model.hidden / model.heads);
}

}  // namespace

void set_zamba2_hybrids(ModelConfig& model, const std::vector<bool>& hybrid, const std::string& place) {
  require(static_cast<std::int64_t>(hybrid.size()) <= kZamba2Hybrids.capacity(),
          "{} has {} layers; at most {} are supported.", place, hybrid.size(), kZamba2Hybrids.capacity());
  kZamba2Hybrids.set(model, std::vector<std::int64_t>(hybrid.begin(), hybrid.end()));
}

std::vector<Family> zamba2_families() {
  std::vector<SizeField> more = {derived_width("intermediate", four_times_hidden),
                                 {.key = "kv_heads", .maximum = kMaxHeads, .derived = heads_of},
                                 derived_width("head_dim", twice_per_head),
                                 {"scan_heads", kMaxHeads},
                                 width("scan_head_dim"),
                                 {"scan_groups", kMaxHeads, 1, 1},
                                 width("state"),
                                 {"scan_chunk", kMaxWidth, 1, 256},
                                 {"conv", 1'000, 1, 4},
                                 {"shared_blocks", kMaxLayers, 1, 1},
                                 {"adapter_rank", kMaxWidth, 1, 128},
                                 flag("attention_adapters", 0),
                                 flag("rotary", 0),
                                 erf(1),
                                 flag("tied", 1)};
  std::vector<SizeField> sizes = with_core_sizes(with(more, kZamba2Hybrids.fields()));
  for (SizeField& field : sizes)
    if (std::string_view(field.key) == "layers") field.maximum = kZamba2Hybrids.capacity();
  return {{"zamba2",
           sizes,
           {epsilon(1e-5), {"rotary_base", 10000.0}, {"step_min", 0.001}},
           "zamba2:layers=4,hidden=64,heads=4,intermediate=128,seq=32,vocab=128,scan_heads=4,scan_head_dim=32,state=16,"
           "adapter_rank=8,attention_adapters=1,hybrid_0=10",
           kDefaultBatch,
           DType::BF16,
           build_zamba2}};
}

}  // namespace meshwright
