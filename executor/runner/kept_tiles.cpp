// SPDX-License-Identifier: Apache-2.0
#include "executor/runner/kept_tiles.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/graph/op_table.h"
#include "kernels/cpu/layout/tiles.h"

namespace meshwright {

namespace {

std::vector<std::int64_t> shape_of(const Tensor& tensor) {
  std::vector<std::int64_t> shape;
  for (const Dim& dim : tensor.dims) shape.push_back(dim.size);
  return shape;
}

bool updates_weights(OpKind kind) {
  return kind == OpKind::SgdUpdate || kind == OpKind::MomentumUpdate || kind == OpKind::AdamUpdate ||
         kind == OpKind::AdafactorUpdate;
}

// The op that the loss is made by reads logits where they are whole: a sum of exponentials is not linear.
bool reads_logits(const Op& op) {
  return op.phase == Phase::Forward && (op.kind == OpKind::SumExp || op.kind == OpKind::SquaredErrorLoss);
}

void place(const std::vector<std::int64_t>& shape, std::vector<std::int64_t> offset, const KeptTile& tile,
           std::vector<double>& whole) {
  const std::vector<std::int64_t> strides = kernels::row_major_strides(shape);
  std::int64_t elements = 1, first = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    elements *= shape[d];
    first += offset[d] * strides[d];
  }
  whole.resize(static_cast<std::size_t>(elements));
  kernels::copy_tile<double>(tile.extent, tile.values.data(), kernels::row_major_strides(tile.extent),
                             whole.data() + first, strides);
}

}  // namespace

std::map<OpId, KeptOperand> kept_operands(const Graph& graph, const RunOptions& options) {
  std::map<OpId, KeptOperand> kept;
  bool has_logits = false;
  for (const Op& op : graph.ops()) {
    if (options.keep_logits && !has_logits && reads_logits(op)) {
      kept[op.id] = {0, ""};
      has_logits = true;
    }
    if (!options.keep_gradients || !updates_weights(op.kind)) continue;
    const std::vector<std::string> operands = operand_names(op.kind, op.inputs.size(), op.attributes);
    const auto at = std::find(operands.begin(), operands.end(), "g") - operands.begin();
    kept[op.id] = {static_cast<std::size_t>(at), graph.tensor(op.inputs[0]).name};
  }
  return kept;
}

void place_kept(const Graph& graph, const std::map<OpId, KeptOperand>& operands, const KeptTile& tile,
                RunResult& result) {
  const KeptOperand& operand = operands.at(tile.reader);
  const Tensor& tensor = graph.tensor(graph.op(tile.reader).inputs[operand.operand]);
  std::vector<std::int64_t> shape = shape_of(tensor), offset = tile.offset;
  if (!operand.parameter.empty()) return place(shape, offset, tile, result.gradients[operand.parameter]);
  MW_CHECK(!shape.empty(), "the loss is made from a scalar");
  offset[0] += tile.microbatch * shape[0];
  shape[0] *= graph.microbatches;
  result.logits.shape = shape;
  place(shape, offset, tile, result.logits.values);
}

}  // namespace meshwright
