// SPDX-License-Identifier: Apache-2.0
// Families with an encoder and a decoder of their own: BART and its like.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"

namespace meshwright::hf {

namespace {

// What older files say of the family as a whole, which is what it is.
void expect_flags(const HfReader& config, std::initializer_list<std::pair<const char*, bool>> flags) {
  for (const auto& [key, only] : flags)
    require(config.flag_or(key, only) == only, "{}: '{}' is {}, which is not supported for this family; {} is.",
            config.place(), key, !only, only);
}

// A number that the encoder and the decoder have each.
std::int64_t of_both(const HfReader& config, const char* encoder, const char* decoder) {
  const std::int64_t first = config.size({encoder}), second = config.size({decoder});
  require(first == second, "{}: '{}' is {} and '{}' is {}, which is not supported; one number for both is.",
          config.place(), encoder, first, decoder, second);
  return first;
}

void set_pair_activation(ModelConfig& model, const HfReader& config, const char* activation) {
  const Act act =
      set_activation(model, config, "activation_function", activation, {Act::Gelu, Act::GeluErf, Act::Relu, Act::Silu});
  set(model, "relu", act == Act::Relu);
  set(model, "silu", act == Act::Silu);
}

// One word table for both and for the head. The bias of the logits that older files keep is not trained, and left out.
// `positions`: of the sequence; 0: as the file says.
ModelConfig read_pair(const HfReader& config, const char* activation, bool scaled, std::int64_t positions = 0) {
  if (positions == 0) positions = config.size_or({"max_position_embeddings"}, 1024);
  ModelConfig model = made("bart", Core{config.size({"encoder_layers"}), config.size({"d_model"}),
                                        of_both(config, "encoder_attention_heads", "decoder_attention_heads"),
                                        positions, config.size({"vocab_size"})});
  (void)config.has("num_hidden_layers");  // the encoder's once more
  config.refuse("is_decoder");
  config.refuse("use_prompt");
  for (const char* prompt : {"prompt_length", "prompt_mid_dim"}) (void)config.has(prompt);
  require(config.flag_or("tie_word_embeddings", true) && config.flag_or("share_encoder_decoder_embeddings", true) &&
              config.size_or({"decoder_vocab_size"}, model.vocab) == model.vocab,
          "{}: encoder, decoder and head have word tables of their own ('tie_word_embeddings', "
          "'share_encoder_decoder_embeddings', 'decoder_vocab_size'), which is not supported; one for all is.",
          config.place());
  set(model, "positions", positions);
  set(model, "decoder_layers", config.size({"decoder_layers"}));
  set(model, "intermediate", of_both(config, "encoder_ffn_dim", "decoder_ffn_dim"));
  set_pair_activation(model, config, activation);
  if (config.flag_or("scale_embedding", scaled))
    model.factors["embed_scale"] = std::sqrt(static_cast<double>(model.hidden));
  return model;
}

// Positions are counted from 2: the first rows once stood for padding.
void count_from_two(ModelConfig& model) { set(model, "position_offset", 2); }

// Norms in front of what they are for, and one more behind each stack.
void set_norms_first(ModelConfig& model, bool of_embedding) {
  set(model, "norm_first", 1);
  set(model, "embedding_norm", of_embedding);
}

}  // namespace

ModelConfig read_bart(const HfReader& config) {
  expect_flags(config, {{"normalize_before", false},
                        {"normalize_embedding", true},
                        {"add_final_layer_norm", false},
                        {"static_position_embeddings", false}});
  ModelConfig model = read_pair(config, "gelu", false);
  count_from_two(model);
  return model;
}

// BART with windows in its encoder, in which no token sees all others, as with Longformer; longer texts are encoded
// than are decoded, of which sequences here are as long as the decoder's.
ModelConfig read_led(const HfReader& config) {
  const std::int64_t encoder = config.size_or({"max_encoder_position_embeddings"}, 16384),
                     decoder = config.size_or({"max_decoder_position_embeddings"}, 1024);
  ModelConfig model = read_pair(config, "gelu", false, std::min(encoder, decoder));
  set(model, "positions", encoder);
  set(model, "decoder_positions", decoder);
  read_attention_window(model, config, "encoder_window");
  return model;
}

ModelConfig read_mbart(const HfReader& config) {
  expect_flags(config, {{"normalize_before", true},
                        {"normalize_embedding", true},
                        {"add_final_layer_norm", true},
                        {"static_position_embeddings", false}});
  ModelConfig model = read_pair(config, "gelu", false);
  set_norms_first(model, true);
  count_from_two(model);
  return model;
}

ModelConfig read_pegasus(const HfReader& config) {
  expect_flags(config, {{"normalize_before", true},
                        {"normalize_embedding", false},
                        {"add_final_layer_norm", true},
                        {"static_position_embeddings", true}});
  ModelConfig model = read_pair(config, "gelu", false);
  set_norms_first(model, false);
  set(model, "sines", 1);
  return model;
}

ModelConfig read_marian(const HfReader& config) {
  expect_flags(config, {{"normalize_before", false},
                        {"normalize_embedding", false},
                        {"add_final_layer_norm", false},
                        {"static_position_embeddings", true}});
  ModelConfig model = read_pair(config, "gelu", false);
  set(model, "embedding_norm", 0);
  set(model, "sines", 1);
  return model;
}

// The small one has BART's norms. Positions are counted from 0.
ModelConfig read_blenderbot(const HfReader& config) {
  const bool small = config.text_or("model_type", "blenderbot") == "blenderbot-small";
  expect_flags(config, {{"normalize_before", !small},
                        {"normalize_embedding", small},
                        {"add_final_layer_norm", !small},
                        {"static_position_embeddings", false}});
  ModelConfig model = read_pair(config, "gelu", false);
  if (!small) set_norms_first(model, false);
  set(model, "decoder_norm_of_words", small);
  return model;
}

// M2M-100 and NLLB. Their sines are counted from 2, and the last is the slowest.
ModelConfig read_m2m_100(const HfReader& config) {
  expect_flags(config, {{"normalize_before", true},
                        {"normalize_embedding", false},
                        {"add_final_layer_norm", true},
                        {"static_position_embeddings", true}});
  ModelConfig model = read_pair(config, "relu", true);
  set_norms_first(model, false);
  set(model, "sines", 2);
  count_from_two(model);
  return model;
}

// FAIRseq's translators: a language each for the encoder and the decoder, with word tables and widths of their own.
ModelConfig read_fsmt(const HfReader& config) {
  const std::int64_t positions = config.size_or({"max_position_embeddings"}, 1024);
  ModelConfig model = made("bart", Core{config.size({"encoder_layers"}), config.size({"d_model"}),
                                        of_both(config, "encoder_attention_heads", "decoder_attention_heads"),
                                        positions, config.size({"tgt_vocab_size"})});
  for (const char* again : {"num_hidden_layers", "langs", "is_decoder"}) (void)config.has(again);
  set(model, "source_vocab", config.size({"src_vocab_size"}));
  set(model, "positions", positions);
  set(model, "decoder_layers", config.size({"decoder_layers"}));
  set(model, "intermediate", config.size({"encoder_ffn_dim"}));
  set(model, "decoder_intermediate", config.size({"decoder_ffn_dim"}));
  set_pair_activation(model, config, "relu");
  if (config.flag_or("scale_embedding", true))
    model.factors["embed_scale"] = std::sqrt(static_cast<double>(model.hidden));
  set(model, "embedding_norm", 0);
  set(model, "sines", 2);
  count_from_two(model);
  // Its implementation has a projection of its own whatever this says.
  require(!config.flag_or("tie_word_embeddings", false),
          "{}: 'tie_word_embeddings' is true, which is not supported for this family; false is.", config.place());
  set(model, "tied", 0);
  return model;
}

// Frames are twice as many as the encoder's positions. What masks parts of them in training is left out.
ModelConfig read_whisper(const HfReader& config) {
  ModelConfig model = made("speech", Core{config.size({"encoder_layers"}), config.size({"d_model"}),
                                          of_both(config, "encoder_attention_heads", "decoder_attention_heads"),
                                          config.size_or({"max_target_positions"}, 448), config.size({"vocab_size"})});
  for (const char* extra : {"apply_spec_augment", "use_weighted_layer_sum", "is_decoder"}) config.refuse(extra);
  for (const char* unused : {"num_hidden_layers", "classifier_proj_size", "median_filter_width", "mask_time_prob",
                             "mask_time_length", "mask_time_min_masks", "mask_feature_prob", "mask_feature_length",
                             "mask_feature_min_masks", "alignment_heads", "max_length"})
    (void)config.has(unused);
  require(config.flag_or("tie_word_embeddings", true),
          "{}: 'tie_word_embeddings' is false, which is not supported; true is.", config.place());
  set(model, "positions", config.size_or({"max_source_positions"}, 1500));
  set(model, "mel", config.size_or({"num_mel_bins"}, 80));
  set(model, "decoder_layers", config.size({"decoder_layers"}));
  set(model, "intermediate", of_both(config, "encoder_ffn_dim", "decoder_ffn_dim"));
  set_activation(model, config, "activation_function", "gelu", {Act::Gelu, Act::GeluErf});
  (void)config.has("scale_embedding");  // its implementation scales nothing whatever this says
  return model;
}

}  // namespace meshwright::hf
