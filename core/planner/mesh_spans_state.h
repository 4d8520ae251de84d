// SPDX-License-Identifier: Apache-2.0
// Inside of MeshSpans: the layers' models and matrices by memory price, and paths through them. Shared by the files
// that price spans and that fit one stage into the memory.
#pragma once

#include <array>
#include <map>

#include "core/base/errors.h"
#include "core/planner/stage_search.h"

namespace meshwright {

struct MeshSpans::State {
  using Matrix = std::vector<std::optional<Seconds>>;
  // Seconds that filling a whole device's memory costs, in units of the whole model's unconstrained time on the mesh.
  // Zero gives the fastest sharding, the last one practically the smallest.
  static constexpr std::array<double, 5> kMemoryPrices = {0.0, 0.03, 0.3, 3.0, 100.0};

  struct Solved {
    ShardingChoice choice;
    StepCost cost;
  };

  const StepStructure& structure;
  LogicalMesh mesh;
  StageSearchOptions search;
  std::optional<std::string> impossible = {};
  int layers = 0;

  std::vector<int> class_of_layer = {};
  std::vector<LayerModel> models = {};                                           // [class]
  std::vector<CostWeights> weights = {};                                         // [price]
  std::vector<std::optional<Bytes>> most_working = {};                           // [price]
  std::map<std::pair<std::size_t, std::size_t>, ShardingProblem> problems = {};  // (price, class); made when needed
  std::vector<std::vector<Matrix>> matrices = {};                                // [price][class]: in state x out state
  std::vector<std::vector<StepCost>> span_costs = {};  // [option][first * layers + last]; one_stage: first is 0
  // one_stage: layers each solved at a price of its own. The option after those of the prices.
  struct Mixture {
    std::vector<std::pair<int, int>> states;  // [layer] in and out
    std::vector<ShardingChoice> choices;
    StepCost cost;
  };
  std::optional<Mixture> mixture = {};
  std::optional<Seconds> dual = {};  // one_stage: best Lagrangian bound

  std::vector<Seconds> least = {};  // [first][last - first]: no price, nothing paid for entering

