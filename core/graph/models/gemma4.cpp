// SPDX-License-Identifier: Apache-2.0
// The text decoders of Gemma 4 (Google DeepMind, 2026) and Gemma 3n (2025). Layers with windows and layers without
// differ in their heads' width, in the number of keys, and in their rotation; norms are of what attention and
// feed-forward read and make.
//
// What a layer may have besides:
//   keys that are values too (`kv_tied`), in layers without windows: one projection for both
//   the keys and values of an earlier layer (the last `shared_layers`): those of the last layer of its kind that has
//     its own; such a layer's feed-forward may be twice as wide (`wide_shared`)
//   a vector per token and layer (`layer_embed`): from a table of its own and from the embedding, which gates a
//     projection behind the block. The file's table of all layers is one table for each
//   a mixture beside the feed-forward layer, which reads the block's sum through a norm of its own; its router reads
//     that sum through another, and the weight of each expert is scaled by a number of its own
//
// Ops are named "blk<layer>.attn.q", ..., ".mlp.up", ..., ".moe.router", ..., ".layer_embed.gate", ".layer_embed.out".
//   a factor of what it makes (`layer_factor`), which is read from files and not trained
//   several residual streams (`streams`, core/graph/models/parts/alternating_streams.h), of which the layer changes the
//   first and the vector of each layer the others a product through `laurel_rank` numbers beside attention, whose mean
//   with it, times the root of 2, goes on gates that are 0 but where they stick out (`sparse_layers`, the first ones):
//   what is more than the mean of a token's gates by `sparse_deviations` standard deviations is activated
// Values are normalised without weights.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/errors.h"
#include "core/graph/models/families.h"
#include "core/graph/models/family_keys.h"
#include "core/graph/models/parts/alternating_streams.h"
#include "core/graph/models/parts/transformer_builder.h"

namespace meshwright {

namespace {

bool given(const ModelConfig& model, const char* key) { return size_of(model, key) != 0; }

Transformer gemma4(const ModelConfig& model) {
  const std::int64_t kv_heads = size_of(model, "kv_heads");
  Transformer made{.attention = {.kv_heads = kv_heads,
                                 .group = model.heads / kv_heads,
                                 .head_dim = size_of(model, "head_dim"),
                                 .qkv_bias = given(model, "qkv_bias"),
                                 .out_bias = given(model, "out_bias"),
                                 .norm = true,
                                 .scaled = false},
                   .feed_forward = {.width = size_of(model, "intermediate"),
                                    .activation = given(model, "erf") ? Activation::GeluErf : Activation::Gelu,
                                    .gated = true},
                   .layers = {},
                   .norm = Norm::Rms,
                   .epsilon = model.factors.at("epsilon"),
                   .positions = Positions::Rotary,
                   .rotary_base = model.factors.at("rotary_base"),
                   .tied = given(model, "tied"),
                   .embed_scale = std::sqrt(static_cast<double>(model.hidden)),
                   .logit_cap = given(model, "capped") ? model.factors.at("logit_cap") : 0.0};
  if (given(model, "experts"))
    made.mixture = MixturePart{.experts = size_of(model, "experts"),
                               .top_k = size_of(model, "top_k"),
                               .width = size_of(model, "expert_intermediate"),
                               .capacity_factor = model.factors.at("capacity_factor"),
                               .scaled_experts = true};
  return made;
}

struct Gemma4Builder : TransformerBuilder {
  Gemma4Builder(Graph& into, const ModelConfig& of, const Transformer& what)
      : TransformerBuilder(into, of, what), model(of), layer_dim{"layer_embed", size_of(of, "layer_embed")} {}

  // Heads of one kind of layer, its rotation, and the keys and values of its last layer that has its own.
  struct Kind {
    Dim kv_heads, group, width;
    double rotary_base;
    std::int64_t rotary_dims, window;
    bool tied;
    std::optional<std::pair<TensorId, TensorId>> keys_and_values = {};
  };
  [[nodiscard]] Kind kind_of(bool full) const;
  void set_kinds() {
    windowed = kind_of(false);
    all_keys = kind_of(true);
  }

