// SPDX-License-Identifier: Apache-2.0
// DeepSeek-V4 (DeepSeek-AI, 2026): residual streams in the place of one (residual_streams.h), attention to the last
// tokens and to compressed ones (compressed_attention.h), and a mixture of experts in every layer. The first
// `hash_layers` look a token's experts up in a table by its word, which is read from files and not trained.
//
// Each layer's attention is of one kind (`kinds_0`, ..., in base 4, the first layer in the lowest digit of the first
// number): of a window alone (0), of keys that an indexer chooses among those of `near_rate` tokens each, which overlap
// (1), or of all keys of `far_rate` tokens each (2).
//
// Ops are named "blk<layer>.attn.streams.read", ".attn.ln", ".attn.q", ..., ".moe.router", ".moe.hash.choices", ...
#include <array>

#include "core/base/errors.h"
#include "core/graph/models/families.h"
#include "core/graph/models/family_keys.h"
#include "core/graph/models/parts/compressed_attention.h"
#include "core/graph/models/parts/layer_digits.h"
#include "core/graph/models/parts/residual_streams.h"

namespace meshwright {

namespace {

using namespace keys;

enum class CompressionKind { None, Near, Far };
constexpr std::array kDigits = {"kinds_0", "kinds_1", "kinds_2", "kinds_3", "kinds_4", "kinds_5", "kinds_6", "kinds_7"};
constexpr LayerDigits kCompressions{kDigits, 2};

enum ScoreKind : std::int64_t { kRootSoftplus, kSigmoid, kSoftmax };

CompressionKind compression_of(const ModelConfig& model, std::int64_t layer) {
  return static_cast<CompressionKind>(kCompressions.of(model, layer));
}

Transformer deepseek_v4(const ModelConfig& model) {
  return {.attention = {.kv_heads = 1, .group = model.heads, .head_dim = size_of(model, "head_dim")},
          .feed_forward = {.width = size_of(model, "shared_intermediate"),
                           .activation = Activation::Silu,
                           .gated = true,
                           .bound = model.factors.at("gate_bound")},
          .mixture = MixturePart{.experts = size_of(model, "experts"),
                                 .top_k = size_of(model, "top_k"),
                                 .width = size_of(model, "expert_intermediate"),
                                 .shared_width = size_of(model, "shared_intermediate"),
                                 .capacity_factor = model.factors.at("capacity_factor"),
                                 .sigmoid = size_of(model, "scores") == kSigmoid,
                                 .root_softplus = size_of(model, "scores") == kRootSoftplus,
                                 .selection_bias = is_set(model, "selection_bias"),
                                 .scale = model.factors.at("routed_scale")},
          .layers = {},
          .norm = Norm::Rms,
          .epsilon = model.factors.at("epsilon"),
          .positions = Positions::Rotary,
          .tied = is_set(model, "tied")};
}

struct DeepseekV4Builder : TransformerBuilder {
  DeepseekV4Builder(Graph& into, const ModelConfig& of, const Transformer& what)
      : TransformerBuilder(into, of, what),
        model(of),
        streams{
            *this, {"streams", size_of(of, "streams")}, size_of(of, "stream_turns"), of.factors.at("stream_epsilon")},
        compressed{*this,
                   {.q_rank = size_of(of, "q_rank"),
                    .rope = size_of(of, "rope_dim"),
                    .out_groups = size_of(of, "out_groups"),
                    .out_rank = size_of(of, "out_rank"),
                    .window = size_of(of, "window"),
                    .index = {size_of(of, "index_heads"), size_of(of, "index_dim"), size_of(of, "index_top_k")},
                    .rotary_base = of.factors.at("rotary_base"),
                    .compressed_rotary_base = of.factors.at("compressed_rotary_base")}} {}

  [[nodiscard]] TensorId layer(std::int64_t number, TensorId x, TensorId tokens);
  // (batch, seq, expert): 1 at the experts of each token's word.
  [[nodiscard]] TensorId experts_of_words(const std::string& name, TensorId tokens);

