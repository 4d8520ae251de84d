// SPDX-License-Identifier: Apache-2.0
// A model as training frameworks describe one: a stack of decoder blocks with named sizes, whatever family of ours it
// is of, and what of it no framework has a name for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/graph/models/models.h"

namespace meshwright {

struct Decoder {
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, seq = 0, vocab = 0;
  enum class Positions { Learned, Rotary, Absent } positions = Positions::Rotary;
  std::int64_t position_rows = 0;  // Learned
  double rotary_base = 10000.0, rotary_share = 1.0;
  std::optional<RotaryScaling> rotary_scaling = {};
  double epsilon = 1e-5;
  bool rms_norm = true, gated = true;
  enum class Activation { Gelu, GeluErf, Silu, Relu } activation = Activation::Silu;  // Gelu: the tanh form
  bool bias = false;                                                                  // of all linear layers
  bool qkv_bias = false;  // of queries, keys and values alone
  bool qk_norm = false, tied = false;
  std::int64_t window = 0;  // keys that a query sees back, in every layer; 0: all

  struct Experts {
    std::int64_t count = 0, top_k = 0, ffn = 0, shared_ffn = 0;
    std::int64_t dense_layers = 0;  // the first ones
    std::int64_t every = 1;         // of the other layers every so many has experts
    bool sigmoid = false, normalized = true, selection_bias = false;
    double scale = 1.0;
  };
  std::optional<Experts> experts = {};

  struct Latent {
    std::int64_t q_rank = 0, kv_rank = 0, nope = 0, rope = 0, value = 0;
  };
  std::optional<Latent> latent = {};  // multi-head latent attention (DeepSeek-AI, 2024)

  std::int64_t further = 0;     // modules behind the blocks that predict further tokens
  double further_weight = 0.0;  // of the mean of their losses, which is added

  // Where the frameworks' models differ a little from this program's: sentences for the files. The work is nearly the
  // same.
  std::vector<std::string> differences = {};
  // What a framework's model of these sizes lacks: "attention biases by distance (ALiBi)". Not empty: it is not the
  // same model.
  std::int64_t lora_rank = 0, lora_targets = 0;  // adapters that alone are trained, as the model has it
  std::vector<std::string> unusual = {};

  // Layer l, from 0, has experts instead of a dense feed-forward layer.
  [[nodiscard]] bool has_experts(std::int64_t layer) const;
};

// What a file whose framework's model rotates plainly says of a decoder that does not; empty for one that does.
[[nodiscard]] std::vector<std::string> plain_rotation_difference(const Decoder& decoder);

// Throws InputError for a model that is no stack of decoder blocks (bert, t5, vit, ...).
[[nodiscard]] Decoder decoder_of(const ModelConfig& model);

}  // namespace meshwright
