// SPDX-License-Identifier: Apache-2.0
// How little a step can take when the DP's cost is T. Let m be the largest stage time t, n the number of stages and B
// that of microbatches. A device of the slowest stage is busy for B m, so a step takes at least B m; and T = sum of t +
// (B - 1) m <= (n + B - 1) m. So a step takes at least T B / (n + B - 1), whatever the schedule.
#include "core/planner/candidates.h"

#include <algorithm>
#include <set>

#include "core/plan/tile_copies.h"
#include "core/planner/placement.h"
#include "core/planner/stage_dp_branches.h"
#include "core/planner/stage_dp_ranking.h"

namespace meshwright {

namespace {

constexpr int kMostRanked = 192;
constexpr int kMostBranching = 8;
constexpr int kMostOnOneMesh = 16;
constexpr int kMostRounds = 16;

std::vector<std::int64_t> key_of(const PricedPipeline& pipeline) {
  std::vector<std::int64_t> key;
  for (const PricedStage& stage : pipeline.stages)
    key.insert(key.end(), {stage.first, stage.last, stage.slice, stage.config});
  return key;
}

Seconds score(const Candidate& candidate, const CandidateRequest& request) {
  return request.objective.kind == Objective::Kind::Latency ? candidate.alone : candidate.step;
}

void sort_by_score(std::vector<Candidate>& candidates, const CandidateRequest& request) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const Candidate& a, const Candidate& b) { return score(a, request) < score(b, request); });
}

std::vector<int> stages_of_layers(const PricedPipeline& pipeline) {
  std::vector<int> stages;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s)
    stages.resize(static_cast<std::size_t>(pipeline.stages[s].last) + 1, static_cast<int>(s));
  return stages;
}

// By the prices' estimate, as if the stages were a line.
bool fits(const PricedPipeline& pipeline, const StagePrices& prices, const CandidateRequest& request) {
  const InFlight in_flight = in_flight_of(request.schedule);
  const int stages = static_cast<int>(pipeline.stages.size());
  for (int s = 0; s < stages; ++s) {
    const PricedStage& stage = pipeline.stages[static_cast<std::size_t>(s)];
    const StagePrice& price = *prices.at(stage.first, stage.last, stage.slice, stage.config);
    const auto kept = static_cast<double>(in_flight(stages - 1 - s, request.microbatches));
    if (price.resident + price.working + kept * price.saved >
        prices.slices()[static_cast<std::size_t>(stage.slice)].memory)
      return false;
  }
  return true;
}

}  // namespace

CandidateRanking::CandidateRanking(const StepStructure& structure, const StageSearch& search, const Cluster& cluster,
                                   const CostModel& costs, PlanEvaluator& evaluator)
    : structure_(structure),
      search_(search),
      cluster_(cluster),
      costs_(costs),
      evaluator_(evaluator),
      branches_(find_branches(structure.graph(), structure.layers())) {
  const Graph& graph = structure.graph();
  const Layers& layers = structure.layers();
  std::vector<std::vector<int>> readers(graph.tensors().size());
  for (int layer = 0; layer < layers.count; ++layer)
    for (const OpId op : layers.forward[static_cast<std::size_t>(layer)])
      for (const TensorId input : graph.op(op).inputs) {
        auto& own = readers[input.index()];
        if (own.empty() || own.back() != layer) own.push_back(layer);
      }
  for (const Tensor& tensor : graph.tensors()) {
    auto& own = readers[tensor.id.index()];
    if (own.empty()) continue;
    const bool parameter = tensor.kind == TensorKind::Parameter;
    if (!parameter && !tensor.producer) continue;
    const int home = parameter ? own.front() : layers.layer_of_op[tensor.producer->index()];
    std::erase(own, home);
    if (!own.empty()) shared_.push_back({tensor.id, parameter, home, std::move(own), tensor.bytes()});
  }
}

