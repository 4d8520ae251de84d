// SPDX-License-Identifier: Apache-2.0
// From the values of BranchSolver back to the stages that attain them: the sums are computed a second time, and the
// ones that are equal to the value are its way.
#include <algorithm>

#include "core/base/errors.h"
#include "core/plan/stage_graph.h"
#include "core/planner/pipeline/stage_dp_branch_solver.h"
#include "core/planner/pipeline/stage_dp_space.h"

namespace meshwright::stage_dp {

std::vector<TableStage> BranchSolver::stages(int c) {
  traced_.clear();
  const double* values = from_.find(row(0, c));
  MW_CHECK(values != nullptr, "no pipeline of class {}", c);
  int best = space_.whole_states().front();
  for (const int x : space_.whole_states())
    if (values[x] < values[best]) best = x;
  trace(0, c, best);
  std::sort(traced_.begin(), traced_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });

  std::vector<LayerRun> runs;
  for (const TimedStage& stage : traced_) runs.push_back({stage.first, stage.last});
  // Counted again from the stages themselves: each has to be of the class that the values assumed.
  const std::vector<int> after = stages_after(following_stages(space_.branches(), runs));
  std::vector<TableStage> stages;
  for (std::size_t s = 0; s < traced_.size(); ++s) {
    const auto& [first, last, slice, behind, time] = traced_[s];
    MW_CHECK(behind == space_.class_of(after[s]), "layers {}..{} have {} stages after them, of class {}", first, last,
             after[s], behind);
    stages.push_back({first, last, slice, space_.config_with(time, after[s], first, last, slice)});
    MW_CHECK(stages.back().config >= 0, "layers {}..{} take {} in no configuration", first, last, time);
  }
  return stages;
}

bool BranchSolver::take_off(int& x, int state) const {
  // A difference that borrows between kinds of devices is no state.
  if (x < state || !space_.add_up(x - state, state)) return false;
  x -= state;
  return true;
}

void BranchSolver::trace(int k, int c, int x) {
  if (k == space_.layers()) return;
  const auto& segments = space_.branches().segments;
  std::size_t number = 0;
  while (segments[number].back().last < k) ++number;
  const double value = from_.find(row(k, c))[x];
  // Where behind_ is below 0, the first stage begins in the segment and ends beyond it.
  if (segments[number].size() == 1)
    trace_stage(k, k + 1, c, x, value);
  else if (behind_[static_cast<std::size_t>(row(k, c)) * space_.states() + x] < 0)
    trace_stage(k, segments[number].back().last + 2, c, x, value);
  else
    trace_segment(number, k, c, x);
}

// The first stage in front of layers k.. (least_k <= k <= end_k), which are of class `rest` at least, that takes
// `value` together with what follows it. `rest_of(k, class)`: the values of what may follow, or nullptr.
template <class RestOf>
BranchSolver::Remainder BranchSolver::take_stage(int i, int least_k, int end_k, int least_class, const Remainder& whole,
                                                 double value, const RestOf& rest_of) {
  for (int k = least_k; k <= end_k; ++k)
    for (int rest = std::max(least_class, whole.c - 1); rest <= whole.c; ++rest) {
      const double* after = space_.class_before(rest) == whole.c ? rest_of(k, rest) : nullptr;
      if (after == nullptr) continue;
      for (std::size_t s = 0; s < space_.shapes().size(); ++s) {
        const double time = space_.times(rest, i, k)[s];
        int left = whole.x;
        if (time > slowest_ || !take_off(left, space_.shapes()[s].state) || after[left] + time != value) continue;
        traced_.push_back({i, k - 1, space_.shapes()[s].slice, rest, time});
        return {k, rest, left};
      }
    }
  MW_CHECK(false, "{} for layers {}..{} is attained by no stage", value, i, end_k - 1);
}

void BranchSolver::trace_stage(int i, int least_k, int c, int x, double value) {
  const Remainder rest = take_stage(i, least_k, space_.layers(), 0, {i, c, x}, value,
                                    [&](int k, int of_class) { return from_.find(row(k, of_class)); });
  trace(rest.k, rest.c, rest.x);
}

void BranchSolver::trace_segment(std::size_t number, int i, int c, int x) {
  const double value = from_.find(row(i, c))[x];
  Segment segment = segment_of(number);
  segment.behind = behind_[static_cast<std::size_t>(row(i, c)) * space_.states() + x];
  lay_out(segment);
  for (const int e : segment.ends) {
    const double* groups = e > i ? groups_.find(local_row(segment, i, e, c)) : nullptr;
    const double* rest = behind(segment, e);
    for (int y = 0; groups != nullptr && y <= x; ++y) {
      int left = x;
      if (!take_off(left, y) || rest[y] + groups[left] != value) continue;
      trace_groups(segment, i, e, c, left);
      if (e == segment.end) return trace(e, segment.behind, y);
      return trace_stage(e, segment.end + 1, segment.behind, y, rest[y]);
    }
  }
  MW_CHECK(false, "{} for layers {}.. is attained by no groups", value, i);
}

void BranchSolver::trace_groups(const Segment& segment, int i, int e, int c, int x) {
  const double value = groups_.find(local_row(segment, i, e, c))[x];
  const double* one = chains_.find(local_row(segment, i, e, c));
  if (one != nullptr && one[x] == value) return trace_chain(segment, i, e, c, x);
  for (const int p : segment.starts) {
    if (p <= i || p >= e) continue;
    // One of the two classes is c, as in join_groups.
    for (int of_chain = segment.behind; of_chain <= c; ++of_chain)
      for (int of_group = of_chain == c ? segment.behind : c; of_group <= c; ++of_group) {
        const double* chain = chains_.find(local_row(segment, i, p, of_chain));
        const double* group = groups_.find(local_row(segment, p, e, of_group));
        for (int y = 0; chain != nullptr && group != nullptr && y <= x; ++y) {
          int left = x;
          if (!take_off(left, y) || std::max(chain[y], group[left]) != value) continue;
          trace_chain(segment, i, p, of_chain, y);
          return trace_groups(segment, p, e, of_group, left);
        }
      }
  }
  MW_CHECK(false, "{} for layers {}..{} is attained by no groups", value, i, e - 1);
}

void BranchSolver::trace_chain(const Segment& segment, int i, int p, int c, int x) {
  for (Remainder rest{i, c, x}; rest.k != p;) {
    const double value = chains_.find(local_row(segment, rest.k, p, rest.c))[rest.x];
    rest = take_stage(rest.k, rest.k + 1, p, segment.behind, rest, value, [&](int k, int of_class) {
      return k != p && begins_branch(segment, k) ? nullptr : chains_.find(local_row(segment, k, p, of_class));
    });
  }
}

}  // namespace meshwright::stage_dp
