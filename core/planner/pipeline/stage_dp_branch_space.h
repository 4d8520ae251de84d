// SPDX-License-Identifier: Apache-2.0
// The table of the stage search with branches, laid out for its inner loops. Internal to stage_dp_branch*.cpp.
//
//  * A state is how many devices of each kind are used: a mixed-radix number x. A request for a number of stages makes
//    one more kind, of which every stage takes one.
//  * What follows some layers is told apart by its class: c stages on its longest path; the last class means "c or
//    more", from where on the fastest times that fit in front are all the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/planner/layers/layer_branches.h"
#include "core/planner/pipeline/stage_dp.h"

namespace meshwright::stage_dp {

// Bound: one class, memory as where the fewest microbatches are kept; every sum is at most the true one.
enum class Classes { All, Bound };

// States x of which x + y is a state too, as runs of x.
struct StateRun {
  int begin, length;
};

class BranchSpace {
 public:
  BranchSpace(const StageTable& table, const StageDpRequest& request, const LayerBranches& branches, Classes classes);

  [[nodiscard]] int layers() const { return table_.layers(); }
  [[nodiscard]] const LayerBranches& branches() const { return branches_; }
  [[nodiscard]] double weight() const { return static_cast<double>(request_.microbatches - 1); }

  [[nodiscard]] int states() const { return static_cast<int>(runs_.size()); }
  [[nodiscard]] std::span<const StateRun> runs_with(int state) const { return runs_[state]; }
  // `state` plus `more` is a state.
  [[nodiscard]] bool add_up(int state, int more) const;
  // The states that a whole pipeline may have, ascending.
  [[nodiscard]] const std::vector<int>& whole_states() const { return whole_states_; }

  struct Shape {
    int slice, state;  // of a stage on it
  };
  [[nodiscard]] const std::vector<Shape>& shapes() const { return shapes_; }

  [[nodiscard]] int classes() const { return static_cast<int>(times_.size()); }
  [[nodiscard]] int class_before(int c) const { return c + 1 < classes() ? c + 1 : c; }
  [[nodiscard]] int class_of(int after) const { return after < classes() ? after : classes() - 1; }
  // Fastest time of layers first..end-1 in front of class c, per shape.
  [[nodiscard]] const double* times(int c, int first, int end) const { return times_[c].data() + cell(first, end); }
  // All of times(), ascending, each once.
  [[nodiscard]] std::vector<double> distinct_times() const;

  // The first configuration that takes `time` with `after` stages after it; -1: none.
  [[nodiscard]] int config_with(double time, int after, int first, int last, int slice) const;

 private:
  void count_states();
  void find_times(Classes classes);
  [[nodiscard]] std::size_t cell(int first, int end) const {
    return (static_cast<std::size_t>(first) * (layers() + 1) + end) * shapes_.size();
  }

  const StageTable& table_;
  const StageDpRequest& request_;
  const LayerBranches& branches_;
  std::vector<int> max_used_, stride_;  // per kind
  std::vector<std::vector<StateRun>> runs_;
  std::vector<int> whole_states_;
  std::vector<Shape> shapes_;
  std::vector<std::vector<double>> times_;  // [class][cell]
};

// t of a configuration that fits where it keeps `kept` microbatches; infinite otherwise.
[[nodiscard]] double time_where_it_fits(const StageTable& table, const StageDpRequest& request, const TableStage& stage,
                                        std::int64_t kept);

}  // namespace meshwright::stage_dp
