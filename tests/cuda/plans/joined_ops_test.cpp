// SPDX-License-Identifier: Apache-2.0
// Which ops of whole plans a device does in one pass: residual sums with norms, and what a loss wants of its logits.
#include <gtest/gtest.h>

#include "executor/cuda/cuda_backend.h"
#include "executor/executor.h"
#include "kernels/cuda/runtime/activity.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::joined_ops_test {
namespace {

std::int64_t launches(const kernels::cuda::Recording& recording, const std::string& name) {
  return std::ranges::count_if(recording.activities,
                               [&](const auto& activity) { return recording.names[activity.name] == name; });
}

kernels::cuda::Recording step_of(const char* model) {
  PlanRequest request = ask(model, "dgx-a100:1", "data", 4, 1);
  request.cluster = take_part(request.cluster, 1, 1);
  request.training.dtype = DType::BF16;
  const Planned made = planned(request);
  EXPECT_TRUE(made.plan.has_value()) << made.reason;
  CudaBackend backend({.precision = {}, .graphs = false}, 1);
  kernels::cuda::start_recording();
  (void)run_program(made.graph, made.program, made.check, {.keep_tensors = false}, backend);
  return kernels::cuda::stop_recording();
}

// Two norms in each of two layers, whose inputs have a residual; that of Llama's last norm has none.
TEST(Residuals, AreAddedByTheDerivativesOfNorms) {
  if (!kernels::cuda::can_record()) GTEST_SKIP() << "this build cannot record";
  const auto gpt = step_of("gpt:layers=2,hidden=64,heads=4,seq=8,vocab=32");
  EXPECT_EQ(launches(gpt, "layer_norm_backward_and_sum"), 4);
  EXPECT_EQ(launches(gpt, "layer_norm_backward"), 0);
  EXPECT_EQ(launches(gpt, "layer_norm_of_sum"), 0);  // products end with the sums
  EXPECT_EQ(launches(gpt, "layer_norm"), 4);
  const auto llama = step_of("llama:layers=2,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=8,vocab=32");
  EXPECT_EQ(launches(llama, "rms_norm_backward_and_sum"), 4);
  EXPECT_EQ(launches(llama, "rms_norm_backward"), 1);
}

// What experts made is combined, which is no product: the sum behind it is the next norm's.
TEST(Residuals, AreAddedWithTheNormBehindExperts) {
  if (!kernels::cuda::can_record()) GTEST_SKIP() << "this build cannot record";
  const auto mixtral =
      step_of("mixtral:layers=2,hidden=64,heads=4,kv_heads=2,intermediate=64,seq=8,vocab=32,experts=4,top_k=2");
  EXPECT_EQ(launches(mixtral, "rms_norm_of_sum"), 2);
  EXPECT_EQ(launches(mixtral, "rms_norm"), 3);
}

TEST(Losses, ReadTheirLogitsOnce) {
  if (!kernels::cuda::can_record()) GTEST_SKIP() << "this build cannot record";
  const auto gpt = step_of("gpt:layers=2,hidden=64,heads=4,seq=8,vocab=32");
  EXPECT_EQ(launches(gpt, "cross_entropy_rows"), 1);
  for (const char* kernel : {"row_max", "sum_exp", "pick_label"}) EXPECT_EQ(launches(gpt, kernel), 0) << kernel;
}

}  // namespace
}  // namespace meshwright::joined_ops_test
