// SPDX-License-Identifier: Apache-2.0
// Steps that add up the losses of their own micro-batches become steps of one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/graph/import/model_file.h"
#include "tests/refusal.h"
#include "tests/unit/import/hlo_parts.h"
#include "tests/unit/import/loss_of.h"

namespace meshwright::hlo_accumulated_test {
namespace {

// The rows 0, 1 and `second` of x, each half through a product and a function; `last` adds up what becomes of them.
std::string halves(const std::string& second, const std::string& function, const std::string& last) {
  return "HloModule m\n\n" + kHloAdd + R"(ENTRY main {
  x = f32[4,3] parameter(0)
  w = f32[3,5] parameter(1)
  zero = f32[] constant(0)
  half = f32[] constant(0.5)
  a = f32[2,3] slice(x), slice={[0:2], [0:3]}
  b = f32[2,3] slice(x), slice={)" +
         second + R"(, [0:3]}
  pa = f32[2,5] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  pb = f32[2,5] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  fa = f32[2,5] tanh(pa)
  fb = f32[2,5] )" +
         function + R"((pb)
  la = f32[] reduce(fa, zero), dimensions={0,1}, to_apply=add
  lb = f32[] reduce(fb, zero), dimensions={0,1}, to_apply=add
)" + last +
         "\n}";
}
const std::string kMean = "  sum = f32[] add(la, lb)\n  ROOT mean = f32[] multiply(sum, half)";

TEST(AccumulatedStep, IsThatOfOneMicroBatch) {
  const ModelConfig model = read_model_bytes(halves("[2:4]", "tanh", kMean), "m.hlo", {});
  EXPECT_EQ(model.default_batch, 4);
  const std::vector<std::string> notes = summary_of(model).notes;
  EXPECT_NE(std::find(notes.begin(), notes.end(),
                      "the step of the file adds up 2 micro-batches of 2 samples: how many there are is the plan's "
                      "choice"),
            notes.end());
  const Graph graph = build_training_graph(model, {.batch = 3});
  EXPECT_EQ(parameter_count(graph), 15);
  EXPECT_EQ(std::count_if(graph.ops().begin(), graph.ops().end(),
                          [](const Op& op) { return op.kind == OpKind::Contract && op.phase == Phase::Forward; }),
            1);
}

std::string refused(const std::string& text) {
  return refusal([&] { (void)read_model_bytes(text, "m.hlo", {}); });
}

TEST(AccumulatedStep, WhosePartsAreNotComputedAlikeIsRefused) {
  const std::string taken = "a part of the batch is taken, which then has no micro-batches";
  EXPECT_NE(refused(halves("[2:4]", "sine", kMean)).find(taken), std::string::npos);
  // The first half twice, halves that overlap, and a product of both losses, which is no sum.
  EXPECT_NE(refused(halves("[0:2]", "tanh", kMean)).find(taken), std::string::npos);
  EXPECT_NE(refused(halves("[1:3]", "tanh", kMean)).find(taken), std::string::npos);
  EXPECT_NE(refused(halves("[2:4]", "tanh", "  ROOT product = f32[] multiply(la, lb)")).find(taken), std::string::npos);
}

}  // namespace
}  // namespace meshwright::hlo_accumulated_test
