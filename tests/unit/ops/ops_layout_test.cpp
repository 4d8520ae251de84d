// SPDX-License-Identifier: Apache-2.0
// Layout ops: what they accept, which axes they share, their values against plain loops, their derivatives, and every
// way to split them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "tests/op_fixture.h"

namespace meshwright::ops_layout_test {
namespace {

using Dims = std::vector<Dim>;

OpCase one_op(OpKind kind, const Dims& x, const Attributes& attributes) {
  OpCase c;
  c.add(kind, {c.parameter("x", x)}, attributes);
  return c;
}
OpCase reshaped(const Dims& from, const Dims& to) { return one_op(OpKind::Reshape, from, {.result_dims = to}); }

Values of_x(const OpCase& c) { return c.values.at(TensorId(0)); }

std::string refused(OpKind kind, const Dims& x, const Attributes& attributes) {
  return refusal([&] { (void)one_op(kind, x, attributes); });
}
void expect_contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

// "batch|tokens=4 embed=8": the splittable axes.
std::string splittable_axes(const Graph& graph, const Op& op) {
  std::string text;
  for (const IterationAxis& axis : iteration_space(graph, op).axes)
    if (axis.splittable) text += fmt::format("{}{}={}", text.empty() ? "" : " ", axis.name, axis.size);
  return text;
}
std::string splittable_axes(const OpCase& c) { return splittable_axes(c.graph, c.graph.ops().back()); }

// --- Reshape ---

struct Regrouped {
  const char* name;
  Dims from, to;
  const char* axes;
};
void PrintTo(const Regrouped& row, std::ostream* out) { *out << row.name; }

const std::vector<Regrouped> kRegrouped = {
    {"Merge", {{"batch", 4}, {"seq", 6}, {"embed", 8}}, {{"tokens", 24}, {"embed", 8}}, "batch|tokens=4 embed=8"},
    {"Split", {{"batch", 2}, {"embed", 12}}, {{"batch", 2}, {"heads", 4}, {"d", 3}}, "batch=2 embed|heads=4"},
    {"Rename", {{"seq", 8}, {"embed", 4}}, {{"keys", 8}, {"embed", 4}}, "keys|seq=8 embed=4"},
    {"ThreeToTwo", {{"a", 4}, {"b", 6}, {"c", 10}}, {{"d", 8}, {"e", 30}}, "a|d=4"},
    {"TwoGroups", {{"a", 6}, {"b", 4}, {"c", 4}}, {{"d", 2}, {"e", 12}, {"f", 4}}, "a|d=2 c|f=4"},
    {"OuterSizesDifferBoth", {{"a", 4}, {"b", 9}}, {{"c", 6}, {"d", 6}}, "a|c=2"},
    {"NothingInCommon", {{"a", 3}, {"b", 8}, {"c", 2}}, {{"d", 8}, {"e", 3}, {"f", 2}}, "c|f=2"},
    {"IntoTheOuterName", {{"heads", 4}, {"d", 3}}, {{"heads", 12}}, "heads=4"},
    {"IntoTheInnerName", {{"a", 2}, {"b", 3}}, {{"b", 6}}, "a|b=2"},
    {"InnerNameStays", {{"a", 4}, {"b", 6}}, {{"c", 8}, {"b", 3}}, "a|c=4"},
    {"AddOnes", {{"a", 4}}, {{"one", 1}, {"a", 4}, {"two", 1}}, "a=4"},
    {"DropOnes", {{"one", 1}, {"a", 4}, {"two", 1}, {"b", 2}}, {{"a", 4}, {"b", 2}}, "a=4 b=2"},
    {"OnesStay", {{"one", 1}, {"a", 4}}, {{"one", 1}, {"b", 4}}, "a|b=4"},
    {"NamesSwap", {{"a", 4}, {"b", 2}}, {{"b", 4}, {"a", 2}}, "a|b=4 a|b'=2"},
};

struct Reshape : testing::TestWithParam<Regrouped> {};

TEST_P(Reshape, SharesTheOutermostAxisOfEachRegrouping) {
  EXPECT_EQ(splittable_axes(reshaped(GetParam().from, GetParam().to)), GetParam().axes);
}
TEST_P(Reshape, HasTheSameAxesInBothDirections) {
  EXPECT_EQ(splittable_axes(reshaped(GetParam().to, GetParam().from)), GetParam().axes);
}
TEST_P(Reshape, KeepsTheOrderOfElements) {
  const OpCase c = reshaped(GetParam().from, GetParam().to);
  EXPECT_EQ(computed(c), of_x(c));
}
TEST_P(Reshape, ShardByShardIsTheWhole) { expect_sharded_equals_whole(reshaped(GetParam().from, GetParam().to), 0.0); }
TEST_P(Reshape, HasItsDerivative) { expect_true_vjp(reshaped(GetParam().from, GetParam().to)); }
INSTANTIATE_TEST_SUITE_P(Regroupings, Reshape, testing::ValuesIn(kRegrouped),
                         [](const auto& row) { return row.param.name; });

TEST(ReshapeOfOneElement, HasNoAxisToSplit) {
  EXPECT_EQ(splittable_axes(reshaped({{"a", 1}}, {})), "");
  EXPECT_EQ(splittable_axes(reshaped({}, {{"a", 1}, {"b", 1}})), "");
  const OpCase c = reshaped({}, {{"a", 1}});
  EXPECT_EQ(computed(c), of_x(c));
}

// batch 4 and tokens 24: two devices get 2 and 12, four get 1 and 6; six would divide tokens, but not batch.
TEST(ReshapeShards, HaveTheirPartOfEveryDimension) {
  const OpCase c = reshaped({{"batch", 4}, {"seq", 6}}, {{"tokens", 24}});
  const OpCallPlan half = plan_op(c.graph, c.graph.ops()[0], {2, 6});
  EXPECT_EQ(half.input_elements(0), 12);
  EXPECT_EQ(half.output_elements(0), 12);
  EXPECT_EQ(plan_op(c.graph, c.graph.ops()[0], {1, 6}).output_elements(0), 6);
}

// --- values ---

// Element by element: `at(index)` of every index of `dims`, row-major.
template <class At>
Values tabulated(const Dims& dims, At at) {
  Values values;
  std::vector<std::int64_t> index(dims.size(), 0);
  for (;;) {
    values.push_back(at(index));
    std::size_t d = dims.size();
    for (; d > 0 && ++index[d - 1] == dims[d - 1].size; --d) index[d - 1] = 0;
    if (d == 0) return values;
  }
}
double at(const Values& x, const Dims& dims, const std::vector<std::int64_t>& index) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) offset = offset * dims[d].size + index[d];
  return x[static_cast<std::size_t>(offset)];
}

