// SPDX-License-Identifier: Apache-2.0
// Stages that are alone on one device each, V p of them on V p devices, are what stage_dp.h searches: its largest t and
// its memory per stage become those of the header when the step and the resident bytes count V times.
#include "core/planner/pipeline/chunked_pipelines.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/planner/pipeline/stage_dp_ranking.h"
#include "core/schedule/schedule.h"

namespace meshwright {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

const StageCost& cost_of(const StageTable& table, const TableStage& stage) {
  const auto& cost = table.at(stage.first, stage.last, stage.slice, stage.config);
  MW_CHECK(cost.has_value(), "layers {}..{} have no cost on slice {}", stage.first, stage.last, stage.slice);
  return *cost;
}

}  // namespace

ChunkedSchedule::ChunkedSchedule(const ChunkedShape& of) : shape(of) {
  const int stages = of.ranks * of.chunks;
  runs = make_schedule(of.schedule, line_of(stages), static_cast<int>(of.microbatches), of.chunks);
  rank_of_stage = ranks_of_stages(of.schedule, stages, of.chunks);
  in_flight = max_in_flight(runs);
}

std::vector<TablePipeline> best_chunked(const StageTable& table, int slice, const std::vector<int>& configs,
                                        const ChunkedSchedule& schedule, int most, double memory_share) {
  const auto [kind, ranks, chunks, microbatches] = schedule.shape;
  const int stages = ranks * chunks;
  if (stages > table.layers()) return {};
  const double times = chunks;
  StageTable own(table.layers(), {{{1}, memory_share * table.slices()[at(slice)].memory}},
                 static_cast<int>(configs.size()));
  for (int first = 0; first < table.layers(); ++first)
    for (int last = first; last < table.layers(); ++last)
      for (std::size_t c = 0; c < configs.size(); ++c) {
        auto& cost = own.at(first, last, 0, static_cast<int>(c)) = table.at(first, last, slice, configs[c]);
        if (!cost) continue;
        cost->step = times * cost->step;
        cost->resident = times * cost->resident;
      }
  const StageDpRequest request{.devices = {stages},
                               .all_devices = true,
                               .microbatches = chunks * (microbatches - 1) + 1,
                               .in_flight = [&, count = stages](int from_end, std::int64_t) -> std::int64_t {
                                 return schedule.in_flight[at(schedule.rank_of_stage[at(count - 1 - from_end)])];
                               },
                               .stages = stages};
  std::vector<TablePipeline> found;
  const auto add = [&](TablePipeline pipeline) {
    for (TableStage& stage : pipeline.stages) {
      stage.slice = slice;
      stage.config = configs[at(stage.config)];
    }
    pipeline.chunks = chunks;
    found.push_back(std::move(pipeline));
  };
  if (most == 1) {
    if (auto pipeline = fastest_training(own, request)) add(std::move(*pipeline));
    return found;
  }
  PipelineRanking ranking = PipelineRanking::by_training_time(own, request);
  while (static_cast<int>(found.size()) < most) {
    auto pipeline = ranking.next();
    if (!pipeline) break;
    add(std::move(*pipeline));
  }
  return found;
}

bool fits_ranks(const TablePipeline& pipeline, const StageTable& table, const ChunkedSchedule& schedule) {
  const int ranks = schedule.shape.ranks;
  std::vector<Bytes> resident(at(ranks), Bytes(0.0)), working(at(ranks), Bytes(0.0)), saved, held;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const StageCost& cost = cost_of(table, pipeline.stages[s]);
    const std::size_t rank = at(schedule.rank_of_stage[s]);
    resident[rank] += cost.resident;
    working[rank] = std::max(working[rank], cost.working);
    saved.push_back(cost.saved);
    held.push_back(cost.held);
  }
  const Bytes memory = table.slices()[at(pipeline.stages.front().slice)].memory;
  for (std::size_t rank = 0; rank < schedule.runs.size(); ++rank) {
    Bytes now(0.0), most(0.0);
    for (const ScheduledRun& run : schedule.runs[rank]) {
      const std::size_t stage = run.stage.index();
      if (run.pass == Pass::Forward) now += saved[stage];
      if (run.pass == Pass::BackwardInput) now += held[stage];
      most = std::max(most, now);
      if (run.pass == Pass::Backward) now -= saved[stage];
      if (run.pass == Pass::BackwardWeight) now -= saved[stage] + held[stage];
    }
    if (resident[rank] + working[rank] + most > memory) return false;
  }
  return true;
}

std::vector<Seconds> rank_times(const TablePipeline& pipeline, const StageTable& table,
                                const ChunkedSchedule& schedule) {
  std::vector<Seconds> times(at(schedule.shape.ranks), Seconds(0.0));
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const StageCost& cost = cost_of(table, pipeline.stages[s]);
    times[at(schedule.rank_of_stage[s])] += cost.time + cost.step / static_cast<double>(schedule.shape.microbatches);
  }
  return times;
}

}  // namespace meshwright
