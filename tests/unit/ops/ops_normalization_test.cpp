// SPDX-License-Identifier: Apache-2.0
// Normalisations against their definitions, in double and float, whole and in shards.
#include <gtest/gtest.h>

#include <functional>

#include "core/sharding/cost_model.h"
#include "tests/op_fixture.h"

namespace meshwright::ops_normalization_test {
namespace {

const Dim kBatch{"batch", 4}, kSeq{"seq", 2}, kH{"h", 3}, kW{"w", 2}, kEmbed{"embed", 6}, kChannel{"channel", 4};
constexpr double kEpsilon = 0.25;  // large, so that a wrong place of it shows

OpCase layer_norm() {
  OpCase c;
  const TensorId x = c.parameter("x", {kBatch, kSeq, kEmbed}), gamma = c.parameter("gamma", {kEmbed});
  c.add(OpKind::LayerNorm, {x, gamma, c.parameter("beta", {kEmbed})}, {.epsilon = kEpsilon}, "y");
  return c;
}

OpCase rms_norm() {
  OpCase c;
  const TensorId x = c.parameter("x", {kBatch, kSeq, kEmbed}), gamma = c.parameter("gamma", {kEmbed});
  c.add(OpKind::RmsNorm, {x, gamma}, {.epsilon = kEpsilon}, "y");
  return c;
}

OpCase softmax() {
  OpCase c;
  c.add(OpKind::Softmax, {c.parameter("x", {kBatch, kSeq, kEmbed}, -3.0, 5.0)}, {}, "y");
  return c;
}

OpCase batch_norm(std::vector<Dim> x_dims = {kBatch, kH, kW, kChannel}) {
  OpCase c;
  const TensorId x = c.parameter("x", x_dims, -1.0, 4.0);
  const Dim channel = x_dims.back();
  const TensorId gamma = c.parameter("gamma", {channel}), beta = c.parameter("beta", {channel});
  const TensorId sums = c.add(OpKind::BatchSums, {x}, {}, "sums");
  double count = 1.0;
  for (std::size_t d = 0; d + 1 < x_dims.size(); ++d) count *= static_cast<double>(x_dims[d].size);
  c.add(OpKind::BatchNorm, {x, sums, gamma, beta}, {.scale = 1.0 / count, .epsilon = kEpsilon}, "y");
  return c;
}

const Values& values_of(const OpCase& c, const std::string& name) {
  const auto found = std::find_if(c.values.begin(), c.values.end(),
                                  [&](const auto& one) { return c.graph.tensor(one.first).name == name; });
  MW_CHECK(found != c.values.end(), "no tensor {}", name);
  return found->second;
}

// Within `tolerance` of the largest.
void expect_near(const Values& actual, const Values& expected, double tolerance, const char* what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  const double bound = tolerance * op_bench::largest(expected);
  for (std::size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], bound) << what << "[" << i << "]";
}

// Sum of term(i) for i in 0..n-1.
double total(std::size_t n, const std::function<double(std::size_t)>& term) {
  double sum = 0.0;
  for (std::size_t i = 0; i < n; ++i) sum += term(i);
  return sum;
}

Values root_mean_squares(const Values& x, std::size_t width) {
  Values roots;
  for (std::size_t begin = 0; begin < x.size(); begin += width)
    roots.push_back(std::sqrt(total(width, [&](std::size_t i) { return x[begin + i] * x[begin + i]; }) /
                                  static_cast<double>(width) +
                              kEpsilon));
  return roots;
}

// --- derivatives and shards of all of them ---

TEST(Normalisations, HaveTrueDerivatives) {
  for (const auto build : {layer_norm, rms_norm, softmax}) expect_true_vjp(build());
  expect_true_vjp(batch_norm());
}

TEST(Normalisations, AreTheSameInShards) {
  for (const auto build : {layer_norm, rms_norm, softmax}) expect_sharded_equals_whole(build());
  expect_sharded_equals_whole(batch_norm());
}

// Float against double, forward and backward: sums of 6 to 24 terms of order 1.
TEST(Normalisations, InFloatStayNearTheirValuesInDouble) {
  for (const std::function<OpCase()>& build :
       {std::function<OpCase()>(layer_norm), {rms_norm}, {softmax}, {[] { return batch_norm(); }}}) {
    const OpCase c = op_bench::with_backward(build());
    for (const Op& op : c.graph.ops())
      for (const TensorId result : op.outputs)
        expect_near(computed(c, result, DType::F32), computed(c, result), 2e-6, c.graph.tensor(result).name.c_str());
  }
}

// "!": reduced, "/": never split.
std::string axes_text(const Graph& graph, const Op& op) {
  std::string text;
  for (const IterationAxis& axis : iteration_space(graph, op).axes)
    text += (text.empty() ? "" : " ") + axis.name + (axis.reduction ? "!" : "") + (axis.splittable ? "" : "/");
  return text;
}

std::vector<std::string> all_axes(const OpCase& forward) {
  const OpCase c = op_bench::with_backward(forward);
  std::vector<std::string> texts;
  for (const Op& op : c.graph.ops())
    if (op.kind != OpKind::Accumulate) texts.push_back(std::string(name_of(op.kind)) + ": " + axes_text(c.graph, op));
  EXPECT_EQ(graph_flops(c.graph), Flops(0));
  return texts;
}

TEST(Normalisations, SplitTheRowsAndNeverARow) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(all_axes(rms_norm()), (Texts{"rms_norm: batch seq embed/", "rms_norm_backward: batch seq embed/",
                                         "rms_norm_param_backward: batch! seq! embed/"}));
  EXPECT_EQ(all_axes(softmax()), (Texts{"softmax: batch seq embed/", "softmax_backward: batch seq embed/"}));
}

