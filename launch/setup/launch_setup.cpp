// SPDX-License-Identifier: Apache-2.0
#include "launch/setup/launch_setup.h"

#include <algorithm>

#include "core/planner/method/stage_layout.h"

namespace meshwright {

const char* megatron_dispatcher(TokenDispatch dispatch) {
  switch (dispatch) {
    case TokenDispatch::ToExperts:
      return "alltoall";
    case TokenDispatch::ToHosts:
      return "flex";
    case TokenDispatch::ToAll:
      return "allgather";
  }
  return "alltoall";
}

std::vector<int> blocks_of_stages(const LaunchSetup& setup) {
  const Degrees& d = setup.degrees;
  return setup.stage_blocks.empty() ? blocks_of_stages(d.split, setup.model.layers, d.pp, d.chunks)
                                    : setup.stage_blocks;
}

void join_stages(LaunchSetup& setup) {
  Degrees& d = setup.degrees;
  const auto differs = [&](const StageSetup& stage) {
    return stage.dp != d.dp || stage.tp != d.tp || stage.cp != d.cp || stage.ep != d.ep;
  };
  const std::int64_t ranks = std::int64_t{d.dp} * d.tp * d.cp * d.pp;
  if (setup.stages.empty() || ranks != setup.devices() ||
      std::any_of(setup.stages.begin(), setup.stages.end(), differs))
    return;
  d.recompute = setup.stages.front().recompute;
  setup.stage_blocks.clear();
  int block = 0;
  for (const StageSetup& stage : setup.stages) {
    setup.stage_blocks.push_back(stage.blocks);
    if (stage.recompute != d.recompute && stage.blocks > 0)
      setup.recompute_layers.push_back({block, block + stage.blocks - 1, stage.recompute});
    block += stage.blocks;
  }
  setup.stages.clear();
}

Degrees degrees_with_layout(const LaunchSetup& setup) {
  Degrees degrees = setup.degrees;
  const int pp = degrees.pp, chunks = degrees.chunks;
  const std::int64_t blocks = setup.model.layers, stages = degrees.stages();
  if (pp == 1) return degrees;
  const bool even = blocks >= stages && (chunks == 1 || blocks % stages == 0 || (blocks + 2) % stages == 0);
  if (const std::int64_t further = shape_of(setup.model).further; further > 0) {
    // Only a layout says where the modules are.
    const auto modules = static_cast<int>(further);
    if (!setup.stage_blocks.empty())
      degrees.split = {.layout = layout_of(setup.stage_blocks, {modules, setup.further_stage})};
    else if (degrees.split.layout.empty() &&
             (degrees.split.uneven() ? broken_split_rules(degrees.split, blocks, pp, chunks).empty() : even))
      degrees.split = with_further_modules(degrees.split, blocks, pp, chunks, modules);
    return degrees;
  }
  if (setup.stage_blocks.empty()) return degrees;
  if (degrees.split.layout.empty()) {
    const bool parted = blocks >= stages && (blocks % stages == 0 || (blocks + 2) % stages == 0);
    if ((parted || degrees.split.uneven()) && setup.stage_blocks == blocks_of_stages(degrees.split, blocks, pp, chunks))
      return degrees;
  }
  degrees.split = {.layout = layout_of(setup.stage_blocks)};
  return degrees;
}

}  // namespace meshwright
