// SPDX-License-Identifier: Apache-2.0
// One step of variable elimination: all tables that contain a node are added up, and the minimum over the node's
// strategies is kept (min-sum, Dechter's bucket elimination).
//
// What depends on shapes alone is worked out once (Combination); costs are then combined any number of times.
#pragma once

#include <memory>
#include <vector>

#include "core/solver/elimination/elimination_tables.h"

namespace meshwright::elimination {

// How `node` is eliminated from tables of given shapes. Sums are taken in one order: tables without the last node of
// the result's scope first, then the others, each group in the order of `sources`.
struct Combination {
  int node;
  std::shared_ptr<const Shape> shape;  // of the result
  std::vector<std::size_t> outer;      // classes of its leading dimensions, which are counted through;
  std::size_t inner = 1;               // the rest is one vector loop
  Classes own;                         // the node's, as the sources tell its strategies apart
  // A dimension of a table in memory.
  struct Dimension {
    std::size_t place;       // in the result's scope; of the node itself: unused
    const Classes* classes;  // of the table's shape
    std::size_t stride;
  };
  struct Source {
    std::shared_ptr<const Shape> shape;
    Dimension own;                    // the node's
    std::vector<Dimension> others;    // of the other nodes in the table
    bool as_it_lies = false;          // the loops below go over the table's entries without a gap
    bool minimum = false;             // a cost of the node alone: the minimum of a class stands for it
    bool spans_inner = false;         // the inner run is in this table, contiguous
    std::size_t size = 1, per_class;  // entries as the loops go over them: in all, and per class of `own`
    std::vector<std::size_t> stride;  // per outer dimension; 0: not in this table
    // Unless as_it_lies: [dimension, the node's first][class as the loops count it] where its first strategy is in the
    // table.
    std::vector<std::vector<std::size_t>> offsets;
  };
  std::vector<Source> sources;
  [[nodiscard]] std::size_t entries() const;  // of the result
};
[[nodiscard]] Combination plan_combination(const Domain& domain, int node,
                                           const std::vector<std::shared_ptr<const Shape>>& sources);

// Memory that calls reuse.
struct Scratch {
  struct Rows {  // of a table that spans the inner run, one row per class of the eliminated node
    std::size_t source;
    const double* first;
    std::size_t apart;
  };
  std::vector<std::vector<double>> moved;  // [source] its costs, rearranged for the loops
  std::vector<const double*> cost;         // [source] where the inner run begins
  std::vector<std::size_t> position;       // per outer dimension
  std::vector<double> constants, sum;
  std::vector<Rows> rows;
};

// Writes the result's entries(). `costs` are of the sources. false: the budget was over before the end.
[[nodiscard]] bool combine(const Combination& combination, const std::vector<const double*>& costs, double* result,
                           Scratch& scratch, const portfolio::Budget& budget = {});

// The way back. `outside`: what everything but the result costs at least, per entry of the result. Lowers `minimum`
// [strategy of the node] to the least total, and, per source that `reach` is given for, each of its entries to the
// least total over the combinations that take that entry. REQUIRES: the loops can go
// along every source as it is in memory (Source::as_it_lies).
void combine_back(const Combination& combination, const std::vector<const double*>& costs, const double* outside,
                  double* minimum, const std::vector<double*>& reach, Scratch& scratch);

// The strategy of the node that is best beside a choice of the other nodes in the sources; of equals the first.
[[nodiscard]] int best_strategy(const Combination& combination, const std::vector<const double*>& costs,
                                const ShardingChoice& choice, Scratch& scratch);

// Adds what a source costs beside a choice: to `sum`, [strategy of the node]. `strategy_of` gives the strategy of a
// node by its place in the result's scope.
template <class StrategyOf>
void add_costs(const Combination::Source& source, const double* cost, const StrategyOf& strategy_of, double* sum) {
  for (const Combination::Dimension& other : source.others)
    cost += other.stride * other.classes->of[strategy_of(other.place)];
  const Classes& own = *source.own.classes;
  if (own.tells_all_apart())
    for (std::size_t x = 0; x < own.size(); ++x) sum[x] += cost[x * source.own.stride];
  else
    for (const int of : own.of) *sum++ += cost[of * source.own.stride];
}

}  // namespace meshwright::elimination
