// SPDX-License-Identifier: Apache-2.0
// Convolutions and pooling against their definitions, in double and float, whole and in shards.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>

#include "tests/op_fixture.h"

namespace meshwright {
namespace {

using Sizes = std::vector<std::int64_t>;

// A convolution or pooling: sizes of data and window, and how the window goes. `groups` 0: x and w have no such
// dimension. Pooling reads `in` as its channels.
struct Case {
  const char* name;
  std::int64_t batch, h, w, groups, in, out, kh, kw;
  Sizes stride, before, after;

  [[nodiscard]] std::int64_t group_count() const { return std::max<std::int64_t>(1, groups); }
  [[nodiscard]] std::int64_t stride_of(std::size_t s) const { return stride.empty() ? 1 : stride[s]; }
  [[nodiscard]] std::int64_t before_of(std::size_t s) const { return before.empty() ? 0 : before[s]; }
  [[nodiscard]] std::int64_t after_of(std::size_t s) const { return after.empty() ? 0 : after[s]; }
  [[nodiscard]] std::int64_t rows() const { return (h + before_of(0) + after_of(0) - kh) / stride_of(0) + 1; }
  [[nodiscard]] std::int64_t columns() const { return (w + before_of(1) + after_of(1) - kw) / stride_of(1) + 1; }
  [[nodiscard]] std::vector<Dim> dims(std::vector<Dim> spatial, Dim channel) const {
    std::vector<Dim> all = {{"batch", batch}, spatial[0], spatial[1]};
    if (groups > 0) all.push_back({"groups", groups});
    all.push_back(std::move(channel));
    return all;
  }
  [[nodiscard]] std::vector<Dim> x_dims() const { return dims({{"h", h}, {"w", w}}, {"in", in}); }
  [[nodiscard]] std::vector<Dim> w_dims() const {
    std::vector<Dim> all = {{"kh", kh}, {"kw", kw}, {"in", in}, {"out", out}};
    if (groups > 0) all.insert(all.begin(), {"groups", groups});
    return all;
  }
  // Names that stay where the size stays.
  [[nodiscard]] std::vector<Dim> spatial() const {
    return {{rows() == h ? "h" : "h2", rows()}, {columns() == w ? "w" : "w2", columns()}};
  }
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

OpCase convolution(const Case& c) {
  OpCase built;
  const TensorId x = built.parameter("x", c.x_dims()), w = built.parameter("w", c.w_dims());
  built.add(OpKind::Convolution, {x, w},
            {.result_dims = c.spatial(), .stride = c.stride, .pad_before = c.before, .pad_after = c.after}, "y");
  return built;
}

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

// Calls visit(x element, y element, tap) for every place of x under every window, image by image and place by place;
// the elements are those of the first channel of the first group, `x_channels` and `y_channels` are in one place.
template <class Visit>
void for_each_tap(const Case& c, std::int64_t x_channels, std::int64_t y_channels, Visit visit) {
  for (std::int64_t b = 0; b < c.batch; ++b)
    for (std::int64_t i = 0; i < c.rows(); ++i)
      for (std::int64_t j = 0; j < c.columns(); ++j)
        for (std::int64_t k = 0; k < c.kh; ++k)
          for (std::int64_t l = 0; l < c.kw; ++l) {
            const std::int64_t row = i * c.stride_of(0) - c.before_of(0) + k;
            const std::int64_t column = j * c.stride_of(1) - c.before_of(1) + l;
            if (row < 0 || row >= c.h || column < 0 || column >= c.w) continue;
            visit(((b * c.h + row) * c.w + column) * x_channels, ((b * c.rows() + i) * c.columns() + j) * y_channels,
                  k * c.kw + l);
          }
}

// The same with the elements of x, w and y that meet in a convolution.
template <class Visit>
void for_each_product(const Case& c, Visit visit) {
  const auto at = [](std::int64_t index) { return static_cast<std::size_t>(index); };
  const std::int64_t groups = c.group_count();
  for_each_tap(c, groups * c.in, groups * c.out, [&](std::int64_t x, std::int64_t y, std::int64_t tap) {
    for (std::int64_t g = 0; g < groups; ++g)
      for (std::int64_t p = 0; p < c.in; ++p)
        for (std::int64_t q = 0; q < c.out; ++q)
          visit(at(x + g * c.in + p), at(((g * c.kh * c.kw + tap) * c.in + p) * c.out + q), at(y + g * c.out + q));
  });
}

// Within `tolerance` of the largest.
void expect_near(const Values& actual, const Values& expected, double tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  const double bound = tolerance * op_bench::largest(expected);
  for (std::size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], bound) << what << "[" << i << "]";
}

// What a forward op and the ops derived from it make, in the order they were added; for operands and cotangent as
// given.
struct Outcome {
  OpCase c;
  std::vector<Values> results;
};
Outcome run_with_backward(const OpCase& forward, DType precision) {
  Outcome run{op_bench::with_backward(forward), {}};
  GraphInterpreter interpreter(run.c.graph, 0, precision);
  op_bench::load(run.c, interpreter);
  for (const Phase phase : {Phase::Forward, Phase::Backward}) interpreter.run(phase);
  for (const Op& op : run.c.graph.ops())
    if (op.kind != OpKind::Accumulate) run.results.push_back(interpreter.get(op.outputs[0]));
  return run;
}
Values values_of(const OpCase& c, const std::string& name) {
  for (const auto& [id, values] : c.values)
    if (c.graph.tensor(id).name == name) return values;
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

// --- convolution ---

class Convolutions : public testing::TestWithParam<Case> {};

TEST_P(Convolutions, AreTheSumsOfTheirDefinitionInBothDirections) {
  const Case& c = GetParam();
  // Sums of up to 200 products of order 1, in float to 2^-24 each, errors adding up as a random walk.
  for (const auto& [precision, tolerance] : {std::pair(DType::F64, 1e-14), {DType::F32, 2e-6}}) {
    const Outcome run = run_with_backward(convolution(c), precision);
    const Values x = values_of(run.c, "x"), w = values_of(run.c, "w"), dy = values_of(run.c, "cotangent");
    Values y(dy.size(), 0.0), dx(x.size(), 0.0), dw(w.size(), 0.0);
    for_each_product(c, [&](std::size_t p, std::size_t q, std::size_t r) {
      y[r] += x[p] * w[q];
      dx[p] += dy[r] * w[q];
      dw[q] += dy[r] * x[p];
    });
    ASSERT_EQ(run.results.size(), 3u);
    expect_near(run.results[0], y, tolerance, "y");
    expect_near(run.results[1], dx, tolerance, "dx");
    expect_near(run.results[2], dw, tolerance, "dw");
  }
}

TEST_P(Convolutions, HaveTrueDerivatives) { expect_true_vjp(convolution(GetParam())); }

TEST_P(Convolutions, AreTheSameInShards) { expect_sharded_equals_whole(convolution(GetParam())); }

// 2 batch h' w' groups out in kh kw, whichever of the three is computed.
TEST_P(Convolutions, CountEveryProductTwice) {
  const Case& c = GetParam();
  const double products =
      static_cast<double>(c.batch * c.rows() * c.columns() * c.group_count() * c.out * c.in * c.kh * c.kw);
  const OpCase built = op_bench::with_backward(convolution(c));
  EXPECT_EQ(graph_flops(built.graph), Flops(3 * 2 * products));
}

INSTANTIATE_TEST_SUITE_P(Of, Convolutions,
                         testing::Values(Case{"plain", 2, 5, 4, 0, 2, 4, 3, 2, {}, {}, {}},
                                         Case{"same", 4, 4, 5, 0, 2, 2, 3, 3, {}, {1, 1}, {1, 1}},
                                         Case{"pointwise", 2, 3, 2, 0, 4, 2, 1, 1, {}, {}, {}},
                                         Case{"strided", 2, 7, 6, 0, 3, 4, 3, 3, {2, 3}, {1, 0}, {1, 2}},
                                         Case{"asymmetric", 2, 6, 6, 0, 2, 2, 3, 3, {2, 2}, {0, 0}, {1, 1}},
                                         Case{"same across, not along", 2, 5, 4, 0, 2, 2, 3, 3, {}, {1, 0}, {1, 0}},
                                         Case{"unreached last columns", 2, 5, 8, 0, 2, 2, 3, 3, {1, 4}, {}, {}},
                                         Case{"stride beyond the window", 2, 7, 5, 0, 2, 2, 1, 1, {3, 2}, {}, {}},
                                         Case{"grouped", 2, 4, 3, 4, 2, 3, 3, 3, {}, {1, 1}, {1, 1}},
                                         Case{"grouped and strided", 2, 5, 5, 2, 3, 2, 3, 2, {2, 1}, {1, 1}, {0, 0}},
                                         Case{"depthwise", 2, 5, 5, 8, 1, 1, 3, 3, {2, 2}, {1, 1}, {1, 1}}),
                         [](const auto& tested) {
                           std::string name = tested.param.name;
                           std::replace_if(
                               name.begin(), name.end(), [](char c) { return c == ' ' || c == ','; }, '_');
                           return name;
                         });

// Many channels take other code paths of the library: vectors full of channels, and blocks of them.
TEST(Convolution, InFloatIsRightWhereTheLibraryIsFast) {
  const Case cases[] = {{"wide", 2, 9, 8, 0, 64, 32, 3, 3, {}, {1, 1}, {1, 1}},
                        {"image", 2, 16, 16, 0, 3, 32, 7, 7, {2, 2}, {3, 3}, {2, 2}},
                        {"depthwise", 2, 9, 9, 48, 1, 1, 5, 5, {2, 2}, {1, 1}, {2, 2}},
                        {"grouped", 2, 7, 7, 8, 8, 8, 3, 3, {}, {1, 1}, {1, 1}},
                        {"pointwise", 2, 7, 7, 0, 24, 144, 1, 1, {2, 2}, {}, {}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const Outcome exact = run_with_backward(convolution(c), DType::F64),
                  fast = run_with_backward(convolution(c), DType::F32);
    for (std::size_t r = 0; r < 3; ++r)
      expect_near(fast.results[r], exact.results[r], 5e-6, exact.c.graph.ops()[r].name.c_str());
  }
}

// In double the whole batch and a part of it have the same bits.
TEST(Convolution, InDoubleGivesImagesOfASplitBatchTheSameBits) {
  const Case c{"c", 4, 6, 5, 0, 3, 5, 3, 3, {}, {1, 1}, {1, 1}};
  const OpCase whole = convolution(c);
  Case half = c;
  half.batch = 2;
  OpCase part = convolution(half);
  const Values x = values_of(whole, "x");
  for (auto& [id, values] : part.values) {
    const bool data = part.graph.tensor(id).name == "x";
    values = data ? Values(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2)) : values_of(whole, "w");
  }
  const Values first = computed(part), all = computed(whole);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), all.begin()));
}

