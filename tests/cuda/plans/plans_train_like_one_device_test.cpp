// SPDX-License-Identifier: Apache-2.0
// Plans whose devices are CUDA devices train the weights that one processor trains with plain kernels. In f64 only the
// order of sums differs; in the plan's own types the loss follows that of f32 as closely as these types can tell.
#include <gtest/gtest.h>

#include <cctype>
#include <cmath>

#include "executor/check/run_reference.h"
#include "executor/cuda/cuda_backend.h"
#include "executor/executor.h"
#include "executor/runner/gpu_memory_need.h"
#include "tests/deviation.h"
#include "tests/run_on_host.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::plans_train_like_one_device_test {
namespace {

constexpr double kSame = 1e-11;
const RunOptions kTwoSteps{.steps = 2, .seed = 3, .precision = DType::F64};

struct Case {
  const char *model, *method;
  int microbatches = 2;
  Optimizer optimizer = {.kind = Optimizer::Kind::Momentum, .learning_rate = 1e-2};
  Recompute recompute = Recompute::None;
  Offload offload = Offload::None;
};

Planned plan_of(const Case& c, DType dtype) {
  // Two samples of a micro-batch for each device, or one of few micro-batches.
  const bool many = c.microbatches > 2 || std::string_view(c.model).starts_with("moe");
  PlanRequest request = ask(c.model, "dgx-a100:1", c.method, many ? 16 : 8, c.microbatches);
  request.cluster = take_part(request.cluster, 1, 4);
  request.training.dtype = dtype;
  request.training.optimizer = c.optimizer;
  request.training.offload = c.offload;
  request.cluster.only().device.host_memory = Bytes(1e12);
  request.cluster.only().device.host_bandwidth = BytesPerSecond(2e10);
  request.search.recompute = c.recompute;
  if (!request.search.method.one_stage()) request.search.layers = 2;
  Planned planned = meshwright::planned(request);
  EXPECT_TRUE(planned.plan.has_value()) << planned.reason;
  return planned;
}

class PlanOnCuda : public testing::TestWithParam<Case> {};

void expect_workspaces_as_predicted(const Planned& planned, const RunResult& run, const Backend& backend) {
  const StoredType stored = [&](DType type) { return backend.stored(type); };
  for (std::size_t d = 0; d < run.gpu_memory.size(); ++d)
    EXPECT_LE(run.gpu_memory[d].workspace,
              gpu_memory_need(planned.graph, planned.program, DeviceId(static_cast<int>(d)), stored).workspace)
        << "device " << d;
}

TEST_P(PlanOnCuda, ComputesWhatOneDeviceComputes) {
  const Planned planned = plan_of(GetParam(), DType::F32);
  CudaBackend cuda({.precision = DType::F64}, static_cast<int>(planned.program.devices.size()));
  const RunResult run = run_program(planned.graph, planned.program, planned.check, kTwoSteps, cuda);
  const RunResult truth = run_reference(build_training_graph(planned.plan->model, planned.plan->training), kTwoSteps);
  EXPECT_EQ(run.peak_memory, planned.check.peak_memory);
  expect_workspaces_as_predicted(planned, run, cuda);
  expect_same_training(run, truth, kSame);
}

// The rounding of a type, times what a few layers and steps make of it.
double tolerance_of(DType type) { return type == DType::BF16 ? 0x1p-9 * 8 : 0x1p-12 * 8; }

void expect_to_follow(const Case& c, DType type) {
  const Planned planned = plan_of(c, type);
  const RunOptions options{.steps = 2, .seed = 3, .precision = DType::F32};
  CudaBackend cuda({}, static_cast<int>(planned.program.devices.size()));
  const RunResult run = run_program(planned.graph, planned.program, planned.check, options, cuda);
  const RunResult wide = run_program(planned.graph, planned.program, planned.check, options);
  EXPECT_EQ(run.peak_memory, planned.check.peak_memory);
  expect_workspaces_as_predicted(planned, run, cuda);
  for (std::size_t step = 0; step < wide.losses.size(); ++step)
    EXPECT_NEAR(run.losses[step], wide.losses[step], tolerance_of(type) * std::abs(wide.losses[step]))
        << name_of(type) << ", step " << step;
}

TEST_P(PlanOnCuda, FollowsFloatInTheTypesOfThePlan) { expect_to_follow(GetParam(), DType::BF16); }

constexpr Case kMlp = {"mlp:layers=4,hidden=16", "shard"};

TEST(PlansOnCuda, FollowsFloatInHalfPrecisionWithScaledLosses) { expect_to_follow(kMlp, DType::F16); }

// A form that is not run is refused, never exchanged for another.
TEST(PlansOnCuda, DoNotRunRings) {
  const Planned planned = plan_of(
      {"llama:layers=1,hidden=16,heads=4,kv_heads=2,intermediate=32,seq=8,vocab=32", "context:cp=2,cp-comm=p2p"},
      DType::F32);
  CudaBackend cuda({}, static_cast<int>(planned.program.devices.size()));
  try {
    (void)run_program(planned.graph, planned.program, planned.check, kTwoSteps, cuda);
    FAIL() << "it ran";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("around a ring (cp-comm=p2p)"), std::string::npos) << error.what();
  }
}

