// SPDX-License-Identifier: Apache-2.0
#include "core/planner/borders/border_refinement.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "core/plan/boundaries.h"
#include "core/plan/ranks.h"
#include "core/planner/borders/border_search.h"
#include "core/planner/borders/moved_plan.h"
#include "core/planner/search/plan_program.h"

namespace meshwright {

namespace {

constexpr std::size_t kMaxPlans = 4;  // whole programs
constexpr double kUneven = 1.005;     // the busiest rank by the mean; below nothing is to be won

bool is_line(const StageGraph& stages) {
  for (int s = 0; s + 1 < static_cast<int>(stages.feeds.size()); ++s)
    if (!stages.neighbours(s, s + 1)) return false;
  return true;
}

// Some rank does more than the mean in a step, and shares a border with one that it may give something.
bool is_uneven(const Plan& plan, const std::vector<int>& rank_of) {
  std::vector<Seconds> loads(1 + static_cast<std::size_t>(*std::max_element(rank_of.begin(), rank_of.end())),
                             Seconds(0.0));
  std::vector<bool> movable(loads.size(), false);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlan& stage = plan.stages[s];
    const Seconds passes = static_cast<double>(plan.training.microbatches) * (stage.forward + stage.backward);
    loads[static_cast<std::size_t>(rank_of[s])] += passes + stage.update;
    if (s == 0 || rank_of[s] == rank_of[s - 1] || !same_meshes(plan.stages[s], plan.stages[s - 1])) continue;
    movable[static_cast<std::size_t>(rank_of[s])] = movable[static_cast<std::size_t>(rank_of[s - 1])] = true;
  }
  Seconds sum(0.0), most(0.0);
  int count = 0;
  for (std::size_t rank = 0; rank < loads.size(); ++rank) {
    if (!movable[rank]) continue;
    sum += loads[rank];
    most = std::max(most, loads[rank]);
    ++count;
  }
  return count > 1 && static_cast<double>(count) * most > kUneven * sum;
}

// The message of a micro-batch into a stage, as if every device sent its tile to one of the next stage.
SimTime message_to(const Plan& plan, const std::map<std::string, const Tensor*>& tensors, std::size_t stage,
                   const CostModel& all_costs) {
  const StagePlan &from = plan.stages[stage - 1], &to = plan.stages[stage];
  if (from.devices == to.devices) return SimTime{0};
  const LogicalMesh mesh = mesh_of(to, plan.cluster);
  Bytes bytes(0.0);
  for (const auto& [name, spec] : to.inputs) bytes += local_bytes(*tensors.at(name), spec, mesh);
  const bool hosts_apart =
      plan.cluster.host_of_device(from.devices.front()) != plan.cluster.host_of_device(to.devices.front());
  return to_sim_time(all_costs.on(to.submesh.group).transfer(bytes, hosts_apart, to.submesh.devices_per_host).time);
}

BorderRequest border_request(const PlanOfGraph& made, const std::vector<int>& rank_of, const CostModel& costs) {
  const Plan& plan = made.plan;
  std::map<std::string, const Tensor*> tensors;
  for (const Tensor& tensor : made.graph->tensors()) tensors.emplace(tensor.name, &tensor);
  BorderRequest request{.schedule = plan.schedule,
                        .microbatches = static_cast<int>(plan.training.microbatches),
                        .chunks = chunks_of(plan),
                        .rank_of = rank_of,
                        .movable = {false},
                        .message = {SimTime{0}}};
  for (std::size_t s = 1; s < plan.stages.size(); ++s) {
    request.movable.push_back(same_meshes(plan.stages[s], plan.stages[s - 1]));
    request.message.push_back(message_to(plan, tensors, s, costs));
  }
  return request;
}

}  // namespace

std::optional<PlanWithBorders> move_borders(const PlanOfGraph& made, std::optional<CrossMesh> form, Seconds to_beat,
                                            const CostModel& costs, PlanEvaluator& evaluator) {
  const Plan& plan = made.plan;
  const ScheduleTraits traits = traits_of(plan.schedule);
  if (plan.stages.size() < 2 || plan.schedule == ScheduleKind::Custom || !traits.trains || traits.copies > 1)
    return std::nullopt;
  const std::vector<int> rank_of = rank_of_stages(plan);
  if (!is_uneven(plan, rank_of) || !is_line(stage_graph(plan, *made.graph))) return std::nullopt;
  const StagePieces pieces = cut_into_pieces(made, costs);
  BorderRequest request = border_request(made, rank_of, costs);
  request.share = to_beat / plan.predicted.step_time;
  std::optional<PlanWithBorders> best;
  std::int64_t simulations = 0;
  for (const Borders& borders : search_borders(pieces, request, evaluator, kMaxPlans)) {
    Plan other = moved_plan(made, pieces, borders.first_of_stage);
    if (form) set_cross_mesh(other, *made.graph, *form);
    // Tensors that only the new borders part may be sharded in ways that cannot be sent.
    if (!check_plan(other, *made.graph, other.graph_fingerprint).empty()) continue;
    std::optional<Plan> found = with_step_if_it_fits(std::move(other), made.graph, evaluator);
    if (!found) continue;
    ++simulations;
    if (found->predicted.step_time < (best ? best->plan.predicted.step_time : to_beat))
      best = PlanWithBorders{*std::move(found)};
  }
  if (best) best->simulations = simulations;
  return best;
}

}  // namespace meshwright
