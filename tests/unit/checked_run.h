// SPDX-License-Identifier: Apache-2.0
// What check_run is asked about: the work of a test, run under a plan.
#pragma once

#include <gtest/gtest.h>

#include "executor/check/check_run.h"
#include "executor/check/run_reference.h"
#include "executor/executor.h"
#include "tests/run_on_host.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright {

// Two stages of tensor and data parallelism, two microbatches.
inline RunResult on_eight_devices(const CheckedWork& work, const RunOptions& options) {
  PlanRequest request = ask("mlp", "cpu:8", "megatron:tp=2,pp=2", work.training.batch, 2);
  request.model = work.model;
  request.training.optimizer = work.training.optimizer;
  request.search.layers = 2;
  const Planned result = planned(request);
  EXPECT_TRUE(result.plan.has_value()) << result.reason;
  return run_program(result.graph, result.program, result.check, options);
}

}  // namespace meshwright