TEST(BatchNorm, SplitsSamplesAndChannelsButNotSpace) {
  EXPECT_EQ(all_axes(batch_norm()),
            (std::vector<std::string>{"batch_sums: batch! h!/ w!/ channel moment/",
                                      "batch_norm: batch h/ w/ channel moment!/",
                                      "batch_norm_param_backward: batch! h!/ w!/ channel moment!/",
                                      "batch_norm_backward: batch h/ w/ channel moment!/"}));
}

// --- each by its definition ---

TEST(LayerNorm, DividesByTheRootOfTheVarianceAndEpsilon) {
  const OpCase c = layer_norm();
  const Values &x = values_of(c, "x"), &gamma = values_of(c, "gamma"), &beta = values_of(c, "beta");
  Values expected;
  for (std::size_t row = 0; row < x.size(); row += 6) {
    const double mean = total(6, [&](std::size_t i) { return x[row + i]; }) / 6;
    const double variance = total(6, [&](std::size_t i) { return (x[row + i] - mean) * (x[row + i] - mean); }) / 6;
    for (std::size_t i = 0; i < 6; ++i)
      expected.push_back((x[row + i] - mean) / std::sqrt(variance + kEpsilon) * gamma[i] + beta[i]);
  }
  expect_near(computed(c), expected, 1e-15, "y");
}

// Epsilon changes what is computed, not how long that takes.
TEST(Norms, OfAnyEpsilonAreOneRowOfAProfile) {
  for (const OpKind kind : {OpKind::LayerNorm, OpKind::RmsNorm}) {
    OpCase c;
    const TensorId x = c.parameter("x", {kBatch, kEmbed}), gamma = c.parameter("gamma", {kEmbed});
    std::vector<TensorId> operands = {x, gamma};
    if (kind == OpKind::LayerNorm) operands.push_back(c.parameter("beta", {kEmbed}));
    c.add(kind, operands, {.epsilon = 1e-5}, "one");
    c.add(kind, operands, {.epsilon = 1e-12}, "other");
    const auto &one = c.graph.ops()[0], &other = c.graph.ops()[1];
    EXPECT_EQ(op_work(c.graph, one, {4, 6}).signature, op_work(c.graph, other, {4, 6}).signature);
    EXPECT_NE(computed(c, one.outputs[0]), computed(c, other.outputs[0]));
  }
}

TEST(RmsNorm, DividesByTheRootOfTheMeanSquareAndEpsilon) {
  const OpCase c = op_bench::with_backward(rms_norm());
  const Values x = values_of(c, "x"), gamma = values_of(c, "gamma"), dy = values_of(c, "cotangent");
  const std::size_t width = gamma.size();
  const Values root = root_mean_squares(x, width);
  Values y(x.size()), dgamma(width, 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    y[i] = x[i] / root[i / width] * gamma[i % width];
    dgamma[i % width] += dy[i] * x[i] / root[i / width];
  }
  expect_near(computed(c, c.graph.ops()[0].outputs[0]), y, 1e-14, "y");
  const Op& last = c.graph.ops()[c.graph.ops().size() - 2];
  ASSERT_EQ(last.kind, OpKind::RmsNormParamBackward);
  expect_near(computed(c, last.outputs[0]), dgamma, 1e-14, "dgamma");
}

