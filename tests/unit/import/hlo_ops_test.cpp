// SPDX-License-Identifier: Apache-2.0
// Single operations of HLO text, held against numbers that decode by eye.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "core/base/errors.h"
#include "core/graph/import/model_file.h"
#include "executor/check/graph_interpreter.h"
#include "tests/refusal.h"
#include "tests/unit/import/hlo_parts.h"

namespace meshwright::hlo_ops_test {
namespace {

using Numbers = std::vector<double>;

// What the module makes of x = 1, 2, 3, ... before a product with the identity `w` gives its result. Other arguments
// are `given`.
Numbers result_of(const std::string& text, std::int64_t batch, const std::map<std::string, Numbers>& given = {}) {
  const Graph graph = build_training_graph(read_model_bytes(text, "m.hlo", {}), {.batch = batch, .dtype = DType::F64});
  GraphInterpreter interpreter(graph, 1, DType::F64);
  interpreter.load_inputs(0, 0);
  for (const Tensor& tensor : graph.tensors()) {
    Numbers values(static_cast<std::size_t>(tensor.elements()), 0.0);
    if (const auto known = given.find(tensor.name); known != given.end())
      values = known->second;
    else if (tensor.name == "x")
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i + 1);
    else if (tensor.name == "w")
      for (std::size_t i = 0; i < values.size(); i += static_cast<std::size_t>(tensor.dims[1].size) + 1)
        values[i] = 1.0;
    else
      continue;
    interpreter.set(tensor.id, values);
  }
  interpreter.run(Phase::Forward);
  for (const Op& op : graph.ops())
    if (op.kind == OpKind::SquaredErrorLoss || op.kind == OpKind::PickLabel) return interpreter.get(op.inputs[0]);
  ADD_FAILURE() << "no loss";
  return {};
}

// Sums of 2 neighbours of 1, 2, 3, with a zero before them: 0 + 1, 1 + 2, 2 + 3.
std::string pooled(const std::string& rest) {
  return kHloAdd + R"(ENTRY main {
  w = f32[3,3] parameter(0)
  x = f32[1,3,1,1] parameter(1)
  zero = f32[] constant(0)
  sums = f32[1,3,1,1] reduce-window(x, zero), window={size=1x2x1x1 pad=0_0x1_0x0_0x0_0}, to_apply=add
)" + rest +
         R"(
  row = f32[1,3] reshape(mean)
  ROOT y = f32[1,3] dot(row, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)";
}
TEST(HloPool, AveragesCountTheirPaddingWhereTheFileDividesByTheWholeWindow) {
  const std::string text = "HloModule m\n\n" + pooled(R"(  two = f32[] constant(2)
  twos = f32[1,3,1,1] broadcast(two), dimensions={}
  mean = f32[1,3,1,1] divide(sums, twos))");
  EXPECT_EQ(result_of(text, 1), (Numbers{0.5, 1.5, 2.5}));
}
TEST(HloPool, AveragesLeaveTheirPaddingOutWhereTheFileDividesByACountOfOnes) {
  const std::string text = "HloModule m\n\n" + pooled(R"(  one = f32[] constant(1)
  ones = f32[1,3,1,1] broadcast(one), dimensions={}
  counts = f32[1,3,1,1] reduce-window(ones, zero), window={size=1x2x1x1 pad=0_0x1_0x0_0x0_0}, to_apply=add
  mean = f32[1,3,1,1] divide(sums, counts))");
  EXPECT_EQ(result_of(text, 1), (Numbers{1.0, 1.5, 2.5}));
  // The sum and the count are one average.
  const Graph graph = build_forward_graph(read_model_bytes(text, "m.hlo", {}), {.batch = 1});
  EXPECT_EQ(ops_of(graph, OpKind::Multiply) + ops_of(graph, OpKind::Divide), 0);
}

// x = 1 2 3, 4 5 6.
TEST(HloOps, CumulativeSumsAreThoseOfAllBefore) {
  const std::string text = "HloModule m\n\n" + kHloAdd + R"(ENTRY main {
  w = f32[3,3] parameter(0)
  x = f32[2,3] parameter(1)
  zero = f32[] constant(0)
  sums = f32[2,3] reduce-window(x, zero), window={size=1x3 pad=0_0x2_0}, to_apply=add
  ROOT y = f32[2,3] dot(sums, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)";
  EXPECT_EQ(result_of(text, 2), (Numbers{1, 3, 6, 4, 9, 15}));
}

