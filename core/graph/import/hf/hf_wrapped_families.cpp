// SPDX-License-Identifier: Apache-2.0
// Files of models with an eye or an ear: what is made is the text model, of whichever family it is. The other parts are
// members that nobody reads, and named as such.
#include <array>

#include "core/base/errors.h"
#include "core/graph/import/hf/hf_families.h"
#include "core/graph/import/hf/hf_parts.h"

namespace meshwright::hf {

namespace {

// Such files leave out what is the same in the text model's class in transformers. These are the sizes of the classes
// that publishers wrap.
const Json& class_defaults() {
  static const Json all = {
      {"llama",
       {{"vocab_size", 32000},
        {"hidden_size", 4096},
        {"intermediate_size", 11008},
        {"num_hidden_layers", 32},
        {"num_attention_heads", 32},
        {"max_position_embeddings", 2048}}},
      {"mistral",
       {{"vocab_size", 32000},
        {"hidden_size", 4096},
        {"intermediate_size", 14336},
        {"num_hidden_layers", 32},
        {"num_attention_heads", 32},
        {"num_key_value_heads", 8},
        {"max_position_embeddings", 131072}}},
      {"qwen2",
       {{"vocab_size", 151936},
        {"hidden_size", 4096},
        {"intermediate_size", 22016},
        {"num_hidden_layers", 32},
        {"num_attention_heads", 32},
        {"num_key_value_heads", 32},
        {"max_position_embeddings", 32768}}},
      {"gemma",
       {{"vocab_size", 256000},
        {"hidden_size", 3072},
        {"intermediate_size", 24576},
        {"num_hidden_layers", 28},
        {"num_attention_heads", 16},
        {"num_key_value_heads", 16},
        {"head_dim", 256},
        {"max_position_embeddings", 8192}}},
      {"gemma2",
       {{"vocab_size", 256000},
        {"hidden_size", 2304},
        {"intermediate_size", 9216},
        {"num_hidden_layers", 26},
        {"num_attention_heads", 8},
        {"num_key_value_heads", 4},
        {"head_dim", 256},
        {"max_position_embeddings", 8192}}},
  };
  return all;
}

}  // namespace

ModelConfig read_wrapped(const HfReader& config) {
  if (config.has("thinker_config")) return read_wrapped(config.part("thinker_config"));
  constexpr std::array kNames = {"text_config", "llm_config", "language_config"};
  for (const char* name : kNames) {
    if (!config.has(name)) continue;
    const HfReader text = config.part(name);
    const std::string type = text.text_or("model_type", "");
    const HfFamily& family = hf_family_of(text);
    const Json& defaults = class_defaults();
    ModelConfig model = family.read(defaults.contains(type) ? text.with_defaults(defaults.at(type)) : text);
    set_tied_by_whole(model, config);
    return model;
  }
  throw InputError(fmt::format("{}: 'text_config' is missing; it describes the text model of the family {}.",
                               config.place(), config.text_or("model_type", "")));
}

// Llama 3.2 Vision: text passes by the layers that attend to images, which are left out. The word table has rows for
// tokens of images that the head does not know.
ModelConfig read_mllama(const HfReader& config) {
  if (auto text = read_text_part(config, "mllama", read_mllama)) return *std::move(text);
  ModelConfig model = read_decoder("decoder", config, 1e-5);
  constexpr std::int64_t kWordsOfImages = 8;
  set(model, "more_words", kWordsOfImages);
  require(!config.flag_or("tie_word_embeddings", false),
          "{}: 'tie_word_embeddings' is true, which is not supported for this family; false is.", config.place());
  const Json crossing = config.aside("cross_attention_layers");
  const std::int64_t layers = model.layers;
  bool fits = crossing.is_array() && static_cast<std::int64_t>(crossing.size()) < layers;
  for (const Json& layer : crossing) fits = fits && layer.is_number_integer() && layer >= 0 && layer < layers;
  require(fits, "{}: 'cross_attention_layers' must be a list of some of the {} layers.", config.place(), layers);
  model.layers -= static_cast<std::int64_t>(crossing.size());
  return model;
}

}  // namespace meshwright::hf
