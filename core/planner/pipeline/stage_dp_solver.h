// SPDX-License-Identifier: Apache-2.0
// F(n, i, d) for one bound on the stage times, and bounds that are cheaper. Internal to stage_dp*.cpp.
//
// Three steps for a bound m, each making the next one smaller:
//  1. bound_sum(m): for every (i, d) the least sum of the layers before i on the devices that d leaves, as if every
//     stage had as few stages behind it as its place allows. The sum of all layers bounds every pipeline of stages of
//     at most m.
//  2. can_finish(m), in bits: which states (class, i, d) stages of at most m lead to from the end, and whether a whole
//     pipeline is among them. All classes of (i, d) are worked on at once: a stage fits in front of the classes whose
//     level is not too high for it.
//  3. solve(limit): which of these states lie on a whole pipeline (bits again, from the front); then F in those where F
//     plus the sum of step 1 does not exceed the limit. The others lead to no pipeline with a smaller sum, so the least
//     sum is exact when it is below the limit, and not below the limit otherwise.
#pragma once

#include <vector>

#include "core/planner/pipeline/stage_dp_space.h"

namespace meshwright::stage_dp {

// Sums that are compared with sums of another order of addition may be off by this part.
constexpr double kRounding = 1e-12;

class Solver {
 public:
  explicit Solver(const Space& space);

  // No pipeline has a smaller largest stage time; memory as in step 1.
  [[nodiscard]] double min_slowest() const;
  // Step 1; kNever: no pipeline.
  double bound_sum(double slowest);
  // Step 2: some pipeline has no stage slower than this.
  bool can_finish(double slowest);
  // Step 3. REQUIRES: bound_sum and can_finish of one `slowest` came before, the second was true.
  void solve(double limit);

  // After solve, per class c of whole pipelines (first_whole_class() and on):
  [[nodiscard]] double sum(int c) const { return value(c, 0, space_.all_devices()); }
  // A pipeline that attains sum(c); its cost is left to the caller.
  [[nodiscard]] TablePipeline pipeline(int c) const;
  // F of class c for layers i.. on d >= 1 devices; kNever where left out.
  [[nodiscard]] double value(int c, int i, int d) const {
    const int place = places_[row(c, i)];
    return place >= 0 ? rows_[place][d - 1] : kNever;
  }

 private:
  using Word = std::uint64_t;
  [[nodiscard]] int row(int c, int i) const { return (c - 1) * space_.layers() + i; }
  [[nodiscard]] Word* bits(std::vector<Word>& all, int c, int i) const {
    return all.data() + (static_cast<std::size_t>(i) * space_.classes() + c - 1) * words_;
  }
  // Calls visit(class of the rest, its times) for the ways to come to class c.
  template <class Visit>
  void for_each_rest(int c, Visit visit) const;
  template <class Visit>
  void for_each_step(int i, Visit visit) const;
  void reach_last_stages(int i);
  void find_ways();
  void find_needed();
  void solve_row(int c, int i);
  [[nodiscard]] TableStage first_stage(int c, int i, int d, int& rest) const;
  [[nodiscard]] int config_with(int level, const TableStage& stage, double after, double total) const;

  const Space& space_;
  std::size_t words_;  // of a row of bits
  // A cell of the table that is fast enough: layers first..k-1 on a shape, in front of the classes of
  // Space::classes_within(level).
  struct Way {
    int k, shift, level;
  };
  std::vector<Way> ways_;               // by first layer
  std::vector<std::size_t> ways_from_;  // first layer -> its ways
  std::vector<int> levels_;             // scratch
  std::vector<Word> can_end_, needed_;  // [first layer][class - 1]: bit d - 1
  Rows rows_;                           // F, of the rows that hold a value
  std::vector<int> places_;             // [class - 1][first layer]: in rows_, -1: no value
  Rows before_;                         // [i][d] of step 1
  Rows sums_;                           // [i][d]: least sum of layers 0..i-1 on d devices
  Times times_, open_times_;            // at the level of the class at work, and of the open class
  double bounded_ = kNever, slowest_ = kNever, limit_ = kNever;
  std::vector<Source> sources_;
  std::vector<int> ends_;
};

}  // namespace meshwright::stage_dp
