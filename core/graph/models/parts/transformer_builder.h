// SPDX-License-Identifier: Apache-2.0
// The parts of a transformer's graph, one file each: attention.cpp, feed_forward.cpp, mixture.cpp, and transformer.cpp
// for what is around the blocks.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "core/graph/models/parts/model_writer.h"
#include "core/graph/models/parts/transformer.h"

namespace meshwright {

struct TransformerBuilder : ModelWriter {
  TransformerBuilder(Graph& into, const ModelConfig& model, const Transformer& what);

  // What differs from one use of attention to the next.
  struct AttentionUse {
    bool causal;
    std::int64_t window = 0;
    bool rotary = false;
    std::optional<TensorId> relative_bias = {};
    double rotary_base = 0.0;  // 0: the transformer's
    std::int64_t chunk = 0;    // as LayerPart's
    bool shares_index = false;
    bool chooses_blocks = false;
    std::int64_t rotary_dims = 0;  // 0: the transformer's
    // (kv_heads, group, seq, kv_seq): added to the scores, which are then in memory.
    std::optional<TensorId> score_bias = {};
    bool out_bias = false;  // as LayerPart's
  };
  struct Projections {
    TensorId q, k, v;                       // keys and values with seq, not yet kv_seq
    std::optional<TensorId> low_rank = {};  // what latent queries are made from, if not x
  };

  // All (batch, seq, embed) -> (batch, seq, embed). Keys and values come from `memory`.
  [[nodiscard]] TensorId attention(const std::string& name, TensorId x, TensorId memory, const AttentionUse& use);
  [[nodiscard]] TensorId feed_forward(const std::string& name, TensorId x, std::int64_t width);
  // Tokens are routed by x, or by what another tensor holds of them.
  [[nodiscard]] TensorId mixture(const std::string& name, TensorId x, std::optional<TensorId> routed_by = {});
  struct Routing {
    TensorId slots, weights;
    std::int64_t capacity;
    std::optional<TensorId> identity = {};  // (batch, seq): the weight of the token itself
  };
  // Experts are chosen by the router's scores, or by others (batch, seq, expert); weights are of the router's.
  [[nodiscard]] Routing route(const std::string& name, TensorId x, std::optional<TensorId> chosen_by = {});
  [[nodiscard]] TensorId mixture_of(const std::string& name, TensorId x, const Routing& routing);
  [[nodiscard]] TensorId norm(const std::string& name, TensorId x, const Dim& last);
  [[nodiscard]] TensorId norm(const std::string& name, TensorId x, const Dim& last, double epsilon);
  // A layer norm's weights or bias where the model has none: the same number everywhere.
  [[nodiscard]] TensorId all_of(const char* what, const Dim& last, double value);
  // x times the sigmoid of what a layer of norm_gate_width makes of it; x itself where that is 0.
  [[nodiscard]] TensorId gated_norm(const std::string& name, TensorId x);
  [[nodiscard]] TensorId weighed(const std::string& name, TensorId x);  // times a vector of embed
  [[nodiscard]] TensorId xielu(const std::string& name, TensorId x);
  [[nodiscard]] TensorId activate(const std::string& name, TensorId x);
  [[nodiscard]] TensorId softplus(const std::string& name, TensorId x);               // log(1 + e^x)
  [[nodiscard]] TensorId scaled(const std::string& name, TensorId x, double factor);  // x where the factor is 1
  enum class Bound { Above, BothWays };
  [[nodiscard]] TensorId quick_gelu(const std::string& name, TensorId x);
  // min(x, limit), and max(-limit, x) where it holds both ways.
  [[nodiscard]] TensorId at_most(const std::string& name, TensorId x, double limit, Bound bound);
  // (batch, seq, ...) -> (batch, kv_seq, ...).
  [[nodiscard]] TensorId as_keys(const std::string& name, TensorId x);

  // The first two up to their last product, (batch, seq, kv_heads, group, ...) and (batch, seq, mlp); and that product
  // without its bias.
  [[nodiscard]] TensorId attention_core(const std::string& name, TensorId x, TensorId memory, const AttentionUse& use);
  [[nodiscard]] TensorId attention_out(const std::string& name, TensorId core);
  // The core with scores in memory: times `scale`, plus a bias of each pair, which may be of each sample as well
  // (batch, ...). `operands`: queries, keys and values, as those of the core.
  [[nodiscard]] TensorId biased_core(const std::string& name, const std::vector<TensorId>& operands, TensorId bias,
                                     double scale);
  [[nodiscard]] TensorId feed_forward_inner(const std::string& name, TensorId x, std::int64_t width);
  [[nodiscard]] TensorId feed_forward_out(const std::string& name, TensorId inner);

  // Self attention (and cross attention where there is a `memory`), then the feed-forward layer.
  struct BlockUse {
    AttentionUse attention;
    bool mixture;
    std::optional<TensorId> memory = {};
    bool bare = false;  // as LayerPart's
  };
  [[nodiscard]] TensorId block(const std::string& name, TensorId x, const BlockUse& use);
  [[nodiscard]] TensorId parallel_block(const std::string& name, TensorId x, const BlockUse& use);
  // A whole stack without its last norm. Its result is (batch, seq, embed).
  [[nodiscard]] TensorId stack(const std::string& prefix, TensorId x, const std::vector<LayerPart>& layers, bool causal,
                               std::optional<TensorId> memory);

