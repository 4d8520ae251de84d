// SPDX-License-Identifier: Apache-2.0
// Models of BERT's blocks whose heads, masks or members are others: XLM, FlauBERT, BertGeneration and GIT's text; and
// MobileBERT, whose layers are narrow, FNet, which mixes words without attention, and DeBERTa, whose scores are.
#include <algorithm>
#include <cmath>
#include <string>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/hf/hf_config.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"

namespace meshwright::hf {

namespace {

// Blocks of BERT under XLM's names. Languages of tokens are an input as types are.
ModelConfig read_with_languages(const HfReader& config) {
  const std::int64_t positions = config.size_or({"max_position_embeddings"}, 512);
  ModelConfig model = made(
      "bert",
      Core{config.size_or({"n_layers", "num_hidden_layers"}, 12), config.size_or({"emb_dim", "hidden_size"}, 2048),
           config.size_or({"n_heads", "num_attention_heads"}, 16), positions, config.size({"vocab_size", "n_words"})});
  for (const char* other : {"sinusoidal_embeddings", "asm"}) config.refuse(other);
  for (const char* key : {"gelu_activation", "is_encoder"})
    require(config.flag_or(key, true), "{}: '{}' is false, which is not supported; true is.", config.place(), key);
  expect_tied(config);
  const std::int64_t languages = config.size_or({"n_langs"}, 1);
  const bool told = config.flag_or("use_lang_emb", true) && languages > 1;
  set(model, "token_types", told ? languages : 0);
  set(model, "positions", positions);
  set(model, "causal", config.flag_or("causal", false));
  set(model, "plain_head", 1);
  set_epsilon(model, config, "layer_norm_eps", 1e-12);
  // For the tokenizer, names of languages, and heads for other tasks.
  for (const char* other : {"bos_index", "eos_index", "pad_index", "unk_index", "mask_index", "lang_id", "lang2id",
                            "id2lang", "embed_init_std", "start_n_top", "end_n_top", "mask_token_id", "max_vocab",
                            "min_count", "same_enc_dec", "share_inout_emb", "n_words"})
    (void)config.has(other);
  return model;
}

}  // namespace

ModelConfig read_xlm(const HfReader& config) { return read_with_languages(config); }

// XLM's blocks, which may have norms in front and none behind them.
ModelConfig read_flaubert(const HfReader& config) {
  ModelConfig model = read_with_languages(config);
  set(model, "norm_first", config.flag_or("pre_norm", false));
  set(model, "final_norm", 0);
  return model;
}

// BERT as one half of an encoder and decoder, without token types; the head is the word table alone.
ModelConfig read_bert_generation(const HfReader& config) {
  config.refuse("add_cross_attention");
  expect_text(config, "position_embedding_type", "absolute");
  expect_tied(config);
  ModelConfig model = made("bert", config);
  set_activation(model, config, "hidden_act", "gelu", {Act::Gelu, Act::GeluErf});
  set_epsilon(model, config, "layer_norm_eps", 1e-12);
  set(model, "positions", config.size({"max_position_embeddings"}));
  set(model, "intermediate", config.size({"intermediate_size"}));
  set(model, "token_types", 0);
  set(model, "causal", config.flag_or("is_decoder", false));
  set(model, "plain_head", 1);
  return model;
}

// The text that GIT writes, of which tokens see those before them.
ModelConfig read_git(const HfReader& config) {
  const HfReader& all = config;
  expect_text(all, "position_embedding_type", "absolute");
  ModelConfig model = made("bert", Core{all.size_or({"num_hidden_layers"}, 6), all.size_or({"hidden_size"}, 768),
                                        all.size_or({"num_attention_heads"}, 12),
                                        all.size_or({"max_position_embeddings"}, 1024), all.size({"vocab_size"})});
  set_activation(model, config, "hidden_act", "gelu", {Act::Gelu, Act::GeluErf});
  set_epsilon(model, config, "layer_norm_eps", 1e-12);
  set(model, "positions", model.seq);
  set(model, "intermediate", config.size_or({"intermediate_size"}, 3072));
  set(model, "token_types", 0);
  for (const char* key : {"causal", "plain_head"}) set(model, key, 1);
  set(model, "tied", config.flag_or("tie_word_embeddings", false));
  return model;
}

// Fourier transforms in place of attention, and so no heads. Files may say that transforms are products of matrices, as
// they are here in any case.
ModelConfig read_fnet(const HfReader& config) {
  ModelConfig model;
  model.family = "fnet";
  model.layers = config.size({"num_hidden_layers"});
  model.hidden = config.size({"hidden_size"});
  model.vocab = config.size({"vocab_size"});
  const std::int64_t positions = config.size_or({"max_position_embeddings"}, 512);
  model.seq = std::min(positions, kLongestSequence);
  expect_tied(config);
  set(model, "positions", positions);
  set(model, "intermediate", config.size({"intermediate_size"}));
  set(model, "token_types", config.size_or({"type_vocab_size"}, 4));
  set_activation(model, config, "hidden_act", "gelu_new", {Act::Gelu, Act::GeluErf});
  set_epsilon(model, config, "layer_norm_eps", 1e-12);
  for (const char* how : {"use_tpu_fourier_optimizations", "tpu_short_seq_length", "use_latest"}) (void)config.has(how);
  return model;
}

ModelConfig read_mobilebert(const HfReader& config) {
  ModelConfig model = made("mobilebert", config);
  for (const char* key : {"trigram_input", "use_bottleneck", "key_query_shared_bottleneck"})
    require(config.flag_or(key, true), "{}: '{}' is false, which is not supported; true is.", config.place(), key);
  config.refuse("use_bottleneck_attention");
  expect_tied(config);
  expect_text(config, "normalization_type", "no_norm");
  set(model, "relu",
      set_activation(model, config, "hidden_act", "relu", {Act::Relu, Act::Gelu, Act::GeluErf}) == Act::Relu);
  set_epsilon(model, config, "layer_norm_eps", 1e-12);
  set(model, "positions", config.size({"max_position_embeddings"}));
  set(model, "intermediate", config.size({"intermediate_size"}));
  set(model, "token_types", config.size_or({"type_vocab_size"}, 2));
  set(model, "word_width", config.size_or({"embedding_size"}, 128));
  set(model, "narrow", config.size_or({"intra_bottleneck_size"}, 128));
  (void)config.size_or({"true_hidden_size"}, model.more["narrow"]);
  set(model, "inner_layers", config.size_or({"num_feedforward_networks"}, 4));
  (void)config.has("classifier_activation");  // of heads for other tasks
  return model;
}

namespace {

// Which of content and position a score joins besides content alone: a list, or a text with bars.
void set_terms(ModelConfig& model, const HfReader& config) {
  std::string terms;
  if (config.has("pos_att_type")) {
    const Json& given = config.at("pos_att_type");
    for (const Json& term : given.is_array() ? given : Json::array({given})) {
      require(term.is_string(), "{}: 'pos_att_type' must be \"c2p\", \"p2c\" or both.", config.place());
      terms += "|" + term.get<std::string>();
    }
  }
  std::string word;
  bool c2p = false, p2c = false;
  for (const char c : terms + "|") {
    if (c == ' ') continue;
    if (c != '|') {
      word += c;
      continue;
    }
    require(word.empty() || word == "c2p" || word == "p2c",
            "{}: 'pos_att_type' has \"{}\", which is not supported; \"c2p\" and \"p2c\" are.", config.place(), word);
    c2p = c2p || word == "c2p";
    p2c = p2c || word == "p2c";
    word.clear();
  }
  set(model, "c2p", c2p);
  set(model, "p2c", p2c);
}

// What both versions share. The pooler is for other heads.
ModelConfig read_disentangled(const HfReader& config) {
  ModelConfig model = made("deberta", config);
  expect_tied(config);
  require(config.flag_or("legacy", true),
          "{}: 'legacy' is false, by which tensors of the head have other names; that is not supported, true is.",
          config.place());
  const std::int64_t width = config.size_or({"embedding_size"}, model.hidden);
  require(width == model.hidden, "{}: 'embedding_size' is {}, another than 'hidden_size', which is not supported.",
          config.place(), width);
  const std::int64_t head = model.hidden / std::max<std::int64_t>(1, model.heads);
  require(config.size_or({"attention_head_size"}, head) == head,
          "{}: 'attention_head_size' is {}, which is not supported; {} is.", config.place(),
          config.size_or({"attention_head_size"}, head), head);
  config.refuse("talking_head");
  set_activation(model, config, "hidden_act", "gelu", {Act::Gelu, Act::GeluErf});
  set_epsilon(model, config, "layer_norm_eps", 1e-7);
  const std::int64_t positions = config.size({"max_position_embeddings"});
  set(model, "intermediate", config.size({"intermediate_size"}));
  set(model, "positions", config.flag_or("position_biased_input", true) ? positions : 0);
  set(model, "token_types", config.size_or({"type_vocab_size"}, 0, 0));
  set_terms(model, config);
  const bool relative = config.flag_or("relative_attention", false);
  require(!relative || model.more["c2p"] + model.more["p2c"] > 0,
          "{}: 'relative_attention' is true, but 'pos_att_type' names no term; \"c2p\", \"p2c\" or both were expected.",
          config.place());
  set(model, "relative", relative);
  const std::int64_t reach = config.size_or({"max_relative_positions"}, -1, -1);
  set(model, "max_distance", reach < 1 ? positions : reach);
  for (const char* pooler : {"pooler_hidden_size", "pooler_hidden_act", "pooler_dropout", "padding_idx"})
    (void)config.has(pooler);
  return model;
}

}  // namespace

// In the first version, keys and the distances' keys have no biases.
ModelConfig read_deberta(const HfReader& config) {
  ModelConfig model = read_disentangled(config);
  for (const char* key : {"shared_projections", "key_bias", "pos_k_bias", "relative_norm"}) set(model, key, 0);
  return model;
}

// The second and the third. Where projections are shared, they are the words'.
ModelConfig read_deberta_v2(const HfReader& config) {
  ModelConfig model = read_disentangled(config);
  set(model, "shared_projections", config.flag_or("share_att_key", false));
  const std::int64_t buckets = config.size_or({"position_buckets"}, -1, -1);
  set(model, "buckets", std::max<std::int64_t>(0, buckets));
  const std::string norm = config.text_or("norm_rel_ebd", "none");
  require(norm == "none" || norm == "layer_norm",
          "{}: 'norm_rel_ebd' is \"{}\", which is not supported; \"none\" and \"layer_norm\" are.", config.place(),
          norm);
  set(model, "relative_norm", norm == "layer_norm");
  const std::int64_t conv = config.size_or({"conv_kernel_size"}, 0, 0);
  require(conv == 0 || conv % 2 == 1, "{}: 'conv_kernel_size' is {}, which is not supported; an odd number is.",
          config.place(), conv);
  const std::int64_t groups = config.size_or({"conv_groups"}, 1);
  require(groups == 1, "{}: 'conv_groups' is {}, which is not supported; 1 is.", config.place(), groups);
  set(model, "conv", conv);
  const std::string act = config.text_or("conv_act", "tanh");
  require(conv == 0 || act == "tanh" || (act == "gelu" && model.more["erf"] == 1),
          "{}: 'conv_act' is \"{}\", which is not supported; \"tanh\" is, and \"gelu\" where 'hidden_act' is the same.",
          config.place(), act);
  set(model, "conv_tanh", act == "tanh");
  return model;
}

}  // namespace meshwright::hf