// 70 numbers and the same from the last to the first: a sum of 1 + 70 everywhere, and of 71 + 140.
TEST(HloOps, PositionsMayBePickedInAnyOrder) {
  std::string order;
  for (int i = 69; i >= 0; --i) order += (order.empty() ? "" : ", ") + std::to_string(i);
  const std::string text = "HloModule m\n\nENTRY main {\n  order = s32[70] constant({" + order + R"(})
  rows = s32[70,1] reshape(order)
  w = f32[70,70] parameter(0)
  x = f32[2,70] parameter(1)
  h = f32[2,70] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  back = f32[2,70] gather(h, rows), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, slice_sizes={2,1}
  ROOT y = f32[2,70] add(h, back)
}
)";
  Numbers expected(140, 71.0);
  std::fill(expected.begin() + 70, expected.end(), 211.0);
  EXPECT_EQ(result_of(text, 2), expected);
}

// (1 2, 0 1) squared is (1 4, 0 1): 1 2 becomes 1 6, 3 4 becomes 3 16, and 5 6 becomes 5 26.
TEST(HloOps, AMatrixMayBeMultipliedByItself) {
  const std::string text = R"(HloModule m
ENTRY main {
  w = f32[2,2] parameter(0)
  x = f32[3,2] parameter(1)
  m = f32[2,2] parameter(2)
  h = f32[3,2] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  square = f32[2,2] dot(m, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT y = f32[3,2] dot(h, square), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)";
  EXPECT_EQ(result_of(text, 3, {{"m", {1, 2, 0, 1}}}), (Numbers{1, 6, 3, 16, 5, 26}));
}

void expect_near(const Numbers& found, const Numbers& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-12) << "element " << i;
}