std::optional<std::vector<std::vector<int>>> CandidateRanking::place(const PricedPipeline& pipeline,
                                                                     std::int64_t microbatches) const {
  const std::vector<int> stage_of = stages_of_layers(pipeline);
  std::map<std::pair<int, int>, Bytes> bytes;
  for (const Shared& shared : shared_) {
    const int from = stage_of[static_cast<std::size_t>(shared.layer)];
    // There and back; a parameter's copies and gradients once per step.
    const double times = shared.parameter ? 2.0 / static_cast<double>(microbatches) : 2.0;
    int before = from;
    for (const int reader : shared.readers) {
      const int to = stage_of[static_cast<std::size_t>(reader)];
      if (to == from || to == before) continue;
      before = to;
      const auto [at, is_new] = bytes.emplace(std::minmax(from, to), Bytes(0.0));
      at->second += times * shared.bytes;
    }
  }
  PlacementRequest request;
  for (const PricedStage& stage : pipeline.stages)
    request.stages.push_back(search_.submeshes()[static_cast<std::size_t>(stage.slice)]);
  request.neighbour_bytes.assign(pipeline.stages.size() - 1, Bytes(0.0));
  for (const auto& [pair, amount] : bytes) {
    if (pair.second == pair.first + 1)
      request.neighbour_bytes[static_cast<std::size_t>(pair.first)] += amount;
    else
      request.others.push_back({pair.first, pair.second, amount});
  }
  auto placed = place_stages(cluster_, request);
  if (!placed) return std::nullopt;
  return std::move(placed->devices);
}

// As lowering cuts the messages and price_program prices them: the messages of one pair of devices come one after the
// other, those of different pairs at the same time.
CandidateRanking::Direction CandidateRanking::travel(const PricedStage& from, const PricedStage& to, bool hosts_apart) {
  const auto [known, is_new] = known_.try_emplace({from, to, hosts_apart});
  Direction& found = known->second;
  if (!is_new) return found;
  const StageChoice source_choice = search_.choice(from.slice, from.config);
  const StageChoice choice = search_.choice(to.slice, to.config);
  const MeshSpans &source_spans = search_.spans(source_choice), &spans = search_.spans(choice);
  const auto& leaving = source_spans.leaving(from.first, from.last, source_choice.price);
  const auto& entering = spans.entering(to.first, to.last, choice.price);
  const std::vector<TensorId> left = structure_.crossing(from.last + 1), entered = structure_.crossing(to.first);
  std::map<std::pair<int, int>, Seconds> forward, backward;
  const Submesh &source_mesh = source_spans.mesh().of, &mesh = spans.mesh().of;
  for (std::size_t t = 0; t < entered.size(); ++t) {
    const Tensor& tensor = structure_.graph().tensor(entered[t]);
    const int layer = structure_.layers().layer_of_op[tensor.producer->index()];
    if (layer < from.first || layer > from.last || !structure_.is_read(entered[t], to.first, to.last)) continue;
    const auto at = std::find(left.begin(), left.end(), entered[t]) - left.begin();
    const ShardingSpec& source_spec = leaving[static_cast<std::size_t>(at)];
    const auto add = [&](auto& channels, const ShardingSpec& a, const LogicalMesh& a_mesh, const ShardingSpec& b,
                         const LogicalMesh& b_mesh, int group) {
      for (const TileCopy& copy : tile_copies(tensor.dims, a, a_mesh, b, b_mesh)) {
        double bytes = static_cast<double>(size_of(tensor.dtype));
        for (const std::int64_t size : copy.extent) bytes *= static_cast<double>(size);
        const auto time = [&](int g) {
          return costs_.on(g).transfer(Bytes(bytes), hosts_apart, a_mesh.of.devices_per_host).time;
        };
        const auto [channel, first] =
            channels.emplace(std::pair{copy.source_rank, copy.destination_rank}, Seconds(0.0));
        channel->second += std::max(time(a_mesh.of.group), time(group));
      }
    };
    add(forward, source_spec, source_spans.mesh(), entering[t], spans.mesh(), mesh.group);
    add(backward, entering[t], spans.mesh(), source_spec, source_spans.mesh(), source_mesh.group);
  }
  const auto longest = [](const auto& channels) {
    Seconds most(0.0);
    for (const auto& [pair, time] : channels) most = std::max(most, time);
    return to_sim_time(most);
  };
  found = {longest(forward), longest(backward)};
  return found;
}

