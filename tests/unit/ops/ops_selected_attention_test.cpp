// SPDX-License-Identifier: Apache-2.0
// Attention to the keys that an indexer chooses, against plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/op_fixture.h"

namespace meshwright::ops_selected_attention_test {
namespace {

const Dim kBatch{"batch", 2}, kSeq{"seq", 4}, kKeys{"kv_seq", 4};

// --- scores ---

OpCase scores(std::int64_t heads) {
  OpCase c;
  const Dim of_heads{"index_heads", heads}, d{"d", 3};
  c.add(OpKind::IndexScores,
        {c.input("q", {kBatch, kSeq, of_heads, d}), c.input("k", {kBatch, kKeys, d}),
         c.input("weights", {kBatch, kSeq, of_heads})},
        {}, "y");
  return c;
}

TEST(IndexScores, AreTheirSums) {
  const OpCase c = scores(2);
  const Values &q = c.values.at(TensorId(0)), &k = c.values.at(TensorId(1)), &w = c.values.at(TensorId(2)),
               y = computed(c);
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t s = 0; s < 4; ++s)
      for (std::size_t t = 0; t < 4; ++t) {
        double sum = 0.0;
        for (std::size_t h = 0; h < 2; ++h) {
          double along = 0.0;
          for (std::size_t x = 0; x < 3; ++x) along += q[((b * 4 + s) * 2 + h) * 3 + x] * k[(b * 4 + t) * 3 + x];
          sum += w[(b * 4 + s) * 2 + h] * std::max(along, 0.0);
        }
        EXPECT_NEAR(y[(b * 4 + s) * 4 + t], sum, 1e-15);
      }
}

// Heads add up, so that parts of them leave partial sums; a head is whole.
TEST(IndexScores, CanBeSplitAlongAllButAHeadsWidth) {
  const OpCase c = scores(2);
  for (const IterationAxis& axis : iteration_space(c.graph, c.graph.ops()[0]).axes)
    EXPECT_EQ(axis.splittable, axis.name != "d") << axis.name;
  expect_sharded_equals_whole(c);
}

TEST(IndexScores, CountTheProductsOfQueriesAndKeys) {
  EXPECT_EQ(graph_flops(scores(2).graph).si(), 2.0 * 2 * 4 * 4 * 2 * 3);
}

// --- choices ---

OpCase chosen(std::int64_t top_k, Values scores) {
  OpCase c;
  const TensorId x = c.input("scores", {{"batch", 1}, {"seq", 3}, {"kv_seq", 4}});
  c.values[x] = std::move(scores);
  c.add(OpKind::TopKKeys, {x}, {.top_k = top_k}, "y");
  return c;
}

// The three queries are the last of four positions: the first sees two keys, the last all.
TEST(TopKKeys, AreTheHighestOfThoseSeenInOrder) {
  const Values scores = {0, 1, 9, 9, 5, 3, 4, 9, 1, 2, 2, 1};
  EXPECT_EQ(computed(chosen(1, scores)), (Values{1, 0, 1}));
  EXPECT_EQ(computed(chosen(2, scores)), (Values{0, 1, 0, 2, 1, 2}));
  EXPECT_EQ(computed(chosen(3, scores)), (Values{0, 1, -1, 0, 1, 2, 0, 1, 2}));
}

TEST(TopKKeys, CanBeSplitAlongBatchAndQueries) {
  OpCase c;
  c.add(OpKind::TopKKeys, {c.input("scores", {kBatch, kSeq, kKeys})}, {.top_k = 2}, "y");
  for (const IterationAxis& axis : iteration_space(c.graph, c.graph.ops()[0]).axes)
    EXPECT_EQ(axis.splittable, axis.name == "batch" || axis.name == "seq") << axis.name;
  expect_sharded_equals_whole(c, 0.0);
}

TEST(TopKKeys, RefuseMoreKeysThanThereAre) {
  const std::string text = refusal([] { (void)chosen(5, Values(12, 0.0)); });
  EXPECT_NE(text.find("its top_k must be from 1 to the number of keys"), std::string::npos) << text;
}

// Each of three keys stands for two of six positions, and is seen behind the second of them; the last two positions
// follow as keys 3 to 8.
TEST(TopKKeys, ThatStandForSeveralPositionsAreSeenBehindTheLastOfThem) {
  OpCase c;
  const TensorId x = c.input("scores", {{"batch", 1}, {"seq", 6}, {"kv_seq", 3}});
  c.values[x] = Values(18, 0.0);
  c.values[x][5 * 3 + 2] = 1.0;  // the last query wants the last key most
  c.add(OpKind::TopKKeys, {x}, {.stride = {2}, .attention_window = 2, .top_k = 2}, "y");
  EXPECT_EQ(computed(c), (Values{-1, -1, -1, 3,  //
                                 0,  -1, 3,  4,  //
                                 0,  -1, 4,  5,  //
                                 0,  1,  5,  6,  //
                                 0,  1,  6,  7,  //
                                 0,  2,  7,  8}));
}

TEST(TopKKeys, OfAStrideCanBeSplitAlongBatchAndQueries) {
  OpCase c;
  c.add(OpKind::TopKKeys, {c.input("scores", {kBatch, kSeq, {"kv_seq", 2}})},
        {.stride = {2}, .attention_window = 3, .top_k = 1}, "y");
  expect_sharded_equals_whole(c, 0.0);
}

// Blocks of two keys, of which each head's queries read two: their own, and the one that holds the best score.
TEST(TopKKeys, OfBlocksAreThoseOfTheBestScoresAndTheQuerysOwn) {
  OpCase c;
  const TensorId x = c.input("scores", {{"batch", 1}, {"seq", 5}, {"kv_heads", 2}, {"kv_seq", 5}});
  c.values[x] = Values(5 * 2 * 5, 0.0);
  const auto score = [&](std::size_t query, std::size_t head, std::size_t key) -> double& {
    return c.values[x][(query * 2 + head) * 5 + key];
  };
  score(4, 0, 3) = 1.0;  // the last query's first head wants the second block, its second head none more than another
  score(3, 0, 4) = 9.0;  // a key that the fourth query does not see
  c.add(OpKind::TopKKeys, {x}, {.window = {2, 1}, .top_k = 2}, "y");
  const Values y = computed(c);
  const auto of = [&](std::size_t query, std::size_t head) {
    const auto at = y.begin() + static_cast<std::ptrdiff_t>((query * 2 + head) * 4);
    return Values(at, at + 4);
  };
  EXPECT_EQ(of(0, 0), (Values{0, -1, -1, -1}));
  EXPECT_EQ(of(2, 1), (Values{0, 1, 2, -1}));
  EXPECT_EQ(of(3, 0), (Values{0, 1, 2, 3}));
  EXPECT_EQ(of(4, 0), (Values{2, 3, 4, -1}));
  EXPECT_EQ(of(4, 1), (Values{0, 1, 4, -1}));
}

TEST(TopKKeys, OfBlocksCanBeSplitAlongHeadsToo) {
  OpCase c;
  c.add(OpKind::TopKKeys, {c.input("scores", {kBatch, kSeq, {"kv_heads", 2}, kKeys})}, {.window = {2, 1}, .top_k = 1},
        "y");
  for (const IterationAxis& axis : iteration_space(c.graph, c.graph.ops()[0]).axes)
    EXPECT_EQ(axis.splittable, axis.name == "batch" || axis.name == "seq" || axis.name == "kv_heads") << axis.name;
  expect_sharded_equals_whole(c, 0.0);
}

TEST(TopKKeys, RefuseMoreKeysThanPositionsFill) {
  const std::string text = refusal([] {
    OpCase c;
    c.add(OpKind::TopKKeys, {c.input("scores", {kBatch, kSeq, {"kv_seq", 3}})}, {.stride = {2}, .top_k = 1}, "y");
  });
  EXPECT_NE(text.find("no more keys than the queries' positions fill by its stride"), std::string::npos) << text;
}

// --- attention ---

constexpr int kNone = -1;

OpCase attention(std::vector<double> keys, bool sinks = false) {
  OpCase c;
  const Dim heads{"kv_heads", 2}, group{"group", 2}, d{"head_dim", 3}, e{"v_dim", 2};
  const TensorId q = c.parameter("q", {kBatch, kSeq, heads, group, d}, -2, 2),
                 k = c.parameter("k", {kBatch, kKeys, heads, d}), v = c.parameter("v", {kBatch, kKeys, heads, e});
  const TensorId of = c.integers("keys", {kBatch, kSeq, {"selected", 2}}, 0, 2);
  c.values[of] = std::move(keys);
  std::vector<TensorId> operands = {q, k, v, of};
  if (sinks) operands.push_back(c.parameter("sinks", {heads, group}, -2, 2));
  c.add(OpKind::SelectedAttention, operands, {.extra = sinks ? Attributes::Extra::Sink : Attributes::Extra::None}, "y");
  return c;
}

const Values kSome = {0, kNone, 0, 1, 0, 2, 1, 3, kNone, 0, 1, kNone, 1, 2, 0, 3};

TEST(SelectedAttention, IsTheSoftmaxOverItsKeys) {
  const OpCase c = attention(kSome);
  const Values &q = c.values.at(TensorId(0)), &k = c.values.at(TensorId(1)), &v = c.values.at(TensorId(2)),
               y = computed(c), narrow = computed(c, c.result(), DType::F32);
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t s = 0; s < 4; ++s)
      for (std::size_t h = 0; h < 4; ++h)
        for (std::size_t x = 0; x < 2; ++x) {
          double sum = 0.0, all = 0.0;
          for (std::size_t i = 0; i < 2; ++i) {
            const double key = kSome[(b * 4 + s) * 2 + i];
            if (key < 0) continue;
            const std::size_t row = (b * 4 + static_cast<std::size_t>(key)) * 2 + h / 2;
            double score = 0.0;
            for (std::size_t j = 0; j < 3; ++j) score += q[((b * 4 + s) * 4 + h) * 3 + j] * k[row * 3 + j];
            const double p = std::exp(score / std::sqrt(3.0));
            all += p;
            sum += p * v[row * 2 + x];
          }
          const std::size_t at = ((b * 4 + s) * 4 + h) * 2 + x;
          EXPECT_NEAR(y[at], sum / all, 1e-14);
          EXPECT_NEAR(narrow[at], sum / all, 1e-6);
        }
}

