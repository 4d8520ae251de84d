// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/family_keys.h"

#include "core/base/errors.h"

namespace meshwright::keys {

std::vector<SizeField> with_core_sizes(const std::vector<SizeField>& more) {
  return with(
      {{"layers", kMaxLayers}, {"hidden", 1'000'000}, {"heads", kMaxHeads}, {"seq", 10'000'000}, {"vocab", 10'000'000}},
      more);
}
std::vector<SizeField> with(std::vector<SizeField> sizes, const std::vector<SizeField>& more) {
  sizes.insert(sizes.end(), more.begin(), more.end());
  return sizes;
}

std::vector<SizeField> with_adapters(std::vector<SizeField> sizes) {
  return with(std::move(sizes), {{"lora_rank", 65'536, 0, 0}, {"lora_targets", 3, 0, 0}});
}

SizeField width(const char* key) { return {key, kMaxWidth}; }
SizeField derived_width(const char* key, std::int64_t (*derived)(const ModelConfig&, const std::string&)) {
  return {.key = key, .maximum = kMaxWidth, .derived = derived};
}
SizeField width_or_none(const char* key) { return {key, kMaxWidth, 0, 0}; }
SizeField flag(const char* key, std::int64_t otherwise) { return {key, 1, 0, otherwise}; }
SizeField erf(std::int64_t otherwise) { return flag("erf", otherwise); }
FactorField epsilon(double otherwise) { return {"epsilon", otherwise}; }

std::int64_t seq_of(const ModelConfig& model, const std::string&) { return model.seq; }
std::int64_t heads_of(const ModelConfig& model, const std::string&) { return model.heads; }
std::int64_t layers_of(const ModelConfig& model, const std::string&) { return model.layers; }
std::int64_t hidden_of(const ModelConfig& model, const std::string&) { return model.hidden; }
std::int64_t intermediate_of(const ModelConfig& model, const std::string&) { return size_of(model, "intermediate"); }
std::int64_t bias_of(const ModelConfig& model, const std::string&) { return size_of(model, "bias"); }
std::int64_t tied_of(const ModelConfig& model, const std::string&) { return size_of(model, "tied"); }
std::int64_t hidden_per_head(const ModelConfig& model, const std::string& place) {
  require(model.hidden % model.heads == 0,
          "{}: hidden={} is not a multiple of heads={}; every head needs the same whole number of dimensions.", place,
          model.hidden, model.heads);
  return model.hidden / model.heads;
}

bool is_set(const ModelConfig& model, const char* key) { return size_of(model, key) != 0; }

Activation gelu_of(const ModelConfig& model) { return is_set(model, "erf") ? Activation::GeluErf : Activation::Gelu; }

AttentionPart own_heads(const ModelConfig& model, bool bias) {
  return {
      .kv_heads = model.heads, .group = 1, .head_dim = model.hidden / model.heads, .qkv_bias = bias, .out_bias = bias};
}

std::vector<LayerPart> equal_layers(std::int64_t layers) {
  return std::vector<LayerPart>(static_cast<std::size_t>(layers));
}

}  // namespace meshwright::keys