const Dims kX = {{"a", 4}, {"b", 3}, {"c", 2}};

TEST(Transpose, ExchangesIndices) {
  const OpCase c = one_op(OpKind::Transpose, kX, {.result_names = {"c", "a", "b"}});
  const Dims turned = {{"c", 2}, {"a", 4}, {"b", 3}};
  EXPECT_EQ(c.graph.tensor(c.result()).dims, turned);
  EXPECT_EQ(computed(c), tabulated(turned, [&](const auto& i) { return at(of_x(c), kX, {i[1], i[2], i[0]}); }));
}

TEST(Slice, TakesFromItsStart) {
  const Dims middle = {{"a", 4}, {"part", 2}, {"c", 2}};
  const OpCase c = one_op(OpKind::Slice, kX, {.result_dims = middle, .start = 1});
  EXPECT_EQ(computed(c), tabulated(middle, [&](const auto& i) { return at(of_x(c), kX, {i[0], i[1] + 1, i[2]}); }));
}

TEST(Pad, PutsItsValueAround) {
  const Dims wide = {{"a", 4}, {"wide", 6}, {"c", 2}};
  const OpCase c = one_op(OpKind::Pad, kX, {.result_dims = wide, .start = 2, .value = 7.5});
  EXPECT_EQ(computed(c), tabulated(wide, [&](const auto& i) {
              return i[1] < 2 || i[1] > 4 ? 7.5 : at(of_x(c), kX, {i[0], i[1] - 2, i[2]});
            }));
}

