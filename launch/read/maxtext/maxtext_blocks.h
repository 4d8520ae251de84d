// SPDX-License-Identifier: Apache-2.0
// The decoder blocks of MaxText that no plain decoder is: windows, chunks or scans in some of the layers.
#pragma once

#include <optional>
#include <string>

#include "launch/read/readers.h"

namespace meshwright {

// The model of a `decoder_block` of MaxText 2026 (its common/common_types.py), as the config.json of the same family
// has it; `facts` are the sizes that all blocks have. nullopt: `facts` say all. Throws InputError for blocks without an
// equal here.
[[nodiscard]] std::optional<ModelConfig> model_of_block(ReadingJob& job, const std::string& block,
                                                        const ModelFacts& facts);

}  // namespace meshwright
