// SPDX-License-Identifier: Apache-2.0
// Programs of differently split plans against the graph computed whole on one device: in double, 1e-12 separates
// "wrong" from "rounded".
#include "executor/executor.h"
#include "executor/check/run_reference.h"
#include "tests/run_on_host.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "core/base/errors.h"
#include "core/graph/import/find_model.h"
#include "core/plan/lowering/lower.h"
#include "executor/base/clock.h"
#include "executor/measure/profiler.h"

namespace meshwright::executor_test {
namespace {

// Every step costs its bytes, so that reshardings are short and have no ties that matter.
class CostOfBytes : public CostModel {
 public:
  TimeEstimate compute(const OpWork&) const override { return {Seconds(1), Basis::Modelled}; }
  TimeEstimate collective(CollectiveKind, Bytes bytes, const MeshAxis&) const override {
    return {Seconds(1 + bytes.si()), Basis::Modelled};
  }
  TimeEstimate transfer(Bytes bytes, bool, int) const override { return {Seconds(1 + bytes.si()), Basis::Modelled}; }
  Seconds run_overhead() const override { return Seconds(0); }
};

using Names = std::map<std::string, AxisMask>;  // dimension name -> mesh axes that split it

struct StageCut {
  std::string first_op;  // "" = the graph's first
  std::vector<int> shape;
  Names split;
  AxisMask state_split = 0;  // extra mesh axes on the optimizer state's first dimension
};

struct Scenario {
  std::string model;
  TrainingOptions training;
  std::vector<StageCut> stages;
  ScheduleKind schedule = ScheduleKind::OneFOneB;
};

AxisMask mask_of(const Names& names, const std::string& name) {
  const auto found = names.find(name);
  return found == names.end() ? AxisMask{0} : found->second;
}
ShardingSpec spec_of(const std::vector<Dim>& dims, const Names& names) {
  ShardingSpec spec;
  for (const Dim& dim : dims) spec.dims.push_back(mask_of(names, dim.name));
  return spec;
}

// Splits every op and tensor by the names of its dimensions, where the op allows it.
void split_by_name(const Graph& graph, const Op& op, const StageCut& cut, StagePlan& stage) {
  const IterationSpace space = iteration_space(graph, op);
  Names allowed;
  for (const IterationAxis& axis : space.axes)
    if (axis.splittable && mask_of(cut.split, axis.name) != 0) allowed[axis.name] = mask_of(cut.split, axis.name);
  stage.ops[op.name] = {allowed, spec_of(graph.tensor(op.outputs[0]).dims, allowed)};
  for (const TensorId input : op.inputs) {
    const Tensor& tensor = graph.tensor(input);
    if (tensor.kind != TensorKind::Parameter) continue;
    const ShardingSpec weight = spec_of(tensor.dims, allowed);
    ShardingSpec state = weight;
    if (tensor.dims[0].size % 4 == 0) state.dims[0] = static_cast<AxisMask>(state.dims[0] | cut.state_split);
    stage.parameters[op.name + "/" + tensor.name] = {weight, state};
  }
}

Plan make_plan(const Scenario& scenario, const Graph& graph) {
  Plan plan;
  plan.model = find_model(scenario.model);
  plan.training = scenario.training;
  plan.cluster = find_cluster("cpu:4");
  plan.schedule = scenario.schedule;
  const std::vector<OpId> forward = forward_ops(graph);
  int device = 0;
  std::vector<int> stage_of(graph.tensors().size(), -1);
  for (std::size_t s = 0; s < scenario.stages.size(); ++s) {
    const StageCut& cut = scenario.stages[s];
    StagePlan stage{static_cast<int>(s), static_cast<int>(s), {1, 1}, cut.shape, {}, {}, {}, {}};
    for (const int size : cut.shape) stage.submesh.devices_per_host *= size;
    for (int d = 0; d < stage.submesh.devices(); ++d) stage.devices.push_back(device++);
    bool inside = false;
    for (std::size_t i = 0; i < forward.size(); ++i) {
      const Op& op = graph.op(forward[i]);
      if (op.name == cut.first_op || (cut.first_op.empty() && i == 0)) {
        plan.layer_starts.push_back(static_cast<int>(i));
        inside = true;
      }
      if (s + 1 < scenario.stages.size() && op.name == scenario.stages[s + 1].first_op) break;
      if (!inside) continue;
      split_by_name(graph, op, cut, stage);
      for (const TensorId output : op.outputs) stage_of[output.index()] = static_cast<int>(s);
      for (const TensorId input : op.inputs)
        if (graph.tensor(input).producer && stage_of[input.index()] != static_cast<int>(s))
          stage.inputs[graph.tensor(input).name] = spec_of(graph.tensor(input).dims, cut.split);
    }
    plan.stages.push_back(std::move(stage));
  }
  plan.graph_fingerprint = fingerprint_of(graph);
  return plan;
}

struct Built {
  Graph graph;
  Program program;
  ProgramCheck check;
};

Built build(const Scenario& scenario) {
  Built built{build_training_graph(find_model(scenario.model), scenario.training), {}, {}};
  const Plan plan = make_plan(scenario, built.graph);
  EXPECT_EQ(check_plan(plan, built.graph), std::vector<std::string>{});
  built.program = lower(plan, built.graph, CostOfBytes{});
  built.check = check_program(built.program);
  EXPECT_EQ(built.check.violations, std::vector<std::string>{});
  return built;
}

// Largest difference over all weights, relative to the largest weight of its parameter.
double difference(const RunResult& a, const RunResult& b) {
  double worst = 0.0;
  EXPECT_EQ(a.weights.size(), b.weights.size());
  for (const auto& [name, values] : a.weights) {
    const std::vector<double>& other = b.weights.at(name);
    double scale = 0.0, apart = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      scale = std::max(scale, std::abs(other[i]));
      apart = std::max(apart, std::abs(values[i] - other[i]));
    }
    worst = std::max(worst, apart / scale);
  }
  for (std::size_t step = 0; step < a.losses.size(); ++step)
    worst = std::max(worst, std::abs(a.losses[step] - b.losses[step]) / std::abs(b.losses[step]));
  return worst;
}

const RunOptions kThreeSteps{.steps = 3, .seed = 5, .precision = DType::F64};

void expect_equal_to_reference(const Scenario& scenario) {
  const Built built = build(scenario);
  const RunResult result = run_program(built.graph, built.program, built.check, kThreeSteps);
  EXPECT_LT(difference(result, run_reference(built.graph, kThreeSteps)), 1e-12);
  ASSERT_EQ(result.peak_memory.size(), built.check.peak_memory.size());
  for (std::size_t d = 0; d < result.peak_memory.size(); ++d)
    EXPECT_EQ(result.peak_memory[d].si(), built.check.peak_memory[d].si()) << "device " << d;
}

const std::string kGpt = "gpt:layers=2,hidden=16,heads=4,seq=8,vocab=32";
const std::string kMlp = "mlp:layers=2,hidden=8";
// Plain descent keeps the relative error of the weights at the gradients'; Adam divides by a root and may amplify it.
TrainingOptions training(std::int64_t microbatches, DType dtype = DType::F32, Recompute recompute = Recompute::None,
                         Optimizer::Kind optimizer = Optimizer::Kind::Sgd) {
  return {
      .batch = 8, .microbatches = microbatches, .dtype = dtype, .optimizer = {optimizer, 0.1}, .recompute = recompute};
}
const Names kData = {{"batch", 1}};
const Names kTensor = {{"heads", 1}, {"mlp", 1}, {"vocab", 1}};
const Names kDataAndTensor = {{"batch", 1}, {"heads", 2}, {"mlp", 2}, {"vocab", 2}};

TEST(Executor, OneDeviceMatchesTheReference) { expect_equal_to_reference({kGpt, training(1), {{"", {1}, {}}}}); }
TEST(Executor, DataParallelMatchesTheReference) { expect_equal_to_reference({kGpt, training(2), {{"", {4}, kData}}}); }
TEST(Executor, TensorParallelMatchesTheReference) {
  expect_equal_to_reference({kGpt, training(2), {{"", {4}, kTensor}}});
}
TEST(Executor, BothOnAMeshMatchTheReference) {
  expect_equal_to_reference({kGpt, training(1), {{"", {2, 2}, kDataAndTensor}}});
}
TEST(Executor, SplitSequenceOutsideAttentionMatchesTheReference) {
  expect_equal_to_reference({kGpt, training(1), {{"", {2, 2}, {{"batch", 1}, {"seq", 2}}}}});
}
TEST(Executor, SplitOptimizerStateMatchesTheReference) {
  expect_equal_to_reference({kGpt, training(2), {{"", {4}, kData, 1}}});
  expect_equal_to_reference({kMlp, training(1), {{"", {2, 2}, kDataAndTensor, 1}}});
}
TEST(Executor, MasterCopiesOfHalfPrecisionWeightsMatchTheReference) {
  expect_equal_to_reference({kGpt, training(2, DType::F16), {{"", {4}, kData, 1}}});
}
// The embedding table is read by the first and by the last stage.
TEST(Executor, PipelineWithASharedTableMatchesTheReference) {
  const std::vector<StageCut> stages = {{"", {2}, kData}, {"blk1.ln1", {2}, kTensor}};
  expect_equal_to_reference({kGpt, training(4), stages});
  expect_equal_to_reference({kGpt, training(4), stages, ScheduleKind::GPipe});
  expect_equal_to_reference({kGpt, training(4, DType::F32, Recompute::Full), stages});
}
TEST(Executor, PipelineOfUnequalMeshesMatchesTheReference) {
  expect_equal_to_reference(
      {kMlp, training(2), {{"", {1}, {}}, {"blk0.down", {1, 2}, {{"mlp", 2}}}, {"blk1.down", {1}, {}}}});
}

TEST(Executor, AdamInPipelineMatchesTheReference) {
  const Scenario scenario{kMlp,
                          training(2, DType::F32, Recompute::None, Optimizer::Kind::Adam),
                          {{"", {2}, kData, 1}, {"blk1.up", {2}, kTensor}}};
  const Built built = build(scenario);
  const RunResult result = run_program(built.graph, built.program, built.check, kThreeSteps);
  EXPECT_LT(difference(result, run_reference(built.graph, kThreeSteps)), 1e-9);
}

TEST(Executor, RepeatsBitForBitAndFollowsTheSeed) {
  const Built built = build({kGpt, training(2), {{"", {2, 2}, kDataAndTensor}}});
  const RunOptions options{.steps = 2, .seed = 1, .precision = DType::F32};
  const RunResult first = run_program(built.graph, built.program, built.check, options);
  const RunResult second = run_program(built.graph, built.program, built.check, options);
  EXPECT_EQ(first.weights, second.weights);
  EXPECT_EQ(first.losses, second.losses);
  RunOptions other = options;
  other.seed = 2;
  EXPECT_NE(run_program(built.graph, built.program, built.check, other).losses, first.losses);
}

// 24 bits over sums of at most 64 terms.
TEST(Executor, InFloatIsCloseToDouble) {
  const Built built = build({kGpt, training(2), {{"", {2, 2}, kDataAndTensor}}});
  const RunResult result =
      run_program(built.graph, built.program, built.check, {.steps = 2, .seed = 5, .precision = DType::F32});
  const double apart = difference(result, run_reference(built.graph, {.steps = 2, .seed = 5, .precision = DType::F64}));
  EXPECT_LT(apart, 1e-4);
  EXPECT_GT(apart, 1e-12);  // it is float
}

// The same samples whatever the number of microbatches: the same step.
TEST(Executor, MicrobatchesDoNotChangeTheStep) {
  const Built one = build({kGpt, training(1), {{"", {2}, kData}}});
  const Built four = build({kGpt, training(4), {{"", {2}, kData}}});
  const RunResult a = run_program(one.graph, one.program, one.check, kThreeSteps);
  EXPECT_LT(difference(a, run_program(four.graph, four.program, four.check, kThreeSteps)), 1e-12);
}

TEST(Executor, TheLossOfARandomTargetIsAboutItsVariance) {
  const Built built = build({kMlp, training(1), {{"", {1}, {}}}});
  const RunResult result =
      run_program(built.graph, built.program, built.check, {.steps = 1, .seed = 5, .precision = DType::F64});
  const RunResult reference = run_reference(built.graph, kThreeSteps);
  EXPECT_EQ(result.losses[0], reference.losses[0]);
  // E (x - y)^2 of a uniform target in [-1, 1) and an output near 0: about 1/3.
  EXPECT_NEAR(result.losses[0], 1.0 / 3, 0.15);
}

TEST(Executor, TimelineCoversEveryRunOfTheLastStep) {
  const Built built = build({kGpt, training(4), {{"", {2}, kData}, {"blk1.ln1", {2}, kTensor}}});
  const RunResult result = run_program(built.graph, built.program, built.check, kThreeSteps);
  std::map<Span::Kind, int> count;
  for (const Span& span : result.timeline.spans) {
    ++count[span.kind];
    EXPECT_LE(span.begin, span.end);
    EXPECT_GE(span.begin, SimTime{0});
    EXPECT_LE(span.end, result.timeline.end);
  }
  EXPECT_EQ(count[Span::Kind::Forward], 16);  // 4 devices x 4 microbatches
  EXPECT_EQ(count[Span::Kind::Backward], 16);
  EXPECT_EQ(result.step_times.size(), 3u);
}

// Steps follow one another: together they take no longer than the run.
TEST(Executor, EveryStepIsTimedFromItsOwnBeginning) {
  const Built built = build({kMlp, training(2), {{"", {2}, kData}}});
  const RunOptions ten{.steps = 10, .seed = 5, .precision = DType::F64};
  const Clock::time_point begin = Clock::now();
  const RunResult result = run_program(built.graph, built.program, built.check, ten);
  const Seconds all = to_seconds(since(begin, Clock::now()));
  ASSERT_EQ(result.step_times.size(), 10U);
  Seconds sum(0.0);
  for (const Seconds step : result.step_times) {
    EXPECT_GT(step, Seconds(0.0));
    sum += step;
  }
  EXPECT_LE(sum, all);
}

// The second step is about to begin when the run is told to stop: it is the last of a hundred.
TEST(Executor, AStoppedRunIsOneOfFewerSteps) {
  const Built built = build({kMlp, training(2), {{"", {2}, kData}}});
  const RunOptions two{.steps = 2, .seed = 5, .precision = DType::F64};
  const RunResult whole = run_program(built.graph, built.program, built.check, two);
  RunOptions stopped = two;
  int asked = 0;
  stopped.steps = 100;
  stopped.recorded_steps = 10;
  stopped.stops = [&asked] { return ++asked == 2; };
  const RunResult result = run_program(built.graph, built.program, built.check, stopped);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(result.losses, whole.losses);
  EXPECT_EQ(result.weights, whole.weights);
  EXPECT_EQ(result.step_times.size(), 2U);
  ASSERT_EQ(result.timelines.size(), 1U);
  EXPECT_EQ(result.timeline.spans.size(), whole.timeline.spans.size());
}

// The recorded steps are those from the ninety-first on.
TEST(Executor, ARunThatIsStoppedLateKeepsTheRecordedStepsThatItDid) {
  const Built built = build({kMlp, training(1), {{"", {1}, {}}}});
  int asked = 0;
  RunOptions options{.steps = 100, .seed = 5, .precision = DType::F64, .recorded_steps = 10};
  options.stops = [&asked] { return ++asked == 93; };
  const RunResult result = run_program(built.graph, built.program, built.check, options);
  EXPECT_EQ(result.losses.size(), 93U);
  EXPECT_EQ(result.timelines.size(), 3U);
}

// Only the forward runs: the loss is that of the first step, and the weights stay.
TEST(Executor, InferenceGivesTheLossWithoutTraining) {
  const Built built =
      build({kGpt, training(2), {{"", {2}, kData}, {"blk1.ln1", {2}, kTensor}}, ScheduleKind::Inference});
  const RunOptions one{.steps = 1, .seed = 5, .precision = DType::F64},
      two{.steps = 2, .seed = 5, .precision = DType::F64};
  const RunResult result = run_program(built.graph, built.program, built.check, one);
  EXPECT_NEAR(result.losses[0], run_reference(built.graph, one).losses[0], 1e-12);
  EXPECT_EQ(run_program(built.graph, built.program, built.check, two).weights, result.weights);
}

// The comparison would notice: every shard of the vocabulary takes itself for the first.
TEST(Executor, AWrongProgramIsFarFromTheReference) {
  Built built = build({kGpt, training(1), {{"", {4}, kTensor}}});
  for (StageExecutable& executable : built.program.executables)
    for (LocalOp& op : executable.ops) op.axis_masks.assign(op.axis_masks.size(), 0);
  const RunResult result = run_program(built.graph, built.program, built.check, kThreeSteps);
  EXPECT_GT(difference(result, run_reference(built.graph, kThreeSteps)), 1e-3);
}

// Device 1 fails in its first instruction; the others wait for it in a collective or for its message, and must end.
TEST(Executor, AFailingDeviceEndsTheRunWithItsNumber) {
  Built built = build({kGpt, training(2), {{"", {2}, kData}, {"blk1.ln1", {2}, kTensor}}});
  const auto not_live =
      std::find_if(built.program.buffers.begin(), built.program.buffers.end(),
                   [](const Buffer& buffer) { return buffer.stage == StageId(0) && !buffer.persistent; });
  std::vector<Instruction>& list = built.program.devices[1];
  list.insert(list.begin(), {Instruction::Kind::Free, -1, MicrobatchId(0), {}, {}, {not_live->id}});
  try {
    static_cast<void>(run_program(built.graph, built.program, built.check, kThreeSteps));
    FAIL() << "the run ended well";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("device 1:"), std::string::npos) << error.what();
  }
}

