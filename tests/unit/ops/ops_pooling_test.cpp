// SPDX-License-Identifier: Apache-2.0
// Pooling against its definition, in double and float, whole and in shards.
#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/window_cases.h"

namespace meshwright::ops_pooling_test {
namespace {

OpCase pooling(OpKind kind, const Case& c) {
  OpCase built;
  const TensorId x = built.parameter("x", c.x_dims());
  built.add(kind, {x},
            {.result_dims = c.spatial(),
             .window = {c.kh, c.kw},
             .stride = c.stride,
             .pad_before = c.before,
             .pad_after = c.after},
            "y");
  return built;
}

class Pools : public testing::TestWithParam<Case> {};

TEST_P(Pools, TakeTheFirstMaximumAndTheAverageOfWhatLiesInside) {
  const Case& c = GetParam();
  const std::int64_t channels = c.group_count() * c.in;
  for (const auto& [precision, tolerance] : {std::pair(DType::F64, 1e-14), {DType::F32, 2e-7}}) {
    const Outcome by_max = run_with_backward(pooling(OpKind::MaxPool, c), precision);
    const Outcome by_mean = run_with_backward(pooling(OpKind::AveragePool, c), precision);
    const Values x = values_of(by_max.c, "x"), dy = values_of(by_max.c, "cotangent");
    Values largest(dy.size(), -std::numeric_limits<double>::infinity()), mean(dy.size(), 0.0), count(dy.size(), 0.0);
    std::vector<std::size_t> where(dy.size());
    const auto each = [&](auto visit) {
      for_each_tap(c, channels, channels, [&](std::int64_t p, std::int64_t q, std::int64_t) {
        for (std::int64_t e = 0; e < channels; ++e)
          visit(static_cast<std::size_t>(p + e), static_cast<std::size_t>(q + e));
      });
    };
    each([&](std::size_t p, std::size_t q) {
      if (x[p] > largest[q]) where[q] = p;
      largest[q] = std::max(largest[q], x[p]);
      mean[q] += x[p];
      count[q] += 1.0;
    });
    Values from_max(x.size(), 0.0), from_mean(x.size(), 0.0);
    for (std::size_t q = 0; q < dy.size(); ++q) {
      mean[q] /= count[q];
      from_max[where[q]] += dy[q];
    }
    each([&](std::size_t p, std::size_t q) { from_mean[p] += dy[q] / count[q]; });
    expect_near(by_max.results[0], largest, tolerance, "maximum");
    expect_near(by_max.results[1], from_max, tolerance, "gradient of the maximum");
    expect_near(by_mean.results[0], mean, tolerance, "average");
    expect_near(by_mean.results[1], from_mean, tolerance, "gradient of the average");
  }
}

TEST_P(Pools, HaveTrueDerivatives) {
  expect_true_vjp(pooling(OpKind::MaxPool, GetParam()));
  expect_true_vjp(pooling(OpKind::AveragePool, GetParam()));
}

TEST_P(Pools, AreTheSameInShards) {
  expect_sharded_equals_whole(pooling(OpKind::MaxPool, GetParam()));
  expect_sharded_equals_whole(pooling(OpKind::AveragePool, GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Of, Pools,
                         testing::Values(Case{"overlapping", 2, 6, 5, 0, 4, 0, 3, 3, {2, 2}, {1, 1}, {1, 1}},
                                         Case{"side_by_side", 4, 4, 6, 0, 3, 0, 2, 2, {2, 2}, {}, {}},
                                         Case{"same", 2, 4, 5, 2, 2, 0, 3, 3, {}, {1, 1}, {1, 1}},
                                         Case{"asymmetric", 2, 7, 6, 0, 2, 0, 3, 2, {2, 3}, {0, 1}, {1, 0}},
                                         Case{"global", 2, 3, 4, 0, 8, 0, 3, 4, {}, {}, {}}),
                         [](const auto& tested) { return tested.param.name; });

TEST(MaxPool, GivesTheGradientOfATieToTheFirst) {
  OpCase c = pooling(OpKind::MaxPool, {"c", 1, 2, 4, 0, 1, 0, 2, 2, {2, 2}, {}, {}});
  c.values.begin()->second = {1, 5, 3, 3,   //
                              5, 5, 2, 3};  // the window on the left has its maximum thrice, that on the right too
  const Outcome run = run_with_backward(c, DType::F64);
  const Values dy = values_of(run.c, "cotangent");
  EXPECT_EQ(run.results[1], (Values{0, dy[0], dy[1], 0, 0, 0, 0, 0}));
}

// More channels than are walked at once.
TEST(Pools, WalkManyChannelsInRuns) {
  const Case c{"c", 1, 3, 3, 0, 600, 0, 2, 2, {}, {1, 0}, {0, 0}};
  for (const OpKind kind : {OpKind::MaxPool, OpKind::AveragePool}) {
    const Values y = computed(pooling(kind, c)), x = values_of(pooling(kind, c), "x");
    for (std::size_t e = 0; e < 600; ++e) {
      const double left = x[e], right = x[600 + e];  // the first window reaches over the first row only
      EXPECT_DOUBLE_EQ(y[e], kind == OpKind::MaxPool ? std::max(left, right) : (left + right) / 2);
    }
  }
}

TEST(Pools, SplitAllButSpace) {
  for (const OpKind kind : {OpKind::MaxPool, OpKind::AveragePool}) {
    const OpCase c = op_bench::with_backward(pooling(kind, {"c", 2, 5, 4, 2, 3, 0, 3, 3, {}, {0, 1}, {0, 1}}));
    EXPECT_EQ(axes_text(c.graph, c.graph.ops()[0]), "batch h!/ w/ groups in h2/");
    EXPECT_EQ(axes_text(c.graph, c.graph.ops()[1]),
              kind == OpKind::MaxPool ? "batch h/ w/ groups in h2!/" : "batch h2!/ w/ groups in h/");
    EXPECT_EQ(graph_flops(c.graph), Flops(0));
  }
}

TEST(Pools, RefuseWhatDoesNotFit) {
  Graph graph;
  const TensorId x =
      graph.add_tensor("x", TensorKind::Input, DType::F32, {{"batch", 2}, {"h", 6}, {"w", 6}, {"channel", 3}});
  const TensorId ids = graph.add_tensor("ids", TensorKind::Input, DType::I32, {{"batch", 2}, {"h", 6}, {"w", 6}});
  const auto refused = [&](TensorId of, const Attributes& attributes) {
    return refusal([&] { graph.add_op(OpKind::MaxPool, "y", {of}, attributes); });
  };
  const std::string given = "; it was given x 'x' f32 (batch=2, h=6, w=6, channel=3).";
  const std::vector<Dim> half = {{"h2", 3}, {"w2", 3}};
  EXPECT_EQ(refused(x, {.result_dims = half, .stride = {2, 2}}),
            "op 'y' (max_pool): its window must be two numbers of at least 1" + given);
  EXPECT_EQ(refused(x, {.result_dims = half, .window = {2, 2}}),
            "op 'y' (max_pool): 'h2' of its result (batch=2, h2=3, w2=3, channel=3) must have size 5: windows of 2 at "
            "stride 1 over 'h' padded by 0 and 0" +
                given);
  EXPECT_EQ(refused(x, {.result_dims = {{"h2", 3}, {"h", 3}}, .window = {2, 2}, .stride = {2, 2}}),
            "op 'y' (max_pool): 'h' of its result (batch=2, h2=3, h=3, channel=3) must keep both name and size of 'w' "
            "of x, or have a name that x lacks" +
                given);
  EXPECT_NE(refused(ids, {.result_dims = half, .window = {2, 2}, .stride = {2, 2}}).find("one floating-point type"),
            std::string::npos);
  const TensorId dy =
      graph.add_tensor("dy", TensorKind::Input, DType::F32, {{"batch", 2}, {"h2", 3}, {"w2", 3}, {"other", 3}});
  EXPECT_NE(refusal([&] {
              graph.add_op(OpKind::MaxPoolBackward, "dx", {x, dy}, {.window = {2, 2}, .stride = {2, 2}});
            }).find("x and the result must differ in the two spatial dimensions only"),
            std::string::npos);
}

}  // namespace
}  // namespace meshwright::ops_pooling_test
