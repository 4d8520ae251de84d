// SPDX-License-Identifier: Apache-2.0
// Rows that the tables of several families of decoders share. Internal to the tables of tensors.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "core/graph/import/hf_tensors.h"

namespace meshwright::hf {

using Rows = std::vector<HfTensorRow>;

// Llama's table with rows of a family's own in front of those that it shares with Llama.
[[nodiscard]] HfTensorTable like_llama(std::vector<std::string> types, std::initializer_list<Rows> own);
// A tensor for each projection of each expert, and of the shared ones.
[[nodiscard]] Rows expert_rows();

}  // namespace meshwright::hf

namespace meshwright {

// Those of encoders of masked words.
[[nodiscard]] std::vector<HfTensorTable> hf_encoder_tables();
// Those of decoders like Llama whose publishers name tensors in their own way.
[[nodiscard]] std::vector<HfTensorTable> hf_publisher_tables();

}  // namespace meshwright
