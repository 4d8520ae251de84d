// SPDX-License-Identifier: Apache-2.0
// Which pipelines are simulated, and when that stops.
//
// A lower bound of a step when the DP's cost is T: let m be the maximum stage time t, n the number of stages and B that
// of micro-batches. A device of the slowest stage is busy for B m, so a step takes at least B m; and T = sum of t +
// (B - 1) m <= (n + B - 1) m. So a step takes at least T B / (n + B - 1), whatever the schedule.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/parallel.h"
#include "core/planner/pipeline/pipeline_bound.h"
#include "core/planner/pipeline/stage_dp_branches.h"
#include "core/planner/pipeline/stage_dp_ranking.h"
#include "core/planner/search/candidates.h"
#include "core/planner/search/known_or.h"

namespace meshwright {

namespace {

// Limits of what is simulated: pipelines in order of T, pipelines with branches, and pipelines on each logical mesh.
constexpr int kMaxRanked = 192;
constexpr int kMaxBranching = 8;
constexpr int kMaxOnOneMesh = 16;
constexpr int kMaxOfStages = 8, kFewOfStages = 1;  // by T, of one number of stages
constexpr int kMaxOfPasses = 4;                    // the same by T without what is done once per step
// Where several schedules are searched, all but the first stop after so many numbers of stages in a row whose best T is
// so much worse.
constexpr int kMaxWorse = 8;
constexpr double kWorse = 1.02;
constexpr int kMaxOfShape = 16, kFewOfShape = 2;  // by T, of a chunked shape on one logical mesh
constexpr double kLastBits = 1.0 - 1e-9;          // sums in another order differ in their last bits
constexpr std::size_t kWorthThreads = 16;         // pipelines: fewer are simulated sooner than threads begin
constexpr double kHopeful = 1.3;                  // of the memory: stages that are no larger may still share a rank

int max_stages_of(const StageTable& table, const CandidateRequest& request) {
  // Each stage has at least one layer and one device.
  int devices = 0;
  for (const int count : request.devices) devices += count;
  return request.stages.value_or(std::min(table.layers(), devices));
}

// The micro-batches between the halves of their backward at stage s of a line (core/schedule/schedule.cpp).
std::int64_t waiting_for_weights(const CandidateRequest& request, int s) {
  if (!traits_of(request.schedule).splits_backward) return 0;
  return std::min<std::int64_t>((request.schedule == ScheduleKind::ZeroBubbleH2 ? 2 : 1) * s + 1, request.microbatches);
}

// Counts every micro-batch in flight as if it were between the halves of its backward: what fits so does fit.
StageTable careful(StageTable table) {
  for (std::optional<StageCost>& cost : table.costs())
    if (cost) cost->saved += cost->held;
  return table;
}

// T counts what each stage does once per step, one after the other; most stages do so while others still work.
StageTable without_steps(StageTable table) {
  for (std::optional<StageCost>& cost : table.costs())
    if (cost) cost->step = Seconds(0.0);
  return table;
}

// [i] find(i) for each of `count`, side by side; nothing of those that a stop leaves.
template <class Find>
std::vector<std::vector<TablePipeline>> find_each(int count, const CandidateRequest& request, const Find& find) {
  std::vector<std::vector<TablePipeline>> found(static_cast<std::size_t>(count));
  for_each_index(found.size(), request.threads, [&](std::size_t i) {
    if (!request.stopped()) found[i] = find(static_cast<int>(i));
  });
  return found;
}

StageDpRequest dp_request(const CandidateRequest& request, InFlight in_flight, std::optional<int> stages) {
  return {request.devices, false, request.microbatches, std::move(in_flight), stages};
}

}  // namespace

Seconds CandidateRanking::score(const Candidate& candidate, const CandidateRequest& request) {
  return request.goal.objective == Goal::Objective::Latency ? candidate.alone : candidate.step;
}

void CandidateRanking::sort(Candidates& candidates, const CandidateRequest& request) {
  std::stable_sort(candidates.ranked.begin(), candidates.ranked.end(),
                   [&](const Candidate& a, const Candidate& b) { return score(a, request) < score(b, request); });
}

Candidates CandidateRanking::simulate_all(const std::vector<TablePipeline>& pipelines,
                                          const CandidateRequest& request) {
  Candidates found;
  std::vector<std::optional<Candidate>> each(pipelines.size());
  for_each_index(pipelines.size(), pipelines.size() < kWorthThreads ? 1 : request.threads, [&](std::size_t i) {
    if (!request.stopped()) each[i] = simulate(pipelines[i], request);
  });
  for (std::optional<Candidate>& candidate : each)
    if (candidate) found.ranked.push_back(*std::move(candidate));
  found.simulated = static_cast<std::int64_t>(found.ranked.size());
  sort(found, request);
  return found;
}

std::vector<int> CandidateRanking::configs_on(const StageTable& table, int mesh) const {
  // A slice of the table is a submesh. Its logical meshes share the slice and differ in their configurations.
  const int slice = search_.meshes()[mesh].submesh;
  std::vector<int> configs;
  for (int config = 0; config < table.configs(); ++config)
    if (search_.choice(slice, config).mesh == mesh) configs.push_back(config);
  return configs;
}

std::vector<TablePipeline> CandidateRanking::best_on_one_mesh(const StageTable& table, const StageDpRequest& request,
                                                              int mesh) const {
  const int slice = search_.meshes()[mesh].submesh;
  const std::vector<int> configs = configs_on(table, mesh);
  if (configs.empty()) return {};
  return best_on_slice(table_of_slice(table, slice, configs), request, slice, configs, kMaxOnOneMesh);
}

const ChunkedSchedule& CandidateRanking::schedule_of(const ChunkedShape& shape) {
  return known_or(mutex_, schedules_, shape, [&] { return ChunkedSchedule(shape, copied_); });
}

const ChunkedSchedule& CandidateRanking::schedule_of(const TablePipeline& pipeline, const CandidateRequest& request) {
  const int ranks = static_cast<int>(pipeline.stages.size()) / pipeline.chunks;
  return schedule_of(ChunkedShape{request.schedule, ranks, pipeline.chunks, request.microbatches});
}

// Exact for one stage per rank, where the table assumed the worst: in-flight counts of the schedule with this many
// stages, and what is held between the halves of a backward.
bool CandidateRanking::fits(const TablePipeline& pipeline, const StageTable& table, const CandidateRequest& request) {
  if (pipeline.chunks > 1) return fits_ranks(pipeline, table, schedule_of(pipeline, request));
  const int stages = static_cast<int>(pipeline.stages.size());
  const InFlight in_flight = in_flight_of(request.schedule, stages);
  for (int s = 0; s < stages; ++s) {
    const TableStage& stage = pipeline.stages[s];
    const auto& cost = table.at(stage.first, stage.last, stage.slice, stage.config);
    if (!cost) return false;
    // The first argument counts the stages after this one.
    const auto kept = static_cast<double>(in_flight(stages - 1 - s, request.microbatches));
    const auto waiting = static_cast<double>(waiting_for_weights(request, s));
    if (cost->resident + cost->working + kept * cost->saved + waiting * cost->held > table.slices()[stage.slice].memory)
      return false;
  }
  return true;
}

void CandidateRanking::add(const TablePipeline& pipeline, const CandidateRequest& request, Ranking& ranking) {
  // Several orders give the same pipeline. It is simulated once.
  if (!ranking.known.emplace(pipeline.chunks, pipeline.stages).second) return;
  auto candidate = simulate(pipeline, request);
  if (!candidate) return;
  ranking.found.ranked.push_back(std::move(*candidate));
  const Seconds own = score(ranking.found.ranked.back(), request);
  ranking.best = std::min(ranking.best.value_or(own), own);
}

// `share` is B / (n + B - 1) of the bound above, with the maximum n, so that it holds for every pipeline of the order.
// A latency is at least the sum of the stages' times, so its share is 1.
double CandidateRanking::least_share(const StageTable& table, const CandidateRequest& request) {
  if (request.goal.objective == Goal::Objective::Latency) return 1.0;
  const double microbatches = static_cast<double>(request.microbatches);
  return microbatches / (static_cast<double>(max_stages_of(table, request)) + microbatches - 1.0);
}

// In a line, a schedule that does the whole backward at once takes at least the sum of the times of a micro-batch's
// passes, which are a part p of the sum of t, the least of any stage. So a step takes at least max(p r, B) of the
// largest t, and T is at most r + B - 1 of it, where r is the sum as a multiple of the largest: whatever r, at least 1
// / (1 / p + 1 - 1 / B) of T.
double CandidateRanking::share_of_order(const StageTable& table, const CandidateRequest& request) const {
  const double share = least_share(table, request);
  if (share > 0.5 || !branches_.is_line() || traits_of(request.schedule).splits_backward) return share;
  const auto microbatches = static_cast<double>(request.microbatches);
  double part = 1.0;
  for (const std::optional<StageCost>& cost : table.costs())
    if (cost && cost->step > Seconds(0.0)) part = std::min(part, cost->time / (cost->time + cost->step / microbatches));
  if (part == 0.0) return share;
  return std::max(share, kLastBits / (1.0 / part + 1.0 - 1.0 / microbatches));
}

// By T ascending, until the bound above rules out every later pipeline, or kMaxRanked were simulated.
void CandidateRanking::rank_in_order(const StageTable& table, const CandidateRequest& request, Ranking& ranking) {
  Candidates& found = ranking.found;
  StageDpRequest dp = dp_request(request, in_flight_of(request.schedule), request.stages);
  if (request.goal.objective == Goal::Objective::Throughput) {
    const Seconds latency = request.goal.max_latency.value_or(Seconds(1e30));
    if (const auto pipeline = max_throughput(table, dp, latency)) add(*pipeline, request, ranking);
  }
  const double samples = static_cast<double>(request.samples);
  const std::optional<double> min_throughput = request.goal.min_throughput;
  PipelineRanking order =
      request.goal.objective == Goal::Objective::Latency
          ? PipelineRanking::by_latency(table, dp, Seconds(min_throughput ? samples / *min_throughput : 1e30))
          : PipelineRanking::by_training_time(table, dp);
  const double share = share_of_order(table, request);
  for (int k = 0; k < kMaxRanked && !request.stopped(); ++k) {
    const std::optional<TablePipeline> next = order.next();
    if (!next) {
      found.all = true;
      break;
    }
    // The order is by cost ascending: if this pipeline cannot win, no later one can.
    if (request.to_beat && share * next->cost >= *request.to_beat) {
      found.all = found.beaten = true;
      break;
    }
    if (ranking.best && share * next->cost >= *ranking.best) {
      found.all = true;
      if (!request.beyond_best) break;
    }
    add(*next, request, ranking);
  }
  rank_others(table, request, std::move(dp), ranking);
}

std::vector<Seconds> CandidateRanking::least_latencies_of(const StageTable& table,
                                                          const CandidateRequest& request) const {
  if (!branches_.is_line() || request.goal.objective != Goal::Objective::StepTime ||
      !traits_of(request.schedule).trains)
    return {};
  // With n even stages the first micro-batch takes about n / B of the step, so that n <= B rules nothing out.
  if (request.microbatches >= max_stages_of(table, request)) return {};
  const bool splits = traits_of(request.schedule).splits_backward;
  const auto latency = [&](const TableStage& stage) {
    const StepCost& cost = search_.cost(stage.first, stage.last, search_.choice(stage.slice, stage.config));
    return cost.forward + (splits ? 1.0 - weights_share(stage, cost) : 1.0) * cost.backward;
  };
  const int devices = std::accumulate(request.devices.begin(), request.devices.end(), 0);
  return least_latencies(table, devices, max_stages_of(table, request), latency);
}

bool CandidateRanking::takes_too_long(const std::vector<Seconds>& latencies, int stages,
                                      const CandidateRequest& request, const Ranking& ranking) {
  if (latencies.empty() || request.beyond_best) return false;
  const Seconds least = kLastBits * latencies[static_cast<std::size_t>(stages) - 1];
  return (ranking.best && least >= *ranking.best) || (request.to_beat && least >= *request.to_beat);
}

void CandidateRanking::rank_others(const StageTable& table, const CandidateRequest& request, StageDpRequest dp,
                                   Ranking& ranking) {
  const Candidates& found = ranking.found;
  const bool by_step = request.goal.objective == Goal::Objective::StepTime;
  const int max_stages = max_stages_of(table, request);
  const auto add_each = [&](const std::vector<std::vector<TablePipeline>>& each) {
    for (const std::vector<TablePipeline>& pipelines : each)
      for (const TablePipeline& pipeline : pipelines)
        if (!request.stopped()) add(pipeline, request, ranking);
  };
  const bool other_numbers = !found.all && !request.stages && by_step;
  const std::vector<Seconds> latencies = other_numbers ? least_latencies_of(table, request) : std::vector<Seconds>{};
  const auto cannot_win = [&](int stages) { return takes_too_long(latencies, stages, request, ranking); };
  // Near the best of one number of stages there are many much like it: try the best of the other numbers.
  if (other_numbers)
    add_each(find_each(max_stages, request, [&](int n) {
      if (cannot_win(n + 1)) return std::vector<TablePipeline>{};
      StageDpRequest own = dp;
      own.stages = n + 1;
      const auto pipeline = fastest_training(table, own);
      return pipeline ? std::vector{*pipeline} : std::vector<TablePipeline>{};
    }));
  if (other_numbers && request.thorough) {
    const StageTable passes = without_steps(table);
    for (int n = 1; n <= max_stages && !request.stopped(); ++n) {
      if (cannot_win(n)) continue;
      dp.stages = n;
      PipelineRanking order = PipelineRanking::by_training_time(passes, dp);
      for (int k = 0; k < kMaxOfPasses; ++k)
        if (const auto pipeline = order.next()) add(*pipeline, request, ranking);
    }
  }
  // Then those whose stages all have the same logical mesh: they send each other the fewest bytes.
  if (!found.all && by_step) {
    dp.stages = request.stages;
    add_each(find_each(static_cast<int>(search_.meshes().size()), request,
                       [&](int mesh) { return best_on_one_mesh(table, dp, mesh); }));
  }
  // Devices of one kind alone.
  if (request.devices.size() > 1 && !request.stopped() && by_step)
    for (std::size_t group = 0; group < request.devices.size(); ++group) {
      if (request.devices[group] == 0) continue;
      StageDpRequest alone = dp;
      alone.stages = request.stages;
      for (std::size_t other = 0; other < alone.devices.size(); ++other)
        if (other != group) alone.devices[other] = 0;
      if (const auto pipeline = fastest_training(table, alone)) add(*pipeline, request, ranking);
    }
  if (!branches_.is_line() && !request.stopped() && by_step) {
    dp.stages = request.stages;
    for (const TablePipeline& pipeline : pipelines_with_branches(table, dp, branches_, kMaxBranching))
      add(pipeline, request, ranking);
  }
}

// The bytes that a stage keeps depend on the number of stages: each number has other pipelines that fit.
void CandidateRanking::rank_by_stages(const StageTable& table, const CandidateRequest& request, Ranking& ranking) {
  const int most = request.few ? kFewOfStages : kMaxOfStages;
  const bool splits = traits_of(request.schedule).splits_backward;
  const StageTable sure = splits ? careful(table) : StageTable(1, {}, 1);
  // The plain order may give pipelines whose stages hold too much between the halves of a backward. The careful order
  // adds pipelines that surely fit.
  std::vector<const StageTable*> tables = {&table};
  if (splits) tables.push_back(&sure);
  std::optional<Seconds> least;
  int worse = 0;  // numbers of stages in a row
  const std::vector<Seconds> latencies = request.stages ? std::vector<Seconds>{} : least_latencies_of(table, request);
  const double microbatches = static_cast<double>(request.microbatches);
  for (int n = request.stages.value_or(1); n <= max_stages_of(table, request) && !request.stopped(); ++n) {
    if (request.few && worse == kMaxWorse) break;
    if (takes_too_long(latencies, n, request, ranking)) {
      ranking.found.beaten = ranking.found.beaten || request.to_beat.has_value();
      continue;
    }
    const StageDpRequest dp = dp_request(request, in_flight_of(request.schedule, n), n);
    std::optional<Seconds> own;
    const double of_stages = microbatches / (n + microbatches - 1.0);  // the bound above
    for (const StageTable* each : tables) {
      PipelineRanking order = PipelineRanking::by_training_time(*each, dp);
      for (int k = 0; k < most && !request.stopped(); ++k) {
        const auto pipeline = order.next();
        if (!pipeline) break;
        own = std::min(own.value_or(pipeline->cost), pipeline->cost);
        if (request.to_beat && of_stages * pipeline->cost >= *request.to_beat) {
          ranking.found.beaten = true;
          break;
        }
        if (fits(*pipeline, table, request)) add(*pipeline, request, ranking);
      }
    }
    if (!own) continue;
    least = std::min(least.value_or(*own), *own);
    worse = *own > kWorse * *least ? worse + 1 : 0;
  }
}

// The largest number of ranks first: it leaves the fewest devices idle.
template <class Visit>
void CandidateRanking::each_shape(const StageTable& table, const CandidateRequest& request, const Visit& visit) {
  // A number of chunks that the schedule fixes has precedence over the request's.
  std::optional<int> given = traits_of(request.schedule).chunks;
  if (const auto* asked = std::get_if<int>(&request.chunks); asked != nullptr && !given) given = *asked;
  const int min_chunks = given.value_or(2), max_chunks = given.value_or(CandidateRequest::kMaxChunks);
  const auto visit_slice = [&](int slice, const std::vector<int>& configs) {
    const Seconds least = least_sum(table, slice, configs);
    if (!std::isfinite(least.si())) return;
    const Submesh& submesh = search_.submeshes()[slice];
    // All ranks have the same submesh, so the devices of its group limit their number. Each stage needs a layer.
    const int room = request.devices[submesh.group] / submesh.devices();
    const int copies = traits_of(request.schedule).copies;
    for (int chunks = min_chunks; chunks <= max_chunks; ++chunks)
      for (int ranks = std::min(room, copies * table.layers() / chunks); ranks >= 2 && !request.stopped(); --ranks)
        if (!unmet_by(request.schedule, ranks, request.microbatches))
          visit(slice, configs, ChunkedShape{request.schedule, ranks, chunks, request.microbatches}, least);
  };
  std::vector<std::vector<int>> of_slice(search_.submeshes().size());  // the configurations of all its logical meshes
  std::vector<int> meshes_of(of_slice.size(), 0);
  for (int mesh = 0; mesh < static_cast<int>(search_.meshes().size()); ++mesh) {
    const int slice = search_.meshes()[mesh].submesh;
    const std::vector<int> configs = configs_on(table, mesh);
    visit_slice(slice, configs);
    of_slice[slice].insert(of_slice[slice].end(), configs.begin(), configs.end());
    ++meshes_of[slice];
  }
  if (!request.thorough) return;
  for (int slice = 0; slice < static_cast<int>(of_slice.size()); ++slice)
    if (meshes_of[slice] > 1) visit_slice(slice, of_slice[slice]);
}

void CandidateRanking::rank_chunked(const StageTable& table, const CandidateRequest& request, Ranking& ranking) {
  const int most = request.few ? kFewOfShape : kMaxOfShape;
  const double microbatches = static_cast<double>(request.microbatches);
  const StageTable sure = traits_of(request.schedule).splits_backward ? careful(table) : table;
  const auto visit = [&](int slice, const std::vector<int>& configs, const ChunkedShape& shape, Seconds least) {
    // The busiest rank has at least an equal share of the least that all stages take.
    const auto is_beaten = [&](Seconds bound) {
      if (!request.to_beat || bound < *request.to_beat) return ranking.best && bound >= *ranking.best;
      ranking.found.beaten = true;
      return true;
    };
    if (is_beaten(kLastBits * microbatches / shape.ranks * least)) return;
    const ChunkedSchedule& schedule = schedule_of(shape);
    for (const double share : {1.0, kHopeful})
      for (const TablePipeline& pipeline :
           best_chunked(share > 1.0 ? table : sure, slice, configs, schedule, most, share)) {
        const std::vector<Seconds> busy = rank_times(pipeline, table, schedule);
        // The busiest rank works on every micro-batch: the step takes no less.
        if (is_beaten(microbatches * *std::max_element(busy.begin(), busy.end()))) continue;
        if (fits_ranks(pipeline, table, schedule)) add(pipeline, request, ranking);
      }
  };
  each_shape(table, request, visit);
}

std::optional<TablePipeline> CandidateRanking::first_by_cost(const StageTable& table, const CandidateRequest& request) {
  std::optional<TablePipeline> first;
  const auto take = [&](std::optional<TablePipeline> pipeline) {
    if (pipeline && (!first || pipeline->cost < first->cost)) first = std::move(pipeline);
  };
  const ScheduleTraits traits = traits_of(request.schedule);
  const StageTable sure = traits.splits_backward ? careful(table) : table;
  if (traits.chunks != 1) {
    const auto visit = [&](int slice, const std::vector<int>& configs, const ChunkedShape& shape, Seconds least) {
      // T of chunked_pipelines.h, with the largest t at least an equal share of the sum.
      const double times = 1.0 + static_cast<double>(request.microbatches - 1) / shape.ranks;
      if (first && kLastBits * times * least >= first->cost) return;
      const ChunkedSchedule& schedule = schedule_of(shape);
      for (TablePipeline& pipeline : best_chunked(sure, slice, configs, schedule, 1))
        if (fits_ranks(pipeline, table, schedule)) take(std::move(pipeline));
    };
    each_shape(table, request, visit);
    return first;
  }
  StageDpRequest dp = dp_request(request, in_flight_of(request.schedule), request.stages);
  if (!traits.splits_backward) return fastest_training(table, dp);
  for (int n = request.stages.value_or(1); n <= max_stages_of(table, request); ++n) {
    dp.in_flight = in_flight_of(request.schedule, n);
    dp.stages = n;
    take(fastest_training(sure, dp));
  }
  return first;
}

CandidateRanking::Ranking CandidateRanking::begin(const StageTable& table, const CandidateRequest& request) {
  Ranking ranking;
  const bool chunked = traits_of(request.schedule).chunks != 1;
  if (chunked)
    rank_chunked(table, request, ranking);
  else if (request.few || traits_of(request.schedule).splits_backward)
    rank_by_stages(table, request, ranking);
  else
    rank_in_order(table, request, ranking);
  return ranking;
}

Candidates CandidateRanking::finish(Ranking ranking, const StageTable& table, const CandidateRequest& request) {
  const bool chunked = traits_of(request.schedule).chunks != 1;
  for (const TablePipeline& pipeline : request.like)
    if (!chunked && !request.stopped() && fits(pipeline, table, request)) add(pipeline, request, ranking);
  Candidates& found = ranking.found;
  sort(found, request);
  improve(table, request, ranking);
  found.simulated += static_cast<std::int64_t>(ranking.known.size());
  return std::move(found);
}

}  // namespace meshwright