  [[nodiscard]] TensorId final_norm(const std::string& prefix, TensorId x);  // of a stack
  [[nodiscard]] TensorId stacks(TensorId tokens);  // the encoder's and the decoder's, or the only one, as stack()
  // (rows, width), row by row: what Positions::Fixed adds.
  [[nodiscard]] std::vector<double> sines_of_positions(std::int64_t rows, std::int64_t width) const;
  [[nodiscard]] TensorId add_places(const std::string& name, TensorId x);
  [[nodiscard]] TensorId embed_tokens(const std::string& name, TensorId tokens);
  [[nodiscard]] TensorId logits(TensorId x, const std::string& name = "head");
  // further_tokens.cpp. The loss of what the blocks made, x, which the norm of stack `prefix` ends, and those of the
  // modules for further tokens, each with the block that `further_block` adds.
  using Block = std::function<TensorId(const std::string& name, TensorId x)>;
  [[nodiscard]] TensorId losses(TensorId x, const std::string& prefix, TensorId labels, LossReduction reduction,
                                const Block& further_block);

  const Transformer& transformer;
  const std::optional<RotaryScaling> rotary_scaling;
  const Dim kv_heads, group, head_dim;
  const Dim word;                         // the word table's second dimension
  const Dim narrow_embed;                 // that of all embeddings
  std::optional<TensorId> words;          // the word table (vocab, word), if there is a vocabulary
  std::optional<TensorId> encoder_words;  // the encoder's, if it has one of its own
  std::optional<TensorId> head;           // the head's table, which is made with the first logits
  int next_block = 0;
  // AttentionUse's score_bias of a block of stack(), by its name; empty: none.
  std::function<TensorId(const std::string& name)> score_bias_of = {};
  std::optional<TensorId> chosen_keys;   // by the last indexer
  std::optional<TensorId> both_queries;  // of the last latent attention that LatentPart says has such: what they read

 private:
  // The heads of a layer: those of layers with windows may be others.
  struct Heads {
    Dim kv, group;
  };
  [[nodiscard]] Heads heads_of(const AttentionUse& use) const;
  // Attention to the keys that an indexer chooses, or chose for a layer before. `operands`: queries, keys and values.
  [[nodiscard]] TensorId selected_attention(const std::string& name, TensorId x, TensorId low_rank,
                                            const AttentionUse& use, std::vector<TensorId> operands, double scale);
  // The same to blocks of keys.
  [[nodiscard]] TensorId block_attention(const std::string& name, TensorId x, std::vector<TensorId> operands,
                                         double scale);
  // Of what heads made, x: times the sigmoid of a number for each head and token, or of one for each of its numbers.
  [[nodiscard]] TensorId gated_heads(const std::string& name, TensorId x, TensorId core);
  [[nodiscard]] Projections plain_projections(const std::string& name, TensorId x, TensorId memory,
                                              const AttentionUse& use);
  [[nodiscard]] Projections latent_projections(const std::string& name, TensorId x);
  // What differs from the transformer's own rotation.
  struct Rotation {
    double base = 0.0;      // 0: the transformer's
    std::int64_t dims = 0;  // 0: the transformer's
    bool windowed = false;  // of a layer with windows
  };
  [[nodiscard]] TensorId rotate(const std::string& name, TensorId x, const Rotation& rotation);
  // (batch, seq, kv_seq): how much each query wants each key.
  [[nodiscard]] TensorId index_scores(const std::string& name, TensorId x, TensorId low_rank);
  [[nodiscard]] TensorId further_module(const std::string& name, TensorId x, TensorId tokens, const Block& block);
  [[nodiscard]] TensorId tempered(const std::string& name, TensorId q);
  [[nodiscard]] bool grows_beyond_first() const;        // whether any query of the sequence is scaled by its position
  [[nodiscard]] Dim joined_heads(TensorId core) const;  // all numbers that the heads of a token make
  // (batch, seq, ...) -> (batch of chunks, positions of one, ...), these named as given.
  [[nodiscard]] TensorId in_chunks(const std::string& name, TensorId x, const Dim& positions);
  // Over head_dim, with weights for each head.
  [[nodiscard]] TensorId head_norm(const std::string& name, TensorId x);
  // Over all dimensions behind batch and seq, which are joined as `all`.
  [[nodiscard]] TensorId wide_norm(const std::string& name, TensorId x, const Dim& all);
  // activation(gate) * up, or activation(up); `widen` projects to the inner width and is told which: ".gate" or ".up".
  // `bound`: as FeedForwardPart's.
  using Widen = std::function<TensorId(const std::string& which)>;
  [[nodiscard]] TensorId clipped_gate(const std::string& name, TensorId gate, TensorId up);
  [[nodiscard]] TensorId inner_layer(const std::string& name, const Widen& widen, double bound);
  [[nodiscard]] TensorId identity_weight(const std::string& name, TensorId scores, TensorId chosen_by);
  [[nodiscard]] TensorId expert_layer(const std::string& name, TensorId x);
  [[nodiscard]] TensorId shared_expert(const std::string& name, TensorId x);
  // sqrt(log(1 + e^x)).
  [[nodiscard]] TensorId root_softplus(const std::string& name, TensorId x);
};

// A decoder whose layers are those of `builder.layer(number, x)`, with its loss. `further_block`: that of each module
// for further tokens, if the transformer has such.
template <class Builder>
void build_layers(Builder& builder, Graph& graph, const ModelConfig& model, LossReduction reduction,
                  const TransformerBuilder::Block& further_block = {}) {
  const TensorId tokens = builder.token_input("tokens"), labels = builder.token_input("labels");
  TensorId x = builder.embed_tokens("embed", tokens);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) x = builder.layer(layer, x);
  graph.current_block = -1;
  builder.next_block = static_cast<int>(model.layers);
  graph.loss = builder.losses(x, "blk", labels, reduction, further_block);
}

}  // namespace meshwright
