// SPDX-License-Identifier: Apache-2.0
// Spans of layers at memory prices: the best path through their borders, and the layers' solutions along it.
#pragma once

#include <optional>
#include <vector>

#include "core/planner/spans/border_paths.h"
#include "core/planner/spans/layer_matrices.h"

namespace meshwright {

// The best sharding of a span: per layer its border states and its solution.
struct SpanSharding {
  std::vector<InOutStates> states;
  std::vector<const LayerSolution*> layers;
};

// [layer of the span]: its variant; empty: the cheapest for its border states.
using SpanVariants = std::vector<int>;

class SpanSolver {
 public:
  // `receive_hosts_apart`: what enters a stage may come from another host. REQUIRES: all but `eliminations` outlive
  // this.
  SpanSolver(const StepStructure& structure, const LogicalMesh& mesh, const CostModel& costs, bool receive_hosts_apart,
             const LayerClasses& layers, const SpanBudget& budget, BetweenSolver::Known eliminations);

  // Returns the number of the new price. With `max_working`, no op may need more temporary memory.
  int add_price(double memory_price, LayerMatrices::Variants variants, std::optional<Bytes> max_working = std::nullopt);
  // The same with each layer recomputed in this one of the ways (LayerClasses::make) alone.
  int add_price_of_way(double memory_price, int way, StepWeight step = StepWeight::Share);
  // At a price that was added for all ways, paths may ask for this way's variants.
  void know_way(int price, int way) { matrices_.know_way(price, way); }
  void drop_last_price();
  [[nodiscard]] double memory_price(int price) const { return solver_.memory_price(price); }
  [[nodiscard]] const LayerMatrices& matrices() const { return matrices_; }

  // Paths through layers first..last. Paid: receiving the tensors that enter the span has a cost in each state.
  enum class Entering { Free, Paid };
  [[nodiscard]] BorderPaths paths(int price, int first, int last, Entering entering = Entering::Paid,
                                  const SpanVariants& variants = {}) const;
  // Adds the layers up to `last` to paths that begin with layer `first`.
  void extend(BorderPaths& paths, int price, int first, int last, const SpanVariants& variants = {}) const;
  // The sharding on the cheapest of `paths`, which begin at `first`, through layers first..last.
  [[nodiscard]] SpanSharding sharding(int price, const BorderPaths& paths, int first, int last,
                                      const SpanVariants& variants = {});
  [[nodiscard]] SpanSharding sharding(int price, int first, int last, const SpanVariants& variants = {}) {
    return sharding(price, paths(price, first, last, Entering::Paid, variants), first, last, variants);
  }
  // The layers' costs added up. A block's recomputed bytes are in memory together, also where it spans layers.
  struct Total {
    StepCost cost;
    int block = -1;       // the last one seen
    Bytes recomputed{0};  // of it, so far
  };
  void add(Total& total, const LayerSolution& layer, int at) const;
  [[nodiscard]] StepCost cost(const SpanSharding& sharding, int first) const;

  // One layer between border states, with its cheapest variant or the given one.
  const LayerSolution& solve(int price, int layer, InOutStates states) {
    return solve(price, layer, states, matrices_.cheapest_variant(price, layer, states.first, states.second));
  }
  const LayerSolution& solve(int price, int layer, InOutStates states, int variant) {
    return solver_.solve(price, layer, variant, states.first, states.second);
  }

  void forget_problems() { solver_.forget_problems(); }
  void close() { solver_.close(); }

 private:
  [[nodiscard]] StateCosts receive_costs(int first) const;

  const StepStructure& structure_;
  const LogicalMesh& mesh_;
  const CostModel& costs_;
  bool receive_hosts_apart_;
  const LayerClasses& layers_;
  LayerSolver solver_;
  LayerMatrices matrices_;
};

// The costs of spans that begin with one layer, asked for one after the other: the layers that a span shares with the
// one before are not added up again. The same sums as SpanSolver::cost, to the last bit.
class SpanTotals {
 public:
  // REQUIRES: the solver outlives this.
  SpanTotals(SpanSolver& solver, int price, int first) : solver_(solver), price_(price), first_(first) {}
  // `states` and `variants` as of SpanSharding and SpanSolver::sharding.
  [[nodiscard]] const StepCost& cost(const std::vector<InOutStates>& states, const SpanVariants& variants);

 private:
  struct Layer {
    InOutStates states;
    int variant;  // -1: the cheapest
    SpanSolver::Total total;
  };
  SpanSolver& solver_;
  int price_, first_;
  std::vector<Layer> layers_;  // of the latest span
};

}  // namespace meshwright
