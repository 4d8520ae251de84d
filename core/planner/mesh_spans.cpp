// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>

#include "core/base/errors.h"
#include "core/planner/stage_search.h"

namespace meshwright {

namespace {
// Seconds that filling a whole device's memory costs, in units of the whole model's unconstrained time on the mesh.
// Zero gives the fastest sharding, the last one practically the smallest.
constexpr std::array<double, 5> kMemoryPrices = {0.0, 0.03, 0.3, 3.0, 100.0};

using Matrix = std::vector<std::optional<Seconds>>;

}  // namespace

struct MeshSpans::State {
  const StepStructure& structure;
  LogicalMesh mesh;
  StageSearchOptions options;
  std::optional<std::string> impossible;
  int layers = 0;

  std::vector<int> class_of_layer;
  std::vector<LayerModel> models;                      // [class]
  std::vector<CostWeights> weights;                    // [price]
  std::vector<std::vector<ShardingProblem>> problems;  // [price][class]
  std::vector<std::vector<Matrix>> matrices;           // [price][class]: in state x out state
  std::vector<std::vector<StepCost>> costs;            // [price][first * layers + last]

  std::vector<Seconds> least;  // [first][last - first]: no price, nothing paid for entering

  struct Solved {
    ShardingChoice choice;
    StepCost cost;
  };
  // Layers solved between fixed borders: (price, class, in, out).
  std::map<std::array<int, 4>, Solved> solved;

  std::size_t model_class(int layer) const {
    return static_cast<std::size_t>(class_of_layer[static_cast<std::size_t>(layer)]);
  }
  const LayerModel& model(int layer) const { return models[model_class(layer)]; }
  std::size_t ins(int layer) const { return model(layer).in_border().states.size(); }
  std::size_t outs(int layer) const { return model(layer).out_border().states.size(); }

  const Solved& solve_between(int price, int layer, int in, int out) {
    const std::array<int, 4> key = {price, static_cast<int>(model_class(layer)), in, out};
    const auto known = solved.find(key);
    if (known != solved.end()) return known->second;
    const LayerModel& of = model(layer);
    const ShardingProblem& whole = problems[static_cast<std::size_t>(price)][model_class(layer)];
    const ShardingProblem fixed = fix_strategy(fix_strategy(whole, of.in_node(), in), of.out_node(), out);
    auto solution = solve(fixed);
    MW_CHECK(solution.has_value(), "layer {} has no sharding between states {} and {}", layer, in, out);
    solution->choice.strategy[static_cast<std::size_t>(of.in_node())] = in;
    solution->choice.strategy[static_cast<std::size_t>(of.out_node())] = out;
    const StepCost cost = of.cost(solution->choice);
    return solved.emplace(key, Solved{std::move(solution->choice), cost}).first->second;
  }

  std::vector<std::optional<Seconds>> free_start(int first) const { return {ins(first), Seconds(0)}; }

  // What receiving the tensors that enter a stage, and sending their gradients back, costs in each border state. It
  // only weighs states against each other: a tensor kept whole on every device would be sent as often.
  std::vector<std::optional<Seconds>> receive(int first) const {
    std::vector<std::optional<Seconds>> cost = free_start(first);
    const Border& border = model(first).in_border();
    for (std::size_t in = 0; in < cost.size(); ++in)
      for (std::size_t t = 0; t < border.tensors.size(); ++t) {
        const Bytes tile = local_bytes(structure.graph().tensor(border.tensors[t]), border.states[in][t], mesh);
        *cost[in] += 2.0 * cost_model->transfer(tile, options.hosts_apart, mesh.of.devices_per_host).time;
      }
    return cost;
  }

  // Best cost of reaching each out state of each layer from `first` on; from[layer - first][state] is the in state it
  // came from.
  struct Paths {
    std::vector<std::vector<std::optional<Seconds>>> best;
    std::vector<std::vector<int>> from;
  };
  enum class Entering { Free, Paid };
  Paths paths(int price, int first, int last, Entering entering = Entering::Paid) const {
    Paths found;
    std::vector<std::optional<Seconds>> before = entering == Entering::Paid ? receive(first) : free_start(first);
    for (int layer = first; layer <= last; ++layer) {
      const Matrix& matrix = matrices[static_cast<std::size_t>(price)][model_class(layer)];
      std::vector<std::optional<Seconds>> after(outs(layer));
      std::vector<int> from(outs(layer), -1);
      for (std::size_t in = 0; in < before.size(); ++in) {
        if (!before[in]) continue;
        for (std::size_t out = 0; out < after.size(); ++out) {
          const auto& step = matrix[in * after.size() + out];
          if (!step) continue;
          const Seconds total = *before[in] + *step;
          if (after[out] && *after[out] <= total) continue;
          after[out] = total;
          from[out] = static_cast<int>(in);
        }
      }
      found.best.push_back(after);
      found.from.push_back(std::move(from));
      before = std::move(after);
    }
    return found;
  }

  static int cheapest(const std::vector<std::optional<Seconds>>& states) {
    int best = -1;
    for (std::size_t s = 0; s < states.size(); ++s)
      if (states[s] && (best < 0 || *states[s] < *states[static_cast<std::size_t>(best)])) best = static_cast<int>(s);
    return best;
  }

  static Seconds best_of(const std::vector<std::optional<Seconds>>& states) {
    const int state = cheapest(states);
    MW_CHECK(state >= 0, "a span has no sharding");
    return *states[static_cast<std::size_t>(state)];
  }