// 1 2 3 4 is a sum of 10, and -2 + 2i, -2, -2 - 2i.
TEST(HloOps, FourierTransformsAreSumsOfWaves) {
  const auto text = [](const std::string& lines, int size) {
    return fmt::format(R"(HloModule m
ENTRY main {{
  w = f32[{0},{0}] parameter(0)
  x = f32[1,4] parameter(1)
{1}
  ROOT y = f32[1,{0}] dot(z, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
)",
                       size, lines);
  };
  const std::string all = "  t = c64[1,4] fft(x), fft_type=FFT, fft_length={4}\n";
  const std::string half = "  t = c64[1,3] fft(x), fft_type=RFFT, fft_length={4}\n";
  expect_near(result_of(text(all + "  z = f32[1,4] real(t)", 4), 1), {10, -2, -2, -2});
  expect_near(result_of(text(all + "  z = f32[1,4] imag(t)", 4), 1), {0, 2, 0, -2});
  expect_near(result_of(text(half + "  z = f32[1,3] real(t)", 3), 1), {10, -2, -2});
  expect_near(result_of(text(half + "  z = f32[1,4] fft(t), fft_type=IRFFT, fft_length={4}", 4), 1), {1, 2, 3, 4});
  expect_near(
      result_of(text(all + "  b = c64[1,4] fft(t), fft_type=IFFT, fft_length={4}\n  z = f32[1,4] real(b)", 4), 1),
      {1, 2, 3, 4});
}

// One of two experts for each token, by its larger number, which weighs: the first multiplies by 10, the second by 100.
// `places`: of the sorted tokens.
std::string sorted_by_expert(const std::string& places) {
  return "HloModule m\n\n" + kHloAdd + R"(add_whole {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT s = s32[] add(a, b)
}
before {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = s32[] parameter(2)
  d = s32[] parameter(3)
  ROOT s = pred[] compare(a, b), direction=LT
}
ENTRY main {
  w = f32[2,2] parameter(0)
  x = f32[2,4,2] parameter(1)
  route = f32[2,2] parameter(2)
  e = f32[2,2,2] parameter(3)
  zero = f32[] constant(0)
  none = s32[] constant(0)
  one = s32[] constant(1)
  ones = s32[8] broadcast(one), dimensions={}
  nones = s32[8] broadcast(none), dimensions={}
  count = s32[8] iota(), iota_dimension=0
  tokens = f32[8,2] reshape(x)
  h = f32[8,2] dot(tokens, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  scores = f32[8,2] dot(h, route), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  best = (f32[8,1], s32[8,1]) custom-call(scores), custom_call_target="TopK"
  gate = f32[8,1] get-tuple-element(best), index=0
  chosen = s32[8,1] get-tuple-element(best), index=1
  experts = s32[8] reshape(chosen)
  sorted = (s32[8], s32[8]) sort(experts, count), dimensions={0}, is_stable=true, to_apply=before
  order = s32[8] get-tuple-element(sorted), index=1
  starts = s32[2] broadcast(none), dimensions={}
  sizes = s32[2] scatter(starts, chosen, ones), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add_whole
  ends = s32[2] reduce-window(sizes, none), window={size=2 pad=1_0}, to_apply=add_whole
  begins = s32[2] subtract(ends, sizes)
)" + places +
         R"(
  sent = f32[8,2] gather(h, places), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}
  row = s32[2,8,2] iota(), iota_dimension=1
  low = s32[2,8,2] broadcast(begins), dimensions={0}
  high = s32[2,8,2] broadcast(ends), dimensions={0}
  behind = pred[2,8,2] compare(low, row), direction=LE
  ahead = pred[2,8,2] compare(row, high), direction=LT
  own = pred[2,8,2] and(behind, ahead)
  rows = f32[2,8,2] broadcast(sent), dimensions={1,2}
  zeros = f32[2,8,2] broadcast(zero), dimensions={}
  of_expert = f32[2,8,2] select(own, rows, zeros)
  made = f32[8,2] dot(of_expert, e), lhs_contracting_dims={2,0}, rhs_contracting_dims={1,0}
  resorted = (s32[8], s32[8]) sort(order, count), dimensions={0}, is_stable=true, to_apply=before
  inverse = s32[8] get-tuple-element(resorted), index=1
  back_at = s32[8,1] reshape(inverse)
  back = f32[8,2] gather(made, back_at), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}
  each = f32[8,1,2] reshape(back)
  gates = f32[8,1,2] broadcast(gate), dimensions={0,1}
  weighed = f32[8,1,2] multiply(each, gates)
  sum = f32[8,2] reduce(weighed, zero), dimensions={1}, to_apply=add
  ROOT y = f32[2,4,2] reshape(sum)
}
)";
}
TEST(HloOps, TokensSortedByExpertComeBackWeighed) {
  const std::map<std::string, Numbers> given = {{"x", {3, 1, 2, 5, 7, 4, 6, 8, 2, 1, 1, 2, 4, 3, 3, 4}},
                                                {"route", {1, 0, 0, 1}},
                                                {"e", {10, 0, 0, 10, 100, 0, 0, 100}}};
  const Numbers expected = {90, 30, 1000, 2500, 490, 280, 4800, 6400, 40, 20, 200, 400, 160, 120, 1200, 1600};
  EXPECT_EQ(result_of(sorted_by_expert("  places = s32[8,1] reshape(order)"), 2, given), expected);
  // order // 1, as JAX divides whole numbers downwards.
  const std::string divided = R"(  q = s32[8] divide(order, ones)
  less = s32[8] subtract(q, ones)
  sign = s32[8] sign(order)
  other = s32[8] sign(ones)
  apart = pred[8] compare(sign, other), direction=NE
  rest = s32[8] remainder(order, ones)
  broken = pred[8] compare(rest, nones), direction=NE
  both = pred[8] and(apart, broken)
  floor = s32[8] select(both, less, q)
  places = s32[8,1] reshape(floor))";
  EXPECT_EQ(result_of(sorted_by_expert(divided), 2, given), expected);
}

TEST(HloOps, WhatHasNoEqualIsRefusedInOneSentence) {
  const std::string text = "HloModule m\n\n" + kHloAdd + R"(ENTRY main {
  w = f32[3,3] parameter(0)
  x = f32[2,3] parameter(1)
  places = s32[2,1] parameter(2)
  zero = f32[] constant(0)
  zeros = f32[4,3] broadcast(zero), dimensions={}
  p = f32[2,3] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  sums = f32[4,3] scatter(zeros, places, p), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  ROOT loss = f32[] reduce(sums, zero), dimensions={0,1}, to_apply=add
}
)";
  const std::string why = refusal([&] { return read_model_bytes(text, "m.hlo", {}); });
  EXPECT_NE(why.find("scatter (1, which adds to what is there)"), std::string::npos) << why;
  EXPECT_EQ(why.find("backward"), std::string::npos) << why;
}

}  // namespace
}  // namespace meshwright::hlo_ops_test
