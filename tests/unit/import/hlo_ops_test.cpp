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