// A sink of s takes e^s of a head's e^s + e^score...; what it takes has the value 0.
TEST(SelectedAttention, GivesItsSinksAShare) {
  const OpCase plain = attention(kSome), sunk = attention(kSome, true);
  const Values &q = sunk.values.at(TensorId(0)), &k = sunk.values.at(TensorId(1)), &v = sunk.values.at(TensorId(2)),
               &sinks = sunk.values.at(TensorId(4)), y = computed(sunk);
  for (std::size_t h = 0; h < 4; ++h)  // the first query reads key 0 alone
    for (std::size_t x = 0; x < 2; ++x) {
      double score = 0.0;
      for (std::size_t j = 0; j < 3; ++j) score += q[h * 3 + j] * k[h / 2 * 3 + j];
      const double share = 1.0 / (1.0 + std::exp(sinks[h] - score / std::sqrt(3.0)));
      EXPECT_NEAR(y[h * 2 + x], share * v[h / 2 * 2 + x], 1e-14);
    }
  EXPECT_EQ(graph_flops(sunk.graph), graph_flops(plain.graph));
}

TEST(SelectedAttention, OfSinksHasTheGradientsOfItsDefinition) {
  expect_true_vjp(attention(kSome, true));
  expect_sharded_equals_whole(attention(kSome, true));
}

