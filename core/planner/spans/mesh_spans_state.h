// SPDX-License-Identifier: Apache-2.0
// Inside of MeshSpans: the layers' models and matrices by memory price, and paths through them. Shared by the files
// that price spans and that fit one stage into the memory.
#pragma once

#include <algorithm>
#include <array>
#include <map>

#include "core/base/errors.h"
#include "core/planner/spans/stage_search.h"
#include "core/solver/solve_between.h"

namespace meshwright {

struct MeshSpans::State {
  using Matrix = std::vector<std::optional<Seconds>>;
  // Seconds that filling a whole device's memory costs, in units of the whole model's unconstrained time on the mesh.
  // Zero gives the fastest sharding, the last one practically the smallest.
  static constexpr std::array<double, 5> kMemoryPrices = {0.0, 0.03, 0.3, 3.0, 100.0};

  struct Solved {
    std::size_t variant;  // of its class
    ShardingChoice choice;
    StepCost cost;
    std::vector<Bytes> again;  // [block of the layer]: made again
  };

  // Equal layers.
  struct LayerClass {
    std::vector<Recompute> variants;      // that differ in it
    std::vector<LayerModel> models;       // [variant]: the same strategies, other costs
    std::vector<std::size_t> variant_of;  // [of the search's variants]: which of these it is
  };

  // What the layers of a span make again at a price: each its cheapest, where a layer's is the price's own; or as
  // `level` says (mesh_spans_levels.cpp).
  struct Option {
    std::size_t price;
    int level = kFree;
  };
  static constexpr int kFree = -1;
  static constexpr int kMixedLevels = 3;  // between the last two variants
  // [layer of the span]: its variant; empty: the cheapest.
  using Variants = std::vector<std::size_t>;

  const StepStructure& structure;
  LogicalMesh mesh;
  StageSearchOptions search;
  std::optional<std::string> impossible = {};
  int layers = 0;

  std::vector<int> class_of_layer = {};
  std::vector<std::vector<int>> blocks_of_layer = {};  // the model's blocks with an op in it
  std::vector<LayerClass> classes = {};
  std::vector<CostWeights> weights = {};                // [price]
  std::vector<std::optional<Bytes>> most_working = {};  // [price]
  struct Priced {
    std::optional<ShardingProblem> problem;
    std::optional<BetweenSolver> between;
  };
  // (price, class, variant); made when needed
  std::map<std::array<std::size_t, 3>, Priced> problems = {};
  // [price][class]: in state x out state; of the cheapest variant, and which that is.
  std::vector<std::vector<Matrix>> matrices = {};
  std::vector<std::vector<std::vector<std::uint8_t>>> cheapest_variant = {};
  std::map<std::array<std::size_t, 3>, Matrix> variant_matrices =
      {};  // (price, class, variant), where there are levels
  std::vector<Option> options = {};
  std::vector<std::vector<StepCost>> span_costs = {};  // [option][first * layers + last]; one_stage: first is 0
  // one_stage: layers each solved at a price of its own. The option after those of the prices.
  struct Mixture {
    std::vector<std::pair<int, int>> states;  // [layer] in and out
    std::vector<std::size_t> variants;
    std::vector<ShardingChoice> choices;
    StepCost cost;
  };
  std::optional<Mixture> mixture = {};
  std::optional<Seconds> dual = {};  // one_stage: best Lagrangian bound

  std::vector<Seconds> least = {};  // [first][last - first]: no price, nothing paid for entering

  // Layers solved between fixed borders: (price, class, variant, in, out).
  std::map<std::array<int, 5>, Solved> solved = {};

  std::size_t model_class(int layer) const {
    return static_cast<std::size_t>(class_of_layer[static_cast<std::size_t>(layer)]);
  }
  const LayerModel& model(int layer, std::size_t variant = 0) const {
    return classes[model_class(layer)].models[variant];
  }
  std::size_t ins(int layer) const { return model(layer).in_border().states.size(); }
  std::size_t outs(int layer) const { return model(layer).out_border().states.size(); }

