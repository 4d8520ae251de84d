// SPDX-License-Identifier: Apache-2.0
// Blocks whose attention and feed-forward layer read the same input: x + attention(ln1 x) + feed_forward(ln2 x).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/graph/import/find_model.h"
#include "executor/check/graph_interpreter.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::parallel_block_test {
namespace {

std::string neox(int layers, bool parallel) {
  return fmt::format("gpt_neox:layers={},hidden=64,heads=4,seq=32,vocab=128,parallel={}", layers, parallel ? 1 : 0);
}

const Op& op_named(const Graph& graph, const std::string& name) {
  const auto found =
      std::find_if(graph.ops().begin(), graph.ops().end(), [&](const Op& op) { return op.name == name; });
  MW_CHECK(found != graph.ops().end(), "no op {}", name);
  return *found;
}

TEST(ParallelBlock, AddsItsProductsBeforeBiasesAndResidual) {
  const Graph graph = build_forward_graph(find_model(neox(1, true)), {.batch = 2});
  const auto made_from = [&](const std::string& op) {
    std::vector<std::string> names;
    for (const TensorId input : op_named(graph, op).inputs) names.push_back(graph.tensor(input).name);
    return names;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(made_from("blk0.products"), (Names{"blk0.attn.out", "blk0.mlp.down"}));
  EXPECT_EQ(made_from("blk0.attn.out.bias_add"), (Names{"blk0.products", "blk0.attn.out.bias"}));
  EXPECT_EQ(made_from("blk0.mlp.down.bias_add"), (Names{"blk0.attn.out.bias_add", "blk0.mlp.down.bias"}));
  EXPECT_EQ(made_from("blk0.residual"), (Names{"embed", "blk0.mlp.down.bias_add"}));
}

TEST(ParallelBlock, IsTheSumOfItsThreeTerms) {
  const Graph graph = build_forward_graph(find_model(neox(1, true)), {.batch = 2, .dtype = DType::F64});
  GraphInterpreter interpreter(graph, 5, DType::F64);
  interpreter.load_inputs(0, 0);
  interpreter.run(Phase::Forward);
  const auto values = [&](const std::string& name) {
    const auto found = std::find_if(graph.tensors().begin(), graph.tensors().end(),
                                    [&](const Tensor& tensor) { return tensor.name == name; });
    return interpreter.get(found->id);
  };
  const std::vector<double> x = values("embed"), attention = values("blk0.attn.out"), fed = values("blk0.mlp.down"),
                            first = values("blk0.attn.out.bias"), second = values("blk0.mlp.down.bias"),
                            sum = values("blk0.residual");
  for (std::size_t i = 0; i < sum.size(); ++i)
    ASSERT_NEAR(sum[i], x[i] + (attention[i] + first[i % 64]) + (fed[i] + second[i % 64]), 1e-14);
}

TEST(ParallelBlock, HasTheParametersOfASequentialOne) {
  for (const char* rest : {"", ",intermediate=96", ",tied=1"})
    EXPECT_EQ(parameter_count(build_forward_graph(find_model(neox(3, true) + rest), {.batch = 1})),
              parameter_count(build_forward_graph(find_model(neox(3, false) + rest), {.batch = 1})));
}

// In one forward pass of one stage of eight devices that split the model.
int forward_all_reduces(int layers, bool parallel) {
  const std::string sizes = "gpt_neox:layers={},hidden=2048,heads=16,seq=1024,vocab=8192,parallel={}";
  PlanRequest request =
      ask(fmt::format(fmt::runtime(sizes), layers, parallel ? 1 : 0), "p3.16xlarge:1", "megatron:tp=8", 8, 1);
  const Planned result = planned(request);
  EXPECT_TRUE(result.plan.has_value()) << result.reason;
  int count = 0;
  for (const StageExecutable& executable : result.program.executables)
    for (const LocalOp& op : executable.ops)
      count += executable.phase == Phase::Forward && op.step && op.step->kind == ReshardStep::Kind::AllReduce ? 1 : 0;
  return count;
}

TEST(ParallelBlock, SplitOverTensorsNeedsOneAllReduceForwardInsteadOfTwo) {
  EXPECT_EQ(forward_all_reduces(3, true) - forward_all_reduces(2, true), 1);
  EXPECT_EQ(forward_all_reduces(3, false) - forward_all_reduces(2, false), 2);
}

}  // namespace
}  // namespace meshwright::parallel_block_test
