// SPDX-License-Identifier: Apache-2.0
// Slow truth of the whole search: every pipeline of a stage table, placed, lowered, checked and simulated.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/graph/import/find_model.h"
#include "core/planner/search/candidates.h"
#include "core/planner/search/stage_space.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright {

struct TruePlan {
  std::vector<TableStage> stages;
  std::vector<Bytes> peak;  // [stage] largest of its devices
  Seconds step{0.0};
  int devices = 0;
};

// The stages of a request with given layers and microbatches, priced as the search prices them.
class WholeSpace {
 public:
  WholeSpace(const PlanRequest& request, const CostModel& costs, SimulatedStep& evaluator)
      : request_(request),
        training_(request.training_with(std::get<std::int64_t>(request.search.microbatches))),
        costs_(costs),
        evaluator_(evaluator),
        graph_(request.trains() ? build_training_graph(request.model, training_)
                                : build_forward_graph(request.model, training_)),
        layers_(
            make_layers(graph_, request.search.layer_cut, std::get<int>(request.search.layers), request.search.method)),
        structure_(graph_, layers_),
        space_(stage_space(request, layers_.count)),
        search_(structure_, request.cluster, costs, space_.submeshes, space_.meshes,
                {.microbatches = training_.microbatches,
                 .schedule = request.first_schedule(),
                 .every_step_weight = true,
                 .hosts_apart = request.cluster.hosts() > 1}),
        ranking_(structure_, search_, request.cluster, costs, evaluator) {
    for (const auto& forward : layers_.forward) {
      starts_.push_back(position_);
      position_ += static_cast<int>(forward.size());
    }
  }

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] const StageSearch& search() const { return search_; }
  [[nodiscard]] CandidateRanking& ranking() { return ranking_; }
  // Asks for pipelines on all devices.
  [[nodiscard]] CandidateRequest wanted() const {
    CandidateRequest wanted{.schedule = request_.first_schedule(),
                            .microbatches = training_.microbatches,
                            .samples = training_.batch / training_.microbatches,
                            .goal = {},
                            .stages = {},
                            .devices = {}};
    for (const HostGroup& group : request_.cluster.groups) wanted.devices.push_back(group.devices());
    return wanted;
  }
  [[nodiscard]] StageTable prices() const { return search_.table(1.0, StageSearch::Keep::All); }

  // Every cut of the layers, submesh of each stage and sharding of the table with at most the cluster's devices; those
  // with the same shardings once. nullopt: more than `most`.
  [[nodiscard]] std::optional<std::vector<std::vector<TableStage>>> pipelines(std::size_t most) const {
    const StageTable table = prices();
    std::vector<std::vector<TableStage>> found;
    std::vector<TableStage> stages;
    std::vector<int> left;
    for (const HostGroup& group : request_.cluster.groups) left.push_back(group.devices());
    const std::function<void(int)> extend = [&](int first) {
      if (found.size() > most) return;
      if (first == table.layers()) return found.push_back(stages);
      for (int last = first; last < table.layers(); ++last)
        for (int s = 0; s < static_cast<int>(table.slices().size()); ++s) {
          const Submesh& submesh = search_.submeshes()[static_cast<std::size_t>(s)];
          int& room = left[static_cast<std::size_t>(submesh.group)];
          if (room < submesh.devices()) continue;
          room -= submesh.devices();
          for (const int config : different_configs(table, first, last, s)) {
            stages.push_back({first, last, s, config});
            extend(last + 1);
            stages.pop_back();
          }
          room += submesh.devices();
        }
    };
    extend(0);
    if (found.size() > most) return std::nullopt;
    return found;
  }

  [[nodiscard]] std::optional<Plan> plan(const std::vector<TableStage>& stages) const {
    Plan plan;
    plan.model = request_.model;
    plan.training = training_;
    plan.cluster = request_.cluster;
    plan.method = request_.search.method.text;
    plan.schedule = request_.first_schedule();
    plan.layer_starts = starts_;
    const auto placed = ranking_.place({.stages = stages}, request_.first_schedule(), training_.microbatches);
    if (!placed) return std::nullopt;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const StageChoice choice = search_.choice(stages[s].slice, stages[s].config);
      plan.stages.push_back(search_.spans(choice).plan(stages[s].first, stages[s].last, choice.option));
      plan.stages.back().devices = (*placed)[s];
    }
    plan.graph_fingerprint = "unread";
    return plan;
  }

  [[nodiscard]] bool fits(const TruePlan& truth) const {
    for (std::size_t s = 0; s < truth.stages.size(); ++s) {
      const Submesh& submesh = search_.submeshes()[static_cast<std::size_t>(truth.stages[s].slice)];
      if (truth.peak[s] > request_.cluster.group(submesh.group).usable_memory()) return false;
    }
    return true;
  }

  // nullopt: its stages have no place side by side.
  [[nodiscard]] std::optional<TruePlan> judge(const std::vector<TableStage>& stages) {
    const auto made = plan(stages);
    if (!made) return std::nullopt;
    const Program program = lower(*made, graph_, costs_);
    const ProgramCheck check = check_program(program);
    MW_CHECK(check.violations.empty(), "a pipeline lowers to a bad program: {}", check.violations.front());
    TruePlan truth{.stages = stages, .peak = std::vector<Bytes>(stages.size(), Bytes(0.0))};
    truth.devices = static_cast<int>(check.peak_memory.size());
    for (std::size_t d = 0; d < check.peak_memory.size(); ++d) {
      Bytes& peak = truth.peak[program.stage_of_device[d].index()];
      peak = std::max(peak, check.peak_memory[d]);
    }
    truth.step = evaluator_.step_of(program, check);
    return truth;
  }

 private:
  [[nodiscard]] std::vector<int> different_configs(const StageTable& table, int first, int last, int slice) const {
    std::vector<int> found;
    const auto plan_of = [&](int config) {
      const StageChoice choice = search_.choice(slice, config);
      return search_.spans(choice).plan(first, last, choice.option);
    };
    for (int c = 0; c < table.configs(); ++c) {
      if (!table.at(first, last, slice, c)) continue;
      const StagePlan own = plan_of(c);
      const bool known = std::any_of(found.begin(), found.end(), [&](int other) {
        const StagePlan rival = plan_of(other);
        return rival.logical_shape == own.logical_shape && rival.ops == own.ops && rival.parameters == own.parameters &&
               rival.inputs == own.inputs && rival.fan_outs == own.fan_outs;
      });
      if (!known) found.push_back(c);
    }
    return found;
  }

  const PlanRequest& request_;
  TrainingOptions training_;
  const CostModel& costs_;
  SimulatedStep& evaluator_;
  Graph graph_;
  Layers layers_;
  StepStructure structure_;
  StageSpace space_;
  StageSearch search_;
  CandidateRanking ranking_;
  std::vector<int> starts_;
  int position_ = 0;
};

