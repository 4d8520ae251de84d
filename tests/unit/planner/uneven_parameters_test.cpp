// SPDX-License-Identifier: Apache-2.0
// Sizes that do not divide: what plans of the methods that split parameters hold then, and what they say of it.
#include "core/planner/method/uneven_parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "core/plan/lowering/collective_op.h"
#include "core/plan/placed_parameters.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::uneven_parameters_test {
namespace {

const char* const kGpt = "gpt:layers=2,hidden=32,heads=4,seq=8,vocab=33";

Planned plan_of(const char* model, const std::string& cluster, const std::string& method, std::int64_t batch,
                std::int64_t microbatches = 1) {
  PlanRequest request = ask(model, cluster, method, batch, microbatches);
  if (!request.search.method.one_stage()) request.search.layers = 2;
  Planned result = planned(request);
  EXPECT_TRUE(result.plan) << result.reason;
  return result;
}
UnevenParameters uneven(const Planned& result, const std::string& method) {
  return uneven_parameters(method_from_text(method), *result.plan, result.graph);
}

// What all devices together would hold without padding: parameters, accumulators and states.
Bytes total_of(const Graph& graph) {
  Bytes total(0.0);
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter || tensor.kind == TensorKind::Accumulator ||
        tensor.kind == TensorKind::OptimizerState)
      total += tensor.bytes();
  return total;
}

// 128, 24 and 7 devices, which divide next to nothing of these models.
TEST(Zero3, HoldsItsShareOfEverything) {
  const char* const wide = "llama:layers=2,hidden=2880,heads=20,kv_heads=20,intermediate=2880,seq=64,vocab=20100";
  for (const auto& [model, cluster, devices] :
       {std::tuple{wide, "dgx-h200:16", 128}, std::tuple{"llama-7b", "dgx-h100:3", 24},
        std::tuple{"llama:layers=2,hidden=2048,heads=32,kv_heads=32,intermediate=8192,seq=64,vocab=51200", "cpu:7", 7},
        std::tuple{"gpt-1.3b", "cpu:7", 7}}) {
    PlanRequest request = ask(model, cluster, "zero3", devices, 1);
    request.cluster.only().device.memory = Bytes(1e15);
    const Planned result = planned(request);
    ASSERT_TRUE(result.plan) << result.reason;
    const Bytes share = total_of(result.graph) / devices;
    for (const Bytes held : result.program.persistent_bytes) {
      EXPECT_GE(held, share) << model;
      EXPECT_LE(held, 1.03 * share) << model;
    }
    EXPECT_TRUE(uneven(result, "zero3").unsplit.empty()) << model;
  }
}

// The table of this model is its output matrix too: the gradients of both uses are summed split.
TEST(ZeroLevels, SumTheGradientOfATiedTableSplit) {
  for (const char* method : {"zero2", "zero3"}) {
    const Planned result = plan_of(kGpt, "cpu:5", method, 10, 2);
    int sums = 0;
    for (const Buffer& buffer : result.program.buffers) {
      const Tensor& tensor = result.graph.tensor(buffer.local.tensor);
      if (tensor.kind != TensorKind::Accumulator) continue;
      EXPECT_EQ(buffer.local.spec.used(), 1) << method << ": " << buffer.name;
      sums += result.graph.tensor(*tensor.parameter).name == "wte" ? 1 : 0;
    }
    EXPECT_EQ(sums, 2) << method;
  }
}

// The state's tiles on five devices are those of the header: rounded up, one after the other.
TEST(Zero1, HoldsPaddedTilesOfTheStateAndWholeWeights) {
  const Planned result = plan_of(kGpt, "cpu:5", "zero1", 10, 2);
  int padded = 0;
  for (const Buffer& buffer : result.program.buffers) {
    const Tensor& tensor = result.graph.tensor(buffer.local.tensor);
    if (tensor.kind == TensorKind::Parameter) {
      EXPECT_EQ(buffer.local.spec.used(), 0) << buffer.name;
    }
    if (tensor.kind != TensorKind::OptimizerState) continue;
    EXPECT_EQ(buffer.local.spec.used(), 1) << buffer.name;
    std::int64_t best = tensor.elements();
    for (const Dim& dim : tensor.dims) best = std::min(best, tensor.elements() / dim.size * ((dim.size + 4) / 5));
    EXPECT_EQ(buffer.local.elements(), best) << buffer.name;
    padded += best * 5 != tensor.elements() ? 1 : 0;
  }
  EXPECT_GT(padded, 0);
}