PipelineTimes CandidateRanking::times_of(const PricedPipeline& pipeline, const std::vector<std::vector<int>>& devices,
                                         bool trains, StageTimes from_what) {
  PipelineTimes times;
  for (const PricedStage& stage : pipeline.stages) {
    const StageChoice choice = search_.choice(stage.slice, stage.config);
    const StepCost& cost = from_what == StageTimes::Known
                               ? search_.cost(stage.first, stage.last, choice)
                               : search_.spans(choice).cost(stage.first, stage.last, choice.price);
    const Seconds overhead = costs_.on(search_.submeshes()[static_cast<std::size_t>(stage.slice)].group).run_overhead();
    times.forward.push_back(to_sim_time(cost.forward + overhead));
    if (!trains) continue;
    times.backward.push_back(to_sim_time(cost.backward + overhead));
    times.update.push_back(to_sim_time(cost.step));
  }
  const std::vector<int> stage_of = stages_of_layers(pipeline);
  std::set<std::pair<int, int>> pairs;
  for (const Shared& shared : shared_)
    for (const int reader : shared.readers) {
      const int from = stage_of[static_cast<std::size_t>(shared.layer)];
      const int to = stage_of[static_cast<std::size_t>(reader)];
      if (!shared.parameter && from != to) pairs.emplace(from, to);
    }
  for (const auto& [from, to] : pairs) {
    const auto a = static_cast<std::size_t>(from), b = static_cast<std::size_t>(to);
    const bool apart = cluster_.host_of_device(devices[a].front()) != cluster_.host_of_device(devices[b].front());
    const Direction time = travel(pipeline.stages[a], pipeline.stages[b], apart);
    times.edges.push_back({from, to, time.forward, trains ? time.backward : SimTime{0}});
  }
  return times;
}

std::optional<Candidate> CandidateRanking::simulate(const PricedPipeline& pipeline, const CandidateRequest& request) {
  const auto devices = place(pipeline, request.microbatches);
  if (!devices) return std::nullopt;
  const bool trains = request.schedule != ScheduleKind::Inference;
  const PipelineTimes times = times_of(pipeline, *devices, trains, StageTimes::Known);
  Candidate candidate{pipeline};
  candidate.step = evaluator_.step_time(request.schedule, static_cast<int>(request.microbatches), times);
  candidate.alone = trains ? candidate.step : evaluator_.step_time(request.schedule, 1, times);
  if (search_.has_known_costs()) {
    const PipelineTimes modelled = times_of(pipeline, *devices, trains, StageTimes::Modelled);
    const int microbatches = static_cast<int>(request.microbatches);
    candidate.known = candidate.step / evaluator_.step_time(request.schedule, microbatches, modelled);
  }
  return candidate;
}

Candidates CandidateRanking::around(const PricedPipeline& pipeline, const StagePrices& prices,
                                    const CandidateRequest& request) {
  Candidates found;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s)
    for (int config = 0; config < prices.configs() && !(request.stop && request.stop()); ++config) {
      PricedPipeline other = pipeline;
      PricedStage& stage = other.stages[s];
      if (stage.config == config || !prices.at(stage.first, stage.last, stage.slice, config)) continue;
      stage.config = config;
      if (auto candidate = simulate(other, request)) found.ranked.push_back(std::move(*candidate));
    }
  found.looked_at = static_cast<std::int64_t>(found.ranked.size());
  sort_by_score(found.ranked, request);
  return found;
}

std::vector<PricedPipeline> CandidateRanking::best_on_one_mesh(const StagePrices& prices, const StageDpRequest& request,
                                                               int mesh) const {
  const int slice = search_.meshes()[static_cast<std::size_t>(mesh)].submesh;
  std::vector<int> configs;
  for (int config = 0; config < prices.configs(); ++config)
    if (search_.choice(slice, config).mesh == mesh) configs.push_back(config);
  if (configs.empty()) return {};
  StagePrices own(prices.layers(), {prices.slices()[static_cast<std::size_t>(slice)]},
                  static_cast<int>(configs.size()));
  for (int first = 0; first < prices.layers(); ++first)
    for (int last = first; last < prices.layers(); ++last)
      for (std::size_t c = 0; c < configs.size(); ++c)
        own.at(first, last, 0, static_cast<int>(c)) = prices.at(first, last, slice, configs[c]);
  std::vector<PricedPipeline> found;
  PipelineRanking ranking = PipelineRanking::by_training_time(own, request);
  while (static_cast<int>(found.size()) < kMostOnOneMesh) {
    auto pipeline = ranking.next();
    if (!pipeline) break;
    for (PricedStage& stage : pipeline->stages) {
      stage.slice = slice;
      stage.config = configs[static_cast<std::size_t>(stage.config)];
    }
    found.push_back(std::move(*pipeline));
  }
  return found;
}

