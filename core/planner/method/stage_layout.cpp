// SPDX-License-Identifier: Apache-2.0
#include "core/planner/method/stage_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/planner/method/layer_options.h"

namespace meshwright {

namespace {

std::string letters(int count, char letter) {
  if (count == 0) return "";
  return count == 1 ? std::string(1, letter) : fmt::format("{}*{}", letter, count);
}

}  // namespace

std::string layout_of(const std::vector<int>& stage_blocks, const FurtherModules& further) {
  const std::size_t last = stage_blocks.size() - 1;
  std::vector<std::string> stages;
  for (const int blocks : stage_blocks) stages.push_back(letters(blocks, 't'));
  stages[further.stage ? static_cast<std::size_t>(*further.stage) : last] += letters(further.count, 'm');
  std::string text = "E" + stages.front();
  for (std::size_t s = 1, end = s; s < last; s = end) {
    while (end < last && stages[end] == stages[s]) ++end;
    const std::string stage = "|" + stages[s];
    text += end - s == 1 ? stage : fmt::format("({})*{}", stage, end - s);
  }
  if (last > 0) text += "|" + stages[last];
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

StageSplit with_further_modules(const StageSplit& split, std::int64_t blocks, int pp, int chunks, int modules) {
  return {.layout = layout_of(blocks_of_stages(split, blocks, pp, chunks), {modules})};
}

}  // namespace meshwright
