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

// --- attention ---

constexpr int kNone = -1;

OpCase attention(std::vector<double> keys) {
  OpCase c;
  const Dim heads{"kv_heads", 2}, group{"group", 2}, d{"head_dim", 3}, e{"v_dim", 2};
  const TensorId q = c.parameter("q", {kBatch, kSeq, heads, group, d}, -2, 2),
                 k = c.parameter("k", {kBatch, kKeys, heads, d}), v = c.parameter("v", {kBatch, kKeys, heads, e});
  const TensorId of = c.integers("keys", {kBatch, kSeq, {"selected", 2}}, 0, 2);
  c.values[of] = std::move(keys);
  c.add(OpKind::SelectedAttention, {q, k, v, of}, {}, "y");
  return c;
}

const Values kSome = {0, kNone, 0, 1, 0, 2, 1, 3, 0, kNone, 1, kNone, 1, 2, 0, 3};

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
