// SPDX-License-Identifier: Apache-2.0
// The loss that an imported graph computes of given numbers.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "core/graph/autodiff.h"
#include "executor/check/graph_interpreter.h"

namespace meshwright {

// Element i of a parameter or input; nullopt for all of a tensor: it keeps what a run feeds it.
using NumberOf = std::function<std::optional<double>(const Tensor& tensor, std::int64_t i)>;

inline double loss_of(const Graph& graph, const NumberOf& number) {
  GraphInterpreter interpreter(graph, 1, DType::F64);
  interpreter.load_inputs(0, 0);
  for (const Tensor& tensor : graph.tensors()) {
    if ((tensor.kind != TensorKind::Parameter && tensor.kind != TensorKind::Input) || !number(tensor, 0)) continue;
    std::vector<double> values;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) values.push_back(number(tensor, i).value());
    interpreter.set(tensor.id, values);
  }
  interpreter.run(Phase::Forward);
  return interpreter.get(*graph.loss)[0];
}

}  // namespace meshwright
