// SPDX-License-Identifier: Apache-2.0
// Best-first branching on hubs, for lower bounds of fields that are too large to be solved.
//
// In the graph of a model a few nodes, such as a parameter that every layer reads, have an edge into each of many equal
// blocks. The cycles through two hubs are too long for a relaxation over small groups of nodes, but once the label of
// a hub is fixed, messages no longer mix its labels, and the bound rises steeply. So each part of the search space
// fixes the labels of some hubs, and the least bound of the parts is the bound of all.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/solver/bound/bound.h"

namespace meshwright::portfolio {

class HubBranching {
 public:
  // Goes on from a copy of the root's messages and multipliers. Keeps references to `reduced`, which `root` is of.
  HubBranching(const Reduced& reduced, const DualBound& root);
  ~HubBranching();

  // Splits the part of the lowest bound, then the next, until nothing is left below `cut`, the work (entries of edge
  // tables that messages pass over) or the budget is spent, or it is stuck. May be called again to go on. REQUIRES:
  // `cut` never rises from call to call.
  void run(double cut, double max_work, const Budget& budget);

  [[nodiscard]] double lower_bound() const;  // of all labels below the cut; infinity: there are none
  // No part can be split: the lowest has no hub left to fix, or the parts that wait take too much memory.
  [[nodiscard]] bool stuck() const;
  // [node][label]: may be below the cut.
  [[nodiscard]] std::vector<std::vector<bool>> kept() const;
  // What a search for good labels may follow, from the part examined last.
  [[nodiscard]] const Guide& guide() const { return guide_; }
  [[nodiscard]] int parts() const { return parts_; }  // examined

 private:
  struct Stored;
  struct Part {
    std::shared_ptr<const Stored> parent;
    std::size_t node;
    std::size_t label;
    double bound;
  };
  struct Record {         // of the splits at a node so far
    double weight = 0.0;  // sum of what is left of the part, each per label
    int count = 0;
  };
  struct Split {
    double bound, cut;
    int iterations;  // per label
  };

  void probe_root(double cut, const Budget& budget);
  void split(const std::shared_ptr<const Stored>& from, std::size_t node, const Split& how, const Budget& budget);
  std::shared_ptr<Stored> restore(const Part& part, double cut, const Budget& budget);
  void iterate(DualBound& dual, double cut, int iterations, const Budget& budget);
  void drop_labels(DualBound& dual, double cut) const;
  [[nodiscard]] std::vector<std::size_t> doubts(const DualBound& dual, double cut) const;
  [[nodiscard]] std::optional<std::size_t> choose(const DualBound& dual, double cut) const;
  [[nodiscard]] static bool is_later(const Part& a, const Part& b) { return a.bound > b.bound; }

  const Reduced& reduced_;
  const double entries_, numbers_;  // of all edge tables; stored by the bound of a part
  std::vector<double> degree_;      // [node]
  int stored_ = 0;                  // bounds of parts that some part waits to go on from
  std::shared_ptr<Stored> root_;
  bool probed_ = false;
  std::vector<Part> open_;    // a heap, the lowest bound on top
  double left_ = kForbidden;  // least bound of the parts that cannot be split
  std::map<std::size_t, Record> records_;
  Guide guide_;
  int parts_ = 0;
  double work_ = 0.0;
};

}  // namespace meshwright::portfolio
