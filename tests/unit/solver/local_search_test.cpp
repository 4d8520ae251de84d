// SPDX-License-Identifier: Apache-2.0
// The local search against enumeration of every labelling of small random fields.
#include "core/solver/local_search/local_search.h"
#include "core/solver/solve.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/solver/local_search/local_search_block.h"
#include "core/solver/local_search/local_search_model.h"
#include "tests/unit/random_fields.h"

namespace meshwright::portfolio::local_search_test {
namespace {

Field field_of(unsigned seed, bool with_memory = true) {
  std::mt19937 random(seed);
  RandomFieldShape shape;
  shape.nodes = 2 + draw(random, 5);
  shape.edges = draw(random, 12);
  shape.costs = 100;
  shape.forbidden_of_ten = draw(random, 3);
  shape.steps = 8;
  shape.limit_of_ten = with_memory ? draw(random, 8) : 11;
  Field field = random_field(random, shape);
  field.limit = std::floor(field.limit);  // memory is whole: its sums are exact
  return field;
}

struct Outcome {
  std::optional<Labels> labels;
  double cost;
};

Outcome search(const Field& field, std::uint64_t seed, int questions, const Guide* guide = nullptr) {
  const Reduced reduced = unreduced(field);
  LocalSearch search(reduced, seed);
  search.start_from(guide);
  int asked = 0;
  search.run([&] { return ++asked > questions; });
  return {search.best(), search.best() ? evaluate(field, *search.best()).cost : kForbidden};
}

TEST(LocalSearch, FindsTheOptimumOfSmallFields) {
  int feasible = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    const Field field = field_of(seed);
    const double least = least_cost(field);
    const Outcome found = search(field, 1, 10000);
    ASSERT_EQ(found.labels.has_value(), least < kForbidden) << "field " << seed;
    ASSERT_EQ(found.cost, least) << "field " << seed;
    if (!found.labels) continue;
    ++feasible;
    const FieldValue value = evaluate(field, *found.labels);
    ASSERT_EQ(value.cost, found.cost);
    ASSERT_LE(value.peak, field.limit);
  }
  EXPECT_GT(feasible, 100);  // or the fields test little
  EXPECT_LT(feasible, 200);
}

TEST(LocalSearch, FindsTheOptimumWithoutMemory) {
  for (unsigned seed = 1000; seed < 1100; ++seed) {
    const Field field = field_of(seed, false);
    EXPECT_EQ(search(field, 1, 1000).cost, least_cost(field)) << "field " << seed;
  }
}

// Two nodes must agree; agreeing on label 0 costs 1 but takes 10 of 9, agreeing on label 1 costs 100.
TEST(LocalSearch, LeavesCheapLabelsThatTakeTooMuchMemory) {
  Field field;
  field.nodes = {{{0, 0}, {5, 1}, 0, 2}, {{1, 100}, {5, 1}, 1, 3}};
  field.edges = {{0, 1, {0, kForbidden, kForbidden, 0}}};
  field.limit = 9;
  EXPECT_EQ(search(field, 1, 100).cost, 100);
  field.limit = 10;
  EXPECT_EQ(search(field, 1, 100).cost, 1);
}

TEST(LocalSearch, FindsNothingWhereNothingIsFeasible) {
  Field field;
  field.nodes = {{{1, 2}, {7, 8}, 0, 1}, {{1, 2}, {4, 5}, 0, 1}};
  field.limit = 10;  // at least 11 is taken
  EXPECT_FALSE(search(field, 1, 1000).labels);
  field.limit = kForbidden;
  field.edges = {{0, 1, std::vector<double>(4, kForbidden)}};
  EXPECT_FALSE(search(field, 1, 1000).labels);
}

TEST(LocalSearch, HandlesFieldsWithoutAChoice) {
  EXPECT_EQ(search(Field{}, 1, 10).cost, 0);
  Field field;
  field.nodes = {{{3}, {}, 0, 0}, {{4}, {}, 0, 0}};
  field.edges = {{0, 1, {5}}};
  field.constant = 30;
  EXPECT_EQ(search(field, 1, 10).cost, 42);
}

TEST(LocalSearch, GivesTheSameAnswerForTheSameSeed) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Field field = field_of(seed);
    for (int questions : {1, 7, 100}) {
      const Outcome first = search(field, seed, questions), second = search(field, seed, questions);
      EXPECT_EQ(first.labels, second.labels);
      EXPECT_EQ(first.cost, second.cost);
    }
  }
}

