// SPDX-License-Identifier: Apache-2.0
// GShard's mixtures of experts: sizes and work of the published benchmark, groups, capacities, gradients.
#include <gtest/gtest.h>

#include <cmath>

#include "core/graph/import/find_model.h"
#include "tests/model_gradients.h"

namespace meshwright::gshard_model_test {
namespace {

using Dims = std::vector<Dim>;

const char* const kTiny = "moe:layers=2,hidden=8,heads=2,experts=3,seq=4,vocab=11";

struct Published {
  const char* name;
  double billions, digits;
};
const Published kPublished[] = {{"moe-380m", 0.3835, 1e-4}, {"moe-690m", 0.6857, 1e-4}, {"moe-1.3b", 1.3468, 1e-4},
                                {"moe-2.4b", 2.3830, 1e-4}, {"moe-7.1b", 7.07, 1e-2},   {"moe-10b", 10.17, 1e-2},
                                {"moe-27b", 26.65, 1e-2},   {"moe-70b", 70.42, 1e-2},   {"moe-140b", 139.15, 1e-2}};

// L/2 (2 (H(3H+1) + H(H+1) + 4H) + (1 + E) (H(8H+1) + 8H(H+1))) + V(H+1)
std::int64_t formula(const ModelConfig& model) {
  const std::int64_t h = model.hidden, e = model.more.at("experts");
  return model.layers / 2 *
             (2 * (h * (3 * h + 1) + h * (h + 1) + 4 * h) + (1 + e) * (h * (8 * h + 1) + 8 * h * (h + 1))) +
         model.vocab * (h + 1);
}

Graph forward_graph(const std::string& model, std::int64_t batch, std::int64_t microbatches = 1) {
  return build_forward_graph(find_model(model), {.batch = batch, .microbatches = microbatches, .dtype = DType::F16});
}

Dims dims_of(const Graph& graph, const std::string& name) {
  for (const Tensor& tensor : graph.tensors())
    if (tensor.name == name) return tensor.dims;
  ADD_FAILURE() << "no tensor " << name;
  return {};
}

TEST(Gshard, HasThePublishedParameters) {
  for (const auto& [name, billions, digits] : kPublished) {
    const ModelConfig model = find_model(name);
    const std::int64_t count = parameter_count(forward_graph(name, 1));
    EXPECT_EQ(count, formula(model)) << name;
    EXPECT_NEAR(static_cast<double>(count) / 1e9, billions, digits / 2) << name;
    EXPECT_EQ(model.default_batch, 1024) << name;
    EXPECT_EQ(model.default_dtype, DType::F16) << name;
  }
}

// The benchmark's formula without its factor F, tokens T = B S:
//   L/2 (T H^2 (8 + 4 m) + 4 T S H                                     dense blocks, m = 8
//        + 8 T H^2 + 4 T S H + 8 T H^2 m + 2 T H E + 4 T G + 8 T H G)  mixtures
//   + 2 T H V
double forward_flops(const ModelConfig& model, double samples, double experts_share) {
  const double h = static_cast<double>(model.hidden), s = static_cast<double>(model.seq), t = samples * s, m = 8;
  const double e = static_cast<double>(model.more.at("experts")), g = 2048;
  const double slots = 8 * t * h * h * m + 4 * t * g + 8 * t * h * g;  // in proportion to the slots of all experts
  return static_cast<double>(model.layers) / 2 *
             (t * h * h * (8 + 4 * m) + 4 * t * s * h + 8 * t * h * h + 4 * t * s * h + 2 * t * h * e +
              experts_share * slots) +
         2 * t * h * static_cast<double>(model.vocab);
}

// 48 experts have 85 slots each, 4080 of the formula's 4096.
TEST(Gshard, HasTheForwardFlopsOfTheFormula) {
  for (const auto& [name, billions, digits] : kPublished) {
    const ModelConfig model = find_model(name);
    const double share = model.more.at("experts") == 48 ? 4080.0 / 4096.0 : 1.0;
    const double expected = forward_flops(model, 32, share);
    EXPECT_NEAR(graph_flops(forward_graph(name, 1024, 32)).si(), expected, 1e-12 * expected) << name;
  }
}

// The formula's backward is twice its forward. Masks have no gradient: dispatch takes once its forward's 4 T H G, and
// the weighing of the mask once its 4 T G.
TEST(Gshard, SparesTheGradientsOfMasks) {
  const ModelConfig model = find_model("moe-380m");
  const Graph graph = build_training_graph(model, {.batch = 1024, .microbatches = 32, .dtype = DType::F16});
  const double t = 32 * 1024, h = 768, g = 2048, spared = 4 * (4 * t * h * g + 4 * t * g);
  EXPECT_NEAR(graph_flops(graph).si(), 3 * forward_flops(model, 32, 1.0) - spared, 1.0);
  for (const Tensor& tensor : graph.tensors()) {
    if (!tensor.gradient_of) continue;
    const std::string& of = graph.tensor(*tensor.gradient_of).name;
    EXPECT_FALSE(of.ends_with(".dispatch_mask") || of.ends_with(".slots")) << tensor.name;
  }
}

TEST(Gshard, MakesGroupsOfWholeSamples) {
  // (samples, tokens per group): of 6 and 7 samples of 4 tokens in groups of at most 16.
  const std::string four = "moe:layers=2,hidden=8,heads=2,experts=3,seq=4,vocab=11,group=16";
  EXPECT_EQ(dims_of(forward_graph(four, 8), "blk0.moe.groups"), (Dims{{"batch", 2}, {"token", 16}, {"embed", 8}}));
  EXPECT_EQ(dims_of(forward_graph(four, 6), "blk0.moe.groups"), (Dims{{"batch", 2}, {"token", 12}, {"embed", 8}}));
  EXPECT_EQ(dims_of(forward_graph(four, 7), "blk0.moe.groups"), (Dims{{"batch", 7}, {"token", 4}, {"embed", 8}}));
  EXPECT_EQ(dims_of(forward_graph(four, 12, 6), "blk0.moe.groups"), (Dims{{"batch", 1}, {"token", 8}, {"embed", 8}}));
  const std::string parted = "moe:layers=2,hidden=8,heads=2,experts=3,seq=32,vocab=11,group=16";
  EXPECT_EQ(dims_of(forward_graph(parted, 3), "blk0.moe.groups"), (Dims{{"batch", 6}, {"token", 16}, {"embed", 8}}));
  EXPECT_NE(refusal([] {
              (void)find_model("moe:layers=2,hidden=8,heads=2,experts=3,seq=24,vocab=11,group=16");
            }).find("does not divide into such groups"),
            std::string::npos);
}

TEST(Gshard, GivesEveryExpertItsShareOfTwoSlotsPerToken) {
  EXPECT_EQ(dims_of(forward_graph("moe-380m", 4), "blk0.moe.dispatch_mask"),
            (Dims{{"batch", 2}, {"token", 2048}, {"capacity", 512}, {"expert", 8}}));
  EXPECT_EQ(dims_of(forward_graph("moe-27b", 2), "blk2.moe.dispatch"),
            (Dims{{"batch", 1}, {"capacity", 85}, {"expert", 48}, {"embed", 2048}}));
  EXPECT_EQ(dims_of(forward_graph("moe:layers=1,hidden=8,heads=2,experts=64,seq=4,vocab=11", 1), "blk0.moe.dispatch"),
            (Dims{{"batch", 1}, {"capacity", 1}, {"expert", 64}, {"embed", 8}}));
}

TEST(Gshard, IsAMixtureInEverySecondLayer) {
  const Graph graph = forward_graph("moe:layers=4,hidden=8,heads=2,experts=3,seq=4,vocab=11", 2);
  std::string experts;
  for (const Op& op : graph.ops())
    if (op.name.ends_with("p.up") || op.name.ends_with("e.up")) experts += fmt::format("{}:{} ", op.block, op.name);
  EXPECT_EQ(experts, "0:blk0.moe.up 1:blk1.mlp.up 2:blk2.moe.up 3:blk3.mlp.up ");
}

// What a data-parallel or an expert-parallel method needs.
TEST(Gshard, CanBeSplitByBatchAndByExpertThroughout) {
  const Graph graph = forward_graph("moe-380m", 16);
  for (const Op& op : graph.ops()) {
    const IterationSpace space = iteration_space(graph, op);
    if (op.block != 0) continue;
    const std::optional<int> batch = space.find("batch"), expert = space.find("expert");
    ASSERT_TRUE(batch.has_value()) << op.name;
    EXPECT_TRUE(space.axes[static_cast<std::size_t>(*batch)].splittable) << op.name;
    const bool routes = op.kind == OpKind::TopKSlots || op.kind == OpKind::GateWeights || op.kind == OpKind::Softmax;
    if (expert) {
      EXPECT_EQ(space.axes[static_cast<std::size_t>(*expert)].splittable, !routes) << op.name;
    }
  }
}

TEST(Gshard, CountsTheExpertsThatATokenMeets) {
  const Graph graph = forward_graph("moe-380m", 1);
  const std::int64_t h = 768, of_an_expert = 16 * h * h + 8 * h;
  EXPECT_EQ(active_parameter_count(graph), parameter_count(graph) - 4 * (8 - 2) * of_an_expert);
}

TEST(Gshard, HasTrueGradients) {
  expect_true_model_gradients(kTiny, {.batch = 4});
  expect_true_model_gradients(kTiny, {.batch = 6, .microbatches = 2, .loss = LossReduction::TokenWeighted});
  expect_recomputation_keeps_gradients(kTiny, {.batch = 4});
}

}  // namespace
}  // namespace meshwright::gshard_model_test