// --- random small requests ---

class RandomRequests {
 public:
  explicit RandomRequests(unsigned seed) : random_(seed) {}

  PlanRequest next() {
    PlanRequest request;
    const std::vector<std::string> models = {"mlp:layers=2,hidden=32",
                                             "mlp:layers=2,hidden=128",
                                             "mlp:layers=3,hidden=32",
                                             "mlp:layers=3,hidden=64",
                                             "mlp:layers=4,hidden=16",
                                             "gpt:layers=1,hidden=16,heads=2,seq=8,vocab=32",
                                             "gpt:layers=2,hidden=32,heads=4,seq=4,vocab=16",
                                             "two_tower:layers=1,hidden=16,heads=2,image=8,patch=4,text_layers=1,"
                                             "text_hidden=16,text_heads=2,seq=4,vocab=16,embed=8"};
    request.model = find_model(pick(models));
    request.search.layers = draw(2, 4);
    const int microbatches = draw(1, 4);
    request.search.microbatches = microbatches;
    request.training.batch = microbatches * 4 * draw(1, 4);
    request.search.schedule = pick<ScheduleKind>(
        {ScheduleKind::OneFOneB, ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::Inference});
    request.search.method = method_from_text("pipeshard");
    request.cluster = cluster();
    request.search.submeshes = pick<SubmeshSpace>({SubmeshSpace::PowerOfTwo, SubmeshSpace::All});
    request.search.logical_mesh_space =
        pick<LogicalMeshSpace>({LogicalMeshSpace::SameAsPhysical, LogicalMeshSpace::DataParallelOnly,
                                LogicalMeshSpace::ModelParallelOnly, LogicalMeshSpace::SingleNodeModelParallel});
    return request;
  }
  // The groups' memory from 0.6 to 1.05 times `peak`, each its own; or plenty.
  void limit_memory(PlanRequest& request, Bytes peak) {
    const bool tight = draw(0, 2) > 0;
    for (HostGroup& group : request.cluster.groups)
      group.device.memory = tight ? Bytes(real(0.6, 1.05) * peak.si() / group.device.usable_memory) : Bytes(1e12);
  }
  int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  double real(double low, double high) { return std::uniform_real_distribution<double>(low, high)(random_); }
  // Between the two, evenly by its logarithm.
  double scale(double low, double high) { return std::exp(real(std::log(low), std::log(high))); }
  template <class T>
  T pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(draw(0, static_cast<int>(from.size()) - 1))];
  }

 private:
  HostGroup hosts(int count, int devices_per_host) {
    HostGroup group;
    group.hosts = count;
    group.devices_per_host = devices_per_host;
    group.device.name = "any";
    const double peak = scale(1e9, 1e11);
    group.device.peak = {{"f32", FlopsPerSecond(peak)}};
    group.device.memory_bandwidth = BytesPerSecond(scale(0.1, 1.0) * peak);
    group.device.memory = Bytes(1e12);
    group.device.launch = Seconds(scale(1e-8, 1e-5));
    group.within_host = {Seconds(scale(1e-8, 1e-5)), SecondsPerByte(scale(1e-11, 1e-8))};
    group.between_hosts = {Seconds(scale(1, 10) * group.within_host.alpha.si()),
                           SecondsPerByte(scale(1, 20) * group.within_host.beta.si())};
    return group;
  }
  Cluster cluster() {
    const std::vector<std::pair<int, int>> sizes = {{1, 2}, {1, 3}, {1, 4}, {2, 1}, {2, 2}, {3, 1}, {1, 6}, {2, 3}};
    const std::vector<std::pair<int, int>> small = {{1, 1}, {1, 2}, {2, 1}, {1, 3}};
    Cluster cluster{"random", {}};
    if (draw(0, 1) == 0) {
      const auto [hosts_of, devices] = pick(sizes);
      cluster.groups = {hosts(hosts_of, devices)};
      return cluster;
    }
    for (int g = 0; g < 2; ++g) {
      const auto [hosts_of, devices] = pick(small);
      cluster.groups.push_back(hosts(hosts_of, devices));
    }
    // Alike but for their number, their links or their memory, or unlike in all.
    if (draw(0, 2) == 0) cluster.groups[1].device = cluster.groups[0].device;
    cluster.groups[1].device.name = "other";
    return cluster;
  }

  std::mt19937 random_;
};

}  // namespace meshwright
