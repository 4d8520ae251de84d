// SPDX-License-Identifier: Apache-2.0
// The blocks of a pipeline's stages, and the text in which Megatron-LM is told them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/planner/method/stage_split.h"

namespace meshwright {

// Modules behind the blocks that predict further tokens, and the stage that has them; nullopt: the last, with the loss.
struct FurtherModules {
  int count = 0;
  std::optional<int> stage = {};
};

// {3, 4, 4, 3} -> "Et*3(|t*4)*2|t*3L", and with a module for a further token "...|t*3mL": what stages_of_layout reads.
// REQUIRES: at least one stage, no number below 0; the modules are behind all blocks.
[[nodiscard]] std::string layout_of(const std::vector<int>& stage_blocks, const FurtherModules& further = {});

// [stage] the blocks that a framework gives it of `blocks`, with the embedding and the loss beside the first and the
// last. REQUIRES: a split that breaks no rule (broken_split_rules), or an even one of at least as many blocks as
// stages.
[[nodiscard]] std::vector<int> blocks_of_stages(const StageSplit& split, std::int64_t blocks, int pp, int chunks);

// The split as a layout that has the modules beside the loss, where Megatron-LM puts them. REQUIRES: as
// blocks_of_stages of the split without the modules.
[[nodiscard]] StageSplit with_further_modules(const StageSplit& split, std::int64_t blocks, int pp, int chunks,
                                              int modules);

}  // namespace meshwright
