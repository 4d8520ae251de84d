// SPDX-License-Identifier: Apache-2.0
#include "launch/setup/torchtitan_stages.h"

namespace meshwright {

std::vector<int> torchtitan_stages(std::int64_t layers, std::int64_t stages, std::int64_t less_first,
                                   std::int64_t less_last) {
  if (stages < 1 || layers < stages) return {};
  const std::int64_t units = layers + less_first + less_last;
  std::vector<int> blocks(static_cast<std::size_t>(stages), static_cast<int>(units / stages));
  for (std::int64_t s = 0; s < units % stages; ++s) ++blocks[static_cast<std::size_t>(s)];
  blocks.front() -= static_cast<int>(less_first);
  blocks.back() -= static_cast<int>(less_last);
  if (blocks.front() < 0 || blocks.back() < 0) return {};
  return blocks;
}

}  // namespace meshwright
