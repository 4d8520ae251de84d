// SPDX-License-Identifier: Apache-2.0
// Branch and bound for fields that elimination can solve, but for memory rows that bind.
//
// A part of the search space is a set of labels kept per node. It is bounded by the Lagrangian dual of the rows, loses
// the labels whose min-marginals cost too much, is searched exhaustively once it is small, and is split where the dual
// solution mixes labels of different memory.
#pragma once

#include <optional>
#include <queue>
#include <vector>

#include "core/solver/branch_and_bound/branch_and_bound_dual.h"
#include "core/solver/branch_and_bound/branch_and_bound_shrink.h"

namespace meshwright::portfolio {

// The best labels so far, and the cost from which on nothing is of interest.
class Incumbent {
 public:
  // Only labels below `upper_bound` are of interest. Where all costs are multiples of a number, so are differences.
  Incumbent(const Reduced& reduced, double upper_bound);
  bool offer(const Labels& labels);                    // of the reduced field; true: better than all before
  [[nodiscard]] double cut() const { return cut_; }    // bounds at or above it need no further look
  [[nodiscard]] double cost() const { return cost_; }  // the upper bound until labels were found
  [[nodiscard]] const std::optional<Labels>& labels() const { return labels_; }

 private:
  void lower(double cost);
  const Reduced& reduced_;
  double step_ = 0.0;  // all costs of labels differ by multiples of it; 0: unknown
  double cost_, cut_ = kForbidden;
  std::optional<Labels> labels_;
};

class BranchAndBound {
 public:
  // Messages of elimination have `max_table` entries at most. `max_work`: additions of all eliminations, and what
  // takes as long. Keeps references.
  BranchAndBound(const Reduced& reduced, double max_table, double max_work, Incumbent& incumbent, const Budget& budget);
  // The search space is exhausted, or the budget, or the work.
  void run();
  [[nodiscard]] double lower_bound() const { return lower_bound_; }  // infinity: nothing is below the cut any more
  [[nodiscard]] int parts() const { return parts_; }
  // Labels of the whole field, side by side, outside of which nothing is below the cut.
  [[nodiscard]] const std::vector<bool>& kept() const { return kept_; }

 private:
  struct Part {
    std::vector<bool> kept;   // labels of the whole field, side by side
    Multipliers multipliers;  // of the whole field's rows
    double bound;
    bool operator<(const Part& other) const { return bound > other.bound; }  // cheapest on top
  };
  struct View;  // a part as a field of its own

  void examine(Part part);
  bool bound(View& view, Part& part);
  void plan(View& view, const Part& part);
  bool tighten(View& view, Part& part);
  void search(const View& view, Part& part, std::size_t width);
  bool settles_whole(std::size_t width);
  [[nodiscard]] bool over() const { return work_ >= max_work_ || budget_.over(); }
  struct Choice {
    std::size_t node;
    double weight;
    std::vector<bool> side;  // [label] which half it goes to
  };
  [[nodiscard]] Choice choose(const View& view) const;
  void split(const View& view, const Part& part);

  const Reduced& reduced_;
  const double max_table_, max_work_;
  Incumbent& incumbent_;
  const Budget& budget_;
  std::vector<std::size_t> first_;  // [node] of its labels, side by side
  std::vector<int> order_;          // of elimination; found for the root, kept for its parts
  double max_message_ = kForbidden;
  std::vector<bool> watched_;  // [row] some choice of a search broke it
  std::vector<bool> kept_;
  Multipliers root_multipliers_;
  std::priority_queue<Part> open_;
  std::vector<Part> next_;  // the preferred half of the last split
  double lower_bound_ = kForbidden;
  int parts_ = 0;
  double work_ = 0.0, entries_ = 0.0;  // entries: of the edge tables
};

}  // namespace meshwright::portfolio
