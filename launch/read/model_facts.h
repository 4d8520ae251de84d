// SPDX-License-Identifier: Apache-2.0
// The shape of a transformer as frameworks say it, and the model of ours that has it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/graph/models/models.h"

namespace meshwright {

struct ModelFacts {
  std::int64_t layers = 0, hidden = 0, heads = 0, seq = 0, vocab = 0;
  std::optional<std::int64_t> kv_heads = {}, head_dim = {}, ffn = {}, positions_learned = {};
  enum class Positions { Learned, Rotary, Alibi, None } positions = Positions::Learned;
  enum class Activation { Gelu, Silu, Relu } activation = Activation::Gelu;
  bool gated = false, rms_norm = false, tied = true, bias = true, qkv_bias = false, qk_norm = false;
  bool parallel = false;                    // attention and feed-forward side by side
  std::int64_t window = 0, full_every = 0;  // keys that a query sees; of so many layers the last sees all. 0: none
  bool sinks = false;                       // one more score of each head, which takes no value
  double rotary_base = 10000.0, rotary_share = 1.0;
  std::int64_t experts = 0, top_k = 0, dense_layers = 0, mixture_every = 1;  // experts 0: no mixture
  std::optional<std::int64_t> expert_ffn = {}, shared_ffn = {};
  bool sigmoid = false, selection_bias = false;  // of the router
  std::optional<bool> normalized = {};           // weights of a token's experts sum up to one
  std::optional<double> routed_scale = {}, epsilon = {};
  std::int64_t further = 0;  // modules that predict further tokens, whose losses weigh so much
  double further_weight = 0.1;
  bool latent = false;  // multi-latent attention
  std::int64_t q_rank = 0, kv_rank = 0, nope_dim = 0, rope_dim = 0, value_dim = 0;
};

// What differs from the facts goes to `assumed`. Throws InputError with `place` for sizes that make no model.
[[nodiscard]] ModelConfig model_of(const ModelFacts& facts, const std::string& name, const std::string& place,
                                   std::vector<std::string>& assumed);

// BERT of these sizes, as find_builtin_model reads it.
[[nodiscard]] std::string bert_text(const ModelFacts& facts);
// Megatron-LM's T5 with `layers` in the encoder: norms in front of what layers do, learned positions, biases. `seq` of
// the facts is the decoder's.
[[nodiscard]] std::string t5_text(const ModelFacts& facts, std::int64_t decoder_layers, std::int64_t encoder_seq);
// find_builtin_model, with `place` in its errors.
[[nodiscard]] ModelConfig model_of_text(const std::string& text, const std::string& place);

// What all of Hugging Face's config.json have, for families that the facts alone do not describe.
[[nodiscard]] Json config_of(const ModelFacts& facts, const char* model_type);
// Its model, with the whole sequence of the facts; "" for `name`: the family's. Throws InputError with `place`.
[[nodiscard]] ModelConfig model_of_config(const Json& config, const std::string& name, const ModelFacts& facts,
                                          const std::string& place);

}  // namespace meshwright
