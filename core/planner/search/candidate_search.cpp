// SPDX-License-Identifier: Apache-2.0
// How little a step can take when the DP's cost is T. Let m be the largest stage time t, n the number of stages and B
// that of microbatches. A device of the slowest stage is busy for B m, so a step takes at least B m; and T = sum of t +
// (B - 1) m <= (n + B - 1) m. So a step takes at least T B / (n + B - 1), whatever the schedule.
#include <algorithm>

#include "core/planner/pipeline/stage_dp_branches.h"
#include "core/planner/pipeline/stage_dp_ranking.h"
#include "core/planner/search/candidates.h"

namespace meshwright {

namespace {

constexpr int kMostRanked = 192;
constexpr int kMostBranching = 8;
constexpr int kMostOnOneMesh = 16;
constexpr int kMostRounds = 16;
constexpr int kMostOfStages = 8, kFewOfStages = 1;  // by T, of one number of stages
constexpr int kMostOfShape = 16, kFewOfShape = 2;   // by T, of a chunked shape on one logical mesh
constexpr double kHopeful = 1.3;                    // of the memory: stages that are no larger may still share a rank

Seconds score(const Candidate& candidate, const CandidateRequest& request) {
  return request.objective.kind == Objective::Kind::Latency ? candidate.alone : candidate.step;
}

void sort_by_score(std::vector<Candidate>& candidates, const CandidateRequest& request) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const Candidate& a, const Candidate& b) { return score(a, request) < score(b, request); });
}

int most_stages_of(const StageTable& prices, const CandidateRequest& request) {
  int devices = 0;
  for (const int count : request.devices) devices += count;
  return request.stages.value_or(std::min(prices.layers(), devices));
}

// Microbatches between the halves of their backward at stage s of a line (core/schedule/schedule.cpp).
std::int64_t waiting_for_weights(const CandidateRequest& request, int s) {
  if (!traits_of(request.schedule).splits_backward) return 0;
  return std::min<std::int64_t>((request.schedule == ScheduleKind::ZeroBubbleH2 ? 2 : 1) * s + 1, request.microbatches);
}

// Every microbatch in flight counted as if it were between the halves of its backward: what fits so fits in truth.
StageTable careful(StageTable prices) {
  for (int first = 0; first < prices.layers(); ++first)
    for (int last = first; last < prices.layers(); ++last)
      for (int slice = 0; slice < static_cast<int>(prices.slices().size()); ++slice)
        for (int config = 0; config < prices.configs(); ++config)
          if (auto& price = prices.at(first, last, slice, config)) price->saved += price->held;
  return prices;
}

bool stopped(const CandidateRequest& request) { return request.stop && request.stop(); }

}  // namespace

Candidates CandidateRanking::around(const TablePipeline& pipeline, const StageTable& prices,
                                    const CandidateRequest& request) {
  Candidates found;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s)
    for (int config = 0; config < prices.configs() && !(request.stop && request.stop()); ++config) {
      TablePipeline other = pipeline;
      TableStage& stage = other.stages[s];
      if (stage.config == config || !prices.at(stage.first, stage.last, stage.slice, config)) continue;
      stage.config = config;
      if (auto candidate = simulate(other, request)) found.ranked.push_back(std::move(*candidate));
    }
  found.looked_at = static_cast<std::int64_t>(found.ranked.size());
  sort_by_score(found.ranked, request);
  return found;
}

std::vector<int> CandidateRanking::configs_on(const StageTable& prices, int mesh) const {
  const int slice = search_.meshes()[static_cast<std::size_t>(mesh)].submesh;
  std::vector<int> configs;
  for (int config = 0; config < prices.configs(); ++config)
    if (search_.choice(slice, config).mesh == mesh) configs.push_back(config);
  return configs;
}

std::vector<TablePipeline> CandidateRanking::best_on_one_mesh(const StageTable& prices, const StageDpRequest& request,
                                                              int mesh) const {
  const int slice = search_.meshes()[static_cast<std::size_t>(mesh)].submesh;
  const std::vector<int> configs = configs_on(prices, mesh);
  if (configs.empty()) return {};
  StageTable own(prices.layers(), {prices.slices()[static_cast<std::size_t>(slice)]}, static_cast<int>(configs.size()));
  for (int first = 0; first < prices.layers(); ++first)
    for (int last = first; last < prices.layers(); ++last)
      for (std::size_t c = 0; c < configs.size(); ++c)
        own.at(first, last, 0, static_cast<int>(c)) = prices.at(first, last, slice, configs[c]);
  std::vector<TablePipeline> found;
  PipelineRanking ranking = PipelineRanking::by_training_time(own, request);
  while (static_cast<int>(found.size()) < kMostOnOneMesh) {
    auto pipeline = ranking.next();
    if (!pipeline) break;
    for (TableStage& stage : pipeline->stages) {
      stage.slice = slice;
      stage.config = configs[static_cast<std::size_t>(stage.config)];
    }
    found.push_back(std::move(*pipeline));
  }
  return found;
}

