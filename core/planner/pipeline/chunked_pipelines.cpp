// SPDX-License-Identifier: Apache-2.0
// Stages that are alone on one device each, V p of them on V p devices, are what stage_dp.h searches: its largest t and
// its memory per stage become those of the header when the step and the resident bytes count V times.
#include "core/planner/pipeline/chunked_pipelines.h"

#include <algorithm>
#include <limits>

#include "core/base/errors.h"
#include "core/planner/pipeline/stage_dp_ranking.h"
#include "core/schedule/schedule.h"

namespace meshwright {

namespace {

const StageCost& cost_of(const StageTable& table, const TableStage& stage) {
  const auto& cost = table.at(stage.first, stage.last, stage.slice, stage.config);
  MW_CHECK(cost.has_value(), "layers {}..{} have no cost on slice {}", stage.first, stage.last, stage.slice);
  return *cost;
}

}  // namespace

ChunkedSchedule::ChunkedSchedule(const ChunkedShape& of, double copied_share) : shape(of), copied(copied_share) {
  const int stages = of.ranks * of.chunks;
  const std::vector<int> after = line_of(stages, traits_of(of.schedule).copies);
  runs = make_schedule(of.schedule, after, static_cast<int>(of.microbatches), of.chunks);
  rank_of_stage = ranks_of_stages(of.schedule, stages, of.chunks);
  in_flight = max_in_flight(runs);
}

void repeat_first_copy(TablePipeline& pipeline, ScheduleKind schedule) {
  const std::size_t each = pipeline.stages.size() / static_cast<std::size_t>(traits_of(schedule).copies);
  for (std::size_t s = each; s < pipeline.stages.size(); ++s) pipeline.stages[s] = pipeline.stages[s - each];
}

StageTable table_of_slice(const StageTable& table, int slice, const std::vector<int>& configs) {
  StageTable own(table.layers(), {table.slices()[slice]}, static_cast<int>(configs.size()), table.spans());
  for (int first = 0; first < table.layers(); ++first)
    for (int last = first; last < table.layers(); ++last) {
      if (!table.spans().is_first(first, last)) continue;
      const std::optional<StageCost>* from = table.configs_of(first, last, slice);
      std::optional<StageCost>* to = &own.at(first, last, 0, 0);
      for (std::size_t c = 0; c < configs.size(); ++c) to[c] = from[configs[c]];
    }
  return own;
}

Seconds least_sum(const StageTable& table, int slice, const std::vector<int>& configs) {
  constexpr Seconds kNever(std::numeric_limits<double>::infinity());
  std::vector<Seconds> of_span(table.spans().count(), kNever);  // by number
  std::vector<Seconds> from(table.layers() + 1, kNever);        // [layer] of it and all after it
  from.back() = Seconds(0.0);
  for (int first = 0; first < table.layers(); ++first)
    for (int last = first; last < table.layers(); ++last) {
      if (!table.spans().is_first(first, last)) continue;
      Seconds& least = of_span[table.spans().of(first, last)];
      const std::optional<StageCost>* costs = table.configs_of(first, last, slice);
      for (const int config : configs)
        if (costs[config]) least = std::min(least, costs[config]->time);
    }
  for (int first = table.layers() - 1; first >= 0; --first)
    for (int last = first; last < table.layers(); ++last)
      from[first] = std::min(from[first], of_span[table.spans().of(first, last)] + from[last + 1]);
  return from.front();
}

std::vector<TablePipeline> best_on_slice(const StageTable& of_slice, const StageDpRequest& request, int slice,
                                         const std::vector<int>& configs, int max) {
  std::vector<TablePipeline> found;
  if (max == 1) {  // the search for one is faster than a ranking
    if (auto pipeline = fastest_training(of_slice, request)) found.push_back(std::move(*pipeline));
  } else {
    PipelineRanking ranking = PipelineRanking::by_training_time(of_slice, request);
    for (auto next = ranking.next(); next; next = std::ssize(found) < max ? ranking.next() : std::nullopt)
      found.push_back(std::move(*next));
  }
  for (TablePipeline& pipeline : found)
    for (TableStage& stage : pipeline.stages) {
      stage.slice = slice;
      stage.config = configs[stage.config];
    }
  return found;
}

std::vector<TablePipeline> best_chunked(const StageTable& table, int slice, const std::vector<int>& configs,
                                        const ChunkedSchedule& schedule, int max, double memory_share) {
  const auto [kind, ranks, chunks, microbatches] = schedule.shape;
  const int copies = traits_of(kind).copies;
  const int stages = ranks * chunks / copies, per_rank = chunks / copies;
  if (stages > table.layers()) return {};
  const double times = per_rank, kept_times = per_rank * (1.0 + (copies - 1) * schedule.copied);
  StageTable own = table_of_slice(table, slice, configs);
  // A stage counts as one device, so there are as many devices as stages.
  own.slices() = {{{1}, memory_share * table.slices()[slice].memory}};
  for (std::optional<StageCost>& cost : own.costs()) {
    if (!cost) continue;
    cost->step = times * cost->step;
    cost->resident = kept_times * cost->resident;
  }
  // With the header's B' microbatches, stage_dp.h's T is that of the chunked schedule.
  const StageDpRequest request{.devices = {stages},
                               .all_devices = true,
                               .microbatches = per_rank * (microbatches - 1) + 1,
                               .in_flight = [&, count = stages](int from_end, std::int64_t) -> std::int64_t {
                                 return schedule.in_flight[schedule.rank_of_stage[count - 1 - from_end]];
                               },
                               .stages = stages};
  std::vector<TablePipeline> found = best_on_slice(own, request, slice, configs, max);
  for (TablePipeline& pipeline : found) {
    pipeline.chunks = chunks;
    pipeline.stages.resize(static_cast<std::size_t>(ranks * chunks), pipeline.stages.front());
    repeat_first_copy(pipeline, kind);
  }
  return found;
}

// Follows the schedule run by run: a rank's stages hold different bytes, so only the order of its runs says what is in
// memory together.
bool fits_ranks(const TablePipeline& pipeline, const StageTable& table, const ChunkedSchedule& schedule) {
  const int ranks = schedule.shape.ranks;
  const std::size_t per_copy =
      pipeline.stages.size() / static_cast<std::size_t>(traits_of(schedule.shape.schedule).copies);
  std::vector<Bytes> resident(ranks, Bytes(0.0)), working(ranks, Bytes(0.0)), saved, held;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const StageCost& cost = cost_of(table, pipeline.stages[s]);
    const std::size_t rank = schedule.rank_of_stage[s];
    resident[rank] += s < per_copy ? cost.resident : schedule.copied * cost.resident;
    // The runs of a rank follow one another: one of them works at a time.
    working[rank] = std::max(working[rank], cost.working);
    saved.push_back(cost.saved);
    held.push_back(cost.held);
  }
  const Bytes memory = table.slices()[pipeline.stages.front().slice].memory;
  for (std::size_t rank = 0; rank < schedule.runs.size(); ++rank) {
    Bytes now(0.0), peak(0.0);
    for (const ScheduledRun& run : schedule.runs[rank]) {
      const std::size_t stage = run.stage.index();
      // A whole backward ends what is saved. A split one adds what is held between its halves, and ends both with the
      // second half.
      if (run.pass == Pass::Forward) now += saved[stage];
      if (run.pass == Pass::BackwardInput) now += held[stage];
      peak = std::max(peak, now);
      if (run.pass == Pass::Backward) now -= saved[stage];
      if (run.pass == Pass::BackwardWeight) now -= saved[stage] + held[stage];
    }
    if (resident[rank] + working[rank] + peak > memory) return false;
  }
  return true;
}

std::vector<Seconds> rank_times(const TablePipeline& pipeline, const StageTable& table,
                                const ChunkedSchedule& schedule) {
  std::vector<Seconds> times(schedule.shape.ranks, Seconds(0.0));
  const int copies = traits_of(schedule.shape.schedule).copies;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const StageCost& cost = cost_of(table, pipeline.stages[s]);
    Seconds& time = times[schedule.rank_of_stage[s]];
    time += cost.time / static_cast<double>(copies);
    // The first copy updates for all.
    if (s * static_cast<std::size_t>(copies) < pipeline.stages.size())
      time += cost.step / static_cast<double>(schedule.shape.microbatches);
  }
  return times;
}

}  // namespace meshwright
