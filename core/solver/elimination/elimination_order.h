// SPDX-License-Identifier: Apache-2.0
// In which order variable elimination takes the nodes of a graph: the size of its tables depends on nothing else.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "core/base/indexed_vector.h"
#include "core/solver/problem/field.h"

namespace meshwright::elimination {

using Domain = IndexedVector<int, std::size_t>;  // [node] its strategies

// The graph as an order sees it.
struct Structure {
  Domain domain;
  std::vector<std::pair<int, int>> edges;  // nodes that stand in one table; parallel ones are allowed
  auto operator<=>(const Structure&) const = default;
};
[[nodiscard]] Structure structure_of(const portfolio::Field& field);

struct EliminationOrder {
  std::vector<int> nodes;
  double largest = 1.0;  // entries of the largest table made
  double work = 0.0;     // additions of one elimination
};

// The node whose elimination makes the smallest table goes first. Where the order found so is much work, others are
// tried and the one of least work is taken.
struct OrderSearch {
  enum class Alternatives {
    NearGreedy,  // sizes distorted by up to four times either way; always the same ones. For the graphs of models.
    LeastFill,   // the node whose neighbours miss the fewest edges first. For graphs of any shape.
  };
  Alternatives alternatives = Alternatives::LeastFill;
  double max_table = portfolio::kForbidden;   // entries of one table
  double max_tables = portfolio::kForbidden;  // entries of all tables together
};
// 2^26 entries in a table (512 MiB) and 2^27 in all, which are kept until the choice is read off them.
[[nodiscard]] OrderSearch search_for_models();

// An order of all nodes but `kept`. nullopt: no order that was tried keeps the limits.
[[nodiscard]] std::optional<EliminationOrder> find_order(const Structure& structure, const OrderSearch& search,
                                                         const std::vector<int>& kept = {});

// An order for any graph: smallest table first while tables stay within `max_table`, the remaining nodes by the size
// of the tables that they would make then.
[[nodiscard]] std::vector<int> bounded_order(const Structure& structure, double max_table);

}  // namespace meshwright::elimination