const ChunkedSchedule& CandidateRanking::schedule_of(const ChunkedShape& shape) {
  return schedules_.try_emplace(shape, shape).first->second;
}

const ChunkedSchedule& CandidateRanking::schedule_of(const TablePipeline& pipeline, const CandidateRequest& request) {
  const int ranks = static_cast<int>(pipeline.stages.size()) / pipeline.chunks;
  return schedule_of(ChunkedShape{request.schedule, ranks, pipeline.chunks, request.microbatches});
}

bool CandidateRanking::fits(const TablePipeline& pipeline, const StageTable& prices, const CandidateRequest& request) {
  if (pipeline.chunks > 1) return fits_ranks(pipeline, prices, schedule_of(pipeline, request));
  const int stages = static_cast<int>(pipeline.stages.size());
  const InFlight in_flight = in_flight_of(request.schedule, stages);
  for (int s = 0; s < stages; ++s) {
    const TableStage& stage = pipeline.stages[static_cast<std::size_t>(s)];
    const auto& price = prices.at(stage.first, stage.last, stage.slice, stage.config);
    if (!price) return false;
    const auto kept = static_cast<double>(in_flight(stages - 1 - s, request.microbatches));
    const auto waiting = static_cast<double>(waiting_for_weights(request, s));
    if (price->resident + price->working + kept * price->saved + waiting * price->held >
        prices.slices()[static_cast<std::size_t>(stage.slice)].memory)
      return false;
  }
  return true;
}

void CandidateRanking::look_at(const TablePipeline& pipeline, const CandidateRequest& request, Looked& looked) {
  if (!looked.known.emplace(pipeline.chunks, pipeline.stages).second) return;
  auto candidate = simulate(pipeline, request);
  if (!candidate) return;
  looked.found.ranked.push_back(std::move(*candidate));
  const Seconds own = score(looked.found.ranked.back(), request);
  looked.best = std::min(looked.best.value_or(own), own);
}

void CandidateRanking::look_in_order(const StageTable& prices, const CandidateRequest& request, Looked& looked) {
  Candidates& found = looked.found;
  StageDpRequest dp{.devices = request.devices,
                    .all_devices = false,
                    .microbatches = request.microbatches,
                    .in_flight = in_flight_of(request.schedule),
                    .stages = request.stages};
  if (request.objective.kind == Objective::Kind::Throughput) {
    const Seconds latency = request.objective.most_latency.value_or(Seconds(1e30));
    if (const auto pipeline = max_throughput(prices, dp, latency)) look_at(*pipeline, request, looked);
  }
  const double samples = static_cast<double>(request.samples);
  const double least_throughput = request.objective.least_throughput;
  PipelineRanking ranking =
      request.objective.kind == Objective::Kind::Latency
          ? PipelineRanking::by_latency(prices, dp, Seconds(least_throughput > 0 ? samples / least_throughput : 1e30))
          : PipelineRanking::by_training_time(prices, dp);
  const int most_stages = most_stages_of(prices, request);
  const double microbatches = static_cast<double>(request.microbatches);
  const double share = request.objective.kind == Objective::Kind::Latency
                           ? 1.0
                           : microbatches / (static_cast<double>(most_stages) + microbatches - 1.0);
  for (int k = 0; k < kMostRanked && !stopped(request); ++k) {
    const std::optional<TablePipeline> next = ranking.next();
    if (!next) {
      found.all = true;
      break;
    }
    if (looked.best && share * next->cost >= *looked.best) {
      found.all = true;
      if (!request.beyond_best) break;
    }
    look_at(*next, request, looked);
  }
  look_elsewhere(prices, request, std::move(dp), looked);
}