// Pieces of 3, 2 and 2 along the second dimension; two of one name are one axis.
OpCase three_pieces() {
  OpCase c;
  const TensorId x = c.parameter("x", kX);
  const TensorId y = c.parameter("y", {{"a", 4}, {"more", 2}, {"c", 2}});
  const TensorId z = c.parameter("z", {{"a", 4}, {"more", 2}, {"c", 2}});
  c.add(OpKind::Concat, {x, y, z}, {.result_dims = {{"a", 4}, {"all", 7}, {"c", 2}}});
  return c;
}

TEST(Concat, PutsPiecesSideBySide) {
  const OpCase c = three_pieces();
  const auto piece = [&](int tensor, const std::vector<std::int64_t>& index) {
    return at(c.values.at(TensorId(tensor)), c.graph.tensor(TensorId(tensor)).dims, index);
  };
  EXPECT_EQ(computed(c), tabulated({{"a", 4}, {"all", 7}, {"c", 2}}, [&](const auto& i) {
              if (i[1] < 3) return piece(0, i);
              return i[1] < 5 ? piece(1, {i[0], i[1] - 3, i[2]}) : piece(2, {i[0], i[1] - 5, i[2]});
            }));
}

TEST(Broadcast, RepeatsAlongNewDimensions) {
  const Dims out = {{"n", 2}, {"a", 4}, {"m", 3}, {"b", 2}, {"k", 5}};
  const OpCase c = one_op(OpKind::Broadcast, {{"a", 4}, {"b", 2}}, {.result_dims = out});
  EXPECT_EQ(computed(c), tabulated(out, [&](const auto& i) {
              return at(of_x(c), {{"a", 4}, {"b", 2}}, {i[1], i[3]});
            }));
}

// 1 + 2 + ... + 24 in all; by pairs of the last dimension 1 + 2, 3 + 4, ...; times a half.
TEST(ReduceSum, AddsAndScales) {
  OpCase c;
  const TensorId x = c.parameter("x", kX);
  for (int i = 0; i < 24; ++i) c.values[x][static_cast<std::size_t>(i)] = i + 1;
  const TensorId all = c.add(OpKind::ReduceSum, {x});
  const TensorId pairs = c.add(OpKind::ReduceSum, {x}, {.result_names = {"a", "b"}, .scale = 0.5});
  EXPECT_EQ(computed(c, all), Values{300});
  EXPECT_EQ(computed(c, pairs), (Values{1.5, 3.5, 5.5, 7.5, 9.5, 11.5, 13.5, 15.5, 17.5, 19.5, 21.5, 23.5}));
}

TEST(ReduceMax, GivesTheGradientToEveryMaximum) {
  OpCase c;
  const TensorId x = c.input("x", {{"a", 2}, {"b", 3}}), y = c.input("y", {{"a", 2}}), dy = c.input("dy", {{"a", 2}});
  c.values[x] = {-5, -3, -3, 4, 2, 0};
  c.values[y] = {-3, 4};
  c.values[dy] = {10, 20};
  const TensorId largest = c.add(OpKind::ReduceMax, {x}, {.result_names = {"a"}});
  c.add(OpKind::ReduceMaxBackward, {x, y, dy});
  EXPECT_EQ(computed(c, largest), (Values{-3, 4}));
  EXPECT_EQ(computed(c), (Values{0, 10, 10, 20, 0, 0}));
}

