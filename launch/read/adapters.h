// SPDX-License-Identifier: Apache-2.0
// Adapters (LoRA; E. Hu et al., 2021) that a launch file trains in the place of a model's weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launch/read/readers.h"

namespace meshwright {

// The job trains adapters of this rank, as the setting `key` says, of the products that `targets` name as frameworks
// name their modules: "q_proj", "linear_fc1", "all-linear"; none: those of queries and values, as PEFT has it. What the
// model has is settled by finish_adapters.
void take_adapters(ReadingJob& job, const std::string& key, std::int64_t rank, std::vector<std::string> targets);

// The words of a list, or of a text with commas or blanks between them; none where the setting is absent.
[[nodiscard]] std::vector<std::string> listed_words(Settings& settings, const std::string& key);

// Gives the model of the job its adapters, if it trains some. Throws InputError where the family has none.
void finish_adapters(ReadingJob& job);

}  // namespace meshwright