  const ModelConfig& model;
  const ResidualStreams streams;
  const CompressedAttention compressed;
};

TensorId DeepseekV4Builder::experts_of_words(const std::string& name, TensorId tokens) {
  const MixturePart& part = *transformer.mixture;
  const Dim choice{"choice", part.top_k}, expert{"expert", part.experts};
  // Numbers of experts, which 16 bits do not hold.
  const DType type = accumulation_dtype(graph.dtype);
  const TensorId table =
      graph.add_tensor(name + ".choices", TensorKind::Parameter, type, {{"hash_vocab", model.vocab}, choice});
  graph.fixed.insert(table);
  const std::vector<Dim> wide = {batch, seq, choice, expert};
  std::vector<double> numbers;
  for (std::int64_t number = 0; number < expert.size; ++number) numbers.push_back(static_cast<double>(number));
  const TensorId chosen = add(OpKind::Broadcast, name + ".chosen",
                              {add(OpKind::Embedding, name + ".experts", {tokens, table})}, {.result_dims = wide});
  const TensorId all = add(OpKind::Broadcast, name + ".numbers", {constant("expert_numbers", {expert}, numbers, type)},
                           {.result_dims = wide});
  TensorId equal = add(OpKind::Compare, name + ".equal", {chosen, all}, {.comparison = Comparison::Equal});
  equal = add(OpKind::Cast, name + ".ones", {equal}, {.dtype = graph.dtype});
  return add(OpKind::ReduceSum, name + ".scores", {equal}, {.result_names = {"batch", "seq", "expert"}});
}

TensorId DeepseekV4Builder::layer(std::int64_t number, TensorId x, TensorId tokens) {
  graph.current_block = static_cast<int>(number);
  const std::string name = fmt::format("blk{}", number), attn = name + ".attn", moe = name + ".moe";
  CompressedAttention::Use use;
  if (const CompressionKind kind = compression_of(model, number); kind == CompressionKind::Near)
    use = {.rate = size_of(model, "near_rate"), .overlap = true, .chooses = true};
  else if (kind == CompressionKind::Far)
    use = {.rate = size_of(model, "far_rate")};
  ResidualStreams::Reading reading = streams.read(attn + ".streams", x);
  const TensorId attended = compressed.attend(attn, norm(name + ".ln1", reading.read, embed), use);
  x = streams.add(attn + ".streams", x, reading, attended);
  reading = streams.read(moe + ".streams", x);
  const TensorId read = norm(name + ".ln2", reading.read, embed);
  std::optional<TensorId> chosen_by;
  if (number < size_of(model, "hash_layers")) chosen_by = experts_of_words(moe + ".hash", tokens);
  return streams.add(moe + ".streams", x, reading, mixture_of(moe, read, route(moe, read, chosen_by)));
}

void build_deepseek_v4(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  const Transformer transformer = deepseek_v4(model);
  DeepseekV4Builder builder(graph, model, transformer);
  const TensorId tokens = builder.token_input("tokens"), labels = builder.token_input("labels");
  TensorId x = builder.streams.begin("embed.streams", builder.embed_tokens("embed", tokens));
  for (std::int64_t layer = 0; layer < model.layers; ++layer) x = builder.layer(layer, x, tokens);
  graph.current_block = -1;
  graph.loss = builder.losses(builder.streams.end("head.streams", x), "blk", labels, reduction, {});
}

std::vector<SizeField> deepseek_v4_sizes() {
  constexpr std::int64_t kMaxExperts = 100'000;
  std::vector<SizeField> more = {width("head_dim"),
                                 width("rope_dim"),
                                 width("q_rank"),
                                 {"out_groups", kMaxHeads},
                                 width("out_rank"),
                                 {"window", kMaxWidth, 1, 128},
                                 {"near_rate", kMaxWidth, 2, 4},
                                 {"far_rate", kMaxWidth, 2, 128},
                                 {"index_heads", kMaxHeads},
                                 width("index_dim"),
                                 {"index_top_k", 10'000'000},
                                 {"streams", 100, 2, 4},
                                 {"stream_turns", 1000, 1, 20},
                                 {"experts", kMaxExperts},
                                 {"top_k", kMaxExperts},
                                 width("expert_intermediate"),
                                 width("shared_intermediate"),
                                 {"hash_layers", kMaxLayers, 0, 0},
                                 {"scores", kSoftmax, 0, kRootSoftplus},
                                 flag("selection_bias", 1),
                                 flag("tied", 0)};
  return with_core_sizes(with(more, kCompressions.fields()));
}

}  // namespace

void set_compression_kinds(ModelConfig& model, const std::vector<int>& kinds, const std::string& place) {
  require(static_cast<std::int64_t>(kinds.size()) <= kCompressions.capacity(),
          "{} has {} layers; at most {} are supported.", place, kinds.size(), kCompressions.capacity());
  kCompressions.set(model, std::vector<std::int64_t>(kinds.begin(), kinds.end()));
}

std::vector<Family> deepseek_v4_families() {
  return {{"deepseek_v4",
           deepseek_v4_sizes(),
           {{"rotary_base", 10000.0},
            {"compressed_rotary_base", 160000.0},
            epsilon(1e-6),
            {"stream_epsilon", 1e-6},
            {"gate_bound", 10.0},
            {"capacity_factor", 1.0},
            {"routed_scale", 1.0}},
           "deepseek_v4:layers=3,hidden=64,heads=4,seq=32,vocab=128,head_dim=16,rope_dim=8,q_rank=32,out_groups=2,"
           "out_rank=16,window=8,near_rate=4,far_rate=8,index_heads=4,index_dim=8,index_top_k=4,experts=4,top_k=2,"
           "expert_intermediate=32,shared_intermediate=32,hash_layers=1,kinds_0=36",
           1024,
           DType::BF16,
           build_deepseek_v4}};
}

}  // namespace meshwright
