// SPDX-License-Identifier: Apache-2.0
// Models of which adapters alone are trained (LoRA; E. Hu et al., 2021).
#include <gtest/gtest.h>

#include <set>

#include "core/base/errors.h"
#include "core/graph/graph.h"
#include "core/graph/models/models.h"
#include "tests/refusal.h"

namespace meshwright::adapters_test {
namespace {

constexpr const char* kLlama = "llama:layers=2,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=32,vocab=128";

std::int64_t trained_of(const std::string& model) {
  const Graph graph = build_forward_graph(find_builtin_model(model), {.batch = 1});
  std::int64_t trained = 0;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter && !graph.fixed.contains(tensor.id)) trained += tensor.elements();
  return trained;
}

// PEFT prints these of Llama 7B with adapters of queries and values (alpaca-lora's), and of Llama 3.1 8B and Qwen2.5 7B
// with adapters of all linear layers.
TEST(Adapters, HaveTheParametersThatPeftPrints) {
  EXPECT_EQ(trained_of("llama-7b:lora_rank=8,lora_targets=3"), 4'194'304);
  EXPECT_EQ(trained_of("llama-3.1-8b:lora_rank=16"), 41'943'040);
  EXPECT_EQ(trained_of("qwen2.5-7b:lora_rank=16"), 40'370'176);
}

TEST(Adapters, OfFewerTargetsAreFewer) {
  // Of a layer: 64 + 64 for q and out, 64 + 32 for k and v, 64 + 128 for gate, up and down; twice, of rank 4.
  const auto of = [](const char* targets) { return trained_of(std::string(kLlama) + ",lora_rank=4" + targets); };
  EXPECT_EQ(of(""), 2 * 4 * (2 * 128 + 2 * 96 + 3 * 192));
  EXPECT_EQ(of(",lora_targets=1"), 2 * 4 * (2 * 128 + 2 * 96));
  EXPECT_EQ(of(",lora_targets=2"), 2 * 4 * (128 + 2 * 96));
  EXPECT_EQ(of(",lora_targets=3"), 2 * 4 * (128 + 96));
  EXPECT_EQ(trained_of(kLlama), parameter_count(build_forward_graph(find_builtin_model(kLlama), {.batch = 1})));
}

TEST(Adapters, AloneHaveGradientsAndStates) {
  const Graph graph =
      build_training_graph(find_builtin_model(std::string(kLlama) + ",lora_rank=4"), {.batch = 2, .microbatches = 2});
  std::set<std::string> updated;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::OptimizerState || tensor.kind == TensorKind::Accumulator)
      updated.insert(graph.tensor(*tensor.parameter).name);
  EXPECT_EQ(updated.size(), 2u * 2 * 7);  // of 2 layers, 2 of each of 7 products
  for (const std::string& name : updated) EXPECT_NE(name.find(".lora_"), std::string::npos) << name;
}

// Without gradients of the weights a step has two thirds of a training's products, and what adapters add.
TEST(Adapters, TakeTwoThirdsOfTheWork) {
  const auto products = [](const std::string& model) {
    const Graph graph = build_training_graph(find_builtin_model(model), {.batch = 1});
    double flops = 0.0;
    for (const Op& op : graph.ops())
      if (op.kind == OpKind::Contract) {
        const IterationSpace space = iteration_space(graph, op);
        double own = 2.0;
        for (const IterationAxis& axis : space.axes) own *= static_cast<double>(axis.size);
        flops += own;
      }
    return flops;
  };
  const std::string model = "llama:layers=16,hidden=1024,heads=8,intermediate=4096,seq=64,vocab=128";
  const double share = products(model + ",lora_rank=1") / products(model);
  EXPECT_GT(share, 0.66);
  EXPECT_LT(share, 0.68);
}

TEST(Adapters, OfMoreTargetsThanThereAreAreRefused) {
  EXPECT_NE(refusal([] { (void)find_builtin_model(std::string(kLlama) + ",lora_targets=4"); }).find("lora_targets"),
            std::string::npos);
}

}  // namespace
}  // namespace meshwright::adapters_test
