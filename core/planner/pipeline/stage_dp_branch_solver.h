// SPDX-License-Identifier: Apache-2.0
// Least longest paths for one bound on the stage times. Internal to stage_dp_branch*.cpp.
//
// Let F(k, c, x) be the least longest path of layers k.. on x devices with c stages on the longest path by number
// (F(L, 0, 0) = 0). A stage in front of layers k.. waits for all of them when it holds the layer before k's segment, or
// k lies in a segment of one branch, so that there
//
//   F(i, c+1, x + |s|) = min over k > i, s of  F(k, c, x) + t(i, k-1, s at c).                                      (1)
//
// A segment of several branches, e = its end, is laid out from the end on:
//  * A stage that begins in it at i and ends beyond it waits for all that follows: B(i, ..) is (1) over k > e.
//  * So the rest of the segment, up to e or up to where such a stage begins, has one value X and one class E behind all
//    of its branches: X = F(e, E, x) or B(e', E, x).
//  * Branches are then independent, up to stages that go over a branch's end into the next one: groups of neighbours
//    that such stages join. A group is a line: C_E(p, i, c, x) is the least sum of stages that hold layers i..p-1, none
//    of which begins where a branch begins but at i.
//  * Groups share the devices and wait for the slowest, and for the one with the most stages:
//    R_E(i, e, c, x) = min over group ends p of max(C_E(p, i, c', y), R_E(p, e, c'', x - y)),  c = max(c', c''),
//  * and F(i, c, x) = min over E, e, y of X_e(E, y) + R_E(i, e, c, x - y), or B(i, c, x).
#pragma once

#include <vector>

#include "core/planner/pipeline/stage_dp_branch_space.h"

namespace meshwright::stage_dp {

// Rows of values per state; only those that are open take room.
class StateRows {
 public:
  StateRows(int rows, int states);
  [[nodiscard]] const double* find(int row) const;  // nullptr: no values
  [[nodiscard]] double* open(int row);              // stays where it is until the row is closed
  // Forgets values above the limit.
  void keep(int row, double limit);
  void clear();

 private:
  std::size_t states_;
  std::vector<std::vector<double>> pool_;
  std::vector<int> free_;   // in the pool
  std::vector<int> place_;  // row -> in the pool, -1: closed
};

class BranchSolver {
 public:
  explicit BranchSolver(const BranchSpace& space);

  // With stages of at most `slowest`; longest paths above `limit` may be left out.
  void solve(double slowest, double limit);
  // Least longest path of a whole pipeline of class c; infinite: none.
  [[nodiscard]] double sum(int c) const;
  // The stages of a pipeline that attains sum(c), in the order of the layers.
  [[nodiscard]] std::vector<TableStage> stages(int c);

 private:
  // A segment of several branches, what follows it being of class `behind`.
  struct Segment {
    int first, end;
    std::vector<int> starts;  // of the branches
    bool anywhere;            // layers come before it: F is asked for at every layer
    int behind;
    std::vector<int> ends;  // e for which X is known
    double limit;           // of sums without X
  };
  struct TimedStage {
    int first, last, slice, behind;
    double time;
  };
  [[nodiscard]] int row(int k, int c) const { return k * space_.classes() + c; }
  [[nodiscard]] int local_row(const Segment& segment, int i, int p, int c) const {
    return ((i - segment.first) * (segment.end - segment.first + 1) + p - segment.first) * space_.classes() + c;
  }
  [[nodiscard]] const double* behind(const Segment& segment, int e) const;
  [[nodiscard]] Segment segment_of(std::size_t number) const;
  [[nodiscard]] std::vector<int> asked_before(const Segment& segment, int end) const;
  [[nodiscard]] bool begins_branch(const Segment& segment, int k) const;

  void add_stages(StateRows& to, int to_row, const double* from, const double* times) const;
  void put_in_front(StateRows& to, int i, int least_k) const;
  void solve_segment(Segment segment);
  bool lay_out(Segment& segment);
  void lay_out_chains(const Segment& segment, int p);
  void lay_out_groups(const Segment& segment, int e);
  void join_groups(const Segment& segment, int i, int p, int e);
  void add_up(const Segment& segment, int i);

  // Take a value apart into the stages that attain it.
  void trace(int k, int c, int x);
  void trace_stage(int i, int least_k, int c, int x, double value);
  void trace_segment(std::size_t number, int i, int c, int x);
  void trace_groups(const Segment& segment, int i, int e, int c, int x);
  void trace_chain(const Segment& segment, int i, int p, int c, int x);
  [[nodiscard]] bool take_off(int& x, int state) const;
  struct Remainder {  // layers k.. of class c on x devices
    int k, c, x;
  };
  template <class RestOf>
  Remainder take_stage(int i, int least_k, int end_k, int least_class, const Remainder& whole, double value,
                       const RestOf& rest_of);

  const BranchSpace& space_;
  double slowest_ = 0.0, limit_ = 0.0;
  StateRows from_, beyond_;    // F and B, [layer][class]
  std::vector<int> behind_;    // as from_: the E it is made of, -1: B
  StateRows chains_, groups_;  // C and R of one segment and E, [i][p or e][class]
  std::vector<double> scratch_, up_to_groups_, up_to_chains_;
  std::vector<TimedStage> traced_;
};

}  // namespace meshwright::stage_dp
