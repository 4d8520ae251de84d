// SPDX-License-Identifier: Apache-2.0
// Candidates as pipelines of single devices: where their stages are placed, what they take and send each other.
#include "core/planner/search/candidates.h"

#include <algorithm>
#include <set>

#include "core/base/text.h"
#include "core/planner/placement/placement.h"
#include "core/planner/search/known_or.h"

namespace meshwright {

namespace {

// [layer] the stage of the first copy that has it.
std::vector<int> stages_of_layers(const TablePipeline& pipeline, int per_copy) {
  std::vector<int> stages;
  for (std::size_t s = 0; s < static_cast<std::size_t>(per_copy); ++s)
    stages.resize(pipeline.stages[s].last + 1, static_cast<int>(s));
  return stages;
}

int stages_per_copy(const TablePipeline& pipeline, ScheduleKind schedule) {
  return static_cast<int>(pipeline.stages.size()) / traits_of(schedule).copies;
}

// A copy of a stage has its weights and accumulators, but not the states of the optimizer.
double copied_share(const Graph& graph) {
  Bytes copied(0.0), all(0.0);
  for (const Tensor& tensor : graph.tensors()) {
    const bool of_copies = tensor.kind == TensorKind::Parameter || tensor.kind == TensorKind::Accumulator;
    if (of_copies) copied += tensor.bytes();
    if (of_copies || tensor.kind == TensorKind::OptimizerState) all += tensor.bytes();
  }
  return all > Bytes(0.0) ? copied / all : 1.0;
}

}  // namespace

std::string summary_of(const Candidates& candidates) {
  if (candidates.ranked.empty()) return "no pipeline";
  return fmt::format("{} pipelines, best {}", candidates.simulated, human_seconds(candidates.ranked.front().step));
}

std::string summary_of(const std::vector<Candidates>& searches) {
  std::int64_t simulated = 0;
  std::optional<Seconds> best;
  for (const Candidates& candidates : searches) {
    simulated += candidates.simulated;
    for (const Candidate& candidate : candidates.ranked) best = std::min(best.value_or(candidate.step), candidate.step);
  }
  return fmt::format("{} searches, {} pipelines, {}", searches.size(), simulated,
                     best ? "best " + human_seconds(*best) : "none fits");
}

std::string summary_of(const std::optional<TablePipeline>& first_by_cost) {
  return first_by_cost ? fmt::format("the first pipeline, cost {}", human_seconds(first_by_cost->cost))
                       : "no pipeline fits";
}

CandidateRanking::CandidateRanking(const StepStructure& structure, const StageSearch& search, const Cluster& cluster,
                                   const CostModel& costs, PlanEvaluator& evaluator)
    : structure_(structure),
      search_(search),
      cluster_(cluster),
      costs_(costs),
      evaluator_(evaluator),
      branches_(find_branches(structure.graph(), structure.layers())),
      messages_(structure, search, costs),
      copied_(copied_share(structure.graph())) {
  const Graph& graph = structure.graph();
  const Layers& layers = structure.layers();
  // [tensor]: the layers that read it, ascending and without repeats, as the layers are visited in order.
  std::vector<std::vector<int>> readers(graph.tensors().size());
  for (int layer = 0; layer < layers.count; ++layer)
    for (const OpId op : layers.forward[layer])
      for (const TensorId input : graph.op(op).inputs) {
        auto& own = readers[input.index()];
        if (own.empty() || own.back() != layer) own.push_back(layer);
      }
  for (const Tensor& tensor : graph.tensors()) {
    auto& own = readers[tensor.id.index()];
    if (own.empty()) continue;
    const bool parameter = tensor.kind == TensorKind::Parameter;
    // Tensors without a producer that are not parameters are inputs of the step: no stage sends them.
    if (!parameter && !tensor.producer) continue;
    const int home = parameter ? own.front() : layers.layer_of_op[tensor.producer->index()];
    std::erase(own, home);
    if (!own.empty()) shared_.push_back({tensor.id, parameter, home, std::move(own), tensor.bytes()});
  }
}

std::optional<std::vector<std::vector<int>>> CandidateRanking::place(const TablePipeline& pipeline,
                                                                     ScheduleKind schedule,
                                                                     std::int64_t microbatches) const {
  const int copies = traits_of(schedule).copies, per_copy = stages_per_copy(pipeline, schedule);
  const std::vector<int> stage_of = stages_of_layers(pipeline, per_copy);
  const int ranks = static_cast<int>(pipeline.stages.size()) / pipeline.chunks;
  const std::vector<int> rank_of = ranks_of_stages(schedule, static_cast<int>(pipeline.stages.size()), pipeline.chunks);
  PlacementRequest request;
  for (int rank = 0; rank < ranks; ++rank)  // the first stages are on one each
    request.stages.push_back(search_.submeshes()[pipeline.stages[rank].slice]);
  std::map<std::pair<int, int>, StageTraffic> traffic;
  const auto add_traffic = [&](const Shared& shared, int copy) {
    const auto rank_at = [&](int layer) { return rank_of[copy * per_copy + stage_of[layer]]; };
    const int from = rank_at(shared.layer);
    // There and back; a parameter's copies and gradients once per step.
    const double times = (shared.parameter ? 2.0 / static_cast<double>(microbatches) : 2.0) / copies;
    int before = from;
    // Readers are in the order of layers: those of one stage follow one another and share one transfer.
    for (const int reader : shared.readers) {
      const int to = rank_at(reader);
      if (to == from || to == before) continue;
      before = to;
      const auto [first, second] = std::minmax(from, to);
      StageTraffic& between =
          traffic.try_emplace({first, second}, StageTraffic{first, second, Bytes(0.0)}).first->second;
      between.bytes += times * shared.bytes;
      // The devices of the smaller stage send side by side.
      between.messages += times * std::min(request.stages[from].devices(), request.stages[to].devices());
    }
  };
  for (const Shared& shared : shared_)
    for (int copy = 0; copy < copies; ++copy) add_traffic(shared, copy);
  request.neighbour_bytes.assign(ranks - 1, Bytes(0.0));
  request.neighbour_messages.assign(ranks - 1, 0.0);
  for (const auto& [pair, between] : traffic) {
    if (pair.second == pair.first + 1) {
      request.neighbour_bytes[pair.first] = between.bytes;
      request.neighbour_messages[pair.first] = between.messages;
    } else {
      request.others.push_back(between);
    }
  }
  auto placed = place_stages(cluster_, request);
  if (!placed) return std::nullopt;
  std::vector<std::vector<int>> devices;
  for (const int rank : rank_of) devices.push_back(placed->devices[rank]);
  return devices;
}

Seconds CandidateRanking::copies_time(const TableStage& stage, bool hosts_apart) const {
  const StageChoice choice = search_.choice(stage.slice, stage.config);
  const Bytes bytes = copied_ * search_.spans(choice).cost(stage.first, stage.last, choice.option).resident;
  const Submesh& submesh = search_.submeshes()[stage.slice];
  return costs_.on(submesh.group).transfer(bytes, hosts_apart, submesh.devices_per_host).time;
}

// Known costs of a stage do not tell its parts apart.
double CandidateRanking::weights_share(const TableStage& stage, const StepCost& cost) const {
  if (stage.first == 0) return 1.0;
  const StageChoice choice = search_.choice(stage.slice, stage.config);
  const StepCost& modelled = search_.spans(choice).cost(stage.first, stage.last, choice.option);
  return cost.backward.si() > 0 ? modelled.weights / modelled.backward : 0.0;
}

PipelineTimes CandidateRanking::times_of(const TablePipeline& pipeline, const std::vector<std::vector<int>>& devices,
                                         ScheduleKind schedule, StageTimes from_what) {
  const bool trains = traits_of(schedule).trains, splits = traits_of(schedule).splits_backward;
  const int copies = traits_of(schedule).copies, per_copy = stages_per_copy(pipeline, schedule);
  const auto apart = [&](int one, int other) {
    return cluster_.host_of_device(devices[one].front()) != cluster_.host_of_device(devices[other].front());
  };
  const int ranks = static_cast<int>(pipeline.stages.size()) / pipeline.chunks;
  PipelineTimes times;
  for (int s = 0; s < static_cast<int>(pipeline.stages.size()); ++s) {
    const TableStage& stage = pipeline.stages[s];
    const StageChoice choice = search_.choice(stage.slice, stage.config);
    const StepCost& modelled = search_.spans(choice).cost(stage.first, stage.last, choice.option);
    const StepCost& cost = from_what == StageTimes::Known ? search_.cost(stage.first, stage.last, choice) : modelled;
    // Where it depends on the work, stages have it.
    const CostModel& costs = costs_.on(search_.submeshes()[stage.slice].group);
    const Seconds overhead = costs.run_depends_on_work() ? Seconds(0.0) : costs.run_overhead();
    times.forward.push_back(to_sim_time(cost.forward + overhead));
    if (!trains) continue;
    if (splits) {
      const double share = weights_share(stage, cost);
      const SimTime weights = to_sim_time(share * cost.backward + overhead);
      times.backward.push_back(to_sim_time((1.0 - share) * cost.backward + overhead) + weights);
      times.backward_weight.push_back(weights);
    } else {
      times.backward.push_back(to_sim_time(cost.backward + overhead));
    }
    Seconds update = s < per_copy ? cost.step : Seconds(0.0);
    if (s < ranks) update += costs.host_times().step;  // the first stages are on a rank each
    for (int copy = s + per_copy; s < per_copy && copy < copies * per_copy; copy += per_copy)
      update += copies_time(stage, apart(s, copy));
    times.update.push_back(to_sim_time(update));
  }
  const std::vector<int> stage_of = stages_of_layers(pipeline, per_copy);
  std::set<std::pair<int, int>> pairs;
  for (const Shared& shared : shared_)
    for (const int reader : shared.readers) {
      const int from = stage_of[shared.layer];
      const int to = stage_of[reader];
      if (shared.parameter || from == to) continue;
      for (int copy = 0; copy < copies; ++copy) pairs.emplace(copy * per_copy + from, copy * per_copy + to);
    }
  // One edge for each pair of stages: it has all tensors between the two.
  for (const auto& [from, to] : pairs) {
    // Between stages of one rank a copy within devices.
    const StageMessages::Both time =
        devices[from] == devices[to] ? StageMessages::Both{}
                                     : messages_.between(pipeline.stages[from], pipeline.stages[to], apart(from, to));
    times.edges.push_back({from, to, time.forward.time, trains ? time.backward.time : SimTime{0}});
    times.forward[from] += time.forward.sender;
    times.forward[to] += time.forward.receiver;
    if (!trains) continue;
    times.backward[to] += time.backward.sender;
    times.backward[from] += time.backward.receiver;
  }
  return times;
}

std::optional<Candidate> CandidateRanking::simulate(const TablePipeline& pipeline, const CandidateRequest& request) {
  std::optional<Candidate> found =
      known_or(mutex_, simulated_, std::tuple(request.schedule, pipeline.chunks, pipeline.stages),
               [&] { return simulate_anew(pipeline, request); });
  if (found) found->pipeline = pipeline;  // its cost is of the table at hand
  return found;
}

std::optional<Candidate> CandidateRanking::simulate_anew(const TablePipeline& pipeline,
                                                         const CandidateRequest& request) {
  const auto devices = place(pipeline, request.schedule, request.microbatches);
  if (!devices) return std::nullopt;
  const auto step_time = [&](int microbatches, const PipelineTimes& times) {
    return evaluator_.step_time(request.schedule, microbatches, times, pipeline.chunks);
  };
  const int all = static_cast<int>(request.microbatches);
  const PipelineTimes times = times_of(pipeline, *devices, request.schedule, StageTimes::Known);
  Candidate candidate{pipeline};
  candidate.step = step_time(all, times);
  candidate.alone = traits_of(request.schedule).trains ? candidate.step : step_time(1, times);
  if (search_.has_known_costs()) {
    const PipelineTimes modelled = times_of(pipeline, *devices, request.schedule, StageTimes::Modelled);
    candidate.known = candidate.step / step_time(all, modelled);
  }
  return candidate;
}

}  // namespace meshwright