  const Solved& solve_between(int price, int layer, int in, int out) {
    const std::size_t pair = static_cast<std::size_t>(in) * outs(layer) + static_cast<std::size_t>(out);
    return solve_between(price, layer, in, out,
                         cheapest_variant[static_cast<std::size_t>(price)][model_class(layer)][pair]);
  }
  const Solved& solve_between(int price, int layer, int in, int out, std::size_t variant) {
    const std::array<int, 5> key = {price, static_cast<int>(model_class(layer)), static_cast<int>(variant), in, out};
    const auto known = solved.find(key);
    if (known != solved.end()) return known->second;
    const auto at_price = static_cast<std::size_t>(price);
    const LayerModel& of = model(layer, variant);
    auto choice = between(at_price, model_class(layer), variant).solve(in, out);
    MW_CHECK(choice.has_value(), "layer {} has no sharding between states {} and {}", layer, in, out);
    const StepCost cost = of.cost(*choice);
    std::vector<Bytes> again = made_again(layer, of, *choice);
    return solved.emplace(key, Solved{variant, std::move(*choice), cost, std::move(again)}).first->second;
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
        *cost[in] +=
            2.0 * cost_model->on(mesh.of.group).transfer(tile, search.hosts_apart, mesh.of.devices_per_host).time;
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
  Paths paths(std::size_t price, int first, int last, Entering entering = Entering::Paid,
              const Variants& variants = {}) const {
    Paths found;
    std::vector<std::optional<Seconds>> before = entering == Entering::Paid ? receive(first) : free_start(first);
    for (int layer = first; layer <= last; ++layer) {
      const Matrix& matrix =
          variants.empty()
              ? matrices[price][model_class(layer)]
              : variant_matrices.at({price, model_class(layer), variants[static_cast<std::size_t>(layer - first)]});
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

  // (in, out) states of each layer on the best path through a span.
  [[nodiscard]] std::vector<std::pair<int, int>> states_of(int first, int last, int price) {
    if (mixture && price + 1 == static_cast<int>(span_costs.size())) return mixture->states;
    return path(options[static_cast<std::size_t>(price)], first, last).states;
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
    if (search.one_stage) return fit_memory(whole / search.usable_memory.si());
    if (has_room()) return;
    cost_levels(0);
    // One device has nothing to trade but what it makes again.
    for (std::size_t p = 1; p < kMemoryPrices.size() && mesh.devices() > 1; ++p) {
      add_price(kMemoryPrices[p] * whole / search.usable_memory.si());
      cost_spans(p);
      cost_levels(p);
    }
    for (std::size_t i = 0; i < levels.size(); ++i) {
      options.push_back(levels[i]);
      span_costs.push_back(std::move(level_costs[i]));
    }
    level_costs.clear();
  }

  // Whether the fastest sharding of all layers takes so little that no schedule of any stage of them lacks memory, by
  // half of it: what costs time to save memory is then of no use. Where there are few devices other shardings cost
  // little to find, and may be cheaper to send to.
  [[nodiscard]] bool has_room() const {
    constexpr int kFewDevices = 16;
    if (search.most_in_flight == 0 || mesh.devices() <= kFewDevices) return false;
    const StepCost& cost = whole_cost(0);
    const Bytes needs = cost.resident + search.most_in_flight * cost.saved + cost.working + cost.repeated;
    return needs <= 0.5 * search.usable_memory;
  }

  // --- what spans make again, beside what is cheapest at a price (mesh_spans_levels.cpp) ---

  [[nodiscard]] bool has_levels(std::size_t price) const;
  // Adds the levels of a price to `levels`.
  void cost_levels(std::size_t price);
  [[nodiscard]] Variants variants_of(const Option& option, int first, int last);
  // Bytes saved per second that making again what the last variant does costs beyond the one before it; nullopt where
  // the layer has no such choice.
  [[nodiscard]] std::optional<double> worth(std::size_t price, int layer);
  // The states of a span's layers, and their solutions.
  struct Path {
    std::vector<std::pair<int, int>> states;
    std::vector<const Solved*> layers;
  };
  [[nodiscard]] Path path(const Option& option, int first, int last);
  std::vector<Option> levels = {};
  std::vector<std::vector<StepCost>> level_costs = {};

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
    cheapest_variant.pop_back();
    std::erase_if(problems, [&](const auto& known) { return known.first[0] == weights.size(); });
  }
  // They take much memory.
  void forget_problems() { problems.clear(); }
  // Everything is solved: plans of spans are read off what is.
  void forget_costs() {
    forget_problems();
    for (LayerClass& of : classes)
      for (LayerModel& any : of.models) any.forget_costs();
    forgotten = true;
  }

  // --- one stage (mesh_spans_memory.cpp) ---

  const StepCost& whole_cost(std::size_t option) const {
    return span_costs[option][static_cast<std::size_t>(layers) - 1];
  }
  // What counts by its sum: all but `working`.
  [[nodiscard]] Bytes bytes_of(const StepCost& cost) const {
    return cost.resident + in_flight * cost.saved + recomputed_share * cost.recomputed;
  }
  // As bytes_of counts it.
  [[nodiscard]] StepCost count_repeated(StepCost cost) const {
    cost.repeated = recomputed_share * cost.recomputed;
    return cost;
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

  // --- layers and what they may make again (mesh_spans_layers.cpp) ---

  void make_models();
  // Two layers with equal texts are one class.
  std::string class_text(int layer, const IntraOpRules& rules) const;
  [[nodiscard]] std::vector<Bytes> made_again(int layer, const LayerModel& of, const ShardingChoice& choice) const;
  const ShardingProblem& problem(std::size_t price, std::size_t of_class, std::size_t variant);
  [[nodiscard]] ShardingProblem make_problem(std::size_t price, std::size_t of_class, std::size_t variant) const;
  BetweenSolver& between(std::size_t price, std::size_t of_class, std::size_t variant);  // the borders
  void make_matrices(std::size_t price);
  // The variants of a class that may be the cheapest somewhere at the price.
  [[nodiscard]] std::vector<std::size_t> useful_variants(std::size_t price, std::size_t of_class);

  StepCost cost_along(std::size_t price, const Paths& found, int first, int last, const Variants& variants = {}) {
    StepCost total;
    const auto states = trace(found, static_cast<std::size_t>(last - first + 1));
    int block = -1;  // the last one
    Bytes again(0);  // of it
    for (int layer = first; layer <= last; ++layer) {
      const auto [in, out] = states[static_cast<std::size_t>(layer - first)];
      const Solved& part = variants.empty() ? solve_between(static_cast<int>(price), layer, in, out)
                                            : solve_between(static_cast<int>(price), layer, in, out,
                                                            variants[static_cast<std::size_t>(layer - first)]);
      total += part.cost;
      const std::vector<int>& blocks = blocks_of_layer[static_cast<std::size_t>(layer)];
      for (std::size_t b = 0; b < blocks.size(); ++b) {
        again = part.again[b] + (blocks[b] == block ? again : Bytes(0));
        block = blocks[b];
        total.repeated = std::max(total.repeated, again);
      }
    }
    return total;
  }

  void cost_spans(std::size_t price) {
    options.push_back({price});
    span_costs.emplace_back(static_cast<std::size_t>(search.one_stage ? layers : layers * layers));
    if (search.one_stage) {
      span_costs.back().back() = count_repeated(cost_along(price, paths(price, 0, layers - 1), 0, layers - 1));
      return;
    }
    for (int first = 0; first < layers; ++first) {
      const Paths found = paths(price, first, layers - 1);
      for (int last = first; last < layers; ++last)
        span_costs.back()[static_cast<std::size_t>(first * layers + last)] = cost_along(price, found, first, last);
    }
    if (!has_levels(price)) forget_problems();  // what plans need of them is solved now
  }

  bool forgotten = false;  // the models' costs
  double in_flight = 1.0;
  double recomputed_share = 0.0;  // of what is made again, at a time: one block of the model
  const CostModel* cost_model = nullptr;
};

}  // namespace meshwright
