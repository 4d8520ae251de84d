// SPDX-License-Identifier: Apache-2.0
// Vision transformers: published sizes and work, shapes, gradients.
#include <gtest/gtest.h>

#include "core/graph/import/find_model.h"
#include "tests/model_gradients.h"

namespace meshwright::vit_model_test {
namespace {

using Dims = std::vector<Dim>;

Graph forward_graph(const std::string& model, std::int64_t batch) {
  return build_forward_graph(find_model(model), {.batch = batch, .dtype = DType::F16});
}

Dims dims_of(const Graph& graph, const std::string& name) {
  for (const Tensor& tensor : graph.tensors())
    if (tensor.name == name) return tensor.dims;
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

TEST(Vit, HasThePublishedParameters) {
  EXPECT_EQ(parameter_count(forward_graph("vit-b16", 1)), 86'567'656);
  EXPECT_EQ(parameter_count(forward_graph("vit-l16", 1)), 304'326'632);
  EXPECT_EQ(parameter_count(forward_graph("vit-h14", 1)), 632'045'800);
  // Patches, class token and 10 positions of 8; two blocks of two norms, four projections and 8 to 6 to 8; norm, head.
  EXPECT_EQ(
      parameter_count(forward_graph("vit:layers=2,hidden=8,heads=2,image=12,patch=4,classes=5,intermediate=6", 1)),
      (48 * 8 + 8) + 8 + 80 + 2 * (2 * 16 + 4 * (64 + 8) + (48 + 6) + (48 + 8)) + 16 + (40 + 5));
}

// Patches N, sequence T = N + 1: 2 N 3 P^2 H + L (24 T H^2 + 4 T^2 H) + 2 H C. Published multiply-adds: 17.56, 61.55
// and 167.3 billion.
TEST(Vit, HasTheFlopsOfTheFormula) {
  struct Case {
    const char* name;
    double layers, hidden, patch, patches, billions, digits;
  };
  for (const auto& [name, layers, hidden, patch, patches, billions, digits] :
       {Case{"vit-b16", 12, 768, 16, 196, 17.56, 0.01},
        {"vit-l16", 24, 1024, 16, 196, 61.55, 0.01},
        {"vit-h14", 32, 1280, 14, 256, 167.3, 0.1}}) {
    const double t = patches + 1;
    const double formula = 2 * patches * 3 * patch * patch * hidden +
                           layers * (24 * t * hidden * hidden + 4 * t * t * hidden) + 2 * hidden * 1000;
    const double flops = graph_flops(forward_graph(name, 8)).si() / 8;
    EXPECT_EQ(flops, formula) << name;
    EXPECT_NEAR(flops / 2e9, billions, digits / 2) << name;
  }
}

TEST(Vit, ReadsPatchesAfterTheClassToken) {
  const Graph graph = forward_graph("vit-b16", 4);
  EXPECT_EQ(dims_of(graph, "embed"), (Dims{{"batch", 4}, {"patch_h", 14}, {"patch_w", 14}, {"embed", 768}}));
  EXPECT_EQ(dims_of(graph, "embed.patches"), (Dims{{"batch", 4}, {"patch", 196}, {"embed", 768}}));
  EXPECT_EQ(dims_of(graph, "embed.tokens"), (Dims{{"batch", 4}, {"seq", 197}, {"embed", 768}}));
  EXPECT_EQ(dims_of(graph, "head.logits"), (Dims{{"batch", 4}, {"class", 1000}}));
  EXPECT_EQ(find_model("vit-b16").seq, 0);  // it follows from the image
  EXPECT_NE(refusal([] {
              (void)find_model("vit:layers=1,hidden=8,heads=2,image=10,patch=4,classes=5");
            }).find("image=10 is not a multiple of patch=4"),
            std::string::npos);
}

// The class token comes first: it would read nothing but itself if attention were causal.
TEST(Vit, AttendsInBothDirections) {
  const Graph graph = forward_graph("vit-b16", 1);
  for (const Op& op : graph.ops()) {
    if (op.kind == OpKind::GroupedAttention) {
      EXPECT_FALSE(op.attributes.causal) << op.name;
    }
  }
}

// A key's bias adds the same to every score of a row, which the softmax removes.
TEST(Vit, HasTrueGradients) {
  const char* const tiny = "vit:layers=2,hidden=8,heads=2,image=12,patch=4,classes=5";
  expect_true_model_gradients(tiny, {.batch = 2}, ".k.bias");
  expect_true_model_gradients(tiny, {.batch = 6, .microbatches = 2, .loss = LossReduction::TokenWeighted}, ".k.bias");
  expect_recomputation_keeps_gradients(tiny, {.batch = 2});
}

}  // namespace
}  // namespace meshwright::vit_model_test