std::string axes_text(const Graph& graph, const Op& op) {
  std::string text;
  for (const IterationAxis& axis : iteration_space(graph, op).axes)
    text += (text.empty() ? "" : " ") + axis.name + (axis.reduction ? "!" : "") + (axis.splittable ? "" : "/");
  return text;
}

// "!": reduced, "/": never split.
TEST(Convolution, AllThreeSplitBatchGroupsAndChannels) {
  const OpCase c = op_bench::with_backward(convolution({"c", 2, 5, 4, 2, 3, 5, 3, 3, {}, {0, 1}, {0, 1}}));
  const std::vector<Op>& ops = c.graph.ops();
  EXPECT_EQ(axes_text(c.graph, ops[0]), "batch h!/ w/ groups in! kh!/ kw!/ out h2/");
  EXPECT_EQ(axes_text(c.graph, ops[1]), "groups kh!/ kw!/ in out! batch h2!/ w/ h/");
  EXPECT_EQ(ops[1].kind, OpKind::ConvolutionBackwardInput);
  const Op& of_weight = ops[2].kind == OpKind::Accumulate ? ops[3] : ops[2];
  EXPECT_EQ(of_weight.kind, OpKind::ConvolutionBackwardWeight);
  EXPECT_EQ(axes_text(c.graph, of_weight), "batch! h!/ w!/ groups in h2!/ out kh/ kw/");
}

