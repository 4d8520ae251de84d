// SPDX-License-Identifier: Apache-2.0
// Bucket elimination over (min, +), made once for a graph and run many times with other node costs.
//
// Nodes are eliminated in a fixed order. The bucket of a node adds up every table the node occurs in and keeps, for
// each combination of the labels of the others (its scope), the least over the node's own label: the message, a table
// of the bucket of the first node of the scope. The buckets form a forest, and a pass back from its roots turns the
// messages into min-marginals. Where a message would exceed a bound, the tables of the bucket are parted into several
// buckets which choose the node's label independently of one another, each with its share of the node's cost
// (mini-buckets, Dechter and Rish 2003): the value is then a lower bound.
#pragma once

#include <optional>
#include <vector>

#include "core/solver/problem/field.h"

namespace meshwright::portfolio {

struct EliminationOrder {
  std::vector<int> nodes;
  double largest = 1.0;  // entries of the largest message
  double work = 0.0;     // additions of one pass
};

// Smallest table first, and, for graphs small enough to try it, least fill first when that is less work. nullopt: a
// message would exceed `largest_table` entries.
[[nodiscard]] std::optional<EliminationOrder> elimination_order(const Field& field, double largest_table);

// An order for any field: as above while messages stay within `largest_table`, the remaining nodes by their size.
[[nodiscard]] std::vector<int> bounded_elimination_order(const Field& field, double largest_table);

// Immutable. Refers to the edge costs of the field it was made from.
class EliminationPlan {
 public:
  // A run of consecutive dimensions that a table has all of (table_step > 0), or none of.
  struct Run {
    std::size_t size, whole_step, table_step;
  };
  struct Table {
    const double* cost;  // of an edge; nullptr: the message of bucket `from`
    int from;
    std::size_t per_label;            // entries per label of the bucket's node
    std::vector<std::size_t> stride;  // per node of the bucket's scope; 0: not in this table
    std::vector<Run> inner;           // the innermost dimensions of the scope, in runs
  };
  struct Bucket {
    int node;
    std::vector<int> scope;          // in the order of elimination; the last one's label runs fastest
    std::size_t message, size;       // where the message starts, and its entries
    std::size_t own;                 // where the bucket's costs of its node's labels start
    std::vector<std::size_t> outer;  // sizes of the dimensions counted through
    std::size_t inner;               // entries of those handled at once
    std::vector<Table> tables;
    int parent = -1;         // the bucket that takes the message; -1: its scope is empty
    std::vector<int> above;  // per node of the scope: its bucket on the way to the root
  };

  // Messages of at most `largest_message` entries where single edges allow it. REQUIRES: `order` holds every node once.
  EliminationPlan(const Field& field, const std::vector<int>& order, double largest_message);

  [[nodiscard]] const std::vector<Bucket>& buckets() const { return buckets_; }  // in the order of elimination
  [[nodiscard]] const std::vector<int>& buckets_of(int node) const {
    return buckets_of_[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] const std::vector<std::vector<int>>& all_buckets_of() const { return buckets_of_; }  // [node]
  [[nodiscard]] bool exact() const { return buckets_.size() == buckets_of_.size(); }  // no node in two buckets
  [[nodiscard]] std::size_t entries() const { return entries_; }                      // of all messages
  [[nodiscard]] std::size_t own_entries() const { return own_entries_; }              // of all buckets' own costs
  [[nodiscard]] double work() const { return work_; }                                 // additions of one run
  // Costs of all labels stand side by side, those of a node from first()[node] on.
  [[nodiscard]] const std::vector<std::size_t>& first() const { return first_; }
  [[nodiscard]] std::size_t labels(int node) const;

 private:
  friend struct PlanBuilder;
  std::vector<Bucket> buckets_;
  std::vector<std::vector<int>> buckets_of_;
  std::vector<std::size_t> first_;
  std::vector<std::vector<double>> turned_;  // edges whose later node stands first in the field
  std::size_t entries_ = 0, own_entries_ = 0;
  double work_ = 0.0;
};

// The node costs of a field side by side.
[[nodiscard]] std::vector<double> side_by_side(const Field& field);

// The tables of one run. Reuses its memory from run to run.
class Elimination {
 public:
  explicit Elimination(const EliminationPlan& plan);  // keeps a reference