  // (in, out) states of each layer of a span.
  static std::vector<std::pair<int, int>> trace(const Paths& found, std::size_t length) {
    std::vector<std::pair<int, int>> states(length, {0, 0});
    int state = cheapest(found.best[length - 1]);
    MW_CHECK(state >= 0, "a span has no sharding");
    for (std::size_t l = length; l-- > 0;) {
      const int in = found.from[l][static_cast<std::size_t>(state)];
      states[l] = {in, state};
      state = in;
    }
    return states;
  }

  void solve_all() {
    layers = structure.layers().count;
    make_models();
    if (impossible) return;
    weights.push_back({static_cast<double>(options.microbatches), 0.0, 1.0});
    make_matrices(0);
    for (int first = 0; first < layers; ++first) {
      const Paths unpriced = paths(0, first, layers - 1, Entering::Free);
      for (const auto& states : unpriced.best) least.push_back(best_of(states));
    }
    const double whole = least[static_cast<std::size_t>(layers) - 1].si();
    // A later stage holds fewer microbatches than an early one; a few in flight stand for all when bytes are priced.
    const double in_flight = std::min<double>(4.0, static_cast<double>(options.microbatches));
    const bool alone = mesh.devices() == 1;  // one device has nothing to trade
    for (std::size_t p = 1; p < (alone ? 1 : kMemoryPrices.size()); ++p) {
      weights.push_back({static_cast<double>(options.microbatches),
                         kMemoryPrices[p] * whole / options.usable_memory.si(), in_flight});
      make_matrices(p);
    }
    for (std::size_t p = 0; p < weights.size(); ++p) cost_spans(static_cast<int>(p));
  }

  void make_models() {
    std::map<std::string, int> classes;
    ReshardingPrices prices(mesh, *cost_model);
    for (int layer = 0; layer < layers; ++layer) {
      const auto [known, is_new] = classes.emplace(structure.layer_signature(layer), static_cast<int>(models.size()));
      class_of_layer.push_back(known->second);
      if (!is_new) continue;
      models.emplace_back(structure, layer, mesh, *cost_model, prices, options.rules);
      if (models.back().impossible()) {
        impossible = models.back().impossible();
        return;
      }
    }
  }

  void make_matrices(std::size_t price) {
    problems.emplace_back();
    matrices.emplace_back();
    for (const LayerModel& of : models) {
      problems.back().push_back(of.problem(weights[price]));
      matrices.back().push_back(pairwise_costs(problems.back().back(), of.in_node(), of.out_node()));
    }
  }

  void cost_spans(int price) {
    costs.emplace_back(static_cast<std::size_t>(layers * layers));
    for (int first = 0; first < layers; ++first) {
      const Paths found = paths(price, first, layers - 1);
      for (int last = first; last < layers; ++last) {
        StepCost total;
        const auto states = trace(found, static_cast<std::size_t>(last - first + 1));
        for (int layer = first; layer <= last; ++layer) {
          const auto [in, out] = states[static_cast<std::size_t>(layer - first)];
          total += solve_between(price, layer, in, out).cost;
        }
        costs.back()[static_cast<std::size_t>(first * layers + last)] = total;
      }
    }
  }

  const CostModel* cost_model = nullptr;
};

MeshSpans::MeshSpans(const StepStructure& structure, LogicalMesh mesh, const CostModel& costs,
                     const StageSearchOptions& options)
    : state_(std::make_unique<State>(
          State{structure, std::move(mesh), options, {}, 0, {}, {}, {}, {}, {}, {}, {}, {}, &costs})) {
  state_->solve_all();
}
MeshSpans::~MeshSpans() = default;
MeshSpans::MeshSpans(MeshSpans&&) noexcept = default;

const LogicalMesh& MeshSpans::mesh() const { return state_->mesh; }
const std::optional<std::string>& MeshSpans::impossible() const { return state_->impossible; }
int MeshSpans::prices() const { return static_cast<int>(state_->weights.size()); }

const StepCost& MeshSpans::cost(int first, int last, int price) const {
  return state_->costs[static_cast<std::size_t>(price)][static_cast<std::size_t>(first * state_->layers + last)];
}

Seconds MeshSpans::least(int first, int last) const {
  // Rows of length layers, layers - 1, ...: row `first` begins after first rows.
  const int row = first * state_->layers - first * (first - 1) / 2;
  return state_->least[static_cast<std::size_t>(row + last - first)];
}

StagePlan MeshSpans::plan(int first, int last, int price) const {
  StagePlan stage{first, last, state_->mesh.of, state_->mesh.shape(), {},         {},
                  {},    {},   Seconds(0),      Seconds(0),           Seconds(0), Bytes(0)};
  const auto states = State::trace(state_->paths(price, first, last), static_cast<std::size_t>(last - first + 1));
  const Graph& graph = state_->structure.graph();
  const std::vector<TensorId> entering = state_->structure.crossing(first);
  const auto& entering_state = state_->model(first).in_border().states[static_cast<std::size_t>(states.front().first)];
  for (std::size_t t = 0; t < entering.size(); ++t) stage.inputs[graph.tensor(entering[t]).name] = entering_state[t];
  for (int layer = first; layer <= last; ++layer) {
    const auto [in, out] = states[static_cast<std::size_t>(layer - first)];
    const auto& solved = state_->solve_between(price, layer, in, out);
    state_->model(layer).write_decisions(solved.choice, state_->structure, layer, stage);
  }
  const StepCost& cost = this->cost(first, last, price);
  stage.forward = cost.forward;
  stage.backward = cost.backward;
  stage.update = cost.step;
  return stage;
}

}  // namespace meshwright
