// SPDX-License-Identifier: Apache-2.0
// Transformers: what one is made of, whatever family it comes from, and the graph it makes.
//
// Dimensions: (batch, seq, embed) between blocks; queries (batch, seq, kv_heads, group, head_dim), where `group`
// queries read one key and value head; keys and values (batch, kv_seq, kv_heads, head_dim), renamed after their
// projection so that every query meets every key; mlp; vocab; experts' weights (expert, embed, mlp), their tokens
// (expert, batch, capacity, embed). Latent attention has q_rank, kv_rank, nope_dim, rope_dim and v_dim besides.
// Projections of queries, keys and values are apart, so that each splits along its own heads.
//
// A block is one layer. Ops are named "blk<layer>.attn.q", ".attn.k", ".attn.v", ".attn.core", ".attn.out",
// ".mlp.gate", ".mlp.up", ".mlp.down", ".moe.router", ...; of an encoder with a decoder "enc<layer>" and "dec<layer>".
//
// A parallel block (attention and feed-forward both read its input) adds the two products before their biases and the
// residual: where both are partial sums, one all-reduce completes them. There is no dropout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/models/models.h"

namespace meshwright {

enum class Norm { Layer, Rms };
// Gelu: the tanh form. ClippedSilu: gpt-oss's, of gate and up both: (up + 1) gate sigmoid(1.702 gate), with gates of at
// most 7 and ups of at most 7 either way.
// QuickGelu: x sigmoid(1.702 x). Xielu: a x^2 + x / 2 above 0 and (b + 1/2) (e^x - 1 - x) + x / 2 below, where a and b
// are softpluses of two parameters (A. Huang and I. Schlag, xIELU, arXiv:2411.13010).
enum class Activation { Relu, Gelu, GeluErf, Silu, ReluSquared, ClippedSilu, QuickGelu, Xielu };

// How a token learns where it stands. Rotary and Alibi need no table; Relative is one table of biases per stack,
// (buckets, kv_heads, group), that all its layers share; Learned a table added to the embedding, one per stack; Fixed
// sines of the position in the first half of the embedding and cosines in the second (A. Vaswani et al., 2017), which
// are no parameters.
enum class Positions { None, Rotary, Learned, Alibi, Relative, Fixed };

// Multi-head latent attention (DeepSeek-AI, DeepSeek-V2, 2024): keys and values are made from a vector of kv_rank, and
// of each head's query and key only `rope` dimensions are rotated, those of the key shared by all heads.
struct LatentPart {
  std::int64_t q_rank;  // 0: queries are projected directly
  std::int64_t kv_rank, nope, rope, value;
  double q_scale = 1.0, kv_scale = 1.0;  // factors of the vectors of q_rank and of kv_rank
  bool both_queries = false;  // queries, and the gate of what heads make, read the vector of q_rank and its norm
};

// Sparse attention (DeepSeek-AI, DeepSeek-V3.2-Exp, 2025): each query reads the `top_k` keys that an indexer of
// `heads` heads of `dim` scores highest. The scores only choose: no gradient of the loss reaches the indexer, which its
// publisher trains by a loss of its own.
struct IndexPart {
  std::int64_t heads, dim, top_k;
  double epsilon = 1e-6;  // of the norm of its keys
};

// Modules behind the blocks that predict further tokens (F. Gloeckle et al., 2024; DeepSeek-AI, DeepSeek-V3, 2024):
// module k reads what is before it and the embedding of the k-th token after each, through a norm each and a projection
// of both, in one more block; the word table and the head are the model's own. Its loss is added, times
// weight / modules.
struct FurtherTokens {
  std::int64_t modules = 0;
  double weight = 0.3;
};

// Sparse attention by whole blocks (MiniMax, MiniMax-M3, 2026): for each head of keys, a query reads the `top_k` blocks
// of `block` keys that hold the best score of a small head of `dim`, and the last `local` ones in any case. The scores
// only choose, as those of an indexer do.
struct BlockIndexPart {
  std::int64_t dim, block, top_k, local;
};

struct AttentionPart {
  std::int64_t kv_heads, group, head_dim;
  std::optional<LatentPart> latent = {};                     // head_dim = nope + rope
  std::optional<IndexPart> index = {};                       // of latent attention with a q_rank
  std::optional<BlockIndexPart> block_index = {};            // of layers that choose blocks
  bool qkv_bias = false, key_bias = true, out_bias = false;  // keys have none without key_bias
  double qkv_bound = 0.0;     // queries, keys and values are at most this either way; 0: they stay
  bool norm = false;          // of each query and key over head_dim, RMS
  bool wide_norm = false;     // the same over all heads at once
  bool norm_rotated = false;  // `norm` is behind the rotation
  bool head_norm = false;     // of each query and key over head_dim, with weights of each head, as the other norms
  // In layers that rotate: of rotated queries and keys, RMS without weights.
  bool plain_norm = false;
  // In layers that do not, or in all: the query at position p is scaled by 1 + temperature log(1 + floor((p + first) /
  // every)), where every is not 0 (K. Nakanishi, Scalable-Softmax, 2025).
  std::int64_t temperature_every = 0, temperature_first = 1;
  bool temper_rotated = false;
  double temperature = 0.0;
  bool sinks = false;          // one learned logit per head in the softmax's denominator
  bool window_sinks = false;   // the same in layers with windows alone
  std::int64_t value_dim = 0;  // width of a head's values without `latent`; 0: head_dim
  double value_scale = 1.0;    // values are times this
  bool head_gate = false;      // what a head makes is times the sigmoid of a product of the token
  bool wide_gate = false;      // the same with a product for each number that a head makes
  bool softplus_gate = false;  // either times log(1 + e^x) of the product instead
  bool out_norm = false;       // of what all heads make at once, RMS, before the last product
  std::int64_t window_kv_heads = 0, window_group = 0;  // of layers with windows; 0: as the others
  bool scaled = true;                                  // scores by 1 / sqrt(head_dim)
  double scale = 1.0;                                  // and by this
  double cap = 0.0;                                    // scaled scores x become cap tanh(x / cap); 0: they stay
  bool causal = true;
  // Layers with windows: projections of queries, keys and values with biases beside these, which are not trained: what
  // Longformer keeps for tokens that see all others (I. Beltagy et al., 2020), of which there are none here.
  bool unused_projections = false;
};

struct FeedForwardPart {
  std::int64_t width;
  Activation activation;
  bool gated = false;  // activation(gate) * up
  bool bias = false;
  bool out_bias = false;    // of the last product alone
  double gate_scale = 1.0;  // what is activated is the gate times this
  bool inner_norm = false;  // of what the last product reads, of dense layers alone
  double bound = 0.0;       // gates are at most this, ups at most this either way; 0: they stay
};

// Each token goes to the top_k experts of the highest scores, as far as their capacity of
// ceil(seq top_k capacity_factor / experts) tokens per sample lasts; weights are the scores, times `scale`.
struct MixturePart {
  std::int64_t experts, top_k;
  std::int64_t width;             // of each expert; activation and gate as the dense layers'
  std::int64_t shared_width = 0;  // an expert that every token goes to
  std::int64_t identity = 0;      // further experts, which give a token back as it is; they have room for all
  std::int64_t latent = 0;        // the width that experts are given tokens in, projected there and back; 0: embed
  bool shared_gate = false;       // its result is multiplied by the sigmoid of a product of the token
  double capacity_factor = 1.0;
  std::int64_t capacity = 0;    // tokens of a sample that an expert has room for; 0: by the factor
  bool sigmoid = false;         // scores are sigmoids instead of a softmax
  bool root_softplus = false;   // scores are sqrt(log(1 + e^x)) instead of a softmax
  bool normalize = true;        // weights of a token add up to 1 before they are scaled
  bool selection_bias = false;  // added to the scores to choose by, not to weigh with; gradients do not reach it
  bool router_bias = false, expert_bias = false;
  bool weigh_inputs = false;    // the weights are of what experts are given, not of what they make
  bool averaged = false;        // the result is the mean of the routed experts' and the shared one's, not their sum
  bool result_norm = false;     // of the result, in layers with experts alone
  double bound = 0.0;           // as FeedForwardPart's, of the routed experts alone; 0: that one
  bool scaled_experts = false;  // a number for each expert, trained, times its weights
  double scale = 1.0;
};

struct LayerPart {
  std::int64_t window = 0;       // keys a query sees back; 0: all
  std::int64_t chunk = 0;        // a query sees the keys of its own stretch of so many positions alone; 0: all
  bool rotary = true;            // where Positions is Rotary
  double rotary_base = 0.0;      // 0: the transformer's
  std::int64_t rotary_dims = 0;  // 0: the transformer's
  bool mixture = false;
  bool bare = false;                       // attention reads the layer's input itself, not a norm of it
  bool chooses_blocks = false;             // its queries read chosen blocks of keys
  bool shares_index = false;               // its queries read the keys that the layer before chose
  bool out_bias = false;                   // attention's last product has a bias, whatever AttentionPart says
  std::optional<std::int64_t> group = {};  // layers of a group share their weights, "group<number>"
};

struct Transformer {
  AttentionPart attention;
  FeedForwardPart feed_forward;
  std::optional<MixturePart> mixture = {};
  std::vector<LayerPart> layers;        // of the decoder, or of the only stack
  std::vector<LayerPart> encoder = {};  // an encoder whose result the decoder's cross attention reads
  std::int64_t encoder_seq = 0;         // tokens that the encoder reads; 0: as many as the decoder
  std::int64_t encoder_words = 0;       // rows of a word table of the encoder's own; 0: it reads the decoder's
  std::int64_t decoder_width = 0;       // of the decoder's feed-forward layers; 0: as the encoder's
  Norm norm = Norm::Layer;
  bool norm_weights = true, norm_bias = true;  // without them, these are 1 and 0; RMS norms have no bias
  double epsilon = 1e-5;                       // of all norms
  bool norm_after = false;                     // after the residual sum instead of before attention and feed-forward
  // Where norms are not after the sum: they are of what attention and feed-forward read, of what these make, or of
  // both.
  enum class NormOf { Input, Both, Result } norm_of = NormOf::Input;
  bool layer_scale = false;  // what attention and feed-forward make is weighed, number by number of the embedding
  bool parallel = false;     // attention and feed-forward both read the block's input
  bool one_norm = false;     // parallel: by the same norm
  // Norms of what blocks read, but of dense feed-forward layers, times the sigmoid of what a layer of this width, with
  // SiLU, makes of them; 0: they stay.
  std::int64_t norm_gate_width = 0;
  bool final_norm = true;
  Positions positions = Positions::None;
  double rotary_base = 10000.0;
  std::int64_t rotary_dims = 0;                        // 0: all of head_dim
  std::int64_t position_rows = 0, first_position = 0;  // Learned: rows of the table, and the first token's (Fixed, too)
  std::int64_t decoder_position_rows = 0;              // Learned: of the decoder's table; 0: as the encoder's
  bool last_sine_slowest = false;  // Fixed: the last wave is 10000 times as long as the first, not the one behind it
  std::int64_t buckets = 0;        // Relative, or beside positions of another kind; 0: no biases
  bool layer_biases = false;       // Relative: each layer has a table of its own
  std::int64_t box_rows = 0;       // 0: none; else tables of where words stand on a page, as LayoutLM's
  std::int64_t token_types = 0;    // 0: none; else a table looked up by the input "token_types"
  bool embedding_norm = false;
  bool decoder_norm_of_words = false;  // the decoder's is of the words' embedding, before positions are added
  std::int64_t word_embed = 0;         // width of the word table; 0: embed. Else projected in and out
  std::int64_t more_words = 0;         // rows of the word table behind those that the head knows, where it is another
  // Width of all embeddings and of their norm, which are then projected with a bias; the transformed head narrows to
  // it again. 0: embed, and no projection.
  std::int64_t embedding_width = 0;
  std::int64_t head_width = 0;  // what the transformed head makes; 0: narrowed to as wide as the embeddings
  bool tied = false;            // the head is the word table
  bool scaled_head = false;     // the head reads its input times 1 / sqrt(embed)
  bool head_bias = false;       // a bias per word
  // Factors of the embedding, of what attention and feed-forward add to their input, and of the logits.
  double embed_scale = 1.0, residual_scale = 1.0, logit_scale = 1.0;
  double logit_cap = 0.0;  // logits x become cap tanh(x / cap); 0: they stay
  // Dense, activation and norm before the head (BERT).
  bool transformed_head = false, transform_bias = true;
  FurtherTokens further = {};  // of a decoder alone; their blocks are like the last layer
};

// REQUIRES: `graph` holds the options' batch, microbatches and dtype; `model` has been checked.
void build_transformer(Graph& graph, const ModelConfig& model, const Transformer& transformer, LossReduction reduction);

}  // namespace meshwright
