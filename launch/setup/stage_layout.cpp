// SPDX-License-Identifier: Apache-2.0
#include "launch/setup/stage_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/planner/method/layer_options.h"

namespace meshwright {

namespace {

std::string blocks_text(int blocks) {
  if (blocks == 0) return "";
  return blocks == 1 ? "t" : fmt::format("t*{}", blocks);
}

}  // namespace

std::string layout_of(const std::vector<int>& stage_blocks) {
  const std::size_t last = stage_blocks.size() - 1;
  std::string text = "E" + blocks_text(stage_blocks.front());
  for (std::size_t s = 1, end = s; s < last; s = end) {
    while (end < last && stage_blocks[end] == stage_blocks[s]) ++end;
    const std::string stage = "|" + blocks_text(stage_blocks[s]);
    text += end - s == 1 ? stage : fmt::format("({})*{}", stage, end - s);
  }
  if (last > 0) text += "|" + blocks_text(stage_blocks[last]);
  return text + "L";
}

std::vector<int> blocks_of_stages(const StageSplit& split, std::int64_t blocks, int pp, int chunks) {
  std::vector<int> own;
  if (split.uneven()) {
    own = layers_of_stages(split, blocks, pp, chunks);
  } else {
    const bool apart = cut_for_stages(blocks, std::int64_t{pp} * chunks) == LayerOptions::Cut::BlocksApart;
    const std::vector<int> starts =
        first_layers_of_stages(split, static_cast<int>(blocks) + (apart ? 2 : 0), pp, chunks);
    for (std::size_t s = 0; s + 1 < starts.size(); ++s) own.push_back(starts[s + 1] - starts[s]);
    if (!apart) return own;
  }
  --own.front();
  --own.back();
  return own;
}

}  // namespace meshwright
