// SPDX-License-Identifier: Apache-2.0
// What the tables of several families of transformers share: keys, and parts of descriptions that keys make. Internal
// to the families.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/models/families.h"
#include "core/graph/models/parts/transformer.h"

namespace meshwright::keys {

constexpr std::int64_t kMaxWidth = 10'000'000, kMaxLayers = 10'000, kMaxHeads = 1'000'000;
constexpr std::int64_t kDefaultBatch = 1024;

// Layers, hidden, heads, seq, vocab, and `more`.
[[nodiscard]] std::vector<SizeField> with_core_sizes(const std::vector<SizeField>& more);
// lora_rank: only adapters of this rank are trained; 0: all weights are. lora_targets: of every product of attention
// and of dense feed-forward layers (0), of attention alone (1), of queries, keys and values alone (2), or of queries
// and values (3). For models that a ModelWriter writes.
[[nodiscard]] std::vector<SizeField> with_adapters(std::vector<SizeField> sizes);
[[nodiscard]] std::vector<SizeField> with(std::vector<SizeField> sizes, const std::vector<SizeField>& more);

[[nodiscard]] SizeField width(const char* key);
[[nodiscard]] SizeField derived_width(const char* key, std::int64_t (*derived)(const ModelConfig&, const std::string&));
[[nodiscard]] SizeField width_or_none(const char* key);
[[nodiscard]] SizeField flag(const char* key, std::int64_t otherwise);
// Whether GELU is its exact form.
[[nodiscard]] SizeField erf(std::int64_t otherwise);
[[nodiscard]] FactorField epsilon(double otherwise);

// What SizeField::derived may be.
[[nodiscard]] std::int64_t seq_of(const ModelConfig& model, const std::string& place);
[[nodiscard]] std::int64_t heads_of(const ModelConfig& model, const std::string& place);
[[nodiscard]] std::int64_t layers_of(const ModelConfig& model, const std::string& place);
[[nodiscard]] std::int64_t hidden_of(const ModelConfig& model, const std::string& place);
[[nodiscard]] std::int64_t intermediate_of(const ModelConfig& model, const std::string& place);
[[nodiscard]] std::int64_t bias_of(const ModelConfig& model, const std::string& place);
[[nodiscard]] std::int64_t tied_of(const ModelConfig& model, const std::string& place);
// Throws InputError where hidden is no multiple of heads.
[[nodiscard]] std::int64_t hidden_per_head(const ModelConfig& model, const std::string& place);

[[nodiscard]] bool is_set(const ModelConfig& model, const char* key);
[[nodiscard]] Activation gelu_of(const ModelConfig& model);
// A key and value for each query.
[[nodiscard]] AttentionPart own_heads(const ModelConfig& model, bool bias);
[[nodiscard]] std::vector<LayerPart> equal_layers(std::int64_t layers);

template <Transformer (*describe)(const ModelConfig&)>
void build(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  build_transformer(graph, model, describe(model), reduction);
}

}  // namespace meshwright::keys
