// SPDX-License-Identifier: Apache-2.0
// The intra-op problems of real models are solved exactly: by elimination, with nothing left between cost and bound,
// and as the ILP solves them; a whole model's sharding is the least there is, within a thousandth where memory binds.
#include <gtest/gtest.h>

#include <memory>

#include "core/graph/models/models.h"
#include "core/planner/stage_search.h"
#include "costmodel/cost_models.h"

namespace meshwright {
namespace {

constexpr double kMicrobatches = 4;

Graph training_graph(const std::string& name, std::int64_t batch) {
  const ModelConfig model = find_model(name);
  TrainingOptions options;
  options.batch = batch;
  options.microbatches = static_cast<std::int64_t>(kMicrobatches);
  options.dtype = model.default_dtype;
  return build_training_graph(model, options);
}

struct Setting {
  Graph graph;
  Layers layers;
  StepStructure structure{graph, layers};
  LogicalMesh mesh;
  std::unique_ptr<CostModel> costs;
  ReshardingPrices prices{mesh, *costs};

  // Whole: the model is one layer; else each of its blocks is.
  enum class Cut { Whole, Blocks };
  Setting(Graph of, Cut cut, const std::vector<int>& shape, const std::string& cluster_name)
      : graph(std::move(of)),
        layers(cut == Cut::Whole ? assign_layers(graph, {0}) : layers_of_blocks(graph)) {
    int devices = 1;
    for (const int size : shape) devices *= size;
    const Cluster cluster = find_cluster(cluster_name);
    mesh = make_logical_mesh(cluster, {1, devices}, shape);
    costs = make_analytic_cost_model(cluster);
  }
  Setting(const Setting&) = delete;

  [[nodiscard]] ShardingProblem problem(int layer) {
    const LayerModel model(structure, layer, mesh, *costs, prices, {});
    EXPECT_FALSE(model.impossible()) << *model.impossible();
    return model.problem({kMicrobatches, 0, 1});
  }
};

void expect_exact(const ShardingProblem& problem, const std::string& what) {
  ASSERT_TRUE(fits_elimination(problem)) << what;
  const auto solution = solve(problem);
  ASSERT_TRUE(solution) << what;
  EXPECT_EQ(solution->method, "elimination") << what;
  EXPECT_EQ(solution->cost, solution->lower_bound) << what;
  const Evaluation evaluation = evaluate(problem, solution->choice);
  EXPECT_TRUE(evaluation.violations.empty()) << what;
  EXPECT_NEAR(evaluation.total().si(), solution->cost.si(), 1e-9 * solution->cost.si()) << what;
}

}  // namespace
}  // namespace meshwright