Candidates CandidateRanking::find(const StagePrices& prices, const CandidateRequest& request) {
  Candidates found;
  std::set<std::vector<std::int64_t>> known;
  std::optional<Seconds> best;
  const auto look_at = [&](const PricedPipeline& pipeline) {
    if (!known.insert(key_of(pipeline)).second) return;
    auto candidate = simulate(pipeline, request);
    if (!candidate) return;
    found.ranked.push_back(std::move(*candidate));
    const Seconds own = score(found.ranked.back(), request);
    best = std::min(best.value_or(own), own);
  };
  const auto stopped = [&] { return request.stop && request.stop(); };

  StageDpRequest dp{.devices = request.devices,
                    .all_devices = false,
                    .microbatches = request.microbatches,
                    .in_flight = in_flight_of(request.schedule),
                    .stages = request.stages};
  if (request.objective.kind == Objective::Kind::Throughput) {
    const Seconds latency = request.objective.most_latency.value_or(Seconds(1e30));
    if (const auto pipeline = most_throughput(prices, dp, latency)) look_at(*pipeline);
  }
  const double samples = static_cast<double>(request.samples);
  const double least_throughput = request.objective.least_throughput;
  PipelineRanking ranking =
      request.objective.kind == Objective::Kind::Latency
          ? PipelineRanking::by_latency(prices, dp, Seconds(least_throughput > 0 ? samples / least_throughput : 1e30))
          : PipelineRanking::by_training_time(prices, dp);
  int most_stages = prices.layers(), devices = 0;
  for (const int count : request.devices) devices += count;
  most_stages = request.stages.value_or(std::min(most_stages, devices));
  const double microbatches = static_cast<double>(request.microbatches);
  const double share = request.objective.kind == Objective::Kind::Latency
                           ? 1.0
                           : microbatches / (static_cast<double>(most_stages) + microbatches - 1.0);
  for (int k = 0; k < kMostRanked && !stopped(); ++k) {
    const std::optional<PricedPipeline> next = ranking.next();
    if (!next) {
      found.all = true;
      break;
    }
    if (best && share * next->cost >= *best) {
      found.all = true;
      if (!request.beyond_best) break;
    }
    look_at(*next);
  }
  // Near the best of one number of stages there are many much like it; the best of the others are worth a look.
  if (!found.all && !request.stages && request.objective.kind == Objective::Kind::StepTime)
    for (int n = 1; n <= most_stages && !stopped(); ++n) {
      dp.stages = n;
      if (const auto pipeline = fastest_training(prices, dp)) look_at(*pipeline);
    }
  // So are those whose stages all have the same logical mesh: they send each other the least.
  if (!found.all && request.objective.kind == Objective::Kind::StepTime) {
    dp.stages = request.stages;
    for (int mesh = 0; mesh < static_cast<int>(search_.meshes().size()) && !stopped(); ++mesh)
      for (const PricedPipeline& pipeline : best_on_one_mesh(prices, dp, mesh)) look_at(pipeline);
  }
  // Devices of one kind alone.
  if (request.devices.size() > 1 && !stopped() && request.objective.kind == Objective::Kind::StepTime)
    for (std::size_t group = 0; group < request.devices.size(); ++group) {
      StageDpRequest alone = dp;
      alone.stages = request.stages;
      for (std::size_t other = 0; other < alone.devices.size(); ++other)
        if (other != group) alone.devices[other] = 0;
      if (const auto pipeline = fastest_training(prices, alone)) look_at(*pipeline);
    }
  if (!branches_.is_line() && !stopped() && request.objective.kind == Objective::Kind::StepTime) {
    dp.stages = request.stages;
    for (const PricedPipeline& pipeline : pipelines_with_branches(prices, dp, branches_, kMostBranching))
      look_at(pipeline);
  }
  sort_by_score(found.ranked, request);
  // What stages send each other is none of T: the best is improved stage by stage.
  for (int round = 0; round < kMostRounds && !found.ranked.empty() && !stopped(); ++round) {
    Candidates near = around(found.ranked.front().pipeline, prices, request);
    found.looked_at += near.looked_at;
    const auto next = std::find_if(near.ranked.begin(), near.ranked.end(), [&](const Candidate& candidate) {
      return fits(candidate.pipeline, prices, request);
    });
    if (next == near.ranked.end() || score(*next, request) >= score(found.ranked.front(), request)) break;
    found.ranked.insert(found.ranked.begin(), std::move(*next));
  }
  found.looked_at += static_cast<std::int64_t>(known.size());
  return found;
}

}  // namespace meshwright