// Messages and collectives then go from the memory of one to that of another.
TEST(PlansOnCuda, MayLieOnSeveralGpus) {
  if (kernels::cuda::device_count() < 2) GTEST_SKIP() << "there is one GPU alone";
  for (const char* method : {"pipeshard", "megatron:tp=2,pp=2"}) {
    const Planned planned = plan_of({kMlp.model, method}, DType::F32);
    const int devices = static_cast<int>(planned.program.devices.size());
    CudaBackend one({.precision = DType::F64}, devices), two({.precision = DType::F64, .gpus = 2}, devices);
    EXPECT_EQ(two.gpu_of(DeviceId(0)), 0);
    EXPECT_EQ(two.gpu_of(DeviceId(devices - 1)), 1);
    const RunResult together = run_program(planned.graph, planned.program, planned.check, kTwoSteps, one);
    const RunResult apart = run_program(planned.graph, planned.program, planned.check, kTwoSteps, two);
    EXPECT_EQ(apart.losses, together.losses);
    EXPECT_EQ(apart.weights, together.weights);
  }
}

TEST(PlansOnCuda, HaveTheSameBitsInEveryRun) {
  const Planned planned = plan_of(kMlp, DType::BF16);
  const RunOptions options{.steps = 3, .seed = 3, .precision = DType::F32};
  CudaBackend cuda({}, static_cast<int>(planned.program.devices.size()));
  const RunResult run = run_program(planned.graph, planned.program, planned.check, options, cuda);
  const RunResult again = run_program(planned.graph, planned.program, planned.check, options, cuda);
  EXPECT_EQ(again.losses, run.losses);
  EXPECT_EQ(again.weights, run.weights);
}

constexpr Optimizer kAdam = {.kind = Optimizer::Kind::Adam, .learning_rate = 1e-3, .max_norm = 1.0};

constexpr Optimizer kAdafactor = {.kind = Optimizer::Kind::Adafactor, .learning_rate = 1e-3, .max_norm = 1.0};

std::vector<Case> cases() {
  const char* const llama = "llama:layers=2,hidden=16,heads=4,kv_heads=2,intermediate=32,seq=8,vocab=32";
  const char* const gpt = "gpt:layers=2,hidden=16,heads=4,seq=8,vocab=32";
  // Most of its parameters are padded on 4 devices, and some on 2.
  const char* const uneven = "gpt:layers=2,hidden=18,heads=3,seq=7,vocab=33";
  const char* const moe = "moe:layers=2,hidden=16,heads=4,experts=4,seq=8,vocab=32,group=16";
  return {
      {gpt, "data"},
      {gpt, "megatron:tp=2"},
      {gpt, "pipeshard", 4},
      {gpt, "zero3", 1},
      {uneven, "zero1"},
      {uneven, "zero3", 2, kAdam},
      {uneven, "zero2:shard=2"},
      {"mlp:layers=4,hidden=16", "shard", 2, kAdam},
      {llama, "megatron:tp=2,pp=2"},
      {llama, "megatron:tp=2,zero=1", 2, kAdafactor},
      {llama, "zero3", 1, kAdafactor},
      {llama, "zero1", 1, kAdam, Recompute::None, Offload::Optimizer},
      {llama, "megatron:tp=2,pp=2,zero=1", 2, kAdam, Recompute::None, Offload::Activations | Offload::Weights},
      {"bert:layers=1,hidden=16,heads=4,seq=8,vocab=32", "data", 1},
      {"bloom:layers=1,hidden=16,heads=4,seq=8,vocab=32", "shard", 1},
      {"t5:layers=2,hidden=16,heads=4,intermediate=32,seq=8,vocab=32", "pipeshard"},
      {"mixtral:layers=1,hidden=16,heads=4,kv_heads=2,intermediate=32,seq=8,vocab=32,experts=4,top_k=2", "data"},
      {moe, "pipeshard"},
      {"wresnet:layers=14,channels=4,width=2,image=32,classes=8", "data", 1},
      {"vit:layers=2,hidden=16,heads=4,image=16,patch=4,classes=8", "pipeshard"},
  };
}

INSTANTIATE_TEST_SUITE_P(Training, PlanOnCuda, testing::ValuesIn(cases()), [](const auto& test) {
  const Case& c = test.param;
  const std::string model = c.model;
  std::string name = fmt::format("{}_{}_{}", model.substr(0, model.find(':')), c.method, c.microbatches);
  for (char& letter : name)
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
  return name;
});

}  // namespace
}  // namespace meshwright::plans_train_like_one_device_test
