// SPDX-License-Identifier: Apache-2.0
// Rows that the tables of several families of decoders share. Internal to the tables of tensors.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/import/hf/tensors/hf_tensors.h"

namespace meshwright::hf {

using Rows = std::vector<HfTensorRow>;

// Llama's table with rows of a family's own in front of those that it shares with Llama.
[[nodiscard]] HfTensorTable like_llama(std::vector<std::string> types, std::initializer_list<Rows> own);
// A tensor for each projection of each expert, and of the shared ones.
[[nodiscard]] Rows expert_rows();
// The same beside one whose result may have a gate.
[[nodiscard]] Rows gated_expert_rows();
// What a table's files hold under other names: `names` are parts of them, the first found of each is replaced.
[[nodiscard]] HfTensorTable renamed(HfTensorTable table, std::vector<std::string> types, std::string prefix,
                                    const std::vector<std::pair<std::string, std::string>>& names,
                                    std::vector<std::string> left_out);
// Norms of all queries of a token together, and of its keys.
[[nodiscard]] Rows wide_norm_rows();
// Latent attention, whose rotated dimensions lie in pairs.
[[nodiscard]] Rows latent_rows();
// Which keys a query of latent attention sees is chosen by scores of their own.
[[nodiscard]] Rows indexer_rows();
// Queries and keys whose rotated dimensions lie in pairs.
[[nodiscard]] Rows paired_rows();
// BERT's names, and BART's.
[[nodiscard]] HfTensorTable bert_table();
[[nodiscard]] HfTensorTable bart_table();
// The same in a file that has another model beside it, of images: where it has the model and its head, and what else.
[[nodiscard]] HfTensorTable as_part(HfTensorTable table, const std::string& type, const std::string& model,
                                    const std::string& head, std::vector<std::string> left_out);

}  // namespace meshwright::hf

namespace meshwright {

// Those of encoders of masked words.
[[nodiscard]] std::vector<HfTensorTable> hf_encoder_tables();
// Those of models of BERT's and BART's blocks under other names.
[[nodiscard]] std::vector<HfTensorTable> hf_bert_like_tables();
// Those of models of images.
[[nodiscard]] std::vector<HfTensorTable> hf_image_tables();
// Those of decoders with experts, latent attention or delta rules.
[[nodiscard]] std::vector<HfTensorTable> hf_mixture_tables();
// Those of decoders with compressed attention, or with delta rules of a rate for each channel.
[[nodiscard]] std::vector<HfTensorTable> hf_sparse_tables();
// Those of decoders like Llama whose publishers name tensors in their own way.
[[nodiscard]] std::vector<HfTensorTable> hf_publisher_tables();

}  // namespace meshwright
