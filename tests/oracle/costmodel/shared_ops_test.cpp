// SPDX-License-Identifier: Apache-2.0
// Layer models that share what equal ops cost against models in which every op is priced by itself.
#include <gtest/gtest.h>

#include "core/graph/import/find_model.h"
#include "core/graph/models/models.h"
#include "core/planner/intra_op/layer_model_builder.h"
#include "costmodel/cost_models.h"

namespace meshwright::shared_ops_test {
namespace {

// A name that no tensor has: no op is taken for another where tensors may be forced by name.
IntraOpRules every_op_by_itself() {
  IntraOpRules rules;
  rules.forced["no tensor of this name"] = replicated(2);
  return rules;
}

void expect_equal(const ShardingProblem& shared, const ShardingProblem& apart) {
  ASSERT_EQ(shared.nodes.size(), apart.nodes.size());
  for (std::size_t i = 0; i < shared.nodes.size(); ++i) {
    SCOPED_TRACE(shared.nodes[i].name);
    EXPECT_EQ(shared.nodes[i].name, apart.nodes[i].name);
    EXPECT_EQ(shared.nodes[i].strategies, apart.nodes[i].strategies);
    EXPECT_EQ(shared.nodes[i].cost, apart.nodes[i].cost);
  }
  ASSERT_EQ(shared.edges.size(), apart.edges.size());
  for (std::size_t k = 0; k < shared.edges.size(); ++k) {
    SCOPED_TRACE(testing::Message() << "edge " << k << " to " << shared.nodes[std::size_t(shared.edges[k].to)].name);
    EXPECT_EQ(shared.edges[k].from, apart.edges[k].from);
    EXPECT_EQ(shared.edges[k].to, apart.edges[k].to);
    EXPECT_EQ(shared.edges[k].cost, apart.edges[k].cost);
  }
}

// All layers of two cuts of each model, on a mesh of two axes; every part of a cost has a weight.
void compare(const std::string& model, Recompute recompute) {
  SCOPED_TRACE(model);
  TrainingOptions training;
  training.batch = 64;
  training.microbatches = 4;
  training.recompute = recompute;
  const Graph graph = build_training_graph(find_model(model), training);
  const Cluster cluster = find_cluster("cpu:8");
  const LogicalMesh mesh = make_logical_mesh(cluster, {1, 8}, {4, 2});
  const auto costs = make_analytic_cost_model(cluster);
  ReshardingCosts prices(mesh, *costs);
  LayerModel::Cache cache;
  cache.names = true;
  const IntraOpRules shared, apart = every_op_by_itself();
  for (const int count : {2, 3}) {
    const Layers layers = make_layers(graph, count);
    const StepStructure structure(graph, layers);
    for (int layer = 0; layer < layers.count; ++layer) {
      const LayerModel one(structure, layer, mesh, *costs, prices, shared, &cache);
      const LayerModel other(structure, layer, mesh, *costs, prices, apart);
      for (const double memory_price : {0.0, 1e-9}) {
        const CostWeights weights{4, memory_price, 3};
        expect_equal(one.problem(weights), other.problem(weights));
      }
      EXPECT_EQ(one.working_values(), other.working_values());
    }
  }
}

TEST(LayerModel, SharingEqualOpsChangesNoCost) {
  for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
    compare("gpt:layers=4,hidden=64,heads=4,seq=16,vocab=128", recompute);
    compare("llama:layers=4,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=16,vocab=128,tied=1", recompute);
    compare("mixtral:layers=4,hidden=64,heads=4,kv_heads=2,seq=16,vocab=128,experts=4,top_k=2,intermediate=128",
            recompute);
    compare(
        "two_tower:layers=2,hidden=64,heads=4,image=32,patch=8,text_layers=2,text_hidden=32,text_heads=4,seq=16,"
        "vocab=128,embed=32",
        recompute);
  }
  compare("wresnet-250m", Recompute::None);
}

// Told by the addresses of the strategies' texts.
TEST(LayerModel, EqualOpsArePricedOnce) {
  TrainingOptions training;
  training.batch = 64;
  training.microbatches = 4;
  const Graph graph = build_training_graph(find_model("gpt:layers=4,hidden=64,heads=4,seq=16,vocab=128"), training);
  const Layers layers = make_layers(graph, 1);
  const StepStructure structure(graph, layers);
  const Cluster cluster = find_cluster("cpu:4");
  const LogicalMesh mesh = make_logical_mesh(cluster, {1, 4}, {2, 2});
  const auto costs = make_analytic_cost_model(cluster);
  ReshardingCosts prices(mesh, *costs);
  const LayerModel model(structure, 0, mesh, *costs, prices, {});
  std::map<std::string, const std::string*> texts;  // of each result's first strategy
  for (const LayerModel::Decision& decision : model.decisions(structure, 0))
    if (decision.reader.empty()) texts[graph.tensor(decision.tensor).name] = &model.strategy_text(decision.node, 0);
  int blocks = 0;
  for (const auto& [name, text] : texts) {
    if (!name.starts_with("blk1.")) continue;
    ++blocks;
    EXPECT_EQ(text, texts.at("blk2." + name.substr(5))) << name;
  }
  EXPECT_GT(blocks, 5);
}

}  // namespace
}  // namespace meshwright::shared_ops_test
