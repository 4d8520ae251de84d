// SPDX-License-Identifier: Apache-2.0
// What is done once per step weighs differently in different stages: spans are offered for each weight.
#include <gtest/gtest.h>

#include "core/planner/spans/mesh_spans.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::step_weight_test {
namespace {

// The pass is as short as if the update were spread over so many micro-batches that it did not count.
TEST(Spans, OfferTheFastestPassesWhateverTheUpdateTakes) {
  const Cluster cluster = find_cluster("cpu:4");
  const auto costs = make_analytic_cost_model(cluster);
  TrainingOptions training;
  training.batch = 256;
  const Graph graph = build_training_graph(find_model("mlp:layers=2,hidden=64"), training);
  const Layers layers = assign_layers(graph, {0});
  const StepStructure structure(graph, layers);
  const auto fastest = [&](std::int64_t microbatches, bool every_weight) {
    const MeshSpans spans(
        structure, make_logical_mesh(cluster, {1, 4}, {1, 4}), *costs,
        {.microbatches = microbatches, .usable_memory = cluster.usable_memory(), .every_step_weight = every_weight});
    Seconds least(1e30);
    for (int option = 0; option < spans.options(); ++option) {
      const StepCost& cost = spans.cost(0, 0, option);
      least = std::min(least, cost.forward + cost.backward);
    }
    return least;
  };
  const Seconds free = fastest(std::int64_t{1} << 40, false);
  EXPECT_GT(fastest(1, false), 1.001 * free);
  EXPECT_NEAR(fastest(1, true).si(), free.si(), 1e-9 * free.si());
}

}  // namespace
}  // namespace meshwright::step_weight_test