// --- every op: derivatives, splits, work ---

std::vector<OpCase> all_ops() {
  std::vector<OpCase> cases;
  const Dims x = {{"a", 4}, {"b", 6}, {"c", 8}};
  const auto add = [&](OpKind kind, const Attributes& attributes) { cases.push_back(one_op(kind, x, attributes)); };
  add(OpKind::Transpose, {.result_names = {"c", "b", "a"}});
  add(OpKind::Transpose, {.result_names = {"b", "a", "c"}});
  add(OpKind::Slice, {.result_dims = {{"a", 4}, {"part", 2}, {"c", 8}}, .start = 3});
  add(OpKind::Slice, {.result_dims = {{"part", 4}, {"b", 6}, {"c", 8}}});
  add(OpKind::Pad, {.result_dims = {{"a", 4}, {"b", 6}, {"wide", 11}}, .start = 1, .value = -2.0});
  add(OpKind::Broadcast, {.result_dims = {{"n", 2}, {"a", 4}, {"b", 6}, {"m", 4}, {"c", 8}}});
  add(OpKind::ReduceSum, {.result_names = {"a", "c"}});
  add(OpKind::ReduceSum, {.result_names = {}, .scale = 0.25});
  add(OpKind::ReduceMax, {.result_names = {"b"}});
  add(OpKind::ReduceMax, {.result_names = {"a", "c"}});
  add(OpKind::ReduceMax, {});
  cases.push_back(three_pieces());
  OpCase twice;
  const TensorId both = twice.parameter("x", {{"a", 4}, {"b", 2}});
  twice.add(OpKind::Concat, {both, both}, {.result_dims = {{"a", 4}, {"all", 4}}});
  cases.push_back(twice);
  return cases;
}

TEST(LayoutOps, HaveTheirDerivatives) {
  for (const OpCase& c : all_ops()) {
    SCOPED_TRACE(c.graph.ops().back().name);
    expect_true_vjp(c);
  }
}

TEST(LayoutOps, ShardByShardAreTheWhole) {
  for (const OpCase& c : all_ops()) {
    SCOPED_TRACE(c.graph.ops().back().name);
    expect_sharded_equals_whole(c);
  }
}

TEST(LayoutOps, SplitWhatAllTheirTensorsHave) {
  EXPECT_EQ(splittable_axes(one_op(OpKind::Slice, kX, {.result_dims = {{"a", 4}, {"part", 3}, {"c", 2}}})), "a=4 c=2");
  EXPECT_EQ(splittable_axes(one_op(OpKind::Pad, kX, {.result_dims = {{"more", 8}, {"b", 3}, {"c", 2}}})), "b=3 c=2");
  EXPECT_EQ(splittable_axes(three_pieces()), "a=4 c=2");
  EXPECT_EQ(splittable_axes(one_op(OpKind::Transpose, kX, {.result_names = {"b", "c", "a"}})), "a=4 b=3 c=2");
}

TEST(LayoutOps, CountNoFlops) {
  for (const OpCase& c : all_ops()) EXPECT_EQ(graph_flops(c.graph), Flops(0.0)) << c.graph.ops().back().name;
}