TEST(Convolution, DerivesOnlyWhatIsAskedFor) {
  const Case c{"c", 2, 4, 4, 0, 2, 2, 3, 3, {}, {}, {}};
  OpCase built;
  const TensorId image = built.input("x", c.x_dims()), w = built.parameter("w", c.w_dims());
  built.add(OpKind::Convolution, {image, w}, {.result_dims = c.spatial()}, "y");
  const OpCase whole = op_bench::with_backward(built);
  for (const Op& op : whole.graph.ops()) EXPECT_NE(op.kind, OpKind::ConvolutionBackwardInput);
  expect_true_vjp(built);
}

// x (2, 5, 7, 3) and w (3, 3, 3, 11) with one thing changed.
struct Attempt {
  std::vector<Dim> x = {{"batch", 2}, {"h", 5}, {"w", 7}, {"in", 3}};
  std::vector<Dim> w = {{"kh", 3}, {"kw", 3}, {"in", 3}, {"out", 11}};
  Attributes attributes = {.result_dims = {{"h2", 3}, {"w2", 5}}};
};
std::string refused(const Attempt& attempt) {
  Graph graph;
  const TensorId x = graph.add_tensor("x", TensorKind::Input, DType::F32, attempt.x);
  const TensorId w = graph.add_tensor("w", TensorKind::Input, DType::F32, attempt.w);
  return refusal([&] { graph.add_op(OpKind::Convolution, "y", {x, w}, attempt.attributes); });
}
std::string refused(const std::function<void(Attempt&)>& change) {
  Attempt attempt;
  change(attempt);
  return refused(attempt);
}