// Every copy of a group of three has the tile of the same place.
TEST(Hybrid, SplitsWithinGroupsAlone) {
  const Planned result = plan_of(kGpt, "cpu:6", "zero3:shard=3", 12, 2);
  EXPECT_EQ(result.plan->stages.front().logical_shape, (std::vector<int>{2, 3}));
  for (const PlacedParameter& placed : placed_parameters(*result.plan, result.graph)) {
    EXPECT_EQ(placed.sharding->weight.used(), 2) << result.graph.tensor(placed.tensor).name;
    EXPECT_EQ(placed.sharding->state, placed.sharding->weight);
  }
  for (const auto& [name, sharding] : result.plan->stages.front().ops) {
    const auto batch = sharding.axes.find("batch");
    if (batch != sharding.axes.end()) {
      EXPECT_EQ(batch->second, 3) << name;
    }
  }
}

// Gradients are scattered within the hosts; only their tiles cross to the other.
TEST(Hybrid, SumsTilesBetweenGroups) {
  PlanRequest request = ask("llama-7b", "dgx-h100:2", "zero3:shard=8", 16, 1);
  request.cluster.only().device.memory = Bytes(1e15);
  const Planned result = planned(request);
  ASSERT_TRUE(result.plan) << result.reason;
  std::set<int> scattered, summed;
  for (const StageExecutable& executable : result.program.executables)
    for (const LocalOp& op : executable.ops) {
      if (op.kind != LocalOp::Kind::Reshard || executable.phase != Phase::Backward) continue;
      if (op.step->kind == ReshardStep::Kind::ReduceScatter) scattered.insert(op.step->axis);
      if (op.step->kind == ReshardStep::Kind::AllReduce) summed.insert(op.step->axis);
    }
  EXPECT_EQ(scattered, std::set<int>{1});
  EXPECT_EQ(summed, std::set<int>{0});
}

// --- what is said ---

TEST(Said, IsThePaddingOfAllThatIsKept) {
  const Planned result = plan_of(kGpt, "cpu:5", "zero3", 10);
  Bytes padding(0.0);
  for (const Buffer& buffer : result.program.buffers) {
    const Tensor& tensor = result.graph.tensor(buffer.local.tensor);
    if (tensor.kind == TensorKind::Parameter || tensor.kind == TensorKind::OptimizerState)
      padding += buffer.local.bytes() - tensor.bytes() / 5.0;
  }
  EXPECT_GT(padding, Bytes(0.0));
  EXPECT_NEAR(uneven(result, "zero3").padding.si(), padding.si(), 1e-6);
}
TEST(Said, IsNothingWhereEverythingDivides) {
  const Planned result = plan_of("mlp:layers=2,hidden=16", "cpu:4", "zero3", 8);
  EXPECT_TRUE(uneven(result, "zero3").unsplit.empty());
  EXPECT_EQ(uneven(result, "zero3").padding, Bytes(0.0));
  EXPECT_EQ(uneven(plan_of(kGpt, "cpu:5", "data", 10), "data").padding, Bytes(0.0));
}
// A bias of one element has no dimension to split; `largest` pads nothing.
TEST(Said, IsWhatStaysWhole) {
  const Planned one = plan_of("mlp:layers=1,hidden=1", "cpu:3", "zero3", 6);
  const UnevenParameters of_one = uneven(one, "zero3");
  ASSERT_FALSE(of_one.unsplit.empty());
  for (const std::string& name : of_one.unsplit)
    for (const Tensor& tensor : one.graph.tensors())
      if (tensor.name == name) {
        EXPECT_EQ(tensor.elements(), 1) << name;
      }
  EXPECT_GT(of_one.unsplit_bytes, Bytes(0.0));
  const Planned largest = plan_of("mlp:layers=1,hidden=9", "cpu:5", "largest", 10);
  EXPECT_FALSE(uneven(largest, "largest").unsplit.empty());
}

// The checks of prices: a collective of padded tiles costs as much as one of a tensor that has that many rows.
TEST(Priced, AreTilesWithTheirPadding) {
  const Planned result = plan_of(kGpt, "cpu:5", "zero3", 10);
  const LogicalMesh& mesh = result.program.stages.front().mesh;
  int padded = 0;
  for (const StageExecutable& executable : result.program.executables)
    for (const LocalOp& op : executable.ops) {
      if (op.kind != LocalOp::Kind::Reshard || op.step->kind == ReshardStep::Kind::Slice) continue;
      const LocalTensor& in = executable.slots[static_cast<std::size_t>(op.inputs[0])].local;
      const LocalTensor& out = executable.slots[static_cast<std::size_t>(op.outputs[0])].local;
      const Bytes moved = collective_of(executable, op, mesh).bytes;
      if (op.step->kind == ReshardStep::Kind::AllGather) {
        EXPECT_EQ(moved, 5.0 * in.bytes());
        padded += moved > out.bytes() ? 1 : 0;
      } else if (op.step->kind == ReshardStep::Kind::ReduceScatter) {
        EXPECT_EQ(moved, 5.0 * out.bytes());
        padded += moved > in.bytes() ? 1 : 0;
      } else {
        EXPECT_EQ(moved, in.bytes());
      }
    }
  EXPECT_GT(padded, 0);
}

}  // namespace
}  // namespace meshwright::uneven_parameters_test