void CandidateRanking::look_elsewhere(const StageTable& prices, const CandidateRequest& request, StageDpRequest dp,
                                      Looked& looked) {
  const Candidates& found = looked.found;
  const bool by_step = request.objective.kind == Objective::Kind::StepTime;
  const int most_stages = most_stages_of(prices, request);
  // Near the best of one number of stages there are many much like it; the best of the others are worth a look.
  if (!found.all && !request.stages && by_step)
    for (int n = 1; n <= most_stages && !stopped(request); ++n) {
      dp.stages = n;
      if (const auto pipeline = fastest_training(prices, dp)) look_at(*pipeline, request, looked);
    }
  // So are those whose stages all have the same logical mesh: they send each other the least.
  if (!found.all && by_step) {
    dp.stages = request.stages;
    for (int mesh = 0; mesh < static_cast<int>(search_.meshes().size()) && !stopped(request); ++mesh)
      for (const TablePipeline& pipeline : best_on_one_mesh(prices, dp, mesh)) look_at(pipeline, request, looked);
  }
  // Devices of one kind alone.
  if (request.devices.size() > 1 && !stopped(request) && by_step)
    for (std::size_t group = 0; group < request.devices.size(); ++group) {
      StageDpRequest alone = dp;
      alone.stages = request.stages;
      for (std::size_t other = 0; other < alone.devices.size(); ++other)
        if (other != group) alone.devices[other] = 0;
      if (const auto pipeline = fastest_training(prices, alone)) look_at(*pipeline, request, looked);
    }
  if (!branches_.is_line() && !stopped(request) && by_step) {
    dp.stages = request.stages;
    for (const TablePipeline& pipeline : pipelines_with_branches(prices, dp, branches_, kMostBranching))
      look_at(pipeline, request, looked);
  }
}

// Memory asks for other pipelines under every number of stages.
void CandidateRanking::look_by_stages(const StageTable& prices, const CandidateRequest& request, Looked& looked) {
  const int most = request.few ? kFewOfStages : kMostOfStages;
  const bool splits = traits_of(request.schedule).splits_backward;
  const StageTable sure = splits ? careful(prices) : StageTable(1, {}, 1);
  std::vector<const StageTable*> tables = {&prices};
  if (splits) tables.push_back(&sure);
  for (int n = request.stages.value_or(1); n <= most_stages_of(prices, request) && !stopped(request); ++n) {
    const StageDpRequest dp{.devices = request.devices,
                            .all_devices = false,
                            .microbatches = request.microbatches,
                            .in_flight = in_flight_of(request.schedule, n),
                            .stages = n};
    for (const StageTable* table : tables) {
      PipelineRanking ranking = PipelineRanking::by_training_time(*table, dp);
      for (int k = 0; k < most && !stopped(request); ++k) {
        const auto pipeline = ranking.next();
        if (!pipeline) break;
        if (fits(*pipeline, prices, request)) look_at(*pipeline, request, looked);
      }
    }
  }
}

// With most ranks first: they leave the fewest devices idle.
template <class Look>
void CandidateRanking::each_shape(const StageTable& prices, const CandidateRequest& request, const Look& look) {
  const std::optional<int> given = traits_of(request.schedule).chunks;
  const int least = given ? *given : request.chunks > 0 ? request.chunks : 2;
  const int most = given ? *given : request.chunks > 0 ? request.chunks : CandidateRequest::kMostChunks;
  for (int mesh = 0; mesh < static_cast<int>(search_.meshes().size()); ++mesh) {
    const int slice = search_.meshes()[static_cast<std::size_t>(mesh)].submesh;
    const std::vector<int> configs = configs_on(prices, mesh);
    if (configs.empty()) continue;
    const Submesh& submesh = search_.submeshes()[static_cast<std::size_t>(slice)];
    const int room = request.devices[static_cast<std::size_t>(submesh.group)] / submesh.devices();
    for (int chunks = least; chunks <= most; ++chunks)
      for (int ranks = std::min(room, prices.layers() / chunks); ranks >= 2 && !stopped(request); --ranks)
        look(slice, configs, schedule_of(ChunkedShape{request.schedule, ranks, chunks, request.microbatches}));
  }
}

void CandidateRanking::look_at_chunked(const StageTable& prices, const CandidateRequest& request, Looked& looked) {
  const int most = request.few ? kFewOfShape : kMostOfShape;
  const double microbatches = static_cast<double>(request.microbatches);
  const StageTable sure = careful(prices);
  each_shape(prices, request, [&](int slice, const std::vector<int>& configs, const ChunkedSchedule& schedule) {
    for (const double share : {1.0, kHopeful})
      for (const TablePipeline& pipeline :
           best_chunked(share > 1.0 ? prices : sure, slice, configs, schedule, most, share)) {
        const std::vector<Seconds> busy = rank_times(pipeline, prices, schedule);
        if (looked.best && microbatches * *std::max_element(busy.begin(), busy.end()) >= *looked.best) continue;
        if (fits_ranks(pipeline, prices, schedule)) look_at(pipeline, request, looked);
      }
  });
}

