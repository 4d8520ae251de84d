// SPDX-License-Identifier: Apache-2.0
// Where a device's tile of a value of a stage begins in the whole tensor. Internal to the executor.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/base/errors.h"
#include "core/plan/program/program.h"

namespace meshwright {

[[nodiscard]] inline int rank_in(const ProgramStage& stage, DeviceId device) {
  const auto found = std::find(stage.devices.begin(), stage.devices.end(), device);
  MW_CHECK(found != stage.devices.end(), "device {} is not in its stage", device.value);
  return static_cast<int>(found - stage.devices.begin());
}

[[nodiscard]] inline std::vector<std::int64_t> tile_offset(const Program& program, StageId stage, DeviceId device,
                                                           const LocalTensor& local) {
  const ProgramStage& of = program.stages[stage.index()];
  const std::vector<int> coordinates = of.mesh.coordinates(rank_in(of, device));
  std::vector<std::int64_t> offset;
  for (std::size_t d = 0; d < local.shape.size(); ++d)
    offset.push_back(tile_index(local.spec.dims[d], of.mesh, coordinates) * local.shape[d]);
  return offset;
}

}  // namespace meshwright
