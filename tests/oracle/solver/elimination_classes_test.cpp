// SPDX-License-Identifier: Apache-2.0
// Elimination by classes of strategies against elimination by single strategies, to the last bit.
#include <gtest/gtest.h>

#include <random>

#include "core/solver/elimination/elimination_tables.h"
#include "core/solver/elimination/solve_by_elimination.h"
#include "tests/oracle/plain_elimination.h"
#include "tests/oracle/random_problems.h"

namespace meshwright::elimination_classes_test {
namespace {

// Costs whose sums are rounded, edges with equal rows and columns, and strategies that differ in their own cost alone.
ShardingProblem problem_with_classes(std::mt19937& random) {
  ShardingProblem problem = random_problem(random, 8, 6, 0.1);
  problem.memory_limit = std::nullopt;
  std::uniform_real_distribution<double> unit(0.0, 1.0);
  const auto draw = [&]() -> std::optional<Seconds> {
    if (unit(random) < 0.1) return std::nullopt;
    return Seconds(unit(random));
  };
  for (ShardingProblem::Node& node : problem.nodes)
    for (auto& cost : node.cost) cost = draw();
  for (ShardingProblem::Edge& edge : problem.edges) {
    const std::size_t rows = problem.nodes[static_cast<std::size_t>(edge.from)].cost.size();
    const std::size_t columns = edge.cost.size() / rows, of_rows = 1 + random() % 3, of_columns = 1 + random() % 3;
    std::vector<std::optional<Seconds>> classes;
    for (std::size_t i = 0; i < of_rows * of_columns; ++i) classes.push_back(draw());
    std::vector<std::size_t> column_of;
    for (std::size_t c = 0; c < columns; ++c) column_of.push_back(random() % of_columns);
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t row = random() % of_rows;
      for (std::size_t c = 0; c < columns; ++c) edge.cost[r * columns + c] = classes[row * of_columns + column_of[c]];
    }
  }
  return problem;
}

TEST(Elimination, ClassesChangeNoSum) {
  constexpr unsigned kSeed = 71;
  std::mt19937 random(kSeed);
  int feasible = 0;
  for (int n = 0; n < 300; ++n) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", problem " << n);
    const ShardingProblem problem = problem_with_classes(random);
    const int last = static_cast<int>(problem.nodes.size()) - 1;
    if (last < 1) continue;
    for (const auto& [a, b] : {std::pair(0, last), std::pair(last, last / 2)}) {
      if (a == b) continue;
      const auto truth = PlainElimination(problem).pairwise_costs(a, b);
      elimination::KnownSteps known;
      elimination::KnownTables made;
      EXPECT_EQ(elimination::pairwise_costs(elimination::tables_of(problem), a, b, known, made), truth);
      feasible +=
          static_cast<int>(std::count_if(truth.begin(), truth.end(), [](const auto& c) { return c.has_value(); }));
    }
  }
  EXPECT_GT(feasible, 500);
}

TEST(Elimination, OneEntryStandsForStrategiesThatCostTheSame) {
  // The second and the fourth strategy of the first node cost the same beside each of the other's; its two do not.
  ShardingProblem problem;
  problem.nodes = {{"four", {}, {Seconds(1), Seconds(2), Seconds(3), Seconds(4)}, {}, 0, 0},
                   {"two", {}, {Seconds(0), Seconds(0)}, {}, 0, 0}};
  problem.edges = {
      {0, 1, {Seconds(10), Seconds(11), Seconds(20), Seconds(21), Seconds(30), Seconds(31), Seconds(20), Seconds(21)}}};
  const auto tables = elimination::tables_of(problem);
  ASSERT_EQ(tables.size(), 3u);
  EXPECT_EQ(tables[2].shape->scope, (std::vector<int>{0, 1}));
  EXPECT_EQ(tables[2].shape->classes[0]->of, (IndexedVector<int, int>{0, 1, 2, 1}));
  EXPECT_EQ(tables[2].shape->classes[0]->first, (IndexedVector<int, int>{0, 1, 2}));
  EXPECT_EQ(tables[2].shape->classes[1]->of, (IndexedVector<int, int>{0, 1}));
  EXPECT_EQ(*tables[2].cost, (std::vector<double>{10, 11, 20, 21, 30, 31}));
}

}  // namespace
}  // namespace meshwright::elimination_classes_test