TEST(LayoutOps, MoveIntegers) {
  OpCase c;
  const Values values = {1, -2, 3, 2000000001, 5, -6, 7, 8};
  const TensorId x = c.integers("x", {{"a", 2}, {"b", 4}}, values);
  const TensorId flat = c.add(OpKind::Reshape, {x}, {.result_dims = {{"ab", 8}}});
  const TensorId turned = c.add(OpKind::Transpose, {x}, {.result_names = {"b", "a"}});
  const TensorId part = c.add(OpKind::Slice, {x}, {.result_dims = {{"a", 2}, {"p", 1}}, .start = 3});
  const TensorId both = c.add(OpKind::Concat, {part, x}, {.result_dims = {{"a", 2}, {"all", 5}}});
  const TensorId wide = c.add(OpKind::Pad, {part}, {.result_dims = {{"a", 2}, {"q", 2}}, .start = 1, .value = -1});
  const TensorId rows = c.add(OpKind::Broadcast, {part}, {.result_dims = {{"n", 2}, {"a", 2}, {"p", 1}}});
  for (const DType precision : {DType::F64, DType::F32}) {
    const auto result = [&](TensorId id) {
      GraphInterpreter interpreter(c.graph, 0, precision);
      op_bench::load(c, interpreter);
      interpreter.run(Phase::Forward);
      return interpreter.get(id);
    };
    EXPECT_EQ(result(flat), values);
    EXPECT_EQ(result(turned), (Values{1, 5, -2, -6, 3, 7, 2000000001, 8}));
    EXPECT_EQ(result(part), (Values{2000000001, 8}));
    EXPECT_EQ(result(both), (Values{2000000001, 1, -2, 3, 2000000001, 8, 5, -6, 7, 8}));
    EXPECT_EQ(result(wide), (Values{-1, 2000000001, -1, 8}));
    EXPECT_EQ(result(rows), (Values{2000000001, 8, 2000000001, 8}));
  }
  EXPECT_EQ(c.graph.tensor(rows).dtype, DType::I32);
  expect_sharded_equals_whole(c, 0.0);
}

// --- refusals ---

TEST(LayoutOps, NameTheOpAndItsDimensionsWhenTheyRefuse) {
  expect_contains(refused(OpKind::Reshape, kX, {.result_dims = {{"d", 23}}}),
                  {"'reshape0' (reshape)", "as many elements", "(d=23)", "(a=4, b=3, c=2)"});
  for (const auto& names : std::vector<std::vector<std::string>>{{"a", "b"}, {"a", "b", "b"}, {"a", "b", "d"}})
    expect_contains(refused(OpKind::Transpose, kX, {.result_names = names}),
                    {"(transpose)", fmt::format("({})", fmt::join(names, ", ")), "(a=4, b=3, c=2)"});
  for (const auto& names : std::vector<std::vector<std::string>>{{"b", "a"}, {"a", "a"}, {"d"}})
    for (const OpKind kind : {OpKind::ReduceSum, OpKind::ReduceMax})
      expect_contains(refused(kind, kX, {.result_names = names}), {name_of(kind), "in their order", "(a=4, b=3, c=2)"});
  for (const Dims& wrong :
       {Dims{{"b", 3}, {"a", 4}, {"c", 2}}, Dims{{"a", 4}, {"b", 3}}, Dims{{"a", 4}, {"b", 3}, {"c", 3}}})
    expect_contains(refused(OpKind::Broadcast, kX, {.result_dims = wrong}),
                    {"(broadcast)", to_text(wrong), "in order", "(a=4, b=3, c=2)"});
}

TEST(LayoutOps, RefuseToChangeMoreOrLessThanOneDimension) {
  const std::vector<Dims> wrong = {kX,
                                   {{"a", 4}, {"d", 3}, {"e", 2}},
                                   {{"a", 4}, {"d", 3}},
                                   {{"a", 2}, {"d", 3}, {"c", 2}},
                                   {{"a", 4}, {"c", 3}, {"b", 2}}};
  for (const OpKind kind : {OpKind::Slice, OpKind::Pad, OpKind::Concat})
    for (const Dims& result : wrong) {
      OpCase c;
      std::vector<TensorId> inputs = {c.parameter("x", kX)};
      if (kind == OpKind::Concat) inputs.push_back(c.parameter("y", {{"a", 4}, {"e", 3}, {"c", 2}}));
      expect_contains(refusal([&] { c.add(kind, inputs, {.result_dims = result}); }),
                      {name_of(kind), to_text(result), "another name", "(a=4, b=3, c=2)"});
    }
}

