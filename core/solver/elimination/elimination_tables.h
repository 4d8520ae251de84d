// SPDX-License-Identifier: Apache-2.0
// The tables of variable elimination: a cost for every combination of strategies of a few nodes. Costs are plain
// numbers as in core/solver/problem/field.h; a forbidden combination costs infinity.
//
// Many strategies of a node cost the same beside every strategy of another node: a table has one entry for all of them,
// a class. Sums over classes are those of tables of single strategies, to the last bit.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/base/indexed_vector.h"
#include "core/solver/elimination/elimination_order.h"
#include "core/solver/problem/field.h"

namespace meshwright::elimination {

using portfolio::kForbidden;

// Strategies of a node that a table does not tell apart; classes are numbered in the order of their first strategies.
struct Classes {
  IndexedVector<int, int> of;     // [strategy]
  IndexedVector<int, int> first;  // [class] its first strategy
  [[nodiscard]] std::size_t size() const { return first.size(); }
  [[nodiscard]] bool tells_all_apart() const { return first.size() == of.size(); }
  bool operator==(const Classes&) const = default;
};
// REQUIRES: `of` is numbered in the order of first strategies.
[[nodiscard]] Classes make_classes(std::vector<int> of);
[[nodiscard]] Classes single_strategies(std::size_t count);
[[nodiscard]] Classes one_class(std::size_t strategies);
// Two strategies are of one class when they are in both.
[[nodiscard]] Classes joint(const Classes& a, const Classes& b);

// Classes that many tables have. Copies share them, and comparisons of copies are short.
class SharedClasses {
 public:
  SharedClasses(Classes classes);  // implicit: the same value
  const Classes& operator*() const { return held_->classes; }
  const Classes* operator->() const { return &held_->classes; }
  [[nodiscard]] std::size_t size() const { return held_->classes.size(); }
  [[nodiscard]] std::size_t hash() const { return held_->hash; }
  bool operator==(const SharedClasses& other) const {
    return held_ == other.held_ || (hash() == other.hash() && **this == *other);
  }

 private:
  struct Held {
    Classes classes;
    std::size_t hash;
  };
  std::shared_ptr<const Held> held_;
};

// What a table depends on.
struct Shape {
  std::vector<int> scope;              // nodes, ascending
  std::vector<SharedClasses> classes;  // [node of the scope]
  [[nodiscard]] bool contains(int node) const;
  // REQUIRES: contains(node).
  [[nodiscard]] std::size_t position(int node) const;
  [[nodiscard]] std::size_t stride(std::size_t position) const;  // of one class in Table::cost
  bool operator==(const Shape&) const = default;
};

// A cost for every combination of classes of the nodes in the scope, row-major, the last node fastest.
using Costs = std::shared_ptr<const std::vector<double>>;
struct Table {
  std::shared_ptr<const Shape> shape;
  Costs cost;  // tables may share it
};

// An edge's costs by classes of its ends' strategies.
struct Between {
  SharedClasses from_classes, to_classes;
  std::vector<double> cost;  // [class of from * classes of to + class of to]
};
// Joins strategies that cost the same beside all of the other end's.
void merge_equal(Between& between);
// Several edges may share their costs.
struct Edge {
  int from, to;
  std::shared_ptr<const Between> between;
};

// A table per node, then one per two nodes with edges between them, in either direction, added up in their order.
[[nodiscard]] std::vector<Table> make_tables(const std::vector<Costs>& nodes, const std::vector<Edge>& edges);
// Memory and the constant have no table.
[[nodiscard]] std::vector<Table> tables_of(const portfolio::Field& field);
[[nodiscard]] std::vector<Table> tables_of(const ShardingProblem& problem);

// The structure of tables that one of these functions made.
[[nodiscard]] Structure structure_of(const std::vector<Table>& given);

}  // namespace meshwright::elimination
