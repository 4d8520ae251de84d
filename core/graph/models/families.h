// SPDX-License-Identifier: Apache-2.0
// The families of built-in models: which sizes each is made from, and who builds it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/graph/models/models.h"

namespace meshwright {

// A whole number of a model: layers, hidden, heads, seq and vocab are members of ModelConfig, every other key is in
// ModelConfig::more.
struct SizeField {
  const char* key;
  std::int64_t maximum;
  std::int64_t minimum = 1;
  // What a model has that does not give it; neither: it must be given. `place` is for what cannot be derived.
  std::optional<std::int64_t> otherwise = {};
  std::int64_t (*derived)(const ModelConfig& model, const std::string& place) = nullptr;

  [[nodiscard]] bool required() const { return !otherwise && derived == nullptr; }
};

// A positive number of a model, in ModelConfig::factors.
struct FactorField {
  const char* key;
  double otherwise;
  const char* like = nullptr;  // instead of `otherwise`: the factor, before this one, whose value it takes
};

struct Family {
  const char* name;
  std::vector<SizeField> sizes;  // in the order they are shown
  std::vector<FactorField> factors;
  const char* example;  // a custom size
  std::int64_t default_batch;
  DType default_dtype;
  // The family's forward ops and loss. REQUIRES: `graph` holds the options' batch, microbatches and dtype, checked.
  void (*build)(Graph& graph, const ModelConfig& model, LossReduction reduction);
};

void build_gpt(Graph& graph, const ModelConfig& model, LossReduction reduction);
void build_mlp(Graph& graph, const ModelConfig& model, LossReduction reduction);
void build_gshard(Graph& graph, const ModelConfig& model, LossReduction reduction);
void build_wide_resnet(Graph& graph, const ModelConfig& model, LossReduction reduction);
void build_vit(Graph& graph, const ModelConfig& model, LossReduction reduction);
void build_speech(Graph& graph, const ModelConfig& model, LossReduction reduction);
void build_two_tower(Graph& graph, const ModelConfig& model, LossReduction reduction);

// The blocks of a residual network with this number of layers; empty: there is no such network.
[[nodiscard]] std::vector<int> bottlenecks_per_stage(std::int64_t layers);

[[nodiscard]] std::vector<Family> transformer_families();  // decoders
[[nodiscard]] std::vector<Family> encoder_families();
[[nodiscard]] std::vector<Family> deberta_families();
[[nodiscard]] std::vector<Family> fnet_families();
[[nodiscard]] std::vector<Family> mobilebert_families();
constexpr std::int64_t kMaxNarrowLayers = 16;  // feed-forward layers of one of MobileBERT's layers

[[nodiscard]] std::vector<Family> hybrid_families();
// The kind of each layer of a hybrid: M a scan, * attention, - feed-forward, E a mixture. Throws
// InputError for others.
void set_layer_kinds(ModelConfig& model, const std::string& kinds, const std::string& place);
// The same of a hybrid's modules for further tokens, each of which has these layers.
void set_further_layers(ModelConfig& model, const std::string& kinds, const std::string& place);
// The widths of its feed-forward layers, one after the other. Throws InputError for too many of them.
void set_layer_widths(ModelConfig& model, const std::vector<std::int64_t>& widths, const std::string& place);

[[nodiscard]] std::vector<Family> delta_families();
enum class DeltaLayer { Delta, Windowed, Full };
// The kind of each layer of a decoder of delta rules. Throws InputError for too many layers, and for none that attends.
void set_delta_layers(ModelConfig& model, const std::vector<DeltaLayer>& kinds, const std::string& place);
[[nodiscard]] std::vector<Family> gemma4_families();

[[nodiscard]] std::vector<Family> kimi_linear_families();
// Which of its layers attend. Throws InputError for too many layers.
void set_attending_layers(ModelConfig& model, const std::vector<bool>& attends, const std::string& place);

[[nodiscard]] std::vector<Family> griffin_families();
// Which of its layers attend. Throws InputError for too many layers.
void set_griffin_attention(ModelConfig& model, const std::vector<bool>& attends, const std::string& place);

[[nodiscard]] std::vector<Family> jetmoe_families();
[[nodiscard]] std::vector<Family> longcat_flash_families();

[[nodiscard]] std::vector<Family> rwkv_families();
[[nodiscard]] std::vector<Family> zamba2_families();
// Which of its layers use a shared block. Throws InputError for too many layers.
void set_zamba2_hybrids(ModelConfig& model, const std::vector<bool>& hybrid, const std::string& place);

[[nodiscard]] std::vector<Family> lightning_families();
// Which of its layers attend by a softmax. Throws InputError for too many layers.
void set_softmax_layers(ModelConfig& model, const std::vector<bool>& attends, const std::string& place);

[[nodiscard]] std::vector<Family> convnext_families();
[[nodiscard]] std::vector<Family> swin_families();
[[nodiscard]] std::vector<Family> segformer_families();

[[nodiscard]] std::vector<Family> hy_v4_families();
[[nodiscard]] std::vector<Family> deepseek_v4_families();
// What attention of each layer sees besides its window: 0 nothing, 1 keys of a few tokens that an indexer chooses, 2
// all keys of many tokens. Throws InputError for too many layers.
void set_compression_kinds(ModelConfig& model, const std::vector<int>& kinds, const std::string& place);

// All of them.
[[nodiscard]] const std::vector<Family>& families();
[[nodiscard]] const Family* find_family(const std::string& name);
// Throws InputError that lists the families.
[[nodiscard]] const Family& known_family(const std::string& name, const std::string& place);

// The usual width of a feed-forward layer (SizeField::derived).
[[nodiscard]] std::int64_t four_times_hidden(const ModelConfig& model, const std::string& place);

// The number `key` of `model`, member or one of `more`; 0 where it has none.
[[nodiscard]] std::int64_t size_of(const ModelConfig& model, const std::string& key);
void set_size(ModelConfig& model, const std::string& key, std::int64_t value);

// Fills in what the family derives and what it has by default.
void complete(ModelConfig& model, const Family& family, const std::string& place);
// Throws InputError unless every number is in its range and they fit each other.
void check_sizes(const Family& family, const ModelConfig& model, const std::string& place);

}  // namespace meshwright