  [[nodiscard]] bool is_full(std::int64_t number) const {
    const std::int64_t every = size_of(model, "full_every");
    return every > 0 && (number + 1) % every == 0;
  }
  [[nodiscard]] bool shares_keys(std::int64_t number) const {
    return number >= model.layers - size_of(model, "shared_layers");
  }
  [[nodiscard]] TensorId layer(std::int64_t number, TensorId x);
  [[nodiscard]] TensorId attend(const std::string& name, TensorId x, Kind& kind, bool shares);
  [[nodiscard]] TensorId feed(const std::string& name, TensorId sum, bool shares);
  // What of each number of a token exceeds their mean by more than so many standard deviations.
  [[nodiscard]] TensorId outstanding(const std::string& name, TensorId gate);
  [[nodiscard]] TensorId sparse_feed_forward(const std::string& name, TensorId x);
  [[nodiscard]] TensorId with_laurel(const std::string& name, TensorId read, TensorId sum);
  [[nodiscard]] TensorId stream_layer(std::int64_t number, TensorId all);
  // What a layer's vector makes of x, behind its norm; and x with it added.
  [[nodiscard]] TensorId layer_embedding(const std::string& name, TensorId x);
  [[nodiscard]] TensorId with_layer_embedding(const std::string& name, TensorId x);
  [[nodiscard]] TensorId with_layer_factor(const std::string& name, TensorId x);

