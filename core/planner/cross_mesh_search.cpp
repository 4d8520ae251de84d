// SPDX-License-Identifier: Apache-2.0
#include "core/planner/cross_mesh_search.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "core/base/errors.h"
#include "core/plan/lowering/lower.h"
#include "core/plan/lowering/tile_messages.h"
#include "core/plan/stage_graph.h"
#include "core/planner/search/plan_program.h"

namespace meshwright {

namespace {

constexpr std::int64_t kLarge = 2048;    // devices times micro-batches of a program that takes long to simulate
constexpr std::size_t kMaxClasses = 16;  // of boundaries that are alike

struct Boundary {
  int from, to;  // stages
};
using Boundaries = std::vector<Boundary>;

// What tells boundaries apart: the meshes, and the messages of a micro-batch in whole tiles.
struct Likeness {
  std::vector<int> source_shape, destination_shape;
  std::vector<std::tuple<int, int, Bytes, bool>> messages;  // ranks, bytes, hosts_apart
  auto operator<=>(const Likeness&) const = default;
};

// What goes from stage to stage in every micro-batch, not once per step.
bool is_of_a_pass(const Graph& graph, const Program& program, const Transfer& transfer) {
  const auto producer = graph.tensor(program.buffers[transfer.source_buffer.index()].local.tensor).producer;
  return producer && graph.op(*producer).phase != Phase::Update;
}

// [class] the boundaries that bring several devices the same tile; classes in the order of their first boundaries.
std::vector<Boundaries> find_boundaries(const Plan& plan, const Graph& graph, const Program& program) {
  const StageGraph of_stages = stage_graph(plan, graph);
  std::vector<int> rank_of(program.stage_of_device.size(), 0);
  for (const ProgramStage& stage : program.stages)
    for (std::size_t rank = 0; rank < stage.devices.size(); ++rank)
      rank_of[stage.devices[rank].index()] = static_cast<int>(rank);
  std::map<std::pair<int, int>, std::pair<Likeness, bool>> found;  // whether some tile goes to several devices
  for (const Transfer& transfer : program.transfers) {
    const Buffer& buffer = program.buffers[transfer.destination_buffer.index()];
    const int from = program.buffers[transfer.source_buffer.index()].stage.value, to = buffer.stage.value;
    const int first =
        microbatches_of(program.schedule, from, static_cast<int>(program.stages.size()), program.microbatches).first;
    if (transfer.microbatch.value != first || !is_of_a_pass(graph, program, transfer) ||
        program.first_of_rank(StageId(from)) == program.first_of_rank(StageId(to)))
      continue;
    // A gradient that passes through an op unchanged may go past the stage of that op: a plan states no form of this.
    if (!of_stages.neighbours(from, to)) continue;
    const LogicalMesh& mesh = program.stages[static_cast<std::size_t>(to)].mesh;
    auto& [likeness, several] = found[{from, to}];
    likeness.source_shape = program.stages[static_cast<std::size_t>(from)].mesh.shape();
    likeness.destination_shape = mesh.shape();
    likeness.messages.emplace_back(rank_of[transfer.source.index()], rank_of[transfer.destination.index()],
                                   transfer.bytes, transfer.hosts_apart);
    several = several || has_replicas(buffer.local.spec, mesh);
  }
  std::vector<Boundaries> classes;
  std::map<Likeness, std::size_t> number;
  for (auto& [stages, boundary] : found) {
    if (!boundary.second) continue;
    const auto [known, is_new] = number.try_emplace(std::move(boundary.first), classes.size());
    if (is_new) classes.emplace_back();
    classes[known->second].push_back({stages.first, stages.second});
  }
  return classes;
}

void set_form(Plan& plan, const Boundaries& boundaries, CrossMesh form) {
  for (const Boundary& boundary : boundaries) {
    auto& forms = plan.stages[static_cast<std::size_t>(boundary.to)].cross_mesh;
    forms.erase(boundary.from);
    if (form != CrossMesh::Send) forms.emplace(boundary.from, form);
  }
}

class FormSearch {
 public:
  FormSearch(const PlanOfGraph& made, const std::vector<Boundaries>& classes, const PlanEvaluator& evaluator)
      : classes_(classes), evaluator_(evaluator), best_(made), outcome_(evaluator.outcome(made)) {
    // What fits the smallest devices fits all. A plan that was made to fit more closely stays within what it needs.
    Bytes usable = made.plan.cluster.groups.front().usable_memory();
    for (const HostGroup& group : made.plan.cluster.groups) usable = std::min(usable, group.usable_memory());
    room_ = std::max(outcome_.peak, usable);
  }

  void search(bool by_class) {
    const PlanOfGraph sends = best_;
    for (const CrossMesh form : kCrossMeshForms) {
      PlanOfGraph other = sends;
      for (const Boundaries& boundaries : classes_) set_form(other.plan, boundaries, form);
      try_plan(other);
    }
    if (!by_class || classes_.size() < 2) return;
    for (const Boundaries& boundaries : classes_)
      for (const CrossMesh form : kCrossMeshForms) {
        PlanOfGraph other = best_;
        set_form(other.plan, boundaries, form);
        try_plan(other);
      }
  }
  [[nodiscard]] const Plan& best() const { return best_.plan; }
  [[nodiscard]] std::int64_t simulations() const { return simulations_; }

 private:
  static bool same_forms(const Plan& a, const Plan& b) {
    return std::equal(a.stages.begin(), a.stages.end(), b.stages.begin(),
                      [](const StagePlan& x, const StagePlan& y) { return x.cross_mesh == y.cross_mesh; });
  }
  void try_plan(const PlanOfGraph& other) {
    if (same_forms(other.plan, best_.plan)) return;
    const PlanOutcome outcome = evaluator_.outcome(other);
    ++simulations_;
    if (outcome.step >= outcome_.step || outcome.peak > room_) return;
    best_ = other;
    outcome_ = outcome;
  }

  const std::vector<Boundaries>& classes_;
  const PlanEvaluator& evaluator_;
  PlanOfGraph best_;
  PlanOutcome outcome_;
  Bytes room_{0.0};
  std::int64_t simulations_ = 1;
};

}  // namespace

std::optional<PlanWithCrossMesh> choose_cross_mesh(const PlanOfGraph& made, const CostModel& costs,
                                                   const PlanEvaluator& evaluator) {
  LoweredStages stages_of(made.plan, *made.graph, costs);
  const std::vector<Boundaries> classes = find_boundaries(made.plan, *made.graph, stages_of.of_one_microbatch());
  if (classes.empty()) return std::nullopt;
  const std::int64_t passes = made.plan.cluster.devices() * made.plan.training.microbatches;
  FormSearch search(made, classes, evaluator);
  search.search(passes <= kLarge && classes.size() <= kMaxClasses);
  const std::vector<StagePlan>& stages = search.best().stages;
  if (std::all_of(stages.begin(), stages.end(), [](const StagePlan& stage) { return stage.cross_mesh.empty(); }))
    return std::nullopt;
  return PlanWithCrossMesh{with_step_and_memory(search.best(), made.graph, evaluator), search.simulations()};
}

}  // namespace meshwright
