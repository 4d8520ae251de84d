// SPDX-License-Identifier: Apache-2.0
// The stage search on plain data: which spans of layers become stages, on which slices of which devices and with which
// configuration, so that a pipeline is fastest; exact, and the K best of them one by one (stage_dp_ranking.h).
//
// A stage is (first layer i, last layer j, slice s, configuration c). Its time is t = time + step / B: the share of the
// step is added to a microbatch's time so that the slowest stage counts it once per step. A pipeline of n stages over
// layers 0..L-1 costs, with weight w = B - 1,
//
//   T = sum of t + w * largest t          (training: GPipe's and 1F1B's latency)
//
// and stage number p from the END (p = 0 is the last) fits when resident + working + in_flight(p) * saved <= the memory
// of its slice's devices. For one bound m on the stage times the least sum is a dynamic program from the last stage to
// the first, F(n, i, d) for n stages over layers i.. on d devices (d counts every kind of device):
//
//   F(n, i, d) = min over k > i, s, c that fits at p = n - 1 of  F(n-1, k, d - |s|) + t(i, k-1, s, c)    with t <= m
//
// Times are added from the last stage to the first, in doubles; the cost is bit for bit that of enumeration. Equal
// costs are decided by a fixed rule, so that the same table gives the same pipeline. stage_dp.cpp says why few m are
// looked at, and at few states of each.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/planner/stages/stage_table.h"
#include "core/schedule/schedule.h"

namespace meshwright {

// Microbatches a stage keeps, from its number counted from the last stage (0) and the number of microbatches. A
// schedule whose count depends on the number of stages too (zb-h1, zb-h2) is searched per number of stages.
using InFlight = std::function<std::int64_t(int from_end, std::int64_t microbatches)>;
// As core/schedule/schedule.h counts them in a line of `stages`, of kinds with one stage per rank. Where these depend
// on the number of stages and it is not given, all microbatches: more are never kept.
[[nodiscard]] InFlight in_flight_of(ScheduleKind schedule, std::optional<int> stages = std::nullopt);

struct StageDpRequest {
  std::vector<int> devices;  // per kind
  bool all_devices = true;   // exactly these; otherwise at most these
  std::int64_t microbatches = 1;
  InFlight in_flight = in_flight_of(ScheduleKind::OneFOneB);
  std::optional<int> stages = std::nullopt;  // exactly this many
};

struct TableStage {
  int first, last, slice, config;
  auto operator<=>(const TableStage&) const = default;
};
struct TablePipeline {
  std::vector<TableStage> stages;
  Seconds cost{0.0};     // what was minimised
  Seconds sum{0.0};      // of the stages' t, from the last to the first
  Seconds slowest{0.0};  // largest t
  int chunks = 1;        // stages of each rank (chunked_pipelines.h)
};

// Each of these: nullopt when no pipeline fits. Throws InputError for tables and requests that make no sense.

// Least T.
[[nodiscard]] std::optional<TablePipeline> fastest_training(const StageTable& table, const StageDpRequest& request);
// Serving: least sum among the pipelines whose stages take at most `slowest` (the throughput is 1 / slowest).
[[nodiscard]] std::optional<TablePipeline> min_latency(const StageTable& table, const StageDpRequest& request,
                                                       Seconds slowest);
// Serving: least largest stage time among the pipelines whose sum is at most `latency`; of those the least sum.
[[nodiscard]] std::optional<TablePipeline> max_throughput(const StageTable& table, const StageDpRequest& request,
                                                          Seconds latency);

}  // namespace meshwright
