// SPDX-License-Identifier: Apache-2.0
#include "executor/runner/held_tiles.h"

#include <utility>

#include "executor/base/tile_place.h"
#include "kernels/cpu/layout/tiles.h"

namespace meshwright {

void add_held(const RunContext& context, const DeviceRunner& runner, std::vector<HeldTile>& held) {
  for (const Buffer& buffer : context.program.buffers) {
    const Tensor& tensor = context.graph.tensor(buffer.local.tensor);
    const bool lasts = tensor.kind == TensorKind::Parameter || tensor.kind == TensorKind::OptimizerState ||
                       tensor.kind == TensorKind::StepState;
    if (!buffer.persistent || !lasts || !context.program.lies_on(buffer.stage, runner.device())) continue;
    const TilePlace place = tile_place(context.program, context.graph, buffer.stage, runner.device(), buffer.local);
    if (place.is_empty()) continue;
    const std::vector<double> values = runner.persistent(buffer.id);
    HeldTile& tile = held.emplace_back(HeldTile{runner.device(), tensor.id, false, place.offset, place.extent, {}});
    std::int64_t elements = 1;
    for (const std::int64_t size : place.extent) elements *= size;
    tile.values.resize(static_cast<std::size_t>(elements));
    kernels::copy_tile<double>(place.extent, values.data(), kernels::row_major_strides(buffer.local.shape),
                               tile.values.data(), kernels::row_major_strides(place.extent));
  }
}

void take_held(const Graph& graph, const std::map<OpId, KeptOperand>& operands, RunPart& part,
               std::vector<HeldTile>& held) {
  for (HeldTile& tile : part.held) held.push_back(std::move(tile));
  for (const KeptTile& tile : part.kept) {
    const KeptOperand& operand = operands.at(tile.reader);
    if (operand.parameter.empty()) continue;
    const TensorId parameter = graph.op(tile.reader).inputs[0];
    held.push_back({tile.device, parameter, true, tile.offset, tile.extent, tile.values});
  }
}

}  // namespace meshwright