TEST(Slice, RefusesToLeaveItsOperand) {
  const Dims two = {{"a", 4}, {"part", 2}, {"c", 2}};
  for (const std::int64_t start : {-1, 2})
    expect_contains(refused(OpKind::Slice, kX, {.result_dims = two, .start = start}),
                    {"'slice0' (slice)", fmt::format("2 elements of 'part' from index {}", start), "3 of 'b'"});
  expect_contains(refused(OpKind::Slice, kX, {.result_dims = {{"a", 4}, {"part", 4}, {"c", 2}}}), {"4 elements"});
}

TEST(Pad, RefusesToLeaveItsResultAndToPadIntegersWithFractions) {
  const Dims four = {{"a", 4}, {"wide", 4}, {"c", 2}};
  for (const std::int64_t start : {-1, 2})
    expect_contains(refused(OpKind::Pad, kX, {.result_dims = four, .start = start}),
                    {"'pad0' (pad)", fmt::format("3 elements of 'b' from index {}", start), "4 of 'wide'"});
  OpCase c;
  const TensorId x = c.integers("x", {{"a", 2}}, 0, 3);
  for (const double value : {0.5, 1e10, std::nan("")})
    expect_contains(refusal([&] {
                      c.add(OpKind::Pad, {x}, {.result_dims = {{"b", 3}}, .value = value});
                    }),
                    {"(pad)", "whole number", "(b=3)"});
}

TEST(Concat, RefusesPiecesThatDoNotFit) {
  const auto refused_piece = [](const Dims& piece, const Dims& result) {
    OpCase c;
    const std::vector<TensorId> inputs = {c.parameter("x", kX), c.parameter("y", piece)};
    return refusal([&] { c.add(OpKind::Concat, inputs, {.result_dims = result}); });
  };
  const Dims five = {{"a", 4}, {"all", 5}, {"c", 2}};
  expect_contains(refused_piece({{"a", 4}, {"more", 3}, {"c", 2}}, five), {"(concat)", "6 elements", "'all'"});
  expect_contains(refused_piece({{"a", 4}, {"b", 2}, {"c", 2}}, five), {"(concat)", "'b' must have one size"});
  expect_contains(refused_piece({{"a", 4}, {"all", 2}, {"c", 2}}, five), {"(concat)", "of 'y' but for one"});
  expect_contains(refused_piece({{"d", 4}, {"all", 5}, {"c", 2}}, five), {"(concat)", "change the dimension 'all'"});
  OpCase c;
  const std::vector<TensorId> mixed = {c.parameter("x", kX), c.integers("y", {{"a", 4}, {"n", 2}, {"c", 2}}, 0, 2)};
  expect_contains(refusal([&] { c.add(OpKind::Concat, mixed, {.result_dims = five}); }), {"(concat)", "one type"});
  expect_contains(refusal([&] { c.add(OpKind::Concat, {mixed[0]}, {.result_dims = five}); }),
                  {"(concat)", "1 operands"});
}

TEST(LayoutOps, RefuseToReduceIntegers) {
  OpCase c;
  const TensorId x = c.integers("x", {{"a", 4}}, 0, 3), y = c.parameter("y", {{"a", 3}}), z = c.parameter("z", {});
  for (const OpKind kind : {OpKind::ReduceSum, OpKind::ReduceMax})
    expect_contains(refusal([&] { c.add(kind, {x}); }), {name_of(kind), "floating-point", "(a=4)"});
  const TensorId wide = c.parameter("wide", {{"a", 4}});
  expect_contains(refusal([&] { c.add(OpKind::ReduceMaxBackward, {wide, y, z}); }), {"same dimensions", "(a=3)"});
  expect_contains(refusal([&] { c.add(OpKind::ReduceMaxBackward, {wide, y, y}); }), {"in order", "(a=3)"});
}

}  // namespace
}  // namespace meshwright::ops_layout_test
