// SPDX-License-Identifier: Apache-2.0
// What each family's config.json means.
#pragma once

#include <string>
#include <vector>

#include "core/graph/import/hf_reader.h"
#include "core/graph/models/models.h"

namespace meshwright {

struct HfFamily {
  const char* model_type;
  // The sizes and the family; name, batch and dtype are left to the caller.
  ModelConfig (*read)(const HfReader& config);
};

// hf_hybrid_families.cpp
[[nodiscard]] ModelConfig read_mamba2(const HfReader& config);
[[nodiscard]] ModelConfig read_nemotron_h(const HfReader& config);
[[nodiscard]] ModelConfig read_qwen3_next(const HfReader& config);  // and Qwen3.5

[[nodiscard]] const std::vector<HfFamily>& hf_families();  // by name

}  // namespace meshwright
