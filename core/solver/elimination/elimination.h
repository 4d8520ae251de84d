// SPDX-License-Identifier: Apache-2.0
// Variable elimination made once for a field and run many times with other node costs (core/solver/elimination/
// elimination_steps.h has the steps; this keeps their tables in two blocks of memory).
//
// The result of a bucket is a message to the bucket that takes it: its parent. Buckets form a forest, and a pass back
// from its roots turns the messages into min-marginals. Where a message would exceed a bound, a node has several
// buckets, each with its share of the node's cost: the value is then a lower bound.
#pragma once

#include <optional>
#include <vector>

#include "core/solver/elimination/elimination_steps.h"
#include "core/solver/problem/field.h"

namespace meshwright::portfolio {

using elimination::EliminationOrder;

// The order of least work whose messages stay within `max_table` entries; nullopt: none was found.
[[nodiscard]] std::optional<EliminationOrder> elimination_order(const Field& field, double max_table);
// An order for any field: as above while messages stay within `max_table`, the remaining nodes by their size.
[[nodiscard]] std::vector<int> bounded_elimination_order(const Field& field, double max_table);

// Immutable. Refers to the edge costs of the field it was made from.
//
// Its steps number the nodes by their positions in the order, so that the eliminated node is the slowest dimension of
// every table: no table has to be copied before its loops.
class EliminationPlan {
 public:
  struct Bucket {
    int node;
    std::vector<int> scope;         // in the order of elimination; the last one's label runs fastest
    std::size_t message = 0, size;  // where the message starts, and its entries
    std::size_t own = 0;            // where the bucket's costs of its node's labels start
    const elimination::Combination* combination;
    std::vector<int> sources;               // [table of the combination]: the bucket that sends it; kOwn, kEdge
    std::vector<const double*> edge_costs;  // [table of the combination], of edges
    int parent = -1;                        // the bucket that takes the message; -1: its scope is empty
    std::vector<int> above;                 // per node of the scope: its bucket on the way to the root
  };
  static constexpr int kOwn = -1, kEdge = -2;

  // Messages of at most `max_message` entries where single edges allow it. REQUIRES: `order` holds every node once.
  EliminationPlan(const Field& field, const std::vector<int>& order, double max_message);
  EliminationPlan(EliminationPlan&&) = default;  // buckets point to steps: a copy's would to another plan's

  [[nodiscard]] const IndexedVector<int, Bucket>& buckets() const { return buckets_; }  // in the order of elimination
  [[nodiscard]] const std::vector<int>& buckets_of(int node) const { return buckets_of_[node]; }
  [[nodiscard]] const IndexedVector<int, std::vector<int>>& all_buckets_of() const { return buckets_of_; }  // [node]
  [[nodiscard]] bool exact() const { return buckets_.size() == buckets_of_.size(); }  // no node in two buckets
  [[nodiscard]] std::size_t entries() const { return entries_; }                      // of all messages
  [[nodiscard]] std::size_t own_entries() const { return own_entries_; }              // of all buckets' own costs
  [[nodiscard]] double work() const { return work_; }                                 // additions of one run
  // Costs of all labels stand side by side, those of a node from first()[node] on.
  [[nodiscard]] const IndexedVector<int, std::size_t>& first() const { return first_; }
  [[nodiscard]] std::size_t labels(int node) const { return first_[node + 1] - first_[node]; }

 private:
  elimination::Steps steps_;
  IndexedVector<int, Bucket> buckets_;
  IndexedVector<int, std::vector<int>> buckets_of_;
  IndexedVector<int, std::size_t> first_;
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
  // Where the costs of a bucket's table start.
  [[nodiscard]] const double* table(const EliminationPlan::Bucket& bucket, std::size_t source) const {
    const int from = bucket.sources[source];
    if (from >= 0) return messages_.data() + plan_.buckets()[from].message;
    return from == EliminationPlan::kOwn ? own_.data() + bucket.own : bucket.edge_costs[source];
  }
  void find_tables(const EliminationPlan::Bucket& bucket);  // into costs_
  // The least of the bucket's sums with what is outside, per label; passed on to the buckets whose messages it takes.
  void receive(const EliminationPlan::Bucket& bucket, bool pass_on, double* least);
  void pass_outside();
  // Decides the labels of the bucket's node and scope that are open.
  void decode_around(const EliminationPlan::Bucket& bucket, const Labels& like, Labels& labels) const;

  const EliminationPlan& plan_;
  std::vector<double> own_;           // per bucket, from Bucket::own on: its part of its node's costs
  std::vector<double> shift_;         // same places: what it has more or less than an equal share
  std::vector<double> messages_;      // per bucket, from Bucket::message on
  std::vector<double> outside_;       // same places: the least cost of everything outside the bucket's subtree
  std::vector<const double*> costs_;  // of the bucket at hand
  std::vector<double*> reach_;
  elimination::Scratch scratch_;
  double value_ = 0.0;
};

template <class ScopeLabel>
void Elimination::add_excess(int bucket, const ScopeLabel& scope_label, double* excess) const {
  const EliminationPlan::Bucket& b = plan_.buckets()[bucket];
  const std::size_t labels = plan_.labels(b.node);
  std::size_t place = b.message, step = b.size;
  for (std::size_t d = 0; d < b.scope.size(); ++d) {
    step /= plan_.labels(b.scope[d]);
    place += step * scope_label(d);
  }
  const double least = messages_[place] == kForbidden ? 0.0 : messages_[place];  // then the labels are forbidden anyway
  for (std::size_t x = 0; x < labels; ++x) excess[x] -= least;
  for (std::size_t s = 0; s < b.sources.size(); ++s)
    elimination::add_costs(b.combination->sources[s], table(b, s), scope_label, excess);
}

}  // namespace meshwright::portfolio