TEST(RmsNorm, OfAConstantRowIsTheSignWithoutEpsilon) {
  OpCase c;
  const TensorId x = c.input("x", {{"batch", 2}, {"embed", 3}}), gamma = c.input("gamma", {{"embed", 3}});
  c.values[x] = {7, 7, 7, -2, -2, -2};
  c.values[gamma] = {1, 10, 100};
  c.add(OpKind::RmsNorm, {x, gamma}, {.epsilon = 0.0}, "y");
  expect_near(computed(c), {1, 10, 100, -1, -10, -100}, 1e-15, "y");
}

TEST(Softmax, IsEachExponentialOverTheirSum) {
  for (const auto& [precision, tolerance] : {std::pair(DType::F64, 1e-15), {DType::F32, 1e-6}}) {
    const OpCase c = softmax();
    const Values x = values_of(c, "x");
    const std::size_t width = 6;
    Values y;
    for (std::size_t i = 0; i < x.size(); ++i)
      y.push_back(std::exp(x[i]) / total(width, [&](std::size_t k) { return std::exp(x[i / width * width + k]); }));
    expect_near(computed(c, c.result(), precision), y, tolerance, "y");
  }
}

TEST(Softmax, OfLargeNumbersNeitherOverflowsNorChanges) {
  OpCase c;
  const TensorId x = c.input("x", {{"batch", 2}, {"embed", 2}});
  c.values[x] = {20000, 20000, -30000, -10000};
  c.add(OpKind::Softmax, {x}, {}, "y");
  for (const DType precision : {DType::F64, DType::F32}) {
    const Values y = computed(c, c.result(), precision);
    EXPECT_EQ(y[0], 0.5);
    EXPECT_EQ(y[1], 0.5);
    EXPECT_LT(y[2], 1e-37);
    EXPECT_EQ(y[3], 1.0);
  }
}

TEST(BatchSums, AreOfXAndOfItsSquare) {
  OpCase c;
  const TensorId x = c.input("x", {{"batch", 3}, {"channel", 2}});
  c.values[x] = {1, 10, 2, 20, 3, 40};
  c.add(OpKind::BatchSums, {x}, {}, "sums");
  EXPECT_EQ(computed(c), (Values{6, 70, 14, 2100}));
  EXPECT_EQ(c.graph.tensor(c.result()).dims, (std::vector<Dim>{{"moment", 2}, {"channel", 2}}));
  expect_sharded_equals_whole(c);
}

TEST(BatchSums, OfSixteenBitsAreKeptInThirtyTwo) {
  Graph graph;
  const TensorId x = graph.add_tensor("x", TensorKind::Input, DType::F16, {kBatch, kChannel});
  const TensorId gamma = graph.add_tensor("gamma", TensorKind::Parameter, DType::F16, {kChannel});
  const TensorId sums = graph.add_op(OpKind::BatchSums, "sums", {x})[0];
  EXPECT_EQ(graph.tensor(sums).dtype, DType::F32);
  const TensorId y = graph.add_op(OpKind::BatchNorm, "y", {x, sums, gamma, gamma}, {.scale = 0.25})[0];
  EXPECT_EQ(graph.tensor(y).dtype, DType::F16);
}

TEST(BatchNorm, GivesEveryChannelMeanBetaAndDeviationGamma) {
  const OpCase c = batch_norm();
  const Values x = values_of(c, "x"), gamma = values_of(c, "gamma"), beta = values_of(c, "beta"), y = computed(c);
  const std::size_t channels = gamma.size(), rows = x.size() / channels;
  const double share = 1.0 / static_cast<double>(rows);
  for (std::size_t k = 0; k < channels; ++k) {
    const auto mean_of = [&](const Values& values) {
      return share * total(rows, [&](std::size_t r) { return values[r * channels + k]; });
    };
    const double mean = mean_of(x);
    const double variance = share * total(rows, [&](std::size_t r) { return std::pow(x[r * channels + k] - mean, 2); });
    EXPECT_NEAR(mean_of(y), beta[k], 1e-14);
    for (std::size_t r = 0; r < rows; ++r)
      EXPECT_NEAR(y[r * channels + k],
                  (x[r * channels + k] - mean) / std::sqrt(variance + kEpsilon) * gamma[k] + beta[k], 1e-13);
  }
}

