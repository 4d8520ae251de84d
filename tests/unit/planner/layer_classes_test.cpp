// SPDX-License-Identifier: Apache-2.0
// Layers of a step: how many blocks they have, and which of them are alike.
#include "core/planner/spans/layer_classes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "core/graph/recomputation.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::layer_classes_test {
namespace {

TEST(StepStructure, CountsTheBlocksOfALayerAndOneWhereThereAreNone) {
  const Graph graph =
      build_training_graph(find_model("gpt:layers=3,hidden=8,heads=2,seq=4,vocab=16"), {.batch = 4, .microbatches = 2});
  const std::vector<OpId> ops = forward_ops(graph);
  const auto begin_of = [&](int block) {
    int at = 0;
    while (graph.op(ops[static_cast<std::size_t>(at)]).block != block) ++at;
    return at;
  };
  // Before the blocks; blocks 0 and 1; block 2 and what follows.
  const Layers layers = assign_layers(graph, {0, begin_of(0), begin_of(2)});
  const StepStructure structure(graph, layers);
  EXPECT_EQ(structure.blocks_in(0), 1);
  EXPECT_EQ(structure.blocks_in(1), 2);
  EXPECT_EQ(structure.blocks_in(2), 1);
}

// Itself, or what was made of it again, whichever of its maker's results it is.
TEST(StepStructure, KnowsWhatTheBackwardOfAnOpReadsOfItsOperands) {
  for (const char* model : {"gpt:layers=2,hidden=8,heads=2,seq=4,vocab=16",
                            "mixtral:layers=1,hidden=16,heads=4,kv_heads=2,intermediate=32,seq=8,vocab=32,experts=4,"
                            "top_k=2"})
    for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
      const Graph graph =
          build_training_graph(find_model(model), {.batch = 4, .microbatches = 2, .recompute = recompute});
      const Layers layers = layers_of_blocks(graph);
      const StepStructure structure(graph, layers);
      const auto original = [&](TensorId id) {
        const auto maker = graph.tensor(id).producer;
        if (!maker || !is_recomputation(graph, graph.op(*maker))) return id;
        const std::vector<TensorId>& again = graph.op(*maker).outputs;
        const auto at = std::find(again.begin(), again.end(), id) - again.begin();
        return graph.op(*graph.op(*maker).forward).outputs[static_cast<std::size_t>(at)];
      };
      std::map<OpId, std::set<TensorId>> read;  // by what was made of a forward op
      for (const Op& op : graph.ops())
        if (op.phase == Phase::Backward && op.forward && !is_gradient_sum(graph, op))
          for (const TensorId input : op.inputs) read[*op.forward].insert(original(input));
      int several = 0;
      for (const OpId id : forward_ops(graph))
        for (const StepStructure::Operand& operand : structure.group(id).operands) {
          EXPECT_EQ(operand.read_in_backward, read[id].contains(operand.tensor))
              << model << " " << graph.op(id).name << " " << graph.tensor(operand.tensor).name;
          several += operand.read_in_backward ? 1 : 0;
        }
      EXPECT_GT(several, 10);
    }
}

// Layers of two biases each, in these blocks; -1 is outside of them.
int classes_of(const std::vector<int>& blocks) {
  Graph graph;
  graph.batch = 8;
  const std::vector<Dim> dims = {{"batch", 8}, {"k", 8}};
  TensorId x = graph.add_tensor("x", TensorKind::Input, DType::F32, dims);
  std::vector<int> starts;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i % 2 == 0) starts.push_back(static_cast<int>(i));
    const std::string name = fmt::format("b{}", i);
    const TensorId bias = graph.add_tensor(name, TensorKind::Parameter, DType::F32, {{"k", 8}});
    graph.current_block = blocks[i];
    x = graph.add_op(OpKind::BiasAdd, name + "_add", {x, bias}, {}).front();
  }
  graph.current_block = -1;
  const TensorId seed = graph.add_tensor("seed", TensorKind::Input, DType::F32, dims);
  append_backward(graph, x, seed, Recompute::None);
  append_updates(graph, {});
  const Layers layers = assign_layers(graph, starts);
  const StepStructure structure(graph, layers);
  const Cluster cluster = find_cluster("cpu:2");
  const auto costs = make_analytic_cost_model(cluster);
  return LayerClasses::make(structure, make_logical_mesh(cluster, {1, 2}, {1, 2}), *costs, {}, {}).classes();
}

// What is recomputed at once is a block. The first layer and the last are of classes of their own.
TEST(LayerClasses, TellLayersApartByWhereTheirBlocksBegin) {
  EXPECT_EQ(classes_of({0, 0, 1, 1, 2, 2, 3, 3}), 3);
  EXPECT_EQ(classes_of({0, 0, 1, 2, 3, 4, 5, 5}), 3);
  EXPECT_EQ(classes_of({0, 0, 1, 1, 2, 3, 4, 4}), 4);
  EXPECT_EQ(classes_of({0, 0, 1, -1, 2, 3, 4, 4}), 4);
  EXPECT_EQ(classes_of({0, 0, 1, -1, 2, -1, 4, 4}), 3);
  EXPECT_EQ(classes_of({0, 0, 0, 0, 0, 0, 0, 0}), 3);
  EXPECT_EQ(classes_of({-1, -1, -1, -1, 0, 0, -1, -1}), 4);
}

}  // namespace
}  // namespace meshwright::layer_classes_test