TEST(Executor, RefusesOptionsThatMakeNoSense) {
  const Built built = build({kMlp, training(1), {{"", {1}, {}}}});
  EXPECT_THROW(static_cast<void>(run_program(built.graph, built.program, built.check, {.steps = 0})), InputError);
  EXPECT_THROW(static_cast<void>(run_reference(built.graph, {.precision = DType::F16})), InputError);
}

// --- profiler ---

TEST(Profiler, MeasuresEveryOpOfATrainingStep) {
  const Graph graph =
      build_training_graph(find_model(kGpt), training(1, DType::F16, Recompute::None, Optimizer::Kind::Adam));
  const MeasureOptions quick{.warmup = 1, .samples = 3, .min_sample = Seconds(0)};
  for (const Op& op : graph.ops()) {
    std::vector<std::int64_t> sizes;
    for (const IterationAxis& axis : iteration_space(graph, op).axes) sizes.push_back(axis.size);
    const MeasuredTime sampled = HostMeasurer(2, Bytes(1e9)).measure_op(graph, op, sizes, quick).value();
    EXPECT_GT(sampled.median, Seconds(0)) << op.name;
    EXPECT_EQ(sampled.samples, 3);
  }
}

TEST(Profiler, MeasuresCommunicationAndOverhead) {
  const MeasureOptions quick{.warmup = 1, .samples = 4, .min_sample = Seconds(0)};
  HostMeasurer measurer(2, Bytes(1e9));
  for (const CollectiveKind kind :
       {CollectiveKind::AllReduce, CollectiveKind::ReduceScatter, CollectiveKind::AllGather, CollectiveKind::AllToAll})
    EXPECT_GT(measurer.measure_collective(kind, 4096, 2, quick).median, Seconds(0)) << name_of(kind);
  EXPECT_GT(measurer.measure_transfer(4096, quick).median, Seconds(0));
  EXPECT_GT(measurer.measure_run_overhead(quick).median, Seconds(0));
  EXPECT_NE(describe_device().find(" thread"), std::string::npos);
  EXPECT_EQ(describe_libraries().rfind("oneDNN ", 0), 0u);
}

}  // namespace
}  // namespace meshwright::executor_test
