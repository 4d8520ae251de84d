// SPDX-License-Identifier: Apache-2.0
// Steps that are captured once and replayed train the same bits as steps that are issued op by op.
#include <gtest/gtest.h>

#include "core/base/errors.h"
#include "executor/cuda/cuda_backend.h"
#include "executor/device/step_replayer.h"
#include "executor/executor.h"
#include "tests/run_on_host.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::replayed_steps_test {
namespace {

const RunOptions kFiveSteps{.steps = 5, .seed = 3, .recorded_steps = 2};

CudaOptions with_graphs(bool graphs, int gpus) {
  CudaOptions options;
  options.graphs = graphs;
  options.gpus = gpus;
  return options;
}

void expect_same(const RunResult& run, const RunResult& other) {
  EXPECT_EQ(run.losses, other.losses);
  EXPECT_EQ(run.weights, other.weights);
  EXPECT_EQ(run.second_moments, other.second_moments);
  EXPECT_EQ(run.loss_scales, other.loss_scales);
  EXPECT_EQ(run.peak_memory, other.peak_memory);
}

// Every stretch of work has its time in every recorded step, within the step.
void expect_dated(const RunResult& run, const RunResult& other) {
  ASSERT_EQ(run.timelines.size(), other.timelines.size());
  for (std::size_t step = 0; step < run.timelines.size(); ++step) {
    EXPECT_EQ(run.timelines[step].spans.size(), other.timelines[step].spans.size());
    for (const Span& span : run.timelines[step].spans) {
      EXPECT_LE(span.begin, span.end);
      EXPECT_LE(span.end, run.timelines[step].end);
    }
  }
}

void expect_replay(const Graph& graph, const Program& program, const ProgramCheck& check) {
  const int devices = static_cast<int>(program.devices.size());
  const int gpus = std::min(devices, kernels::cuda::device_count());
  CudaBackend captured(with_graphs(true, gpus), devices), op_by_op(with_graphs(false, gpus), devices);
  const RunResult run = run_program(graph, program, check, kFiveSteps, captured);
  const RunResult truth = run_program(graph, program, check, kFiveSteps, op_by_op);
  EXPECT_EQ(run.issued.replayed, 4) << run.issued.why_none;
  EXPECT_TRUE(run.issued.as.starts_with("a CUDA graph of ")) << run.issued.as;
  EXPECT_EQ(truth.issued.replayed, 0);
  EXPECT_EQ(truth.issued.why_none, "CUDA graphs are off");
  expect_same(run, truth);
  expect_dated(run, truth);
  EXPECT_NE(truth.losses.back(), truth.losses.front());
}

struct Case {
  const char *name, *model, *method;
  int microbatches;
  DType dtype = DType::BF16;
  Optimizer::Kind optimizer = Optimizer::Kind::Adam;
  Offload offload = Offload::None;
};

Planned plan_of(const Case& c) {
  PlanRequest request = ask(c.model, "dgx-a100:1", c.method, 16, c.microbatches);
  request.cluster = take_part(request.cluster, 1, 4);
  request.training.dtype = c.dtype;
  request.training.optimizer = {.kind = c.optimizer, .learning_rate = 1e-2, .max_norm = 1.0};
  request.training.offload = c.offload;
  request.cluster.only().device.host_memory = Bytes(1e12);
  request.cluster.only().device.host_bandwidth = BytesPerSecond(2e10);
  if (!request.search.method.one_stage()) request.search.layers = 2;
  Planned made = planned(request);
  EXPECT_TRUE(made.plan.has_value()) << made.reason;
  return made;
}

class ReplayedSteps : public testing::TestWithParam<Case> {};

TEST_P(ReplayedSteps, TrainTheSameBits) {
  const Planned made = plan_of(GetParam());
  expect_replay(made.graph, made.program, made.check);
}

const char* const kMlp = "mlp:layers=4,hidden=16";

INSTANTIATE_TEST_SUITE_P(
    Of, ReplayedSteps,
    testing::Values(Case{"DataParallel", kMlp, "data", 2}, Case{"Zero", kMlp, "zero3", 1},
                    Case{"TensorParallel", kMlp, "megatron:tp=2", 1}, Case{"Pipeline", kMlp, "pipeshard", 4},
                    Case{"PipelineOfTensorParallelStages", kMlp, "megatron:tp=2,pp=2", 2},
                    Case{"ScaledLosses", kMlp, "shard", 2, DType::F16},
                    Case{"Adafactor", kMlp, "zero1", 2, DType::BF16, Optimizer::Kind::Adafactor},
                    Case{"StatesOnHosts", kMlp, "zero1", 2, DType::BF16, Optimizer::Kind::Adam, Offload::Optimizer}),
    [](const auto& test) { return test.param.name; });

// Two stages, the first of them split: dropout masks by the step, Adam corrects by it.
TEST(ReplayedSteps_, DropOtherElementsInEachStep) {
  const TrainingOptions training{.batch = 16, .microbatches = 2, .dtype = DType::F32};
  Graph graph;
  graph.name = "dropped";
  graph.batch = training.batch, graph.microbatches = training.microbatches, graph.dtype = training.dtype;
  const Dim batch{"batch", 8}, embed{"embed", 16}, hidden{"hidden", 32};
  const TensorId x = graph.add_tensor("x", TensorKind::Input, DType::F32, {batch, embed});
  const TensorId y = graph.add_tensor("y", TensorKind::Input, DType::F32, {batch, embed});
  const TensorId up = graph.add_tensor("up.weight", TensorKind::Parameter, DType::F32, {embed, hidden});
  const TensorId down = graph.add_tensor("down.weight", TensorKind::Parameter, DType::F32, {hidden, embed});
  const TensorId made = graph.add_op(OpKind::Contract, "up", {x, up}, {.result_names = {"batch", "hidden"}})[0];
  const TensorId kept = graph.add_op(OpKind::Dropout, "drop", {made}, {.probability = 0.5, .seed = 9})[0];
  const TensorId out = graph.add_op(OpKind::Contract, "down", {kept, down}, {.result_names = {"batch", "embed"}})[0];
  graph.loss = graph.add_op(OpKind::SquaredErrorLoss, "loss", {out, y}, {.scale = 1.0 / 256})[0];
  append_training_step(graph, {.kind = Optimizer::Kind::Adam, .learning_rate = 1e-2}, Recompute::None);
  const HandPlan plan =
      by_hand(std::move(graph), "cpu:4", training, {{"", {2, 1}, {{"batch", 1}}}, {"down", {1, 1}, {}}});
  ASSERT_TRUE(plan.check.violations.empty()) << plan.check.violations.front();
  expect_replay(plan.graph, plan.program, plan.check);
}

// --- where nothing can be captured ---

// Waits for a device in the middle of what it captures.
class WaitingReplayer final : public StepReplayer {
 public:
  explicit WaitingReplayer(std::shared_ptr<StepReplayer> own) : own_(std::move(own)) {}
  void capture(int number, Device& device, const std::function<void()>& issue) override {
    own_->capture(number, device, [&] {
      issue();
      if (number == 1) device.finish();
    });
  }
  void* feed(Device& device, void* to, std::size_t size) override { return own_->feed(device, to, size); }
  void replay(int number, Device& device, std::int64_t step, bool with_marks) override {
    own_->replay(number, device, step, with_marks);
  }
  std::string description() const override { return own_->description(); }

