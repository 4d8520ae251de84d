// SPDX-License-Identifier: Apache-2.0
// A model with dropout, which no built-in one has.
#pragma once

#include <memory>

#include "core/graph/models/models.h"

namespace meshwright {

// y = dropout(x w), against given values.
class Dropping final : public ForwardSource {
 public:
  void build(Graph& graph, LossReduction) const override {
    const std::int64_t samples = graph.batch / graph.microbatches;
    const TensorId x = graph.add_tensor("x", TensorKind::Input, graph.dtype, {{"batch", samples}, {"in", 8}});
    const TensorId y = graph.add_tensor("y", TensorKind::Input, graph.dtype, {{"batch", samples}, {"out", 4}});
    const TensorId w = graph.add_tensor("w", TensorKind::Parameter, graph.dtype, {{"in", 8}, {"out", 4}});
    const TensorId made = graph.add_op(OpKind::Contract, "made", {x, w}, {.result_names = {"batch", "out"}})[0];
    const TensorId kept = graph.add_op(OpKind::Dropout, "kept", {made}, {.probability = 0.5, .seed = 9})[0];
    graph.loss = graph.add_op(OpKind::SquaredErrorLoss, "loss", {kept, y}, {.scale = 0.5})[0];
  }
};

[[nodiscard]] inline ModelConfig dropping_model() {
  ModelConfig model;
  model.family = "file";
  model.file = ModelFile{"dropping.onnx", "0123456789abcdef", {}, std::make_shared<const Dropping>()};
  return model;
}

}  // namespace meshwright