// Two heads of keys, which are chosen for each: that of each head alone is what all heads together make of its list.
TEST(SelectedAttention, ReadsTheKeysOfEachHead) {
  const Values first = kSome, second = {0, kNone, 1, 0, 2, kNone, 3, 2, 0, kNone, 0, 1, 2, 0, kNone, 3};
  Values both;
  for (std::size_t query = 0; query < 8; ++query)
    for (const Values* list : {&first, &second}) both.insert(both.end(), {(*list)[query * 2], (*list)[query * 2 + 1]});
  OpCase c;
  const Dim heads{"kv_heads", 2}, group{"group", 2}, d{"head_dim", 3}, e{"v_dim", 2};
  const TensorId q = c.parameter("q", {kBatch, kSeq, heads, group, d}, -2, 2),
                 k = c.parameter("k", {kBatch, kKeys, heads, d}), v = c.parameter("v", {kBatch, kKeys, heads, e});
  const TensorId of = c.integers("keys", {kBatch, kSeq, heads, {"selected", 2}}, 0, 2);
  c.values[of] = both;
  c.add(OpKind::SelectedAttention, {q, k, v, of}, {}, "y");
  const Values y = computed(c), of_first = computed(attention(first)), of_second = computed(attention(second));
  for (std::size_t token = 0; token < 8; ++token)
    for (std::size_t i = 0; i < 8; ++i)  // 4 heads of 2
      EXPECT_EQ(y[token * 8 + i], (i < 4 ? of_first : of_second)[token * 8 + i]);
  expect_true_vjp(c);
  expect_sharded_equals_whole(c);
}