 private:
  std::shared_ptr<StepReplayer> own_;
};

class WaitingBackend final : public Backend {
 public:
  explicit WaitingBackend(int devices) : own_({}, devices) {}
  DType stored(DType type) const override { return own_.stored(type); }
  std::unique_ptr<Device> make_device(DeviceId device) override {
    ++devices_made;
    return own_.make_device(device);
  }
  std::shared_ptr<Group> make_group(const std::vector<DeviceId>& members, Abort& abort) override {
    return own_.make_group(members, abort);
  }
  std::unique_ptr<Messages> make_messages(DeviceId from, DeviceId to, Abort& abort) override {
    return own_.make_messages(from, to, abort);
  }
  ReplayerResult make_replayer(int devices, Abort& abort) override {
    return {std::make_shared<WaitingReplayer>(own_.make_replayer(devices, abort).replayer), ""};
  }
  int devices_made = 0;

 private:
  CudaBackend own_;
};

TEST(ReplayedSteps_, AreIssuedOpByOpWhereCudaRecordsNone) {
  const Planned made = plan_of({"", kMlp, "data", 2});
  const int devices = static_cast<int>(made.program.devices.size());
  WaitingBackend waiting(devices);
  CudaBackend op_by_op(with_graphs(false, 1), devices);
  const RunResult run = run_program(made.graph, made.program, made.check, kFiveSteps, waiting);
  EXPECT_EQ(waiting.devices_made, 2 * devices);  // from the beginning
  EXPECT_EQ(run.issued.replayed, 0);
  EXPECT_NE(run.issued.why_none.find(" failed: "), std::string::npos) << run.issued.why_none;
  expect_same(run, run_program(made.graph, made.program, made.check, kFiveSteps, op_by_op));
}

// A replay does not say which op it is at.
TEST(ReplayedSteps_, AreNoneWhereTheWorkOfOpsIsRecorded) {
  const Planned made = plan_of({"", kMlp, "data", 2});
  CudaBackend cuda({}, static_cast<int>(made.program.devices.size()));
  if (cuda.recorder() == nullptr) GTEST_SKIP() << "nobody records here";
  const RunResult run = run_program(made.graph, made.program, made.check, {.steps = 3, .steps_with_work = 1}, cuda);
  EXPECT_EQ(run.issued.replayed, 0);
  EXPECT_FALSE(run.issued.why_none.empty());
}

TEST(ReplayedSteps_, AreNoneOfARunOfOneStep) {
  const Planned made = plan_of({"", kMlp, "data", 2});
  CudaBackend cuda({}, static_cast<int>(made.program.devices.size()));
  const RunResult run = run_program(made.graph, made.program, made.check, {.steps = 1}, cuda);
  EXPECT_EQ(run.issued.replayed, 0);
  EXPECT_EQ(run.issued.why_none, "there was but one step");
}

}  // namespace
}  // namespace meshwright::replayed_steps_test
