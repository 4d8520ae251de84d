// SPDX-License-Identifier: Apache-2.0
// What an NVIDIA H200 took on 2026-11-27 (experiments/h200) is what its profile of the same hour says: within 8 % for
// every plan on one device, 5 % on average, and within 10 % where devices share the GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "core/base/file.h"
#include "costmodel/cost_models.h"
#include "costmodel/occupancy.h"
#include "costmodel/sqlite.h"
#include "simulator/what_if/prediction.h"
#include "tests/sanitized.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::measured_gpu_test {
namespace {

namespace fs = std::filesystem;

struct MeasuredRun {
  const char* model;
  std::int64_t batch, microbatches;
  int devices;
  const char* method;
  double step_ms;
};

constexpr const char* kGpt350M = "gpt:layers=24,hidden=1024,heads=16,seq=1024,vocab=51200";

const std::vector<MeasuredRun> kAlone = {
    {"gpt:layers=12,hidden=768,heads=12,seq=1024,vocab=51200", 32, 1, 1, "pipeshard", 60.00},
    {kGpt350M, 32, 1, 1, "pipeshard", 155.9},
    {"gpt:layers=24,hidden=2048,heads=32,seq=1024,vocab=51200", 16, 1, 1, "pipeshard", 245.5},
    {"llama:layers=22,hidden=2048,heads=32,kv_heads=4,intermediate=5632,seq=1024,vocab=32000", 16, 1, 1, "pipeshard",
     209.8},
    {"moe:layers=8,hidden=768,heads=16,experts=8,seq=1024,vocab=32000", 32, 1, 1, "pipeshard", 98.33},
    {"wresnet:layers=50,channels=64,width=2,image=224,classes=1000", 256, 1, 1, "pipeshard", 53.66},
    {"llama:layers=8,hidden=4096,heads=32,kv_heads=8,intermediate=14336,seq=4096,vocab=128256", 4, 1, 1, "pipeshard",
     426.5},
    {"vit:layers=24,hidden=1024,heads=16,image=224,patch=16,classes=1000", 128, 1, 1, "pipeshard", 109.7}};
const std::vector<MeasuredRun> kShared = {{kGpt350M, 16, 4, 2, "megatron:tp=1,pp=2", 88.10},
                                          {kGpt350M, 16, 4, 4, "megatron:tp=1,pp=4", 87.09},
                                          {kGpt350M, 16, 4, 2, "data", 103.4},
                                          {kGpt350M, 16, 4, 2, "megatron:tp=2,pp=1", 106.4}};

class MeasuredGpu : public testing::Test {
 protected:
  MeasuredGpu()
      : path_(fs::path(testing::TempDir()) /
              (std::string("h200_") + testing::UnitTest::GetInstance()->current_test_info()->name() + ".db")) {
    fs::remove(path_);
    const fs::path kept = fs::path(__FILE__).parent_path() / "../../../experiments/h200/h200.sql";
    sqlite::Database(path_, sqlite::Access::ReadWrite).run(read_file(kept));
  }
  ~MeasuredGpu() override { fs::remove(path_); }

  // Less 1: the predicted step over the measured one.
  [[nodiscard]] double error(const MeasuredRun& run) const {
    PlanRequest request = ask(run.model, "dgx-h200", run.method, run.batch, run.microbatches);
    request.training.dtype = DType::BF16;
    request.cluster = take_part(request.cluster, 1, run.devices);
    const ProfileDb db(path_, ProfileDb::Mode::ReadOnly);
    const auto costs = make_profiled_cost_model(request.cluster, db);
    SimulatedStep evaluator(*costs);
    const Planned made = with_program(make_plan(request, *costs, evaluator), *costs);
    if (!made.plan) throw std::runtime_error(made.reason);
    Seconds step = made.plan->predicted.step_time;
    if (run.devices > 1) {
      const Occupancy occupancy(db);
      const std::vector<int> one(static_cast<std::size_t>(run.devices), 0);
      step = predict_shared(made.program, *costs, one, &occupancy).step;
    }
    return step.si() * 1e3 / run.step_ms - 1.0;
  }

 private:
  fs::path path_;
};

TEST_F(MeasuredGpu, TakesWhatItsProfileSays) {
  double sum = 0.0;
  for (const MeasuredRun& run : fewer_of(kAlone)) {
    const double off = error(run);
    EXPECT_LE(std::abs(off), 0.08) << run.model;
    sum += std::abs(off);
  }
  if (!kSanitized) {
    EXPECT_LE(sum / static_cast<double>(kAlone.size()), 0.05);
  }
}

TEST_F(MeasuredGpu, TakesWhatItsProfileSaysWhereDevicesShareIt) {
  for (const MeasuredRun& run : fewer_of(kShared)) EXPECT_LE(std::abs(error(run)), 0.10) << run.method;
}

}  // namespace
}  // namespace meshwright::measured_gpu_test
