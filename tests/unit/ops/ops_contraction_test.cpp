// SPDX-License-Identifier: Apache-2.0
// Contractions, biases and table look-ups.
#include <gtest/gtest.h>

#include "tests/op_fixture.h"

namespace meshwright::ops_contraction_test {
namespace {

using Names = std::vector<std::string>;

// --- contractions ---

struct Layout {
  const char* name;
  std::vector<Dim> x, w;
  Names result;
};
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

OpCase contraction(const Layout& layout) {
  OpCase c;
  const TensorId x = c.parameter("x", layout.x), w = c.parameter("w", layout.w);
  c.add(OpKind::Contract, {x, w}, {.result_names = layout.result}, "y");
  return c;
}

const Dim kM{"m", 4}, kN{"n", 6}, kK{"k", 2}, kB{"b", 4}, kH{"h", 2}, kD{"d", 3}, kOdd{"odd", 3};

class Contractions : public testing::TestWithParam<Layout> {};

// The sum by its definition: over every index of every name.
TEST_P(Contractions, AreSumsOverTheNamesMissingInTheResult) {
  const OpCase c = contraction(GetParam());
  const Op& op = c.graph.ops().back();
  std::map<std::string, std::int64_t> at;
  for (const TensorId input : op.inputs)
    for (const Dim& dim : c.graph.tensor(input).dims) at[dim.name] = 0;
  std::map<std::string, std::int64_t> sizes;
  for (const TensorId input : op.inputs)
    for (const Dim& dim : c.graph.tensor(input).dims) sizes[dim.name] = dim.size;
  const auto position = [&](TensorId id) {
    std::int64_t index = 0;
    for (const Dim& dim : c.graph.tensor(id).dims) index = index * dim.size + at[dim.name];
    return static_cast<std::size_t>(index);
  };
  Values expected(static_cast<std::size_t>(c.graph.tensor(c.result()).elements()), 0.0);
  bool more = true;
  while (more) {
    expected[position(c.result())] +=
        c.values.at(op.inputs[0])[position(op.inputs[0])] * c.values.at(op.inputs[1])[position(op.inputs[1])];
    more = false;
    for (auto& [name, index] : at) {
      if (++index < sizes[name]) {
        more = true;
        break;
      }
      index = 0;
    }
  }
  const Values wide = computed(c), narrow = computed(c, c.result(), DType::F32);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(wide[i], expected[i], 1e-14) << i;
    EXPECT_NEAR(narrow[i], expected[i], 1e-6) << i;
  }
}

TEST_P(Contractions, HaveContractionsAsGradients) { expect_true_vjp(contraction(GetParam())); }

TEST_P(Contractions, CanBeSplitAlongEveryName) { expect_sharded_equals_whole(contraction(GetParam())); }

INSTANTIATE_TEST_SUITE_P(
    Layouts, Contractions,
    testing::Values(Layout{"xw", {kM, kK}, {kK, kN}, {"m", "n"}}, Layout{"xw_t", {kM, kK}, {kN, kK}, {"m", "n"}},
                    Layout{"x_t_w", {kK, kM}, {kK, kN}, {"m", "n"}}, Layout{"x_t_w_t", {kK, kM}, {kN, kK}, {"m", "n"}},
                    Layout{"result_t", {kM, kK}, {kK, kN}, {"n", "m"}},
                    Layout{"batched", {kB, kM, kK}, {kB, kK, kN}, {"b", "m", "n"}},
                    Layout{"batched_inside", {kM, kB, kK}, {kK, kB, kN}, {"m", "b", "n"}},
                    Layout{"batch_last", {kM, kK, kB}, {kK, kN, kB}, {"m", "n", "b"}},
                    Layout{"two_sums", {kM, kH, kD}, {kH, kD, kN}, {"m", "n"}},
                    Layout{"sums_apart", {kH, kM, kD}, {kD, kN, kH}, {"m", "n"}},
                    Layout{"heads", {kB, kM, kK}, {kK, kH, kD}, {"b", "m", "h", "d"}},
                    Layout{"outer", {kM}, {kN}, {"m", "n"}}, Layout{"inner", {kM, kB}, {kB, kM}, {}},
                    Layout{"odd", {kM, kOdd}, {kOdd, kN}, {"m", "n"}}),
    [](const auto& layout) { return layout.param.name; });

TEST(Contract, CountsTwoOperationsPerProduct) {
  const OpCase c = contraction({"", {kB, kM, kK}, {kB, kK, kN}, {"b", "m", "n"}});
  EXPECT_EQ(graph_flops(c.graph).si(), 2.0 * 4 * 4 * 2 * 6);
  EXPECT_EQ(graph_flops(op_bench::with_backward(c).graph).si(), 3 * 2.0 * 4 * 4 * 2 * 6);
}

TEST(Contract, RefusesNamesThatDoNotMeet) {
  const auto refused = [](const std::vector<Dim>& x, const std::vector<Dim>& w, const Names& result) {
    return refusal([&] { (void)contraction({"", x, w, result}); });
  };
  EXPECT_NE(refused({kM, kK}, {kK, kN}, {"m", "z"}).find("its result's dimension 'z' must be in an operand"),
            std::string::npos);
  EXPECT_NE(refused({kM, kK}, {kK, kN}, {"m"}).find("dimension 'n' is in one operand only"), std::string::npos);
  EXPECT_NE(refused({kM, kK}, {{"k", 3}, kN}, {"m", "n"}).find("dimension 'k' must have one size"), std::string::npos);
  EXPECT_NE(refused({kM, kK}, {kK, kN}, {"m", "m", "n"}).find("its result names (m, m, n) must differ"),
            std::string::npos);
  EXPECT_EQ(refused({kM, kK}, {{"k", 3}, kN}, {"m", "n"}),
            "op 'y' (contract): dimension 'k' must have one size in both operands; it was given x 'x' f64 (m=4, k=2), "
            "w 'w' f64 (k=3, n=6).");
}

// --- biases ---

OpCase bias(const std::vector<Dim>& x, const std::vector<Dim>& bias_dims, bool select) {
  OpCase c;
  const TensorId operand = c.parameter("x", x), addend = c.parameter("bias", bias_dims);
  c.add(OpKind::BiasAdd, {operand, addend}, {.bias_select = select}, "y");
  return c;
}

TEST(BiasAdd, AddsOverTheTrailingNames) {
  OpCase c = bias({{"a", 2}, {"b", 2}, {"c", 2}}, {{"b", 2}, {"c", 2}}, false);
  c.values[TensorId(0)] = {0, 1, 2, 3, 4, 5, 6, 7};
  c.values[TensorId(1)] = {10, 20, 30, 40};
  EXPECT_EQ(computed(c), (Values{10, 21, 32, 43, 14, 25, 36, 47}));
}

TEST(BiasAdd, SelectsIndexZeroOfTheNameBeforeItsOwn) {
  OpCase c = bias({{"a", 2}, {"b", 2}, {"c", 2}}, {{"c", 2}}, true);
  c.values[TensorId(0)] = {0, 1, 2, 3, 4, 5, 6, 7};
  c.values[TensorId(1)] = {10, 20};
  EXPECT_EQ(computed(c), (Values{10, 21, 2, 3, 14, 25, 6, 7}));
}

TEST(BiasAdd, HasTrueGradients) {
  expect_true_vjp(bias({kB, kM, kN}, {kN}, false));
  expect_true_vjp(bias({kB, kM, kN}, {kM, kN}, false));
  expect_true_vjp(bias({kB, kOdd, kM, kN}, {kM, kN}, true));
}

// {2}: 3 axes, {4}: b and m, {2,2}: 4 x 4 ways but for both on n (6 does not divide by 4), less the unsplit one.
TEST(BiasAdd, CanBeSplitAlongEveryNameButTheSelectedOne) {
  EXPECT_EQ(expect_sharded_equals_whole(bias({kB, kM, kN}, {kM, kN}, false)), 3 + 2 + 14);
  EXPECT_EQ(expect_sharded_equals_whole(bias({kB, kM, kN}, {kN}, true)), 2 + 1 + 7);
}

TEST(BiasAdd, RefusesABiasThatDoesNotTrail) {
  EXPECT_NE(refusal([] {
              (void)bias({kB, kM, kN}, {kM}, false);
            }).find("must have the trailing dimensions"),
            std::string::npos);
  EXPECT_NE(refusal([] { (void)bias({kN}, {kN}, true); }).find("a selecting bias needs a dimension before its own"),
            std::string::npos);
}

// --- table look-ups ---

OpCase look_up(std::int64_t vocab) {
  OpCase c;
  const TensorId ids = c.integers("ids", {kB, kOdd}, 0, vocab);
  c.add(OpKind::Embedding, {ids, c.parameter("table", {{"vocab", vocab}, kN})}, {}, "y");
  return c;
}

TEST(Embedding, TakesARowForEachId) {
  OpCase c;
  const TensorId ids = c.integers("ids", {{"a", 3}}, {2, 0, 2});
  const TensorId table = c.parameter("table", {{"vocab", 3}, {"embed", 2}});
  c.add(OpKind::Embedding, {ids, table});
  c.values[table] = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(computed(c), (Values{5, 6, 1, 2, 5, 6}));
}

TEST(Embedding, HasTrueGradients) { expect_true_vjp(look_up(5)); }

// {2}: b, vocab, n; {4}: b, vocab; {2,2}: 4 x 4 - both on n - none.
TEST(Embedding, CanBeSplitAlongTheVocabularyToo) { EXPECT_EQ(expect_sharded_equals_whole(look_up(8)), 3 + 2 + 14); }

TEST(Embedding, RefusesIdsThatAreNoIntegers) {
  OpCase c;
  const TensorId x = c.input("x", {kB}), table = c.parameter("table", {{"vocab", 4}, kN});
  EXPECT_NE(refusal([&] { c.add(OpKind::Embedding, {x, table}); }).find("ids must be i32"), std::string::npos);
  const TensorId shared = c.integers("shared", {{"vocab", 4}}, 0, 4);
  EXPECT_NE(refusal([&] {
              c.add(OpKind::Embedding, {shared, table});
            }).find("must not share dimension names"),
            std::string::npos);
}

}  // namespace
}  // namespace meshwright::ops_contraction_test