TEST(LocalSearch, NeverForgetsTheLabelsItStartsFrom) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    const Field field = field_of(seed);
    const Outcome good = search(field, 1, 10000);
    if (!good.labels) continue;
    const Reduced reduced = unreduced(field);
    LocalSearch again(reduced, 2);
    again.start_from(*good.labels);
    again.run([] { return true; });
    EXPECT_EQ(evaluate(field, again.best().value()).cost, good.cost);
  }
}

TEST(LocalSearch, FollowsAGuide) {
  const Field field = field_of(3, false);
  Guide guide;
  Labels wanted;
  for (const Field::Node& node : field.nodes) {
    wanted.push_back(static_cast<int>(node.cost.size()) - 1);
    guide.emplace_back(node.cost.size(), 1e6);
    guide.back().back() = 0;
  }
  ASSERT_LT(evaluate(field, wanted).cost, kForbidden);
  const Reduced reduced = unreduced(field);
  LocalSearch search(reduced, 1);
  search.start_from(&guide);
  search.run([] { return true; });
  EXPECT_EQ(search.best(), wanted);
}

// Node 0 has two pieces with different memory per label: rows 0-1 allow both labels, row 2 only label 1.
TEST(LocalSearch, KeepsEveryPieceOfANode) {
  Field field;
  field.nodes = {{{1, 20}, {}, 0, 0}};
  Reduced reduced = unreduced(field);
  reduced.row_limit = {5, 5, 3};
  reduced.pieces = {{0, 0, 2, {0, 4}}, {0, 2, 3, {4, 0}}};
  LocalSearch search(reduced, 1);
  search.start_from(nullptr);
  int asked = 0;
  search.run([&] { return ++asked > 1000; });
  EXPECT_EQ(search.best(), Labels{1});
}

// All nodes of a field as one block.
struct WholeBlock {
  WholeBlock(const Field& field, double max_table) : reduced(unreduced(field)) {
    for (std::size_t i = 0; i < field.nodes.size(); ++i) nodes.push_back(static_cast<int>(i));
    request.nodes = &nodes;
    request.now = &now;
    request.max_table = max_table;
  }
  WholeBlock(const WholeBlock&) = delete;
  void solve(Random& random) {
    for (const LabelChange& change : solver.solve(request, random)) now.change(change.node, change.label);
  }

  Reduced reduced;
  SearchModel model{reduced};
  Assignment now{model, Labels(reduced.field.nodes.size(), 0)};
  std::vector<int> nodes;
  BlockRequest request;
  BlockSolver solver{model};
};

TEST(BlockSolver, ChoosesAWholeBlockOptimally) {
  for (unsigned seed = 2000; seed < 2200; ++seed) {
    const Field field = field_of(seed, false);
    WholeBlock block(field, 1e9);  // no node has to leave
    Random random(1);
    block.solve(random);
    const double least = least_cost(field);
    EXPECT_EQ(block.now.violations() == 0, least < kForbidden) << "field " << seed;
    if (block.now.violations() == 0) {
      EXPECT_EQ(block.now.cost(), least) << "field " << seed;
    }
  }
}

TEST(BlockSolver, NeverMakesItWorseWhenNodesHaveToLeave) {
  for (unsigned seed = 3000; seed < 3200; ++seed) {
    WholeBlock block(field_of(seed, false), 12.0);
    Random random(seed);
    for (int n = 0; n < 5; ++n) {
      const int violations = block.now.violations();
      const double cost = block.now.cost();
      block.solve(random);
      EXPECT_LE(block.now.violations(), violations);
      if (block.now.violations() == violations) {
        EXPECT_LE(block.now.cost(), cost);
      }
    }
  }
}

TEST(Assignment, KeepsCostAndMemoryOverManyChanges) {
  const Field field = field_of(11);
  const Reduced reduced = unreduced(field);
  const SearchModel model(reduced);
  Assignment now(model, Labels(field.nodes.size(), 0));
  std::mt19937 random(1);
  for (int n = 0; n < 500; ++n) {
    const int node = draw(random, static_cast<int>(field.nodes.size()));
    now.change(node, draw(random, field.labels(node)));
    const FieldValue value = evaluate(field, now.labels());
    ASSERT_EQ(now.violations() == 0, value.cost < kForbidden);
    if (now.violations() == 0) {
      ASSERT_EQ(now.cost(), value.cost);
    }
    ASSERT_EQ(now.memory().largest(), excess(reduced, now.labels()));
  }
  now.refresh();
}

}  // namespace
}  // namespace meshwright::portfolio::local_search_test
