// SPDX-License-Identifier: Apache-2.0
// Layers solved one by one, between fixed border states and at a list of memory prices.
//
// A memory price is the Lagrange multiplier of the memory limit: seconds that a layer pays per byte that it keeps
// (CostWeights). Prices are numbered in the order in which they are added.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/planner/spans/layer_classes.h"
#include "core/planner/spans/span_budget.h"
#include "core/solver/elimination/number_hash.h"
#include "core/solver/solve_between.h"

namespace meshwright {

// [in state * out states + out state]: a layer's least weighted cost between these border states; nullopt: none.
using CostMatrix = std::vector<std::optional<Seconds>>;

struct LayerSolution {
  int variant;  // of the layer's class
  ShardingChoice choice;
  StepCost cost;
  std::vector<Bytes> recomputed;  // [block of the layer]
};

class LayerSolver {
 public:
  // REQUIRES: layers and budget outlive this.
  LayerSolver(const LayerClasses& layers, const SpanBudget& budget, BetweenSolver::Known eliminations)
      : layers_(layers), budget_(budget), eliminations_(std::move(eliminations)) {}

  // Returns the price's number. With `max_working`, no op may need more temporary memory.
  int add_price(double memory_price, std::optional<Bytes> max_working, StepWeight step = StepWeight::Share);
  void drop_last_price();
  [[nodiscard]] double memory_price(int price) const { return prices_[price].weights.memory_price; }

  // A lower bound of how much more a sharding costs in variant `one` than in `other`.
  [[nodiscard]] double min_excess(int price, int of_class, int one, int other) const;
  [[nodiscard]] CostMatrix costs(int price, int of_class, int variant);
  // Solutions are remembered; a reference stays valid. Throws InternalError where the states have no sharding.
  const LayerSolution& solve(int price, int layer, int variant, int in, int out);

  // Problems and their eliminations take much memory; they are rebuilt when they are asked for.
  void forget_problem(int price, int of_class, int variant) { problems_.erase({price, of_class, variant}); }
  void forget_problems();
  // From now on only what was solved before may be asked for: the models' costs are gone.
  void close();

 private:
  struct MemoryPrice {
    CostWeights weights;
    std::optional<Bytes> max_working;
  };
  [[nodiscard]] ShardingProblem make_problem(int price, int of_class, int variant) const;
  [[nodiscard]] double recomputed_price(int price) const;  // in seconds per byte
  BetweenSolver& between_borders(int price, int of_class, int variant);

  const LayerClasses& layers_;
  const SpanBudget& budget_;
  BetweenSolver::Known eliminations_;
  IndexedVector<int, MemoryPrice> prices_;
  // What equal parts of layers share.
  struct Shared {
    LayerModel::WeightedCosts costs;
    BetweenSolver::KnownTables tables = std::make_shared<elimination::KnownTables>();
  };
  IndexedVector<int, Shared> shared_;                     // [price]
  std::map<std::array<int, 3>, BetweenSolver> problems_;  // (price, class, variant)
  struct Hash {
    std::size_t operator()(const std::array<int, 5>& key) const {
      elimination::NumberHash hash;
      hash.add(key);
      return hash.value();
    }
  };
  std::unordered_map<std::array<int, 5>, LayerSolution, Hash> solutions_;  // (price, class, variant, in, out)
  bool closed_ = false;
};

}  // namespace meshwright
