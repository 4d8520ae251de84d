// SPDX-License-Identifier: Apache-2.0
// run --report: the measured times of ops beside their costs and the roofline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/mesh/cluster.h"
#include "core/plan/program/program.h"
#include "executor/base/run_result.h"
#include "simulator/report/step_breakdown.h"

namespace meshwright {

// Equal work of one pass, in one step on all devices together.
struct OpTimeRow {
  std::string kind;  // "contract", "all-reduce over 2 devices", "outside of ops"
  std::string pass;  // "forward"
  std::string work;  // OpWork::signature; "" of a collective and of a sum over works
  double runs = 0.0;
  Seconds measured{0.0}, predicted{0.0}, roofline{0.0};
};

// By work, the largest measured time first. `result`: with op times. Collectives hold what their members wait for each
// other; what Runs take outside of their ops (memory, operands, inputs) is compared with Run overheads.
[[nodiscard]] std::vector<OpTimeRow> op_time_rows(const Program& program, const Graph& graph, const Cluster& cluster,
                                                  const CostModel& costs, const RunResult& result);
// Rows of a kind and a pass become one.
[[nodiscard]] std::vector<OpTimeRow> by_kind(const std::vector<OpTimeRow>& rows);

// Where the time of the last step went; by the times of ops where `result` has them.
[[nodiscard]] StepBreakdown time_of_run(const Program& program, const Graph& graph, const Cluster& cluster,
                                        const CostModel& costs, const RunResult& result);

// The table by kind, and the works that take longest; `devices` x `step` is all time there is.
[[nodiscard]] std::string op_times_text(const std::vector<OpTimeRow>& rows, int devices, Seconds step);
[[nodiscard]] Json op_times_json(const std::vector<OpTimeRow>& rows);

}  // namespace meshwright
