// SPDX-License-Identifier: Apache-2.0
// The field while presolve (presolve.h) takes it apart, for its sources only.
//
// Nodes, edges and pieces keep their index and are marked gone. Every change is written down as a record; played
// backwards, the records give labels of the field before from labels of the field after.
#pragma once

#include <deque>
#include <vector>

#include "core/solver/presolve/presolve.h"

namespace meshwright::portfolio {

// label[node] = table[label[first] * second_labels + label[second]]; an index below 0 reads as label 0.
struct Record {
  int node, first, second, second_labels;
  std::vector<int> table;
  // Only where labels were renumbered: the new label, -1 for none, by [old label], or, if the node became one of pairs,
  // by [old label * labels of `paired` + label of `paired`].
  std::vector<int> kept_as;
  int paired = -1, paired_labels = 1;
};

class Work {
 public:
  struct Node {
    std::vector<double> cost;
    std::vector<int> edges, pieces;
    bool gone = false;
    bool queued = false;          // in `node_queue`
    bool compare_labels = false;  // something changed since its labels were last compared
  };
  struct Edge {
    int u, v;
    std::vector<double> cost;
    bool gone = false;
    bool queued = false;  // in `edge_queue`
  };

  Work(const Reduced& from, const std::vector<std::vector<bool>>& dropped);
  [[nodiscard]] Reduced finished(const Reduced& from) const;

  // Each returns after all that follows at once from what is queued, or when the budget is over; false: infeasible.
  bool settle(const Budget& budget);          // arc consistency, followers, edges that say nothing, nodes of low degree
  bool compare_labels(const Budget& budget);  // dominance
  // Rows that cannot be exceeded, labels that do not fit; while there is budget, rows that are implied.
  bool trim_rows(const Budget* compare_rows);

  [[nodiscard]] bool idle() const { return edge_queue.empty() && node_queue.empty(); }

  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::vector<MemoryPiece> pieces;  // gone: begin == end
  std::vector<double> row_limit;
  std::vector<int> row_step;
  std::vector<double> limit_change;  // pending change of row_limit from row to row
  double constant = 0.0;
  std::vector<Record> records;
  std::deque<int> edge_queue, node_queue;

  // presolve_work.cpp
  [[nodiscard]] int labels(int node) const;
  [[nodiscard]] int other_end(int edge, int node) const;
  void touch_node(int node);
  void touch_edge(int edge);
  // Removes the labels that are not kept; `instead`: per label, who stands in for it (-1: nobody), or empty.
  bool keep_labels(int node, const std::vector<bool>& keep, const std::vector<int>& instead);
  bool drop_forbidden(int node);
  void remove_edge(int edge);
  void remove_node(int node);
  void add_edge(int u, int v, std::vector<double> cost);
  [[nodiscard]] int edge_between(int u, int v) const;  // -1: none
  void add_piece(MemoryPiece piece);
  void normalise_piece(int piece);
  // Node `v` takes label `of[a]` whenever its neighbour across `edge` takes `a`, and is gone.
  void follow(int edge, int v, const std::vector<int>& of);

  [[nodiscard]] bool apply_limit_change();  // presolve_memory.cpp; false: a limit below 0

  // presolve_merge.cpp: the labels of one end of the edge become the pairs that are possible, and the other end
  // follows.
  void merge(int edge);
  [[nodiscard]] double growth_of_merging(int edge) const;  // of `entries`
  bool merge_cheapest(double max_growth);

  // presolve_edges.cpp
  bool examine_edge(int edge);
  bool dissolve_if_separable(int edge);
  bool examine_node(int node);
  void fold_leaf(int node);
  void fold_between(int node);
  [[nodiscard]] bool may_follow(int edge, int v);

  double entries = 0.0, max_entries = 0.0;  // of all edge tables: now, and how far they may grow
};

// One end's look at an edge table: cost of (own label, other label).
struct TableView {
  const double* base;
  int own_stride, other_stride, own_labels, other_labels;
  TableView(const Work& work, int edge, int node);
  [[nodiscard]] double cost(int own, int other) const {
    return base[static_cast<std::size_t>(own) * own_stride + static_cast<std::size_t>(other) * other_stride];
  }
};

}  // namespace meshwright::portfolio
