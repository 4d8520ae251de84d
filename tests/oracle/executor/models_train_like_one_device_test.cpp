// SPDX-License-Identifier: Apache-2.0
// Families whose result depends on the microbatch (groups of tokens, a batch's statistics, pairs that are told apart)
// or whose input is images: a planned program trains the weights of one device that runs the same microbatches, and
// takes the memory that was predicted. In f64 only the order of sums differs.
#include <gtest/gtest.h>

#include <cctype>

#include "executor/check/run_reference.h"
#include "executor/executor.h"
#include "tests/deviation.h"
#include "tests/run_on_host.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::models_train_like_one_device_test {
namespace {

constexpr double kSame = 1e-12;
const RunOptions kTwoSteps{.steps = 2, .seed = 3, .precision = DType::F64};

struct Case {
  const char *model, *method;
  int microbatches;
};

class PlannedModel : public testing::TestWithParam<Case> {};

TEST_P(PlannedModel, ComputesWhatOneDeviceComputes) {
  const auto& [model, method, microbatches] = GetParam();
  PlanRequest request = ask(model, "cpu:4", method, 16, microbatches);
  request.cluster = take_part(request.cluster, 1, 4);
  request.training.dtype = DType::F32;
  request.training.optimizer = {.kind = Optimizer::Kind::Momentum, .learning_rate = 1e-2};
  request.search.layers = 2;
  const Planned planned = meshwright::planned(request);
  ASSERT_TRUE(planned.plan.has_value()) << planned.reason;
  const RunResult run = run_program(planned.graph, planned.program, planned.check, kTwoSteps);
  const RunResult truth =
      run_reference(build_training_graph(request.model, request.training_with(microbatches)), kTwoSteps);
  EXPECT_EQ(run.peak_memory, planned.check.peak_memory);
  expect_same_training(run, truth, kSame);
}

std::vector<Case> cases() {
  std::vector<Case> found;
  for (const char* model : {"moe:layers=2,hidden=16,heads=4,experts=4,seq=8,vocab=32,group=16",
                            "wresnet:layers=14,channels=4,width=2,image=32,classes=8",
                            "vit:layers=2,hidden=16,heads=4,image=16,patch=4,classes=8",
                            "two_tower:layers=2,hidden=16,heads=4,image=16,patch=4,text_layers=2,text_hidden=8,"
                            "text_heads=4,seq=8,vocab=32,embed=8"})
    for (const char* method : {"data", "zero3", "shard", "pipeshard", "megatron:tp=2"})
      for (const int microbatches : {1, 2}) found.push_back({model, method, microbatches});
  return found;
}

INSTANTIATE_TEST_SUITE_P(Training, PlannedModel, testing::ValuesIn(cases()), [](const auto& test) {
  const Case& c = test.param;
  const std::string model = c.model;
  std::string name = fmt::format("{}_{}_{}", model.substr(0, model.find(':')), c.method, c.microbatches);
  for (char& letter : name)
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
  return name;
});

}  // namespace
}  // namespace meshwright::models_train_like_one_device_test
