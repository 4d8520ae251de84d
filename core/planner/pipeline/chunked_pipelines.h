// SPDX-License-Identifier: Apache-2.0
// Pipelines in which every rank has several stages (chunks), on plain data: which spans of layers become the stages,
// and with which configuration.
//
// V stages on each of p ranks, ranks alike: all are given the same slice, so that V p stages, one after the other, are
// placed by the schedule (ranks_of_stages). Which stages share a rank ties the choices of far layers together; the
// search sees each stage as if the others of its rank were like it:
//
//   t = time + V step / B', B' = V (B - 1) + 1     a stage's share of a microbatch, as in stage_dp.h
//   T = sum of t + V (B - 1) * largest t
//   it fits when V resident + working + K saved <= the memory, K: of the rank, schedule.h's max_in_flight
//
// Where stages have copies (schedule.h's traits), C times, the search is for the V p / C stages of the first copy: each
// runs B / C microbatches, and a rank has V / C of them and the copies of others, so that V / C stands for V above, and
// a stage's resident bytes count once more for each copy, as far as copies have them. Pipelines have the stages of all
// copies, one copy after the other.
//
// The search finds the least T of all pipelines with p ranks exactly, and the K best of them one by one. What the ranks
// really take and keep is for the caller to tell apart (fits_ranks).
#pragma once

#include <vector>

#include "core/planner/pipeline/stage_dp.h"

namespace meshwright {

struct ChunkedShape {
  ScheduleKind schedule;
  int ranks, chunks;
  std::int64_t microbatches;
  auto operator<=>(const ChunkedShape&) const = default;
};

// The schedule of a shape, and what it keeps: for many pipelines of the shape.
struct ChunkedSchedule {
  // REQUIRES: nothing is unmet_by the kind.
  explicit ChunkedSchedule(const ChunkedShape& of, double copied_share = 1.0);
  ChunkedShape shape;
  double copied;  // the part of a stage's resident bytes that a copy of it has as well
  std::vector<int> rank_of_stage;
  std::vector<int> in_flight;  // [rank] max_in_flight
  Schedule runs;
};

// Gives the stages of all copies but the first those of the first again.
void repeat_first_copy(TablePipeline& pipeline, ScheduleKind schedule);

// The table of one slice with some of its configurations, which become 0, 1, ....
[[nodiscard]] StageTable table_of_slice(const StageTable& table, int slice, const std::vector<int>& configs);
// No stages of these configurations take less together, times alone, whatever their number and memory; infinity: they
// do not hold all layers.
[[nodiscard]] Seconds least_sum(const StageTable& table, int slice, const std::vector<int>& configs);
// The best `max` pipelines by T of such a table, told in the slice and the configurations of the whole.
[[nodiscard]] std::vector<TablePipeline> best_on_slice(const StageTable& of_slice, const StageDpRequest& request,
                                                       int slice, const std::vector<int>& configs, int max);

// The best `max` pipelines by T whose stages are all on `slice` with configurations of `configs`, best first. Devices
// have `memory_share` of the slice's memory. REQUIRES: at least one configuration.
[[nodiscard]] std::vector<TablePipeline> best_chunked(const StageTable& table, int slice,
                                                      const std::vector<int>& configs, const ChunkedSchedule& schedule,
                                                      int max, double memory_share = 1.0);

// Whether each rank's bytes fit as the table estimates them: those of all its stages, the largest working memory, and
// the most that is kept at once, each microbatch with the bytes of its own stage, between the halves of a backward in
// two with those that the first leaves for the second.
[[nodiscard]] bool fits_ranks(const TablePipeline& pipeline, const StageTable& table, const ChunkedSchedule& schedule);
// Time and step of each rank's stages added up, per microbatch: [rank]. A step takes at least B times the largest.
[[nodiscard]] std::vector<Seconds> rank_times(const TablePipeline& pipeline, const StageTable& table,
                                              const ChunkedSchedule& schedule);

}  // namespace meshwright
