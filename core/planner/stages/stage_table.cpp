// SPDX-License-Identifier: Apache-2.0
#include "core/planner/stages/stage_table.h"

#include <utility>

#include "core/base/errors.h"

namespace meshwright {

StageTable::StageTable(int layers, std::vector<DeviceSlice> slices, int configs)
    : layers_(layers), configs_(configs), slices_(std::move(slices)) {
  require(layers >= 1, "stage search: there must be at least one layer, not {}.", layers);
  require(configs >= 1, "stage search: there must be at least one configuration, not {}.", configs);
  const std::size_t spans = static_cast<std::size_t>(layers) * (layers + 1) / 2;
  costs_.resize(spans * slices_.size() * configs);
}

std::size_t StageTable::index(int first, int last, int slice, int config) const {
  MW_CHECK(0 <= first && first <= last && last < layers_, "layers {}..{} of {}", first, last, layers_);
  MW_CHECK(0 <= slice && slice < static_cast<int>(slices_.size()) && 0 <= config && config < configs_,
           "slice {} of {}, configuration {} of {}", slice, slices_.size(), config, configs_);
  const std::size_t f = first;
  const std::size_t span = f * layers_ - f * (f + 1) / 2 + last;  // rows of the upper triangle
  return (span * slices_.size() + slice) * configs_ + config;
}

}  // namespace meshwright
