// SPDX-License-Identifier: Apache-2.0
// Wide residual networks: sizes of the published benchmark and of ResNet-50, shapes, work, gradients.
#include <gtest/gtest.h>

#include "core/graph/import/find_model.h"
#include "tests/model_gradients.h"

namespace meshwright::wide_resnet_model_test {
namespace {

using Dims = std::vector<Dim>;

Graph forward_graph(const std::string& model, std::int64_t batch) {
  return build_forward_graph(find_model(model), {.batch = batch});
}

Dims dims_of(const Graph& graph, const std::string& name) {
  for (const Tensor& tensor : graph.tensors())
    if (tensor.name == name) return tensor.dims;
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

TEST(WideResNet, HasThePublishedParameters) {
  struct Published {
    const char* name;
    double billions;
  };
  // The benchmark's table has 13.2671 for its largest, which is that of an earlier configuration; the later one, of 101
  // layers, has fewer.
  for (const auto& [name, billions] : {Published{"wresnet-250m", 0.2541},
                                       {"wresnet-500m", 0.4950},
                                       {"wresnet-1b", 1.0057},
                                       {"wresnet-2b", 1.9650},
                                       {"wresnet-4b", 4.0009},
                                       {"wresnet-6.8b", 6.7277},
                                       {"wresnet-13b", 12.6334},
                                       {"wresnet:layers=50,channels=320,width=32,image=224,classes=1024", 13.2671}})
    EXPECT_NEAR(static_cast<double>(parameter_count(forward_graph(name, 1))) / 1e9, billions, 5e-5) << name;
  EXPECT_EQ(find_model("wresnet-6.8b").default_batch, 1536);
  EXPECT_EQ(find_model("wresnet-13b").default_batch, 1520);
  EXPECT_EQ(find_model("wresnet-13b").default_dtype, DType::F32);
}

// With a width of 1 it is ResNet-50, -101 and -152 with the stride in the 3x3 convolution: published 25,557,032,
// 44,549,160 and 60,192,808 parameters, and 4.09 billion multiply-adds of the first.
TEST(WideResNet, OfWidth1IsResNet) {
  const auto resnet = [](int layers) {
    return forward_graph(fmt::format("wresnet:layers={},channels=64,width=1,image=224,classes=1000", layers), 1);
  };
  EXPECT_EQ(parameter_count(resnet(50)), 25'557'032);
  EXPECT_EQ(parameter_count(resnet(101)), 44'549'160);
  EXPECT_EQ(parameter_count(resnet(152)), 60'192'808);
  EXPECT_NEAR(graph_flops(resnet(50)).si() / 2e9, 4.09, 0.005);
}

TEST(WideResNet, HalvesTheImageFiveTimes) {
  const Graph graph = forward_graph("wresnet-250m", 3);
  EXPECT_EQ(dims_of(graph, "stem.conv"), (Dims{{"batch", 3}, {"h1", 112}, {"w1", 112}, {"stem", 160}}));
  EXPECT_EQ(dims_of(graph, "stem.pool"), (Dims{{"batch", 3}, {"h2", 56}, {"w2", 56}, {"stem", 160}}));
  EXPECT_EQ(dims_of(graph, "blk2.relu"), (Dims{{"batch", 3}, {"h2", 56}, {"w2", 56}, {"out0", 640}}));
  EXPECT_EQ(dims_of(graph, "blk3.1.relu"), (Dims{{"batch", 3}, {"h2", 56}, {"w2", 56}, {"narrow1", 320}}));
  EXPECT_EQ(dims_of(graph, "blk3.2.relu"), (Dims{{"batch", 3}, {"h3", 28}, {"w3", 28}, {"wide1", 640}}));
  EXPECT_EQ(dims_of(graph, "blk3.shortcut.norm"), (Dims{{"batch", 3}, {"h3", 28}, {"w3", 28}, {"out1", 1280}}));
  EXPECT_EQ(dims_of(graph, "blk15.relu"), (Dims{{"batch", 3}, {"h5", 7}, {"w5", 7}, {"out3", 5120}}));
  EXPECT_EQ(dims_of(graph, "head.mean"), (Dims{{"batch", 3}, {"out3", 5120}}));
  EXPECT_EQ(dims_of(graph, "head.logits"), (Dims{{"batch", 3}, {"class", 1024}}));
}

TEST(WideResNet, HasABlockPerBottleneck) {
  const Graph graph = forward_graph("wresnet-13b", 1);
  int last = 0;
  for (const Op& op : graph.ops()) last = std::max(last, op.block);
  EXPECT_EQ(last, 3 + 4 + 23 + 3 - 1);
  EXPECT_NE(refusal([] {
              (void)find_model("wresnet:layers=34,channels=8,width=1,image=32,classes=10");
            }).find("layers=34; give 14, 26, 50, 101, 152 or 200."),
            std::string::npos);
}

// Backward, each convolution and the classifier twice, but for the gradient of the images.
TEST(WideResNet, TakesThreeTimesItsForwardFlops) {
  const ModelConfig model = find_model("wresnet-250m");
  const double forward = graph_flops(forward_graph("wresnet-250m", 2)).si();
  const double first = 2.0 * 2 * 112 * 112 * 160 * 7 * 7 * 3;
  EXPECT_EQ(graph_flops(build_training_graph(model, {.batch = 2})).si(), 3 * forward - first);
}

TEST(WideResNet, HasTrueGradients) {
  const char* const tiny = "wresnet:layers=14,channels=2,width=2,image=48,classes=5";
  expect_true_model_gradients(tiny, {.batch = 3});
  expect_true_model_gradients(tiny, {.batch = 4, .microbatches = 2, .loss = LossReduction::TokenWeighted});
  expect_recomputation_keeps_gradients(tiny, {.batch = 3});
}

// An odd image too, where padding does not fit evenly.
TEST(WideResNet, HasTrueGradientsOfOddImages) {
  expect_true_model_gradients("wresnet:layers=14,channels=2,width=1,image=37,classes=3", {.batch = 3});
}

}  // namespace
}  // namespace meshwright::wide_resnet_model_test
