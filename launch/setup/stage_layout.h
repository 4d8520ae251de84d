// SPDX-License-Identifier: Apache-2.0
// The blocks of a pipeline's stages, and the text in which Megatron-LM is told them.
#pragma once

#include <string>
#include <vector>

#include "core/planner/method/stage_split.h"

namespace meshwright {

// {3, 4, 4, 3} -> "Et*3(|t*4)*2|t*3L": what stages_of_layout reads. REQUIRES: at least one stage, no number below 0.
[[nodiscard]] std::string layout_of(const std::vector<int>& stage_blocks);

// [stage] the blocks that a framework gives it of `blocks`, with the embedding and the loss beside the first and the
// last. REQUIRES: a split that breaks no rule (broken_split_rules), or an even one of at least as many blocks as
// stages.
[[nodiscard]] std::vector<int> blocks_of_stages(const StageSplit& split, std::int64_t blocks, int pp, int chunks);

}  // namespace meshwright
