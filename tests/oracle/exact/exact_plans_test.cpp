// SPDX-License-Identifier: Apache-2.0
// Plans are the single-device program to the bit: over integers modulo a prime, losses, gradients, parameters and
// states of every device are those of one device alone.
#include <gtest/gtest.h>

#include "executor/check/check_run.h"
#include "executor/check/exact_check.h"
#include "executor/exact/exact_ops.h"
#include "executor/executor.h"
#include "executor/host/host_backend.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::exact_plans_test {
namespace {

ExactCheck checked(const std::string& model, const std::string& cluster, const std::string& method, int microbatches) {
  PlanRequest request = ask(model, cluster, method, 8, microbatches);
  request.training.dtype = DType::F32;
  if (!request.search.method.one_stage()) request.search.layers = 2;
  const Planned plan = planned(request);
  EXPECT_TRUE(plan.plan.has_value()) << plan.reason;
  HostBackend backend(DType::F64, {exact::run_op, exact::run_attention_block});
  const RunResult run = run_program(plan.graph, plan.program, plan.check, exact_options(2, 1), backend);
  const ExactReference reference =
      exact_reference(graph_of_reference({request.model, plan.plan->training, true}), 2, 1);
  return compare_exactly(plan.graph, run, reference);
}

TEST(ExactPlans, DataAndTensorParallelism) {
  for (const char* method : {"data", "megatron:tp=2", "zero3", "megatron:tp=2,pp=2"}) {
    const ExactCheck check = checked("gpt:layers=2,hidden=16,heads=4,seq=4,vocab=16", "cpu:4", method, 2);
    for (const ExactClass& of : check.classes) {
      EXPECT_EQ(of.different, 0) << method << ": " << of.name << ": " << to_text(of.first.value());
      EXPECT_GT(of.tiles, 0) << of.name;
    }
  }
}

}  // namespace
}  // namespace meshwright::exact_plans_test