  // `cost` is side by side. Returns the least sum of node and edge costs (of an inexact plan: a lower bound), without
  // the field's constant; infinity: every choice is forbidden.
  double run(const std::vector<double>& cost);
  // nullopt: the budget was over before the end, and there was no run.
  std::optional<double> run_within(const Budget& budget, const std::vector<double>& cost);

  // Labels that attain the value of the last run (of an inexact plan: a good guess). REQUIRES: it was finite.
  void decode(Labels& labels) const;

  // Least value, over all choices with that label, side by side (of an inexact plan: a lower bound). REQUIRES: a run.
  void min_marginals(std::vector<double>& marginals);

  // Labels of the least value among those that give `node` this label; where several are as good, those of `like`.
  // REQUIRES: an exact plan, min_marginals() of the last run, and a finite one of the label.
  void decode_with(int node, int label, const Labels& like, Labels& labels) const;

  // How far the choice of each label of the bucket's node lies above the best one, given the labels of its scope
  // (>= 0). `scope_label(d)` gives the label of scope node d. Added to `excess`, [label of the bucket's node].
  template <class ScopeLabel>
  void add_excess(int bucket, const ScopeLabel& scope_label, double* excess) const;

  // The label of each bucket's node where each bucket follows its parent: it attains the value of the last run also
  // where the plan is not exact. [bucket]
  void decode_buckets(std::vector<int>& label) const;

  // For plans that are not exact: moves the costs of a node's labels between its buckets, a part `step` of the way to
  // where they would agree on what each label costs. Small steps raise the value of later runs. REQUIRES: a run.
  void match(double step);
  [[nodiscard]] const std::vector<double>& shift() const { return shift_; }
  void set_shift(const std::vector<double>& shift) { shift_ = shift; }

 private:
  void add_tables(const EliminationPlan::Bucket& bucket, std::size_t label, const std::vector<std::size_t>& offset,
                  double* sum) const;
  [[nodiscard]] const double* table(const EliminationPlan::Table& table) const {
    return table.cost != nullptr ? table.cost
                                 : messages_.data() + plan_.buckets()[static_cast<std::size_t>(table.from)].message;
  }
  bool send(const EliminationPlan::Bucket& bucket, const Budget& budget);  // false: out of time
  void receive(const EliminationPlan::Bucket& bucket, bool pass_on, double* least);
  void pass_outside();
  // Decides the labels of the bucket's node and scope that are open.
  void decode_around(const EliminationPlan::Bucket& bucket, const Labels& like, Labels& labels) const;

  const EliminationPlan& plan_;
  std::vector<double> own_;       // per bucket, from Bucket::own on: its part of its node's costs
  std::vector<double> shift_;     // same places: what it has more or less than an equal share
  std::vector<double> messages_;  // per bucket, from Bucket::message on
  std::vector<double> outside_;   // same places: the least cost of everything outside the bucket's subtree
  std::vector<double> sum_;       // scratch
  double value_ = 0.0;
};

template <class ScopeLabel>
void Elimination::add_excess(int bucket, const ScopeLabel& scope_label, double* excess) const {
  const EliminationPlan::Bucket& b = plan_.buckets()[static_cast<std::size_t>(bucket)];
  const std::size_t labels = plan_.labels(b.node);
  std::size_t place = b.message, step = b.size;
  for (std::size_t d = 0; d < b.scope.size(); ++d) {
    step /= plan_.labels(b.scope[d]);
    place += step * scope_label(d);
  }
  const double* own = own_.data() + b.own;
  const double least = messages_[place] == kForbidden ? 0.0 : messages_[place];  // then the labels are forbidden anyway
  for (std::size_t x = 0; x < labels; ++x) excess[x] += own[x] - least;
  for (const EliminationPlan::Table& t : b.tables) {
    const double* from = table(t);
    for (std::size_t d = 0; d < b.scope.size(); ++d) from += t.stride[d] * scope_label(d);
    for (std::size_t x = 0; x < labels; ++x) excess[x] += from[x * t.per_label];
  }
}

}  // namespace meshwright::portfolio