TEST(Convolution, RefusesWhatDoesNotFitAndNamesIt) {
  EXPECT_EQ(refused(Attempt{}), "not refused");
  const std::string given = "; it was given x 'x' f32 (batch=2, h=5, w=7, in=3), w 'w' f32 (kh=3, kw=3, in=3, out=11).";
  EXPECT_EQ(refused([](Attempt& a) {
              a.attributes.result_dims = {{"h2", 4}, {"w2", 5}};
            }),
            "op 'y' (convolution): 'h2' of its result (batch=2, h2=4, w2=5, out=11) must have size 3: windows of 3 at "
            "stride 1 over 'h' padded by 0 and 0" +
                given);
  EXPECT_EQ(refused([](Attempt& a) {
              a.attributes.result_dims = {{"h", 3}, {"w2", 5}};
            }),
            "op 'y' (convolution): 'h' of its result (batch=2, h=3, w2=5, out=11) must keep both name and size of 'h' "
            "of x, or have a name that x lacks" +
                given);
  EXPECT_EQ(refused([](Attempt& a) {
              a.attributes.result_dims = {{"h2", 3}};
            }),
            "op 'y' (convolution): its attributes must give the two spatial dimensions of the result" + given);
  EXPECT_EQ(refused([](Attempt& a) {
              a.attributes.stride = {0, 1};
            }),
            "op 'y' (convolution): its stride must be two numbers of at least 1" + given);
  EXPECT_EQ(refused([](Attempt& a) {
              a.attributes.pad_before = {-1, 1};
            }),
            "op 'y' (convolution): its padding before must be two numbers of at least 0" + given);
  EXPECT_EQ(refused([](Attempt& a) {
              a.attributes.pad_after = {3, 0};
            }),
            "op 'y' (convolution): the padding 0 and 3 of 'h' must be smaller than its window 3" + given);
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(refused([](Attempt& a) { a.w[2].size = 4; }), "the last dimension of x must be the last but one of w");
  has(refused([](Attempt& a) { a.w[3].name = "w"; }), "the channels that go in and those that come out need two names");
  has(refused([](Attempt& a) { a.w[0].name = "h2"; }), "the names of the window must not be in x or the result");
  has(refused([](Attempt& a) { a.w[0].size = 6; }), "the window 6 of 'h' must fit into it");
  has(refused([](Attempt& a) {
        a.w.insert(a.w.begin(), {"groups", 2});
      }),
      "x must be (batch, h, w, [groups], in), w ([groups], kh, kw, in, out)");
  has(refused([](Attempt& a) {
        a.x.insert(a.x.begin() + 3, {"groups", 4});
        a.w.insert(a.w.begin(), {"groups", 2});
      }),
      "x, w and the result must have one dimension of groups");
}

TEST(ConvolutionBackward, RefusesACotangentOfAnotherShape) {
  Graph graph;
  const TensorId x = graph.add_tensor("x", TensorKind::Input, DType::F32, Attempt{}.x);
  const TensorId w = graph.add_tensor("w", TensorKind::Input, DType::F32, Attempt{}.w);
  const TensorId dy =
      graph.add_tensor("dy", TensorKind::Input, DType::F32, {{"batch", 2}, {"h2", 3}, {"w2", 4}, {"out", 11}});
  const char* const expected = "must have size 5";
  EXPECT_NE(refusal([&] {
              graph.add_op(OpKind::ConvolutionBackwardInput, "dx", {w, dy}, {.result_dims = Attempt{}.x});
            }).find(expected),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              graph.add_op(OpKind::ConvolutionBackwardWeight, "dw", {x, dy}, {.result_dims = Attempt{}.w});
            }).find(expected),
            std::string::npos);
}

// --- pooling ---

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
}  // namespace meshwright
