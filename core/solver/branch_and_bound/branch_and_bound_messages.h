// SPDX-License-Identifier: Apache-2.0
// Branch and bound on message bounds, for fields too wide for elimination.
//
// A part of the search space is a reduced field and the labels kept of it. It goes on from the messages and multipliers
// of the part it was split from, loses the labels whose min-marginals cost too much, is reduced again once it has lost
// many, goes to elimination once that is cheap, and is split at the node where both halves promise the most.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/solver/bound/bound.h"
#include "core/solver/branch_and_bound/branch_and_bound.h"

namespace meshwright::portfolio {

class MessageBranching {
 public:
  // Additions of an elimination up to which a part goes to the exact search.
  static constexpr double kCheapElimination = 3e6;

  // `multipliers`: (step, value), where the root begins. `max_work`: entries of edge tables that messages pass over,
  // and what takes as long. Keeps references.
  MessageBranching(const Reduced& reduced, const std::vector<std::pair<int, double>>& multipliers, double max_work,
                   Incumbent& incumbent, const Budget& budget, double cheap_elimination = kCheapElimination);
  ~MessageBranching();
  // The search space is exhausted, or the budget, or the work.
  void run();
  [[nodiscard]] double lower_bound() const { return lower_bound_; }  // infinity: nothing is below the cut any more
  [[nodiscard]] int parts() const { return parts_; }
  // Labels of the whole field, side by side, outside of which nothing is below the cut.
  [[nodiscard]] const std::vector<bool>& kept() const { return kept_; }

 private:
  struct Epoch;  // a reduced field that parts share
  struct Part;
  struct Choice {
    std::size_t node;
    double weight;
    std::vector<bool> side;  // [label] kept by the first half
  };

  void leave(std::unique_ptr<Part> part);  // for later
  std::unique_ptr<Part> take_lowest();
  void examine(std::unique_ptr<Part> part);
  bool bound(Part& part);
  void iterate(const Epoch& epoch, DualBound& dual, int count);
  bool drop(Part& part);
  std::unique_ptr<Part> reduce(std::unique_ptr<Part> part);
  void offer(const Part& part);
  bool settle_exactly(Part& part);
  void split(Part& part);
  [[nodiscard]] std::vector<Choice> candidates(const Part& part) const;
  [[nodiscard]] std::vector<bool> cheaper_half(const Part& part, std::size_t node) const;
  [[nodiscard]] std::unique_ptr<DualBound> probe(const Part& part, std::size_t node, const std::vector<bool>& kept);
  [[nodiscard]] double gap(double bound) const;
  [[nodiscard]] static bool is_later(const std::unique_ptr<Part>& a, const std::unique_ptr<Part>& b);
  [[nodiscard]] bool over() const;

  const Reduced& reduced_;
  const std::vector<std::pair<int, double>> multipliers_;
  const double max_work_, cheap_elimination_;
  Incumbent& incumbent_;
  const Budget budget_;
  std::vector<std::unique_ptr<Part>> open_;  // a heap, the lowest bound on top
  std::vector<bool> kept_;
  double lower_bound_ = kForbidden;
  int parts_ = 0;
  double work_ = 0.0, stored_ = 0.0;
};

}  // namespace meshwright::portfolio