  const ModelConfig& model;
  const Dim layer_dim;
  std::optional<Kind> windowed, all_keys;
  TensorId tokens{0}, embedded{0};
  std::optional<TensorId> layer_embed_gamma;  // of all layers
};

Gemma4Builder::Kind Gemma4Builder::kind_of(bool full) const {
  const std::int64_t keys = size_of(model, full ? "full_kv_heads" : "kv_heads");
  const Dim heads{full ? "full_kv_heads" : "kv_heads", keys}, of_key{full ? "full_group" : "group", model.heads / keys};
  const bool tied = full && given(model, "kv_tied");
  const char* name = tied ? "tied_head_dim" : full ? "full_head_dim" : "head_dim";
  const Dim width{name, size_of(model, full ? "full_head_dim" : "head_dim")};
  return {heads,
          of_key,
          width,
          model.factors.at(full ? "full_rotary_base" : "rotary_base"),
          full ? size_of(model, "full_rotary_dims") : 0,
          full ? 0 : size_of(model, "window"),
          tied};
}

TensorId Gemma4Builder::attend(const std::string& name, TensorId x, Kind& kind, bool shares) {
  const std::vector<Dim> key_dims = {kind.kv_heads, kind.width}, query_dims = {kind.kv_heads, kind.group, kind.width};
  const auto made = [&](const char* which, const std::vector<Dim>& dims) {
    std::vector<Dim> weight = {embed};
    std::vector<std::string> result = {"batch", "seq"};
    for (const Dim& dim : dims) {
      weight.push_back(dim);
      result.push_back(dim.name);
    }
    const TensorId y = project(name + which, x, weight, result);
    return transformer.attention.qkv_bias ? add_bias(name + which, y, dims) : y;
  };
  const auto turned = [&](const char* which, TensorId y) {
    return add(OpKind::Rotary, name + which + ".rotary", {norm(name + which + "_norm", y, kind.width)},
               {.rotary_base = kind.rotary_base, .rotary_dims = kind.rotary_dims});
  };
  const TensorId q = turned(".q", made(".q", query_dims));
  if (!shares) {
    const TensorId k = made(".k", key_dims);
    const TensorId v = kind.tied ? k : made(".v", key_dims);
    kind.keys_and_values = {as_keys(name + ".k", turned(".k", k)),
                            as_keys(name + ".v", plain_norm(name + ".v_norm", v, transformer.epsilon))};
  }
  MW_CHECK(kind.keys_and_values.has_value(), "'{}' shares keys that no layer before it has", name);
  // The next representable number stands for a scale of 1, as 1 does for 1 / sqrt(head_dim).
  const TensorId core =
      add(OpKind::GroupedAttention, name + ".core", {q, kind.keys_and_values->first, kind.keys_and_values->second},
          {.scale = std::nextafter(1.0, 2.0),
           .causal = true,
           .attention_window = kind.window < seq.size ? kind.window : 0});
  const TensorId out =
      project(name + ".out", core, {kind.kv_heads, kind.group, kind.width, embed}, {"batch", "seq", "embed"});
  return transformer.attention.out_bias ? add_bias(name + ".out", out, {embed}) : out;
}

TensorId Gemma4Builder::feed(const std::string& name, TensorId sum, bool shares) {
  const std::int64_t times = shares && given(model, "wide_shared") ? 2 : 1;
  const TensorId dense =
      feed_forward(name + ".mlp", norm(name + ".ln2", sum, embed), times * transformer.feed_forward.width);
  if (!transformer.mixture) return norm(name + ".mlp.norm", dense, embed);
  const TensorId routed_by =
      add(OpKind::Scale, name + ".moe.router.scaled", {norm(name + ".moe.router_norm", sum, embed)},
          {.scale = 1.0 / std::sqrt(static_cast<double>(embed.size))});
  const TensorId routed = mixture(name + ".moe", norm(name + ".ln2_moe", sum, embed), routed_by);
  const TensorId both = add(OpKind::Add, name + ".products",
                            {norm(name + ".mlp.dense_norm", dense, embed), norm(name + ".moe.norm", routed, embed)});
  return norm(name + ".mlp.norm", both, embed);
}

// (a projection of the embedding, normalised, and a row of the layer's table) / sqrt(2), gated by what the block made.
TensorId Gemma4Builder::layer_embedding(const std::string& name, TensorId x) {
  const std::vector<std::string> narrow = {"batch", "seq", layer_dim.name};
  const auto times = [&](const std::string& which, TensorId y, double factor) {
    return add(OpKind::Scale, name + which, {y}, {.scale = factor});
  };
  if (!layer_embed_gamma) layer_embed_gamma = parameter("layer_embed.norm.gamma", {layer_dim});
  const TensorId table = parameter(name + ".table", {{"layer_vocab", size_of(model, "layer_vocab")}, layer_dim});
  const TensorId row = times(".table.scaled", add(OpKind::Embedding, name + ".row", {tokens, table}),
                             std::sqrt(static_cast<double>(layer_dim.size)));
  TensorId context = project(name + ".context", embedded, {embed, layer_dim}, narrow);
  context = times(".context.scaled", context, 1.0 / std::sqrt(static_cast<double>(embed.size)));
  context =
      add(OpKind::RmsNorm, name + ".context.norm", {context, *layer_embed_gamma}, {.epsilon = transformer.epsilon});
  const TensorId both = times(".scaled", add(OpKind::Add, name + ".sum", {context, row}), std::sqrt(0.5));
  const TensorId gate = activate(name + ".gate", project(name + ".gate", x, {embed, layer_dim}, narrow));
  const TensorId out = project(name + ".out", add(OpKind::Multiply, name + ".gated", {gate, both}), {layer_dim, embed},
                               {"batch", "seq", "embed"});
  return norm(name + ".norm", out, embed);
}

TensorId Gemma4Builder::with_layer_embedding(const std::string& name, TensorId x) {
  return add(OpKind::Add, name + ".residual", {x, layer_embedding(name, x)});
}

TensorId Gemma4Builder::outstanding(const std::string& name, TensorId gate) {
  const std::vector<Dim> dims = graph.tensor(gate).dims;
  const Attributes mean{.result_names = {"batch", "seq"}, .scale = 1.0 / static_cast<double>(dims.back().size)};
  const auto wide = [&](const std::string& which, TensorId x) {
    return add(OpKind::Broadcast, name + which + ".wide", {x}, {.result_dims = dims});
  };
  const TensorId centred = add(OpKind::Subtract, name + ".centred",
                               {gate, wide(".mean", add(OpKind::ReduceSum, name + ".mean", {gate}, mean))});
  TensorId deviation =
      add(OpKind::ReduceSum, name + ".variance", {add(OpKind::Multiply, name + ".squares", {centred, centred})}, mean);
  deviation = add(OpKind::Sqrt, name + ".deviation", {deviation});
  deviation = add(OpKind::Scale, name + ".cutoff", {deviation}, {.scale = model.factors.at("sparse_deviations")});
  return add(OpKind::Relu, name + ".relu",
             {add(OpKind::Subtract, name + ".beyond", {centred, wide(".cutoff", deviation)})});
}

TensorId Gemma4Builder::sparse_feed_forward(const std::string& name, TensorId x) {
  const Dim mlp{"mlp", transformer.feed_forward.width};
  const std::vector<std::string> made = {"batch", "seq", mlp.name};
  const TensorId gate = outstanding(name + ".gate", project(name + ".gate", x, {embed, mlp}, made));
  const TensorId up = project(name + ".up", x, {embed, mlp}, made);
  return feed_forward_out(name, add(OpKind::Multiply, name + ".gated", {activate(name, gate), up}));
}

TensorId Gemma4Builder::with_laurel(const std::string& name, TensorId read, TensorId sum) {
  const Dim rank{"laurel", size_of(model, "laurel_rank")};
  const TensorId narrow = project(name + ".left", read, {embed, rank}, {"batch", "seq", rank.name});
  const TensorId made = project(name + ".right", narrow, {rank, embed}, {"batch", "seq", "embed"});
  const TensorId beside = add(OpKind::Add, name + ".read", {read, norm(name + ".norm", made, embed)});
  return add(OpKind::Scale, name + ".scaled", {add(OpKind::Add, name + ".sum", {sum, beside})},
             {.scale = std::sqrt(0.5)});
}

TensorId Gemma4Builder::stream_layer(std::int64_t number, TensorId all) {
  graph.current_block = static_cast<int>(number);
  const std::string name = fmt::format("blk{}", number), streams_name = name + ".streams";
  const AlternatingStreams streams{*this, {"streams", size_of(model, "streams")}};
  const AlternatingStreams::Router router = streams.router(streams_name);
  const TensorId predicted = streams.predict(streams_name, all, router);
  TensorId x = streams.first(streams_name + ".first", predicted);
  const TensorId read = norm(name + ".ln1", x, embed);
  const TensorId attended = attend(name + ".attn", read, is_full(number) ? *all_keys : *windowed, shares_keys(number));
  x = add(OpKind::Add, name + ".attn.residual", {x, norm(name + ".attn.norm", attended, embed)});
  x = with_laurel(name + ".laurel", read, x);
  const TensorId fed = norm(name + ".ln2", x, embed);
  const TensorId made = number < size_of(model, "sparse_layers")
                            ? sparse_feed_forward(name + ".mlp", fed)
                            : feed_forward(name + ".mlp", fed, transformer.feed_forward.width);
  x = add(OpKind::Add, name + ".mlp.residual", {x, norm(name + ".mlp.norm", made, embed)});
  all = streams.correct(streams_name, predicted, x, router);
  const TensorId first = weighed(streams_name + ".scale", streams.first(streams_name + ".corrected.first", all));
  return streams.add_to_further(streams_name, all, layer_embedding(name + ".layer_embed", first));
}

TensorId Gemma4Builder::with_layer_factor(const std::string& name, TensorId x) {
  const Dim one{"one", 1};
  TensorId factor = fixed(name, {one});
  factor = add(OpKind::Broadcast, name + ".wide", {factor}, {.result_dims = {one, embed}});
  factor = add(OpKind::Reshape, name + ".row", {factor}, {.result_dims = {embed}});
  factor = add(OpKind::Broadcast, name + ".tokens", {factor}, {.result_dims = {batch, seq, embed}});
  return add(OpKind::Multiply, name + ".times", {x, factor});
}

TensorId Gemma4Builder::layer(std::int64_t number, TensorId x) {
  graph.current_block = static_cast<int>(number);
  const std::string name = fmt::format("blk{}", number);
  const bool shares = shares_keys(number);
  const TensorId attended =
      attend(name + ".attn", norm(name + ".ln1", x, embed), is_full(number) ? *all_keys : *windowed, shares);
  x = add(OpKind::Add, name + ".attn.residual", {x, norm(name + ".attn.norm", attended, embed)});
  x = add(OpKind::Add, name + ".mlp.residual", {x, feed(name, x, shares)});
  if (layer_dim.size > 0) x = with_layer_embedding(name + ".layer_embed", x);
  return given(model, "layer_factor") ? with_layer_factor(name + ".layer_factor", x) : x;
}

void build_gemma4(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer transformer = gemma4(model);
  Gemma4Builder builder(graph, model, transformer);
  builder.set_kinds();
  builder.tokens = builder.token_input("tokens");
  const TensorId labels = builder.token_input("labels");
  builder.embedded = builder.embed_tokens("embed", builder.tokens);
  TensorId x = builder.embedded;
  const AlternatingStreams streams{builder, {"streams", size_of(model, "streams")}};
  const bool alternating = given(model, "streams");
  if (alternating) x = streams.begin(x);
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    x = alternating ? builder.stream_layer(layer, x) : builder.layer(layer, x);
  graph.current_block = -1;
  if (alternating) x = streams.end(x);
  graph.loss = builder.losses(x, "blk", labels, reduction, {});
}

std::int64_t same_keys(const ModelConfig& model, const std::string&) { return size_of(model, "kv_heads"); }
std::int64_t same_width(const ModelConfig& model, const std::string&) { return size_of(model, "head_dim"); }
std::int64_t all_words(const ModelConfig& model, const std::string&) { return model.vocab; }

std::vector<SizeField> gemma4_sizes() {
  constexpr std::int64_t kMaxWidth = 10'000'000, kMaxHeads = 1'000'000, kMaxLayers = 10'000;
  std::vector<SizeField> sizes = {{"layers", kMaxLayers},
                                  {"hidden", 1'000'000},
                                  {"heads", kMaxHeads},
                                  {"seq", 10'000'000},
                                  {"vocab", 10'000'000},
                                  {"intermediate", kMaxWidth},
                                  {"kv_heads", kMaxHeads},
                                  {"head_dim", kMaxWidth},
                                  {.key = "full_kv_heads", .maximum = kMaxHeads, .derived = same_keys},
                                  {.key = "full_head_dim", .maximum = kMaxWidth, .derived = same_width},
                                  {"full_rotary_dims", 1'000'000, 0, 0},
                                  {"full_every", kMaxLayers, 0, 6},
                                  {"window", kMaxWidth, 0, 512},
                                  {"shared_layers", kMaxLayers, 0, 0},
                                  {"layer_embed", kMaxWidth, 0, 0},
                                  {.key = "layer_vocab", .maximum = kMaxWidth, .derived = all_words},
                                  {"experts", 100'000, 0, 0},
                                  {"top_k", 100'000, 0, 0},
                                  {"expert_intermediate", kMaxWidth, 0, 0},
                                  {"streams", 1'000, 0, 0},
                                  {"laurel_rank", kMaxWidth, 0, 0},
                                  {"sparse_layers", kMaxLayers, 0, 0}};
  for (const char* off : {"kv_tied", "wide_shared", "layer_factor", "qkv_bias", "out_bias", "erf", "capped"})
    sizes.push_back({off, 1, 0, 0});
  sizes.push_back({"tied", 1, 0, 1});
  return sizes;
}

}  // namespace

std::vector<Family> gemma4_families() {
  return {{"gemma4",
           keys::with_adapters(gemma4_sizes()),
           {{"rotary_base", 10000.0},
            {"full_rotary_base", 1e6},
            {"epsilon", 1e-6},
            {"capacity_factor", 1.0},
            {"logit_cap", 30.0},
            {"sparse_deviations", 1.0}},
           "gemma4:layers=6,hidden=64,heads=4,kv_heads=2,full_kv_heads=1,head_dim=16,full_head_dim=32,intermediate=128,"
           "seq=32,vocab=128,window=8,layer_embed=16,shared_layers=0,full_every=3",
           1024,
           DType::BF16,
           build_gemma4}};
}

}  // namespace meshwright