// A channel without variance: in float, rounding leaves the difference of squares somewhere around zero, by up to 1e-5
// of either sign, which no root must see.
TEST(BatchNorm, OfAConstantChannelIsNearBeta) {
  std::vector<Dim> x_dims = {{"batch", 6}, {"channel", 100}};
  OpCase c;
  const TensorId x = c.input("x", x_dims), gamma = c.input("gamma", {x_dims[1]}), beta = c.input("beta", {x_dims[1]});
  for (std::size_t i = 0; i < c.values[x].size(); ++i) c.values[x][i] = 0.1 * static_cast<double>(i % 100);
  const TensorId sums = c.add(OpKind::BatchSums, {x}, {}, "sums");
  c.add(OpKind::BatchNorm, {x, sums, gamma, beta}, {.scale = 1.0 / 6, .epsilon = 1e-9}, "y");
  const Values y = computed(c, c.result(), DType::F32);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], c.values[beta][i % 100], 0.05) << i;
}

TEST(BatchNorm, WithoutAGradientForXDerivesItsParametersAlone) {
  OpCase c;
  const TensorId x = c.input("x", {kBatch, kChannel}), gamma = c.parameter("gamma", {kChannel});
  const TensorId sums = c.add(OpKind::BatchSums, {x}, {}, "sums");
  c.add(OpKind::BatchNorm, {x, sums, gamma, c.parameter("beta", {kChannel})}, {.scale = 0.25, .epsilon = kEpsilon});
  expect_true_vjp(c);
  const OpCase whole = op_bench::with_backward(c);
  for (const Op& op : whole.graph.ops()) EXPECT_NE(op.kind, OpKind::BatchNormBackward);
}

// x reaches the result beside its normalisation too, as in a residual block.
TEST(BatchNorm, AddsItsGradientToThatOfOtherReadersOfX) {
  OpCase c;
  const TensorId w = c.parameter("w", {kBatch, kChannel}), gamma = c.parameter("gamma", {kChannel});
  const TensorId x = c.add(OpKind::Gelu, {w});
  const TensorId sums = c.add(OpKind::BatchSums, {x}, {}, "sums");
  const TensorId y =
      c.add(OpKind::BatchNorm, {x, sums, gamma, c.parameter("beta", {kChannel})}, {.scale = 0.25, .epsilon = kEpsilon});
  c.add(OpKind::Add, {x, y});
  expect_true_vjp(c);
}

// The backward of a recomputed block reads the copies, and they are the same numbers.
TEST(Normalisations, OfARecomputedBlockHaveTheSameGradients) {
  Values gradients[2];
  for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
    OpCase c;
    const TensorId w = c.parameter("w", {kBatch, kChannel}), gamma = c.input("gamma", {kChannel});
    c.graph.current_block = 0;
    const TensorId x = c.add(OpKind::Gelu, {w});
    const TensorId sums = c.add(OpKind::BatchSums, {x}, {}, "sums");
    const TensorId y = c.add(OpKind::BatchNorm, {x, sums, gamma, gamma}, {.scale = 0.25, .epsilon = kEpsilon});
    const TensorId root = c.add(OpKind::RmsNorm, {y, gamma}, {.epsilon = kEpsilon});
    const TensorId last = c.add(OpKind::Softmax, {root}, {}, "last");
    c.graph.current_block = -1;
    append_backward(c.graph, last, c.input("dy", {kBatch, kChannel}), recompute);
    for (const Op& op : c.graph.ops()) {
      if (recompute == Recompute::None || op.phase == Phase::Forward) continue;
      for (const TensorId input : op.inputs) {
        const std::optional<OpId> maker = c.graph.tensor(input).producer;
        EXPECT_TRUE(!maker || c.graph.op(*maker).phase == Phase::Backward) << op.name << " reads what is recomputed";
      }
    }
    GraphInterpreter interpreter(c.graph, 0, DType::F64);
    op_bench::load(c, interpreter);
    for (const Phase phase : {Phase::Forward, Phase::Backward}) interpreter.run(phase);
    gradients[recompute == Recompute::Full] = op_bench::gradient(c.graph, w, interpreter);
  }
  EXPECT_GT(op_bench::largest(gradients[0]), 1e-6);
  EXPECT_EQ(gradients[0], gradients[1]);
}

// --- refusals ---

