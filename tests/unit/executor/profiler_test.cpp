// SPDX-License-Identifier: Apache-2.0
// What ops are given to be measured on.
#include "executor/measure/profiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "executor/measure/cold_arrays.h"
#include "executor/measure/measuring.h"
#include "tests/op_case.h"

namespace meshwright::profiler_test {
namespace {

// x (2, seq, 3) to the experts' buffers, and from there back.
struct Mixture {
  Mixture(std::int64_t seq, std::int64_t experts, std::int64_t capacity) {
    const TensorId x = c.parameter("x", {{"batch", 2}, {"seq", seq}, {"embed", 3}});
    const TensorId scores = c.parameter("scores", {{"batch", 2}, {"seq", seq}, {"expert", experts}});
    const TensorId slots = c.add(OpKind::TopKSlots, {scores}, {.top_k = 1, .capacity = capacity}, "slots");
    const TensorId weights = c.add(OpKind::GateWeights, {scores, slots}, {}, "weights");
    const TensorId sent = c.add(OpKind::Dispatch, {x, slots}, {.capacity = capacity}, "sent");
    c.add(OpKind::Combine, {sent, slots, weights}, {}, "back");
  }
  // Operand 1 of op `name` on a shard that has `tokens` of the sequence and `experts` of the experts.
  [[nodiscard]] std::vector<std::int32_t> slots(const std::string& name, std::int64_t tokens,
                                                std::int64_t experts) const {
    const auto op =
        std::find_if(c.graph.ops().begin(), c.graph.ops().end(), [&](const Op& o) { return o.name == name; });
    std::vector<std::int64_t> sizes;
    for (const IterationAxis& axis : iteration_space(c.graph, *op).axes)
      sizes.push_back(axis.name == "seq" ? tokens : axis.name == "expert" ? experts : axis.size);
    return integers_of(plan_op(c.graph, *op, sizes), 1, 0);
  }
  OpCase c;
};

// (batch, tokens, experts): each expert's slots in the order of the tokens, and the number of experts of each token.
struct Taken {
  std::vector<std::vector<int>> slots;  // [expert]
  std::vector<int> experts;             // [token]
};
Taken taken(const std::vector<std::int32_t>& slots, std::size_t row, std::size_t tokens, std::size_t experts) {
  Taken taken{std::vector<std::vector<int>>(experts), std::vector<int>(tokens, 0)};
  for (std::size_t t = 0; t < tokens; ++t)
    for (std::size_t e = 0; e < experts; ++e)
      if (const int slot = slots.at((row * tokens + t) * experts + e); slot >= 0) {
        taken.slots[e].push_back(slot);
        ++taken.experts[t];
      }
  return taken;
}

TEST(MeasuredSlots, FillEveryExpertAndUseEveryTokenEqually) {
  const Mixture mixture(8, 4, 4);
  for (const char* op : {"sent", "back"}) {
    const std::vector<std::int32_t> slots = mixture.slots(op, 8, 4);
    ASSERT_EQ(slots.size(), 2u * 8 * 4);
    for (const std::size_t row : {0, 1}) {
      const Taken of = taken(slots, row, 8, 4);
      for (const std::vector<int>& expert : of.slots) EXPECT_EQ(expert, (std::vector<int>{0, 1, 2, 3})) << op;
      EXPECT_EQ(of.experts, std::vector<int>(8, 2)) << op;  // 4 experts of 4 slots for 8 tokens
    }
  }
}

TEST(MeasuredSlots, DifferByOneWhereTheyDoNotDivide) {
  const Taken of = taken(Mixture(7, 3, 3).slots("sent", 7, 3), 1, 7, 3);
  for (const std::vector<int>& expert : of.slots) EXPECT_EQ(expert, (std::vector<int>{0, 1, 2}));
  for (const int experts : of.experts) EXPECT_TRUE(experts == 1 || experts == 2) << experts;
}

TEST(MeasuredSlots, OfPartOfTheTokensAreTheirShare) {
  const Taken of = taken(Mixture(8, 4, 4).slots("sent", 4, 2), 0, 4, 2);
  for (const std::vector<int>& expert : of.slots) EXPECT_EQ(expert, (std::vector<int>{0, 1}));
  EXPECT_EQ(of.experts, std::vector<int>(4, 1));
}

TEST(MeasuredSlots, OfMoreCapacityThanTokensAreOneEach) {
  const Taken of = taken(Mixture(3, 2, 9).slots("sent", 3, 2), 0, 3, 2);
  for (const std::vector<int>& expert : of.slots) EXPECT_EQ(expert, (std::vector<int>{0, 1, 2}));
}

TEST(MeasuredSlots, OfWeightsTakeOneExpertPerToken) {
  const Taken of = taken(Mixture(8, 4, 4).slots("weights", 8, 4), 0, 8, 4);
  EXPECT_EQ(of.experts, std::vector<int>(8, 1));
}

TEST(MeasuredIntegers, OfATableSpreadOverItsRows) {
  OpCase c;
  const TensorId ids = c.integers("ids", {{"batch", 8}, {"seq", 64}}, 0, 10);
  c.add(OpKind::Embedding, {ids, c.parameter("table", {{"vocab", 10}, {"embed", 2}})}, {}, "y");
  std::vector<std::int64_t> sizes;
  for (const IterationAxis& axis : iteration_space(c.graph, c.graph.ops()[0]).axes) sizes.push_back(axis.size);
  const std::vector<std::int32_t> rows = integers_of(plan_op(c.graph, c.graph.ops()[0], sizes), 0, 3);
  EXPECT_EQ(*std::min_element(rows.begin(), rows.end()), 0);
  EXPECT_EQ(*std::max_element(rows.begin(), rows.end()), 9);
  EXPECT_EQ(rows, integers_of(plan_op(c.graph, c.graph.ops()[0], sizes), 0, 3));
}

// 64 MiB of sets of 4 MiB, and one more.
TEST(ColdOrder, ComesToEverySetAndNeverToTheNextOne) {
  ColdOrder order(4 << 20, Bytes(64 << 20));
  ASSERT_EQ(order.count(), 17u);
  std::set<std::size_t> seen;
  std::size_t before = 0;
  for (int i = 0; i < 17; ++i) {
    const std::size_t set = order.next();
    EXPECT_NE(set, (before + 1) % 17);
    seen.insert(set);
    before = set;
  }
  EXPECT_EQ(seen.size(), 17u);
}

TEST(ColdOrder, HasAsManySetsAsAStepIsLarge) {
  EXPECT_EQ(ColdOrder(4 << 20, Bytes(256 << 20)).count(), 65u);
  EXPECT_EQ(ColdOrder(4 << 20, Bytes(1 << 20)).count(), 1u);
  EXPECT_EQ(ColdOrder(1 << 10, Bytes(256 << 20)).count(), 1024u);  // the most there are
}

TEST(ColdArrays, MoveOnUnlessWhatIsGivenFitsIntoTheCache) {
  ColdArrays arrays;
  const Bytes step(64 << 20);
  arrays.resize(1 << 18, step);  // 1 MiB
  const float *in = arrays.in(), *out = arrays.out();
  arrays.next();
  EXPECT_EQ(arrays.in(), in);
  EXPECT_NE(arrays.out(), out);
  arrays.resize((1 << 18) + 1, step);
  in = arrays.in();
  arrays.next();
  EXPECT_NE(arrays.in(), in);
}

}  // namespace
}  // namespace meshwright::profiler_test
