// SPDX-License-Identifier: Apache-2.0
// Tables that were made before, against making every one.
#include "core/solver/elimination/known_tables.h"

#include <gtest/gtest.h>

#include "core/solver/elimination/solve_by_elimination.h"
#include "tests/oracle/plain_elimination.h"

namespace meshwright::known_tables_test {
namespace {

constexpr int kInBlock = 8;  // nodes

// A chain of blocks between a first and a last node: each block a chain of nodes with two strategies, whose first node
// its last one reads as well. All blocks cost the same.
ShardingProblem chain(int blocks) {
  ShardingProblem problem;
  const auto add_node = [&](double one, double other) {
    problem.nodes.push_back({"", {}, {Seconds(one), Seconds(other)}, {}, 0, 0});
    return static_cast<int>(problem.nodes.size()) - 1;
  };
  const auto add_edge = [&](int from, int to, double same, double apart) {
    problem.edges.push_back({from, to, {Seconds(same), Seconds(apart), Seconds(apart), Seconds(same)}});
  };
  int before = add_node(0, 0);
  for (int b = 0; b < blocks; ++b) {
    const int first = static_cast<int>(problem.nodes.size());
    for (int n = 0; n < kInBlock; ++n) {
      const int node = add_node(1 + n, 4 - n % 3);
      add_edge(before, node, n % 2, 1);
      before = node;
    }
    add_edge(first, before, 2, 0);
  }
  add_edge(before, add_node(0, 0), 0, 0);
  return problem;
}

TEST(KnownTables, RepeatedBlocksAreCombinedOnce) {
  elimination::KnownSteps steps;
  std::vector<std::size_t> combined;
  for (const int blocks : {4, 40}) {
    const ShardingProblem problem = chain(blocks);
    const int last = static_cast<int>(problem.nodes.size()) - 1;
    elimination::KnownTables tables;
    EXPECT_EQ(elimination::pairwise_costs(elimination::tables_of(problem), 0, last, steps, tables),
              PlainElimination(problem).pairwise_costs(0, last));
    combined.push_back(tables.combined());
  }
  // 36 more blocks of 8 nodes: what joins a block to those before it is new, the rest is not.
  EXPECT_LE(combined[1], combined[0] + 2 * 36);
}

TEST(KnownTables, EqualCostsInAnotherPlaceAreNotConfused) {
  // The two edges have the same four numbers in another order of their strategies.
  ShardingProblem problem;
  for (int n = 0; n < 4; ++n) problem.nodes.push_back({"", {}, {Seconds(0), Seconds(0)}, {}, 0, 0});
  const std::vector<std::optional<Seconds>> costs = {Seconds(1), Seconds(7), Seconds(2), Seconds(9)};
  problem.edges = {{0, 1, costs}, {2, 1, costs}, {2, 3, costs}};
  elimination::KnownSteps steps;
  elimination::KnownTables tables;
  EXPECT_EQ(elimination::pairwise_costs(elimination::tables_of(problem), 0, 3, steps, tables),
            PlainElimination(problem).pairwise_costs(0, 3));
  EXPECT_EQ(elimination::pairwise_costs(elimination::tables_of(problem), 3, 0, steps, tables),
            PlainElimination(problem).pairwise_costs(3, 0));
}

}  // namespace
}  // namespace meshwright::known_tables_test
