// SPDX-License-Identifier: Apache-2.0
// The tutorial's MLP: pairs of Dense to 4 x hidden, ReLU, Dense back to hidden, ReLU, against a target of the same
// shape.
#include "core/base/errors.h"
#include "core/graph/models/families.h"

namespace meshwright {

namespace {

TensorId dense_relu(Graph& graph, const std::string& name, TensorId x, const Dim& in, const Dim& out,
                    const Dim& batch) {
  const TensorId weight = graph.add_tensor(name + ".weight", TensorKind::Parameter, graph.dtype, {in, out});
  const TensorId bias = graph.add_tensor(name + ".bias", TensorKind::Parameter, graph.dtype, {out});
  x = graph.add_op(OpKind::Contract, name, {x, weight}, {.result_names = {batch.name, out.name}})[0];
  x = graph.add_op(OpKind::BiasAdd, name + ".bias_add", {x, bias})[0];
  return graph.add_op(OpKind::Relu, name + ".relu", {x})[0];
}

}  // namespace

void build_mlp(Graph& graph, const ModelConfig& model, LossReduction reduction) {
  require(reduction != LossReduction::TokenWeighted,
          "model '{}': its loss has no tokens that could be weighted; choose the mean or the sum.", model.name);
  const Dim batch{"batch", graph.batch / graph.microbatches};
  const Dim embed{"embed", model.hidden}, mlp{"mlp", 4 * model.hidden};
  TensorId x = graph.add_tensor("x", TensorKind::Input, graph.dtype, {batch, embed});
  const TensorId y = graph.add_tensor("y", TensorKind::Input, graph.dtype, {batch, embed});
  for (int pair = 0; pair < model.layers; ++pair) {
    graph.current_block = pair;
    x = dense_relu(graph, fmt::format("blk{}.up", pair), x, embed, mlp, batch);
    x = dense_relu(graph, fmt::format("blk{}.down", pair), x, mlp, embed, batch);
  }
  graph.current_block = -1;
  const double terms = static_cast<double>(graph.batch) * static_cast<double>(model.hidden);
  graph.loss = graph.add_op(OpKind::SquaredErrorLoss, "loss", {x, y},
                            {.scale = reduction == LossReduction::Mean ? 1.0 / terms : 1.0})[0];
}

}  // namespace meshwright
