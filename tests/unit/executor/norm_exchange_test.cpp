// SPDX-License-Identifier: Apache-2.0
// One norm of the gradients of all stages: the steps it clips, the way it takes, and what check_program proves of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "executor/check/run_reference.h"
#include "executor/executor.h"
#include "tests/run_on_host.h"
#include "tests/truth/instruction_engines.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::norm_exchange_test {
namespace {

constexpr const char* kGpt = "gpt:layers=3,hidden=16,heads=4,seq=8,vocab=32";  // its embedding is its head's weight too
const RunOptions kTwoSteps{.steps = 2, .seed = 3, .precision = DType::F64};

// Far below the norm of these gradients, which is above 0.1.
constexpr double kMaxNorm = 0.01;

TrainingOptions clipped(Optimizer::Kind kind, double max_norm = kMaxNorm) {
  return {.batch = 8,
          .microbatches = 2,
          .dtype = DType::F32,
          .optimizer = {.kind = kind, .learning_rate = 0.125, .max_norm = max_norm}};
}

const Names kWhole = {}, kTensor = {{"heads", 2}, {"mlp", 2}, {"vocab", 2}}, kData = {{"batch", 1}};
const Names kBoth = {{"batch", 1}, {"heads", 2}, {"mlp", 2}, {"vocab", 2}};

struct Case {
  const char* name;
  const char* cluster;
  std::vector<HandStage> stages;
  enum class States { AsWeights, Sharded, Eager } states = States::AsWeights;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
};

// Sharded, eager: states, and accumulators, of weights that are split in no dimension are split over the first axis.
HandPlan lowered(const Case& one, const TrainingOptions& training) {
  HandPlan made = by_hand(kGpt, one.cluster, training, one.stages, one.schedule);
  if (one.states == Case::States::AsWeights) return made;
  for (StagePlan& stage : made.plan.stages)
    for (auto& [name, sharding] : stage.parameters) {
      if (stage.logical_shape[0] == 1 || sharding.weight.used() != 0) continue;
      sharding.state.dims[0] = 1;
      sharding.eager = one.states == Case::States::Eager;
    }
  made.program = lower(made.plan, made.graph, *made.costs);
  made.check = check_program(made.program);
  return made;
}

std::vector<Case> cases() {
  using States = Case::States;
  const std::vector<HandStage> two = {{"", {1, 1}, kWhole}, {"blk1.ln1", {1, 1}, kWhole}};
  const std::vector<HandStage> three = {
      {"", {1, 1}, kWhole}, {"blk1.ln1", {1, 1}, kWhole}, {"blk2.ln1", {1, 1}, kWhole}};
  const std::vector<HandStage> four = {{"", {1, 1}, kWhole},
                                       {"blk0.mlp.up", {1, 1}, kWhole},
                                       {"blk1.mlp.up", {1, 1}, kWhole},
                                       {"blk2.mlp.up", {1, 1}, kWhole}};
  return {{"two", "cpu:2", two},
          {"three", "cpu:3", three},
          {"four", "cpu:4", four},
          {"four_gpipe", "cpu:4", four, States::AsWeights, ScheduleKind::GPipe},
          {"tensor_parallel", "cpu:4", {{"", {1, 2}, kTensor}, {"blk1.ln1", {1, 2}, kTensor}}},
          {"data_parallel", "cpu:4", {{"", {2, 1}, kData}, {"blk1.ln1", {2, 1}, kData}}},
          {"sharded", "cpu:4", {{"", {2, 1}, kData}, {"blk1.ln1", {2, 1}, kData}}, States::Sharded},
          {"eager", "cpu:4", {{"", {2, 1}, kData}, {"blk1.ln1", {2, 1}, kData}}, States::Eager},
          {"unequal",
           "cpu:8",
           {{"", {2, 2}, kBoth}, {"blk1.ln1", {1, 1}, kWhole}, {"blk2.ln1", {2, 1}, kData}},
           States::Sharded}};
}

class ClippingOverStages : public testing::TestWithParam<std::tuple<Case, Optimizer::Kind>> {};

TEST_P(ClippingOverStages, TrainsLikeOneDevice) {
  const auto& [one, kind] = GetParam();
  const HandPlan made = lowered(one, clipped(kind));
  ASSERT_EQ(check_plan(made.plan, made.graph), std::vector<std::string>{});
  ASSERT_EQ(made.check.violations, std::vector<std::string>{});
  const RunResult run = run_program(made.graph, made.program, made.check, kTwoSteps);
  const RunResult truth = run_reference(made.graph, kTwoSteps);
  EXPECT_EQ(run.peak_memory, made.check.peak_memory);
  for (const auto& [name, values] : truth.weights)
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(run.weights.at(name)[i], values[i], 1e-12) << name;
}
INSTANTIATE_TEST_SUITE_P(
    All, ClippingOverStages,
    testing::Combine(testing::ValuesIn(cases()),
                     testing::Values(Optimizer::Kind::Sgd, Optimizer::Kind::Momentum, Optimizer::Kind::Adam)),
    [](const auto& of) { return fmt::format("{}_{}", std::get<0>(of.param).name, name_of(std::get<1>(of.param))); });

// No reference is asked: plain descent goes learning rate times max_norm far, over the parameters of all stages
// together, each counted once.
TEST(ClippingOverStages, GoesAsFarAsTheNormAllows) {
  const HandPlan made = lowered(cases().back(), clipped(Optimizer::Kind::Sgd));
  const HandPlan still = lowered(cases().back(), [] {
    TrainingOptions training = clipped(Optimizer::Kind::Sgd);
    training.optimizer.learning_rate = 0.0;
    return training;
  }());
  const RunOptions one_step{.steps = 1, .seed = 3, .precision = DType::F64};
  const RunResult after = run_program(made.graph, made.program, made.check, one_step);
  const RunResult before = run_program(still.graph, still.program, still.check, one_step);
  double squares = 0.0;
  for (const auto& [name, values] : after.weights)
    for (std::size_t i = 0; i < values.size(); ++i) squares += std::pow(values[i] - before.weights.at(name)[i], 2);
  const double most = 0.125 * kMaxNorm;
  EXPECT_LT(std::sqrt(squares), most);
  EXPECT_GT(std::sqrt(squares), most * (1.0 - 1e-4));  // norm / (norm + 1e-6), of a norm above 0.01
}

// --- the way of the norm ---

// A pair of layers on each stage.
HandPlan chain(int stages, double max_norm) {
  std::vector<HandStage> cut;
  for (int s = 0; s < stages; ++s) cut.push_back({s == 0 ? std::string() : fmt::format("blk{}.up", s), {1, 1}, kWhole});
  return by_hand(fmt::format("mlp:layers={},hidden=8", stages), fmt::format("cpu:{}", stages),
                 clipped(Optimizer::Kind::Sgd, max_norm), cut);
}

bool is_of_norm(const Program& program, const Transfer& transfer) {
  return program.buffers[transfer.source_buffer.index()].name.starts_with("gradient_norm");
}

TEST(NormExchange, IsATreeFromTheStageThatEndsLast) {
  const HandPlan made = chain(19, kMaxNorm);
  std::vector<std::pair<int, int>> up, down;
  for (const Transfer& transfer : made.program.transfers)
    if (is_of_norm(made.program, transfer)) {
      (transfer.accumulate ? up : down).emplace_back(transfer.source.value, transfer.destination.value);
      EXPECT_EQ(transfer.bytes, Bytes(4));
    }
  ASSERT_EQ(up.size(), 18u);
  ASSERT_EQ(down.size(), 18u);
  for (int s = 1; s < 19; ++s) {
    const int parent = s <= 16 ? 0 : 1;
    EXPECT_EQ(up[static_cast<std::size_t>(s - 1)], std::pair(s, parent));
    EXPECT_EQ(down[static_cast<std::size_t>(s - 1)], std::pair(parent, s));
  }
  EXPECT_EQ(made.check.violations, std::vector<std::string>{});
  const RunResult run = run_program(made.graph, made.program, made.check, kTwoSteps);
  const RunResult truth = run_reference(made.graph, kTwoSteps);
  for (const auto& [name, values] : truth.weights)
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(run.weights.at(name)[i], values[i], 1e-12) << name;
}

TEST(NormExchange, IsLeftOutWhereNothingIsClipped) {
  const HandPlan made = chain(3, 0.0);
  for (const Transfer& transfer : made.program.transfers) EXPECT_FALSE(is_of_norm(made.program, transfer));
  for (const ProgramStage& stage : made.program.stages) EXPECT_FALSE(stage.norm);
}

// Gradients on data-parallel devices: one all-reduce for their norms together, not one for each.
TEST(NormExchange, SumsPartsOfShardsOnce) {
  Case sharded = cases()[6];
  ASSERT_STREQ(sharded.name, "sharded");
  const HandPlan made = lowered(sharded, clipped(Optimizer::Kind::Sgd));
  for (const ProgramStage& stage : made.program.stages) {
    const StageExecutable& norm = made.program.executables[static_cast<std::size_t>(stage.norm.value())];
    int of_scalars = 0;
    for (const LocalOp& op : norm.ops)
      if (op.kind == LocalOp::Kind::Reshard && norm.slots[static_cast<std::size_t>(op.inputs[0])].local.shape.empty())
        ++of_scalars;
    EXPECT_EQ(of_scalars, 1);
  }
}

TEST(NormExchange, IsWaitedForBeforeEveryUpdateInBothSimulations) {
  const HandPlan made = chain(18, kMaxNorm);
  const ProgramTimes times = program_costs(made.program, *made.costs).times;
  const Timeline timeline = simulate_in_order(made.program, made.check.order, times).timeline;
  EXPECT_EQ(timeline.spans, simulate_by_events(made.program, times).timeline.spans);
  // Norm and update of each device, in order; the norm of the first stage is the last, and two messages follow it.
  std::vector<std::vector<Span>> runs(18);
  for (const Span& span : timeline.spans)
    if (span.kind == Span::Kind::Update) runs[span.device.index()].push_back(span);
  SimTime message{0};
  for (std::size_t t = 0; t < made.program.transfers.size(); ++t)
    if (is_of_norm(made.program, made.program.transfers[t])) message = times.transfer[t];
  ASSERT_GT(message.ps, 0);
  for (std::size_t device = 0; device < 18; ++device) {
    ASSERT_EQ(runs[device].size(), 2u);
    const int hops = device == 0 ? 0 : device <= 16 ? 1 : 2;
    EXPECT_EQ(runs[device][1].begin.ps, runs[0][0].end.ps + hops * message.ps) << device;
  }
}

// --- what the check would say ---

std::string first_violation(const Program& program) {
  const ProgramCheck check = check_program(program);
  return check.violations.empty() ? "" : check.violations.front();
}

TEST(NormExchange, OfAPartThatIsNotThereIsAViolation) {
  HandPlan made = chain(2, kMaxNorm);
  auto& first = made.program.devices[0];
  std::erase_if(first, [&](const Instruction& instruction) {
    return instruction.kind == Instruction::Kind::Run && instruction.executable == made.program.stages[0].norm;
  });
  EXPECT_NE(first_violation(made.program).find("receives into buffer 'gradient_norm.part' of microbatch 0"),
            std::string::npos)
      << first_violation(made.program);
}

TEST(NormExchange, ThatAsksForTheSumBeforeItGivesItsPartIsADeadlock) {
  HandPlan made = chain(2, kMaxNorm);
  auto& second = made.program.devices[1];
  const auto both = std::find_if(second.begin(), second.end(), [&](const Instruction& instruction) {
    return instruction.kind == Instruction::Kind::Exchange && !instruction.sends.empty() &&
           made.program.transfers[static_cast<std::size_t>(instruction.sends[0])].accumulate;
  });
  ASSERT_NE(both, second.end());
  Instruction give = *both;
  give.receives.clear();
  give.buffers.clear();
  both->sends.clear();
  second.insert(both + 1, give);
  EXPECT_TRUE(first_violation(made.program).starts_with("deadlock: ")) << first_violation(made.program);
}

}  // namespace
}  // namespace meshwright::norm_exchange_test
