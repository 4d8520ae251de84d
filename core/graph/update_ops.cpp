// SPDX-License-Identifier: Apache-2.0
#include "core/graph/update_ops.h"

namespace meshwright {

std::optional<TensorId> updated_parameter(const Graph& graph, const Op& op) {
  const Tensor& first = graph.tensor(op.inputs.front());
  if (first.kind == TensorKind::Parameter) return first.id;
  if (first.parameter) return first.parameter;
  if (!first.producer) return std::nullopt;
  const Op& maker = graph.op(*first.producer);
  return maker.kind == OpKind::SumSquares ? std::nullopt : updated_parameter(graph, maker);
}

}  // namespace meshwright
