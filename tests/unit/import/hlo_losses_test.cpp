// SPDX-License-Identifier: Apache-2.0
// Modules whose loss is the sum of several cross entropies, each of its own head.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/graph/import/model_file.h"
#include "tests/refusal.h"
#include "tests/unit/import/hlo_parts.h"
#include "tests/unit/import/loss_of.h"

namespace meshwright::hlo_losses_test {
namespace {

constexpr std::int64_t kSamples = 4, kWidth = 8;

// A head of `classes` words: logits of x, and minus the mean logarithm of the probability of the labels.
std::string head(const std::string& n, std::int64_t classes, int first_parameter) {
  const std::string c = std::to_string(classes), rows = "f32[4," + c + "]";
  return "  w" + n + " = f32[8," + c + "] parameter(" + std::to_string(first_parameter) + ")\n  labels" + n +
         " = s32[4] parameter(" + std::to_string(first_parameter + 1) + ")\n  z" + n + " = " + rows + " dot(x, w" + n +
         "), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  m" + n + " = f32[4] reduce(z" + n +
         ", low), dimensions={1}, to_apply=top\n  mb" + n + " = " + rows + " broadcast(m" + n +
         "), dimensions={0}\n  d" + n + " = " + rows + " subtract(z" + n + ", mb" + n + ")\n  e" + n + " = " + rows +
         " exponential(d" + n + ")\n  s" + n + " = f32[4] reduce(e" + n + ", zero), dimensions={1}, to_apply=add\n  l" +
         n + " = f32[4] log(s" + n + ")\n  lb" + n + " = " + rows + " broadcast(l" + n + "), dimensions={0}\n  p" + n +
         " = " + rows + " subtract(d" + n + ", lb" + n + ")\n  y" + n + " = s32[4," + c + "] broadcast(labels" + n +
         "), dimensions={0}\n  i" + n + " = s32[4," + c + "] iota(), iota_dimension=1\n  t" + n + " = pred[4," + c +
         "] compare(y" + n + ", i" + n + "), direction=EQ\n  o" + n + " = " + rows + " convert(t" + n + ")\n  q" + n +
         " = " + rows + " multiply(p" + n + ", o" + n + ")\n  r" + n + " = f32[] reduce(q" + n +
         ", zero), dimensions={0,1}, to_apply=add\n  loss" + n + " = f32[] divide(r" + n + ", count)\n";
}

std::string two_heads() {
  return "HloModule m\n\n" + kHloAdd + kHloTop + R"(ENTRY main {
  x = f32[4,8] parameter(0)
  zero = f32[] constant(0)
  low = f32[] constant(-inf)
  count = f32[] constant(-4)
)" + head("a", 5, 1) +
         head("b", 3, 3) + "  ROOT loss = f32[] add(lossa, lossb)\n}\n";
}

double weight(const std::string& name, std::int64_t i) {
  return 0.6 * std::sin(0.9 * static_cast<double>(i) + static_cast<double>(name.back()));
}

Graph graph_of(LossReduction loss) {
  return build_training_graph(read_model_bytes(two_heads(), "m.hlo", {}),
                              {.batch = kSamples, .dtype = DType::F64, .loss = loss});
}

double cross_entropy(const std::string& weights, std::int64_t classes, std::int64_t label) {
  double sum = 0.0;
  for (std::int64_t b = 0; b < kSamples; ++b) {
    double all = 0.0, chosen = 0.0;
    for (std::int64_t c = 0; c < classes; ++c) {
      double z = 0.0;
      for (std::int64_t j = 0; j < kWidth; ++j) z += weight("x", b * kWidth + j) * weight(weights, j * classes + c);
      all += std::exp(z);
      if (c == label) chosen = z;
    }
    sum += std::log(all) - chosen;
  }
  return sum / kSamples;
}

TEST(SeveralLosses, AreAdded) {
  const Graph graph = graph_of(LossReduction::Mean);
  EXPECT_EQ(std::count_if(graph.ops().begin(), graph.ops().end(),
                          [](const Op& op) { return op.kind == OpKind::CrossEntropyLoss; }),
            2);
  const double loss = loss_of(graph, [](const Tensor& tensor, std::int64_t i) -> std::optional<double> {
    if (tensor.dtype == DType::I32) return tensor.name == "labelsa" ? 4.0 : 1.0;
    return weight(tensor.name, i);
  });
  EXPECT_NEAR(loss, cross_entropy("wa", 5, 4) + cross_entropy("wb", 3, 1), 1e-12);
}

TEST(SeveralLosses, AreNoted) {
  const std::vector<std::string> notes = summary_of(read_model_bytes(two_heads(), "m.hlo", {})).notes;
  EXPECT_NE(
      std::find(notes.begin(), notes.end(), "the loss is the sum of 2 cross entropies, each the mean of its own rows"),
      notes.end());
}

TEST(SeveralLosses, HaveNoWeightsOfTokens) {
  const std::string text = refusal([] { (void)graph_of(LossReduction::TokenWeighted); });
  EXPECT_NE(text.find("its 2 losses have tokens of their own"), std::string::npos) << text;
}

}  // namespace
}  // namespace meshwright::hlo_losses_test
