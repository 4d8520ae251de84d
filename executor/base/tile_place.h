// SPDX-License-Identifier: Apache-2.0
// Where a device's tile of a value of a stage lies in the whole tensor. Internal to the executor.
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

// What a tile holds of the whole tensor, without the padding behind it. Everything of an empty one is padding.
struct TilePlace {
  std::vector<std::int64_t> offset, extent;  // in the whole tensor
  [[nodiscard]] bool is_empty() const { return std::find(extent.begin(), extent.end(), 0) != extent.end(); }
};

[[nodiscard]] inline TilePlace tile_place(const Program& program, const Graph& graph, StageId stage, DeviceId device,
                                          const LocalTensor& local) {
  const ProgramStage& of = program.stages[stage.index()];
  const std::vector<Dim>& dims = graph.tensor(local.tensor).dims;
  const std::vector<int> coordinates = of.mesh.coordinates(rank_in(of, device));
  TilePlace place;
  for (std::size_t d = 0; d < local.shape.size(); ++d) {
    const TileRows rows = tile_rows(dims[d].size, local.spec.dims[d], of.mesh, coordinates);
    place.offset.push_back(rows.begin);
    place.extent.push_back(rows.count);
  }
  return place;
}

}  // namespace meshwright