  // Layers solved between fixed borders: (price, class, in, out).
  std::map<std::array<int, 4>, Solved> solved = {};

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
    const ShardingProblem& whole = problem(static_cast<std::size_t>(price), model_class(layer));
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
        *cost[in] += 2.0 * cost_model->transfer(tile, search.hosts_apart, mesh.of.devices_per_host).time;
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
  Paths paths(std::size_t price, int first, int last, Entering entering = Entering::Paid) const {
    Paths found;
    std::vector<std::optional<Seconds>> before = entering == Entering::Paid ? receive(first) : free_start(first);
    for (int layer = first; layer <= last; ++layer) {
      const Matrix& matrix = matrices[price][model_class(layer)];
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
    // A later stage holds fewer microbatches than an early one; a few in flight stand for all when bytes are priced.
    in_flight = search.one_stage
                    ? (search.schedule == ScheduleKind::GPipe ? static_cast<double>(search.microbatches) : 1.0)
                    : std::min<double>(4.0, static_cast<double>(search.microbatches));
    int blocks = 0;
    for (int layer = 0; layer < layers; ++layer) blocks += structure.blocks_in(layer);
    recomputed_share = 1.0 / static_cast<double>(std::max(1, blocks));
    add_price(0.0);
    for (int first = 0; first < (search.one_stage ? 1 : layers); ++first) {
      const Paths unpriced = paths(0, first, layers - 1, Entering::Free);
      for (const auto& states : unpriced.best) least.push_back(best_of(states));
    }
    cost_spans(0);
    const double whole = least[static_cast<std::size_t>(layers) - 1].si();
    if (mesh.devices() == 1 && !search.one_stage) return;  // one device has nothing to trade
    if (search.one_stage) return fit_memory(whole / search.usable_memory.si());
    for (std::size_t p = 1; p < kMemoryPrices.size(); ++p) {
      add_price(kMemoryPrices[p] * whole / search.usable_memory.si());
      cost_spans(weights.size() - 1);
    }
  }

  // A new option; with `working`, no op may need more temporary memory.
  void add_price(double price, std::optional<Bytes> working = std::nullopt) {
    weights.push_back({static_cast<double>(search.microbatches), price, price == 0.0 ? 1.0 : in_flight});
    most_working.push_back(working);
    make_matrices(weights.size() - 1);
  }

  void drop_price() {
    weights.pop_back();
    most_working.pop_back();
    matrices.pop_back();
    std::erase_if(problems, [&](const auto& known) { return known.first.first == weights.size(); });
  }
  // They take much memory.
  void forget_problems() { problems.clear(); }

  // --- one stage (mesh_spans_memory.cpp) ---

  const StepCost& whole_cost(std::size_t option) const {
    return span_costs[option][static_cast<std::size_t>(layers) - 1];
  }
  // What counts by its sum: all but `working`.
  [[nodiscard]] Bytes bytes_of(const StepCost& cost) const {
    return cost.resident + in_flight * cost.saved + recomputed_share * cost.recomputed;
  }
  [[nodiscard]] bool fits(const StepCost& cost) const { return bytes_of(cost) + cost.working <= search.usable_memory; }
  [[nodiscard]] Seconds time_of(const StepCost& cost) const {
    return cost.forward + cost.backward + cost.step / static_cast<double>(search.microbatches);
  }
  // Finds options that fit the memory, and `dual`; prices are in units of `unit` seconds per byte.
  void fit_memory(double unit);
  class WorkingClass;
  class MemorySearch;
  struct MixRequest {
    std::vector<int> prices;  // the layers' choices at these prices are put together; the first one guides the search
    Bytes most_working;       // of any op
    Bytes room;               // for bytes_of
    Seconds below;            // only what takes less per microbatch is of use; the less it is, the finer the search
  };
  // Layers solved at several prices, and their parameters one by one, put together (mesh_spans_mixture.cpp).
  std::optional<Mixture> mix(const MixRequest& request);
  class Mixer;

  void make_models() {
    std::map<std::string, int> classes;
    const IntraOpRules rules = search.rules ? search.rules(mesh) : IntraOpRules{};
    ReshardingPrices prices(mesh, *cost_model);
    for (int layer = 0; layer < layers; ++layer) {
      const auto [known, is_new] = classes.emplace(structure.layer_signature(layer) + forced_in(rules.forced, layer) +
                                                       border_signature(structure, layer, mesh, rules),
                                                   static_cast<int>(models.size()));
      class_of_layer.push_back(known->second);
      if (!is_new) continue;
      models.emplace_back(structure, layer, mesh, *cost_model, prices, rules);
      if (models.back().impossible()) {
        impossible = models.back().impossible();
        return;
      }
    }
  }

  // Layers are equal problems only when the same of their tensors are forced.
  std::string forced_in(const ForcedSpecs& forced, int layer) const {
    std::string text;
    if (forced.empty()) return text;
    const auto note = [&](TensorId id) {
      const auto found = forced.find(structure.graph().tensor(id).name);
      text += found == forced.end() ? "." : found->second.to_text();
    };
    for (const OpId id : structure.layers().forward[static_cast<std::size_t>(layer)]) {
      for (const auto* list : {&structure.graph().op(id).inputs, &structure.graph().op(id).outputs})
        for (const TensorId tensor : *list) {
          note(tensor);
          for (const TensorId state : structure.optimizer_state(tensor)) note(state);
        }
    }
    return text;
  }

  const ShardingProblem& problem(std::size_t price, std::size_t model) {
    const auto [known, is_new] = problems.try_emplace({price, model});
    if (!is_new) return known->second;
    known->second = models[model].problem(weights[price], most_working[price]);
    if (search.one_stage) models[model].price_recomputed(known->second, weights[price].memory_price * recomputed_share);
    return known->second;
  }

  void make_matrices(std::size_t price) {
    matrices.emplace_back();
    for (std::size_t of = 0; of < models.size(); ++of)
      matrices.back().push_back(pairwise_costs(problem(price, of), models[of].in_node(), models[of].out_node()));
  }

  StepCost cost_along(std::size_t price, const Paths& found, int first, int last) {
    StepCost total;
    const auto states = trace(found, static_cast<std::size_t>(last - first + 1));
    for (int layer = first; layer <= last; ++layer) {
      const auto [in, out] = states[static_cast<std::size_t>(layer - first)];
      total += solve_between(static_cast<int>(price), layer, in, out).cost;
    }
    return total;
  }

  void cost_spans(std::size_t price) {
    span_costs.emplace_back(static_cast<std::size_t>(search.one_stage ? layers : layers * layers));
    if (search.one_stage) {
      span_costs.back().back() = cost_along(price, paths(price, 0, layers - 1), 0, layers - 1);
      return;
    }
    for (int first = 0; first < layers; ++first) {
      const Paths found = paths(price, first, layers - 1);
      for (int last = first; last < layers; ++last)
        span_costs.back()[static_cast<std::size_t>(first * layers + last)] = cost_along(price, found, first, last);
    }
  }

  double in_flight = 1.0;
  double recomputed_share = 0.0;  // of what is made again, at a time: one block of the model
  const CostModel* cost_model = nullptr;
};

}  // namespace meshwright