TEST(SelectedAttention, RefusesAnOperandThatIsNoSink) {
  const std::string text = refusal([] {
    OpCase c;
    const Dim heads{"kv_heads", 2}, group{"group", 2}, d{"head_dim", 3};
    c.add(OpKind::SelectedAttention,
          {c.input("q", {kBatch, kSeq, heads, group, d}), c.input("k", {kBatch, kKeys, heads, d}),
           c.input("v", {kBatch, kKeys, heads, d}), c.integers("keys", {kBatch, kSeq, {"selected", 2}}, 0, 2),
           c.input("sinks", {heads, group})},
          {}, "y");
  });
  EXPECT_NE(text.find("it takes one operand more exactly when its attribute extra is a sink"), std::string::npos)
      << text;
}

TEST(SelectedAttention, HasTheGradientsOfItsDefinition) { expect_true_vjp(attention(kSome)); }

TEST(SelectedAttention, CanBeSplitAlongBatchQueriesAndHeads) {
  const OpCase c = attention(kSome);
  for (const IterationAxis& axis : iteration_space(c.graph, c.graph.ops()[0]).axes)
    EXPECT_EQ(axis.splittable,
              axis.name == "batch" || axis.name == "seq" || axis.name == "kv_heads" || axis.name == "group")
        << axis.name;
  expect_sharded_equals_whole(c);
}

// 2 samples have 4 queries of 4 heads; each reads 2 keys of 3 and 2 numbers.
TEST(SelectedAttention, CountsTheChosenKeysAlone) {
  EXPECT_EQ(graph_flops(attention(kSome).graph).si(), 2.0 * 2 * 4 * 4 * 2 * (3 + 2));
}

// With as many keys as a causal query sees, it is causal attention.
TEST(SelectedAttention, OfAllKeysIsCausalAttention) {
  const auto made = [](bool selected) {
    OpCase c;
    const Dim heads{"kv_heads", 2}, group{"group", 1}, d{"head_dim", 4};
    const TensorId q = c.parameter("q", {kBatch, kSeq, heads, group, d}),
                   k = c.parameter("k", {kBatch, kKeys, heads, d}), v = c.parameter("v", {kBatch, kKeys, heads, d}),
                   scores = c.input("scores", {kBatch, kSeq, kKeys});
    if (!selected) {
      c.add(OpKind::GroupedAttention, {q, k, v}, {.causal = true}, "y");
      return c;
    }
    const TensorId keys = c.add(OpKind::TopKKeys, {scores}, {.top_k = 4}, "keys");
    c.add(OpKind::SelectedAttention, {q, k, v, keys}, {}, "y");
    return c;
  };
  const Values chosen_keys = computed(made(true)), all = computed(made(false));
  ASSERT_EQ(chosen_keys.size(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_NEAR(chosen_keys[i], all[i], 1e-14);
}

}  // namespace
}  // namespace meshwright::ops_selected_attention_test
