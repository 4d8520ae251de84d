// SPDX-License-Identifier: Apache-2.0
// Losses and the pieces the cross entropy is made of.
#include <gtest/gtest.h>

#include "tests/op_fixture.h"

namespace meshwright::ops_loss_test {
namespace {

const Dim kBatch{"batch", 4}, kSeq{"seq", 3}, kVocab{"vocab", 8};

struct CrossEntropy {
  OpCase c;
  TensorId logits, labels, max, sum_exp, picked;
  std::optional<TensorId> weights, total;
};

// Logits of the kind a model makes, and the four ops of the loss. Of the weights every third is 0.
CrossEntropy cross_entropy(double scale, bool weighted) {
  OpCase c;
  const TensorId logits = c.parameter("logits", {kBatch, kSeq, kVocab}, -3.0, 3.0);
  const TensorId labels = c.integers("labels", {kBatch, kSeq}, 0, kVocab.size);
  const TensorId max = c.add(OpKind::RowMax, {logits}, {}, "max");
  const TensorId sum_exp = c.add(OpKind::SumExp, {logits, max}, {}, "sum_exp");
  const TensorId picked = c.add(OpKind::PickLabel, {logits, labels}, {}, "picked");
  std::vector<TensorId> terms = {max, sum_exp, picked};
  if (weighted) {
    terms.push_back(c.input("weights", {kBatch, kSeq}, 0.0, 2.0));
    for (std::size_t i = 0; i < 12; i += 3) c.values[terms[3]][i] = 0.0;
    terms.push_back(c.input("total", {}));
    c.values[terms[4]] = {7.5};
  }
  c.add(OpKind::CrossEntropyLoss, terms, {.scale = scale}, "loss");
  CrossEntropy made{std::move(c), logits, labels, max, sum_exp, picked, {}, {}};
  if (weighted) made.weights = terms[3], made.total = terms[4];
  return made;
}

// -log softmax(row)[label], by its definition.
double cross_entropy_of(const CrossEntropy& m, std::size_t row) {
  const Values& x = m.c.values.at(m.logits);
  const std::size_t width = 8, begin = row * width;
  double sum = 0.0;
  for (std::size_t i = 0; i < width; ++i) sum += std::exp(x[begin + i]);
  return std::log(sum) - x[begin + static_cast<std::size_t>(m.c.values.at(m.labels)[row])];
}

TEST(CrossEntropy, IsTheSumOfTheNegativeLogarithms) {
  const CrossEntropy m = cross_entropy(0.25, false);
  double expected = 0.0;
  for (std::size_t row = 0; row < 12; ++row) expected += 0.25 * cross_entropy_of(m, row);
  EXPECT_NEAR(computed(m.c)[0], expected, 1e-14 * expected);
  EXPECT_NEAR(computed(m.c, m.c.result(), DType::F32)[0], expected, 1e-6 * expected);
}

TEST(CrossEntropy, IsWeightedByTokensAndDividedByTheirTotal) {
  const CrossEntropy m = cross_entropy(0.5, true);
  double expected = 0.0;
  for (std::size_t row = 0; row < 12; ++row)
    expected += 0.5 * m.c.values.at(*m.weights)[row] * cross_entropy_of(m, row) / 7.5;
  EXPECT_NEAR(computed(m.c)[0], expected, 1e-14 * expected);
  EXPECT_NEAR(computed(m.c, m.c.result(), DType::F32)[0], expected, 1e-6 * expected);
}

TEST(CrossEntropy, OfATokenWithoutWeightIsNothingWhateverItsLabel) {
  CrossEntropy m = cross_entropy(1.0, true);
  const double before = computed(m.c)[0];
  m.c.values[m.labels][3] = -100.0;  // the label by which data sets mark padding
  EXPECT_EQ(computed(m.c)[0], before);
  const OpCase backward = op_bench::with_backward(m.c);
  GraphInterpreter interpreter(backward.graph, 0, DType::F64);
  op_bench::load(backward, interpreter);
  for (const Phase phase : {Phase::Forward, Phase::Backward}) interpreter.run(phase);
  const Values gradient = op_bench::gradient(backward.graph, m.logits, interpreter);
  for (std::size_t i = 0; i < gradient.size(); ++i) EXPECT_EQ(gradient[i] == 0.0, i / 8 % 3 == 0) << i;
}

TEST(CrossEntropy, HasTrueGradients) {
  expect_true_vjp(cross_entropy(0.25, false).c);
  expect_true_vjp(cross_entropy(0.25, true).c);
}

// The vocabulary is split in the maximum, the sum, the label and the gradient; the loss's own names are batch and seq:
// {2} batch, {4} batch, {2,2} each axis on batch or not.
TEST(CrossEntropy, CanBeSplitAlongTokensAndVocabulary) {
  EXPECT_EQ(expect_sharded_equals_whole(cross_entropy(0.25, false).c), 1 + 1 + 3);
  EXPECT_EQ(expect_sharded_equals_whole(cross_entropy(0.25, true).c), 1 + 1 + 3);
}

TEST(CrossEntropy, RefusesWeightsThatDoNotFit) {
  CrossEntropy m = cross_entropy(1.0, true);
  const auto refused = [&](std::vector<TensorId> terms) {
    return refusal([&] { m.c.add(OpKind::CrossEntropyLoss, std::move(terms), {}, "again"); });
  };
  EXPECT_EQ(refused({m.max, m.sum_exp, m.picked, *m.weights}),
            "op 'again' (cross_entropy_loss): weights and total must be given together; it was given max 'max' f64 "
            "(batch=4, seq=3), sum_exp 'sum_exp' f64 (batch=4, seq=3), picked 'picked' f64 (batch=4, seq=3), weights "
            "'weights' f64 (batch=4, seq=3).");
  EXPECT_NE(refused({m.max, m.sum_exp, m.picked, *m.total, *m.total})
                .find("picked and weights must have the same dimensions"),
            std::string::npos);
  EXPECT_NE(refused({m.max, m.sum_exp, m.picked, *m.weights, *m.weights}).find("total must be a scalar"),
            std::string::npos);
  EXPECT_NE(refused({m.max, m.sum_exp, m.picked, m.labels, *m.total}).find("one floating-point type"),
            std::string::npos);
}

TEST(CrossEntropy, RefusesWeightsThatAreTrained) {
  CrossEntropy m = cross_entropy(1.0, false);
  const TensorId weights = m.c.parameter("weights", {kBatch, kSeq}), total = m.c.input("total", {}, 1.0, 2.0);
  m.c.add(OpKind::CrossEntropyLoss, {m.max, m.sum_exp, m.picked, weights, total}, {}, "trained");
  EXPECT_EQ(refusal([&] { (void)op_bench::with_backward(m.c); }),
            "op 'trained' (cross_entropy_loss): its 'weights' depends on parameters; give the weights and their total "
            "as inputs.");
}

TEST(RowMax, PicksTheLargest) {
  OpCase c;
  const TensorId x = c.input("x", {{"row", 2}, {"column", 3}});
  c.values[x] = {-3, -1, -2, 5, 4, 6};
  c.add(OpKind::RowMax, {x});
  EXPECT_EQ(computed(c), (Values{-1, 6}));
  EXPECT_EQ(expect_sharded_equals_whole(c), 1 + 2);
}

TEST(LossPieces, RefuseRowsThatAreNotTheirs) {
  OpCase c;
  const TensorId x = c.input("x", {kBatch, kVocab}), rows = c.input("rows", {kSeq});
  const TensorId labels = c.integers("labels", {kSeq}, 0, 2);
  EXPECT_NE(refusal([&] {
              c.add(OpKind::SumExp, {x, rows});
            }).find("max must have the dimensions of x without its"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              c.add(OpKind::PickLabel, {x, labels});
            }).find("labels must have the dimensions of x"),
            std::string::npos);
  EXPECT_NE(refusal([&] { c.add(OpKind::PickLabel, {x, rows}); }).find("labels must be i32"), std::string::npos);
  EXPECT_NE(refusal([&] { c.add(OpKind::RowMax, {labels}); }).find("floating-point"), std::string::npos);
}

// --- squared error ---

OpCase squared_error() {
  OpCase c;
  const TensorId x = c.parameter("x", {kBatch, kVocab}), y = c.input("y", {kBatch, kVocab});
  c.add(OpKind::SquaredErrorLoss, {x, y}, {.scale = 0.5});
  return c;
}

TEST(SquaredError, IsTheScaledSumOfSquares) {
  OpCase c = squared_error();
  double expected = 0.0;
  for (std::size_t i = 0; i < 32; ++i) {
    const double d = c.values.at(TensorId(0))[i] - c.values.at(TensorId(1))[i];
    expected += 0.5 * d * d;
  }
  EXPECT_NEAR(computed(c)[0], expected, 1e-14 * expected);
  EXPECT_NEAR(computed(c, c.result(), DType::F32)[0], expected, 1e-6 * expected);
}

// {2}: 2 names, {4}: 2, {2,2}: 3 x 3 ways less the unsplit one.
TEST(SquaredError, HasATrueGradientAndCanBeSplit) {
  expect_true_vjp(squared_error());
  EXPECT_EQ(expect_sharded_equals_whole(squared_error()), 2 + 2 + 8);
}

}  // namespace
}  // namespace meshwright::ops_loss_test
