// SPDX-License-Identifier: Apache-2.0
#include "core/planner/spans/mesh_spans_state.h"

namespace meshwright {

MeshSpans::MeshSpans(const StepStructure& structure, LogicalMesh mesh, const CostModel& costs,
                     const StageSearchOptions& options)
    : state_(std::make_unique<State>(
          State{.structure = structure, .mesh = std::move(mesh), .search = options, .cost_model = &costs})) {
  state_->solve_all();
  state_->forget_costs();
}
MeshSpans::~MeshSpans() = default;
MeshSpans::MeshSpans(MeshSpans&&) noexcept = default;

const LogicalMesh& MeshSpans::mesh() const { return state_->mesh; }
const std::optional<std::string>& MeshSpans::impossible() const { return state_->impossible; }
int MeshSpans::prices() const { return static_cast<int>(state_->span_costs.size()); }

const StepCost& MeshSpans::cost(int first, int last, int price) const {
  return state_->span_costs[static_cast<std::size_t>(price)][static_cast<std::size_t>(first * state_->layers + last)];
}

Seconds MeshSpans::least(int first, int last) const {
  // Rows of length layers, layers - 1, ...: row `first` begins after first rows.
  const int row = first * state_->layers - first * (first - 1) / 2;
  return state_->least[static_cast<std::size_t>(row + last - first)];
}

Seconds MeshSpans::bound() const { return state_->dual.value_or(least(0, state_->layers - 1)); }

StagePlan MeshSpans::plan(int first, int last, int price) const {
  StagePlan stage{first, last, state_->mesh.of, state_->mesh.shape(), {}, {}, {}, {}};
  const bool mixed = state_->mixture && price + 1 == prices();
  const State::Path path = mixed ? State::Path{state_->mixture->states, {}}
                                 : state_->path(state_->options[static_cast<std::size_t>(price)], first, last);
  const Graph& graph = state_->structure.graph();
  const std::vector<TensorId> entering = state_->structure.crossing(first);
  const auto& entering_state =
      state_->model(first).in_border().states[static_cast<std::size_t>(path.states.front().first)];
  // What only later stages read goes past this one.
  for (std::size_t t = 0; t < entering.size(); ++t)
    if (state_->structure.is_read(entering[t], first, last))
      stage.inputs[graph.tensor(entering[t]).name] = entering_state[t];
  for (int layer = first; layer <= last; ++layer) {
    const ShardingChoice& choice = mixed ? state_->mixture->choices[static_cast<std::size_t>(layer)]
                                         : path.layers[static_cast<std::size_t>(layer - first)]->choice;
    state_->model(layer).write_decisions(choice, state_->structure, layer, stage);
  }
  const StepCost& cost = this->cost(first, last, price);
  stage.forward = cost.forward;
  stage.backward = cost.backward;
  stage.update = cost.step;
  return stage;
}

std::vector<Recompute> MeshSpans::recompute(int first, int last, int price) const {
  std::vector<Recompute> found;
  if (state_->search.variants.empty()) return found;
  State::Variants variants;
  if (state_->mixture && price + 1 == prices())
    variants = state_->mixture->variants;
  else
    for (const State::Solved* layer :
         state_->path(state_->options[static_cast<std::size_t>(price)], first, last).layers)
      variants.push_back(layer->variant);
  for (int layer = first; layer <= last; ++layer)
    found.push_back(
        state_->classes[state_->model_class(layer)].variants[variants[static_cast<std::size_t>(layer - first)]]);
  return found;
}

const std::vector<ShardingSpec>& MeshSpans::entering(int first, int last, int price) const {
  const auto states = state_->states_of(first, last, price);
  return state_->model(first).in_border().states[static_cast<std::size_t>(states.front().first)];
}

const std::vector<ShardingSpec>& MeshSpans::leaving(int first, int last, int price) const {
  const auto states = state_->states_of(first, last, price);
  return state_->model(last).out_border().states[static_cast<std::size_t>(states.back().second)];
}

}  // namespace meshwright
