// SPDX-License-Identifier: Apache-2.0
// What several products read is brought to them once, and their contributions to its gradient are summed before they
// cross the mesh: counted in the lowered programs, and priced the same by the planner's model.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "executor/check/run_reference.h"
#include "executor/executor.h"
#include "tests/run_on_host.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::fan_out_test {
namespace {

using Kind = ReshardStep::Kind;

const char* const kLlama = "llama:layers=3,hidden=64,heads=4,kv_heads=4,intermediate=64,seq=16,vocab=32";

// A parameter's gradient: when it is synchronised is another matter.
bool is_accumulated(const Graph& graph, TensorId gradient) {
  return std::any_of(graph.ops().begin(), graph.ops().end(),
                     [&](const Op& op) { return op.kind == OpKind::Accumulate && op.inputs[1] == gradient; });
}

// Number of collectives of each kind on what the ops of a block make, in one phase of a microbatch. Parameters are left
// out.
std::map<Kind, int> collectives(const Planned& result, int block, Phase phase) {
  std::map<Kind, int> count;
  for (const StageExecutable& executable : result.program.executables) {
    if (executable.phase != phase) continue;
    for (const LocalOp& op : executable.ops) {
      if (op.kind != LocalOp::Kind::Reshard || op.step->kind == Kind::Slice) continue;
      const LocalTensor& local = executable.slots[static_cast<std::size_t>(op.inputs[0])].local;
      const Tensor& tensor = result.graph.tensor(local.tensor);
      if (tensor.producer && result.graph.op(*tensor.producer).block == block &&
          !is_accumulated(result.graph, tensor.id))
        ++count[op.step->kind];
    }
  }
  return count;
}

PlanRequest megatron(const std::string& model, int devices, const std::string& method) {
  PlanRequest request = ask(model, fmt::format("cpu:{}", devices), method, 4, 1);
  request.training.dtype = DType::F32;
  request.training.optimizer = {.kind = Optimizer::Kind::Sgd, .learning_rate = 1e-2};
  request.search.logical_mesh = {1, devices};
  request.search.layers = 3;  // its blocks
  return request;
}

// Three products read the first norm's result, two the second's; each half of the block needs one sum back.
TEST(FanOut, OfTensorParallelLlamaSumsGradientsOncePerHalfOfABlock) {
  PlanRequest request = ask("llama-7b", "dgx-a100:1", "megatron:tp=8", 1, 1);
  request.training.dtype = request.model.default_dtype;
  request.search.logical_mesh = {1, 8};
  request.search.layers = 32;
  const Planned result = planned(request);
  ASSERT_TRUE(result.plan) << result.reason;
  EXPECT_EQ(collectives(result, 15, Phase::Forward), (std::map<Kind, int>{{Kind::AllReduce, 2}}));
  EXPECT_EQ(collectives(result, 15, Phase::Backward), (std::map<Kind, int>{{Kind::AllReduce, 2}}));
}

// Sequence parallel: a norm's result is gathered once for all that read it, forward and again backward, and its
// gradient scattered once; the results of the two halves are scattered forward and their gradients gathered backward.
TEST(FanOut, OfSequenceParallelLlamaGathersOnceForAllReaders) {
  const Planned result = planned(megatron(kLlama, 2, "megatron:tp=2,sp=1,exact=1"));
  ASSERT_TRUE(result.plan) << result.reason;
  EXPECT_EQ(collectives(result, 1, Phase::Forward),
            (std::map<Kind, int>{{Kind::ReduceScatter, 2}, {Kind::AllGather, 2}}));
  const auto backward = collectives(result, 1, Phase::Backward);
  EXPECT_EQ(backward.at(Kind::ReduceScatter), 2);
  EXPECT_LE(backward.at(Kind::AllGather), 4);
  EXPECT_FALSE(backward.contains(Kind::AllReduce));
}

// Both ways of summing give the weights of one device.
TEST(FanOut, TrainsTheSameWithAndWithoutIt) {
  const PlanRequest request = megatron(kLlama, 2, "megatron:tp=2");
  Planned with = planned(request);
  ASSERT_TRUE(with.plan) << with.reason;
  ASSERT_FALSE(with.plan->stages.front().fan_outs.empty());
  Plan plain = *with.plan;
  plain.stages.front().fan_outs.clear();
  ASSERT_TRUE(check_plan(plain, with.graph).empty());
  const auto costs = make_analytic_cost_model(request.cluster);
  const Program without = lower(plain, with.graph, *costs);
  const ProgramCheck check = check_program(without);
  ASSERT_TRUE(check.violations.empty()) << check.violations.front();
  const RunOptions run{.steps = 2, .seed = 3, .precision = DType::F64};
  const RunResult summed = run_program(with.graph, with.program, with.check, run);
  const RunResult one_by_one = run_program(with.graph, without, check, run);
  const RunResult truth = run_reference(with.graph, run);
  for (const auto& [name, values] : truth.weights)
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(summed.weights.at(name)[i], values[i], 1e-12) << name;
      EXPECT_NEAR(one_by_one.weights.at(name)[i], values[i], 1e-12) << name;
    }
  SimulatedStep step(*costs);
  EXPECT_LT(step.step_of(with.program, with.check), step.step_of(without, check));
}

TEST(FanOut, OutlivesItsFile) {
  const Planned result = planned(megatron(kLlama, 2, "megatron:tp=2,sp=1"));
  ASSERT_TRUE(result.plan) << result.reason;
  const Plan read = plan_from_json(to_json(*result.plan), "plan.json");
  EXPECT_FALSE(result.plan->stages.front().fan_outs.empty());
  EXPECT_EQ(read.stages.front().fan_outs, result.plan->stages.front().fan_outs);
}

class FanOutOfAPlan : public testing::Test {
 protected:
  Planned result_ = planned(megatron(kLlama, 2, "megatron:tp=2"));
  std::map<std::string, FanOut>& fan_outs() { return result_.plan->stages.front().fan_outs; }
  [[nodiscard]] std::string violation() const {
    const auto found = check_plan(*result_.plan, result_.graph);
    return found.empty() ? "" : found.front();
  }
  void expect(const std::string& part) const {
    EXPECT_NE(violation().find(part), std::string::npos) << "'" << violation() << "' lacks '" << part << "'";
  }
};

TEST_F(FanOutOfAPlan, IsSoundAsPlanned) {
  ASSERT_EQ(fan_outs().count("blk1.ln1"), 1u);
  EXPECT_EQ(violation(), "");
}
TEST_F(FanOutOfAPlan, MustBeOfATensorThatTheStageMakes) {
  fan_outs()["blk9.ln1"] = fan_outs().at("blk1.ln1");
  expect("fans out 'blk9.ln1', which none of its ops produces first");
}
TEST_F(FanOutOfAPlan, MustCutTheGradientAsTheCopy) {
  fan_outs()["blk1.ln1"].gradient = {{0, 2, 0}, 0};
  expect("it is split as RS1R, its copy as RRR");
}
TEST_F(FanOutOfAPlan, MustNotNameAMeshAxisThatIsNotThere) {
  fan_outs()["blk1.ln1"].gradient.partial = 4;
  expect("mesh axis 2 does not exist");
}
TEST_F(FanOutOfAPlan, MustSumOnlyContributionsThatAreMadeAsItSays) {
  result_.plan->stages.front().ops.at("blk1.attn.q").axes = {{"seq", 2}};
  expect("leaves its contribution as");
}

}  // namespace
}  // namespace meshwright::fan_out_test