struct Refusals : testing::Test {
  Graph graph;
  TensorId x = graph.add_tensor("x", TensorKind::Input, DType::F32, {{"batch", 2}, {"w", 5}, {"channel", 3}});
  TensorId gamma = graph.add_tensor("gamma", TensorKind::Input, DType::F32, {{"channel", 3}});
  TensorId other = graph.add_tensor("other", TensorKind::Input, DType::F32, {{"w", 5}});
  TensorId sums = graph.add_op(OpKind::BatchSums, "sums", {x})[0];
  std::string refused(OpKind kind, const std::vector<TensorId>& inputs, const Attributes& attributes = {}) {
    return refusal([&] { graph.add_op(kind, "y", inputs, attributes); });
  }
};
const char* const kGivenX = "it was given x 'x' f32 (batch=2, w=5, channel=3)";

TEST_F(Refusals, OfParametersThatAreNotARow) {
  EXPECT_EQ(refused(OpKind::RmsNorm, {x, other}),
            fmt::format("op 'y' (rms_norm): gamma must have the last dimensions of x; {}, gamma 'other' f32 (w=5).",
                        kGivenX));
  EXPECT_EQ(refused(OpKind::LayerNorm, {x, gamma, other}),
            fmt::format("op 'y' (layer_norm): gamma and beta must have the same dimensions; {}, gamma 'gamma' f32 "
                        "(channel=3), beta 'other' f32 (w=5).",
                        kGivenX));
  EXPECT_NE(refused(OpKind::BatchNorm, {x, sums, gamma, other}, {.scale = 0.1})
                .find("(batch_norm): beta must have the last dimension of x"),
            std::string::npos);
}

TEST_F(Refusals, OfGradientsOfAnotherShape) {
  EXPECT_NE(refused(OpKind::RmsNormBackward, {x, gamma, gamma}).find("x and dy must have the same dimensions"),
            std::string::npos);
  EXPECT_NE(refused(OpKind::RmsNormParamBackward, {x, gamma}).find("x and dy must have the same dimensions"),
            std::string::npos);
  EXPECT_NE(refused(OpKind::SoftmaxBackward, {x, gamma}).find("y and dy must have the same dimensions"),
            std::string::npos);
  EXPECT_NE(refused(OpKind::BatchNormParamBackward, {x, sums, gamma}, {.scale = 0.1})
                .find("x and dy must have the same dimensions"),
            std::string::npos);
}

TEST_F(Refusals, OfScalarsAndOfRowsWithoutABatch) {
  const TensorId scalar = graph.add_tensor("scalar", TensorKind::Input, DType::F32, {});
  EXPECT_NE(refused(OpKind::Softmax, {scalar}).find("it needs a dimension to normalise"), std::string::npos);
  EXPECT_NE(refused(OpKind::BatchSums, {gamma}).find("for the batch and one for the channels"), std::string::npos);
  EXPECT_NE(refused(OpKind::BatchSums, {sums}).find("x must not have a dimension 'moment'"), std::string::npos);
}

TEST_F(Refusals, OfSumsAndSharesThatAreNotThoseOfX) {
  EXPECT_EQ(
      refused(OpKind::BatchNorm, {x, sums, gamma, gamma}, {.scale = 0.5}),
      fmt::format("op 'y' (batch_norm): its scale must be 1/10, one part in the elements of a channel, and is 0.5; "
                  "{}, sums 'sums' f32 (moment=2, channel=3), gamma 'gamma' f32 (channel=3), beta 'gamma' f32 "
                  "(channel=3).",
                  kGivenX));
  EXPECT_NE(refused(OpKind::BatchNorm, {x, gamma, gamma, gamma}, {.scale = 0.1})
                .find("sums must be (moment=2, the last dimension of x)"),
            std::string::npos);
}

TEST_F(Refusals, OfADerivativeThroughTheSumsOfAnother) {
  const TensorId w = graph.add_tensor("w", TensorKind::Parameter, DType::F32, {{"batch", 2}, {"w", 5}, {"channel", 3}});
  const TensorId y = graph.add_op(OpKind::BatchNorm, "y", {w, sums, gamma, gamma}, {.scale = 0.1})[0];
  const TensorId dy = graph.add_tensor("dy", TensorKind::Input, DType::F32, graph.tensor(y).dims);
  EXPECT_EQ(refusal([&] { append_backward(graph, y, dy, Recompute::None); }),
            "op 'y' (batch_norm): cannot be differentiated, because its sums are not those of its x; make them from "
            "'w'.");
}

}  // namespace
}  // namespace meshwright::ops_normalization_test
