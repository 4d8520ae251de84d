// SPDX-License-Identifier: Apache-2.0
// Convolutions against their definition, in double and float, whole and in shards.
#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/window_cases.h"

namespace meshwright::ops_convolution_test {
namespace {

OpCase convolution(const Case& c) {
  OpCase built;
  const TensorId x = built.parameter("x", c.x_dims()), w = built.parameter("w", c.w_dims());
  built.add(OpKind::Convolution, {x, w},
            {.result_dims = c.spatial(), .stride = c.stride, .pad_before = c.before, .pad_after = c.after}, "y");
  return built;
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

}  // namespace
}  // namespace meshwright::ops_convolution_test