std::optional<TablePipeline> CandidateRanking::first_by_cost(const StageTable& prices,
                                                             const CandidateRequest& request) {
  std::optional<TablePipeline> first;
  const auto take = [&](std::optional<TablePipeline> pipeline) {
    if (pipeline && (!first || pipeline->cost < first->cost)) first = std::move(pipeline);
  };
  const ScheduleTraits traits = traits_of(request.schedule);
  const StageTable sure = traits.splits_backward ? careful(prices) : prices;
  if (traits.chunks != 1) {
    each_shape(prices, request, [&](int slice, const std::vector<int>& configs, const ChunkedSchedule& schedule) {
      for (TablePipeline& pipeline : best_chunked(sure, slice, configs, schedule, 1))
        if (fits_ranks(pipeline, prices, schedule)) take(std::move(pipeline));
    });
    return first;
  }
  StageDpRequest dp{.devices = request.devices,
                    .all_devices = false,
                    .microbatches = request.microbatches,
                    .in_flight = in_flight_of(request.schedule),
                    .stages = request.stages};
  if (!traits.splits_backward) return fastest_training(prices, dp);
  for (int n = request.stages.value_or(1); n <= most_stages_of(prices, request); ++n) {
    dp.in_flight = in_flight_of(request.schedule, n);
    dp.stages = n;
    take(fastest_training(sure, dp));
  }
  return first;
}

std::vector<TablePipeline> CandidateRanking::near_slowest(const TablePipeline& pipeline, const StageTable& prices,
                                                          const ChunkedSchedule& schedule) const {
  const std::vector<Seconds> busy = rank_times(pipeline, prices, schedule);
  const auto slowest = static_cast<int>(std::max_element(busy.begin(), busy.end()) - busy.begin());
  std::vector<TablePipeline> near;
  const auto add = [&](TablePipeline other) {
    for (const TableStage& stage : other.stages)
      if (stage.first > stage.last || !prices.at(stage.first, stage.last, stage.slice, stage.config)) return;
    near.push_back(std::move(other));
  };
  const auto move_border = [&](std::size_t stage, int by) {  // the one before it
    if (stage == 0 || stage == pipeline.stages.size()) return;
    TablePipeline other = pipeline;
    other.stages[stage - 1].last += by;
    other.stages[stage].first += by;
    add(std::move(other));
  };
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    if (schedule.rank_of_stage[s] != slowest) continue;
    move_border(s, 1);
    move_border(s + 1, -1);
    for (int config = 0; config < prices.configs(); ++config) {
      if (config == pipeline.stages[s].config) continue;
      TablePipeline other = pipeline;
      other.stages[s].config = config;
      add(std::move(other));
    }
  }
  return near;
}

Candidates CandidateRanking::find(const StageTable& prices, const CandidateRequest& request) {
  Looked looked;
  const bool chunked = traits_of(request.schedule).chunks != 1;
  if (chunked)
    look_at_chunked(prices, request, looked);
  else if (request.few || traits_of(request.schedule).splits_backward)
    look_by_stages(prices, request, looked);
  else
    look_in_order(prices, request, looked);
  for (const TablePipeline& pipeline : request.like)
    if (!chunked && !stopped(request) && fits(pipeline, prices, request)) look_at(pipeline, request, looked);
  Candidates& found = looked.found;
  sort_by_score(found.ranked, request);
  improve(prices, request, looked);
  found.looked_at += static_cast<std::int64_t>(looked.known.size());
  return std::move(found);
}

// What stages send each other is none of T: the best is improved stage by stage.
void CandidateRanking::improve(const StageTable& prices, const CandidateRequest& request, Looked& looked) {
  Candidates& found = looked.found;
  const bool chunked = traits_of(request.schedule).chunks != 1;
  if (request.few && !chunked) return;
  for (int round = 0; round < kMostRounds && !found.ranked.empty() && !stopped(request); ++round) {
    Candidates near;
    if (chunked) {
      const TablePipeline best = found.ranked.front().pipeline;
      for (const TablePipeline& pipeline : near_slowest(best, prices, schedule_of(best, request)))
        if (fits(pipeline, prices, request))
          if (auto candidate = simulate(pipeline, request)) near.ranked.push_back(std::move(*candidate));
      near.looked_at = static_cast<std::int64_t>(near.ranked.size());
      sort_by_score(near.ranked, request);
    } else {
      near = around(found.ranked.front().pipeline, prices, request);
    }
    found.looked_at += near.looked_at;
    const auto next = std::find_if(near.ranked.begin(), near.ranked.end(), [&](const Candidate& candidate) {
      return fits(candidate.pipeline, prices, request);
    });
    if (next == near.ranked.end() || score(*next, request) >= score(found.ranked.front(), request)) break;
    found.ranked.insert(found.ranked.begin(), std::move(*next));
  }
}

}  // namespace meshwright
