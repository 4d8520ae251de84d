// SPDX-License-Identifier: Apache-2.0
#include "core/planner/pipeline/stage_dp_branch_solver.h"

#include <algorithm>
#include <cstring>

#include "core/planner/pipeline/stage_dp_solver.h"

namespace meshwright::stage_dp {

namespace {

// to[n] = min(to[n], combine(from[n], value)).
template <class Combine>
void lower(double* to, const double* from, int length, double value, Combine combine) {
  const Pair both = {value, value};
  int n = 0;
  for (; n + 2 <= length; n += 2) {
    Pair least, other;
    std::memcpy(&least, to + n, sizeof least);
    std::memcpy(&other, from + n, sizeof other);
    other = combine(other, both);
    least = other < least ? other : least;
    std::memcpy(to + n, &least, sizeof least);
  }
  if (n < length) {
    const Pair last = combine(Pair{from[n], from[n]}, both);
    to[n] = std::min(to[n], last[0]);
  }
}
constexpr auto plus = [](Pair a, Pair b) { return a + b; };
constexpr auto larger = [](Pair a, Pair b) { return a > b ? a : b; };

// to[x + y] = min(to[x + y], combine(a[x], b[y])).
template <class Combine>
void lower_all(const BranchSpace& space, double* to, const double* a, const double* b, Combine combine) {
  for (int x = 0; x < space.states(); ++x) {
    if (a[x] == kNever) continue;
    for (const StateRun& run : space.runs_with(x)) lower(to + x + run.begin, b + run.begin, run.length, a[x], combine);
  }
}

int longest_segment(const BranchSpace& space) {
  int longest = 0;
  for (const std::vector<LayerRun>& runs : space.branches().segments)
    if (runs.size() > 1) longest = std::max(longest, runs.back().last + 1 - runs.front().first);
  return longest;
}

int local_rows(const BranchSpace& space) {
  const int longest = longest_segment(space);
  return longest == 0 ? 0 : (longest + 1) * (longest + 1) * space.classes();
}

}  // namespace

StateRows::StateRows(int rows, int states) : states_(states), place_(rows, -1) {}

const double* StateRows::find(int row) const {
  const int place = place_[row];
  return place >= 0 ? pool_[place].data() : nullptr;
}

// Rows come from a pool: a solve opens only the few rows that some stage reaches, of a table that would be huge.
double* StateRows::open(int row) {
  int& place = place_[row];
  if (place < 0) {
    if (free_.empty()) {
      free_.push_back(static_cast<int>(pool_.size()));
      pool_.emplace_back(states_);
    }
    place = free_.back();
    free_.pop_back();
    std::fill(pool_[place].begin(), pool_[place].end(), kNever);
  }
  return pool_[place].data();
}

// A row without a value left is closed: no loop visits it again.
void StateRows::keep(int row, double limit) {
  int& place = place_[row];
  if (place < 0) return;
  bool some = false;
  for (double& value : pool_[place]) {
    if (value > limit) value = kNever;
    some = some || value < kNever;
  }
  if (some) return;
  free_.push_back(place);
  place = -1;
}

void StateRows::clear() {
  std::fill(place_.begin(), place_.end(), -1);
  free_.clear();
  for (std::size_t place = pool_.size(); place-- > 0;) free_.push_back(static_cast<int>(place));
}

BranchSolver::BranchSolver(const BranchSpace& space)
    : space_(space),
      from_((space.layers() + 1) * space.classes(), space.states()),
      beyond_((space.layers() + 1) * space.classes(), space.states()),
      behind_(static_cast<std::size_t>((space.layers() + 1) * space.classes()) * space.states(), -1),
      chains_(local_rows(space), space.states()),
      groups_(local_rows(space), space.states()),
      scratch_(space.states()),
      up_to_groups_(space.states()),
      up_to_chains_(space.states()) {}

BranchSolver::Segment BranchSolver::segment_of(std::size_t number) const {
  const std::vector<LayerRun>& runs = space_.branches().segments[number];
  Segment segment{runs.front().first, runs.back().last + 1, {}, number > 0, 0, {}, 0.0};
  for (const LayerRun& run : runs) segment.starts.push_back(run.first);
  return segment;
}

bool BranchSolver::begins_branch(const Segment& segment, int k) const {
  return std::binary_search(segment.starts.begin(), segment.starts.end(), k);
}

// Layers before `end` from which on groups are asked for, last first.
std::vector<int> BranchSolver::asked_before(const Segment& segment, int end) const {
  std::vector<int> asked;
  for (int i = end - 1; i >= segment.first; --i)
    if (segment.anywhere || begins_branch(segment, i)) asked.push_back(i);
  return asked;
}

const double* BranchSolver::behind(const Segment& segment, int e) const {
  return (e == segment.end ? from_ : beyond_).find(row(e, segment.behind));
}

void BranchSolver::add_stages(StateRows& to, int to_row, const double* from, const double* times) const {
  for (std::size_t s = 0; s < space_.shapes().size(); ++s) {
    if (times[s] > slowest_ || times[s] == kNever) continue;
    const int state = space_.shapes()[s].state;
    double* values = to.open(to_row);
    for (const StateRun& run : space_.runs_with(state))
      lower(values + state + run.begin, from + run.begin, run.length, times[s], plus);
  }
}

// (1) over k >= least_k.
void BranchSolver::put_in_front(StateRows& to, int i, int least_k) const {
  for (int k = least_k; k <= space_.layers(); ++k)
    for (int c = 0; c < space_.classes(); ++c)
      if (const double* rest = from_.find(row(k, c)))
        add_stages(to, row(i, space_.class_before(c)), rest, space_.times(c, i, k));
  for (int c = 0; c < space_.classes(); ++c) to.keep(row(i, c), limit_);
}

// From the last segment to the first, so that F of what follows is known. The limit is widened by the rounding of sums
// in another order.
void BranchSolver::solve(double slowest, double limit) {
  slowest_ = slowest;
  limit_ = limit < kNever ? limit * (1.0 + kRounding) : std::numeric_limits<double>::max();
  from_.clear();
  beyond_.clear();
  // Behind the last layer there is nothing: no devices, no time.
  from_.open(row(space_.layers(), 0))[0] = 0.0;
  for (std::size_t number = space_.branches().segments.size(); number-- > 0;) {
    const Segment segment = segment_of(number);
    if (segment.starts.size() > 1)
      solve_segment(segment);
    else
      for (int i = segment.end - 1; i >= segment.first; --i) put_in_front(from_, i, i + 1);
  }
}

double BranchSolver::sum(int c) const {
  const double* values = from_.find(row(0, c));
  double least = kNever;
  if (values != nullptr)
    for (const int x : space_.whole_states()) least = std::min(least, values[x]);
  return least;
}

// First what begins in the segment and ends beyond it, then groups that end with it or where such a stage begins: these
// are the X of the header, one class behind at a time, as C and R depend on it.
void BranchSolver::solve_segment(Segment segment) {
  const std::vector<int> asked = asked_before(segment, segment.end);
  for (int i = segment.end - 1; i >= segment.first; --i) {
    put_in_front(beyond_, i, segment.end + 1);
    if (!segment.anywhere && i != segment.first) continue;
    for (int c = 0; c < space_.classes(); ++c)
      if (const double* values = beyond_.find(row(i, c))) {
        std::copy_n(values, space_.states(), from_.open(row(i, c)));
        std::fill_n(
            behind_.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row(i, c)) * space_.states()),
            space_.states(), -1);
      }
  }
  for (segment.behind = 0; segment.behind < space_.classes(); ++segment.behind) {
    if (!lay_out(segment)) continue;
    for (const int i : asked)
      if (segment.anywhere || i == segment.first) add_up(segment, i);
  }
  for (const int i : asked)
    for (int c = 0; c < space_.classes(); ++c) from_.keep(row(i, c), limit_);
}

// C and R of the segment for its class behind; false: nothing is behind it.
// segment.limit: no sum of groups above it can be part of a pipeline within the limit, as the least X is added to it.
bool BranchSolver::lay_out(Segment& segment) {
  segment.ends.clear();
  double least = kNever;
  for (int e = segment.first + 1; e <= segment.end; ++e)
    if (const double* values = behind(segment, e)) {
      segment.ends.push_back(e);
      least = std::min(least, *std::min_element(values, values + space_.states()));
    }
  if (segment.ends.empty()) return false;
  segment.limit = limit_ - least;
  chains_.clear();
  groups_.clear();
  for (int p = segment.first + 1; p <= segment.ends.back(); ++p)
    if (begins_branch(segment, p) || std::binary_search(segment.ends.begin(), segment.ends.end(), p))
      lay_out_chains(segment, p);
  for (const int e : segment.ends) lay_out_groups(segment, e);
  return true;
}

// A chain may begin where a branch begins, but pass no other beginning: what crosses one belongs to two branches and is
// one stage.
void BranchSolver::lay_out_chains(const Segment& segment, int p) {
  chains_.open(local_row(segment, p, p, segment.behind))[0] = 0.0;
  for (int i = p - 1; i >= segment.first; --i) {
    for (int k = i + 1; k <= p; ++k) {
      if (k != p && begins_branch(segment, k)) continue;
      for (int c = segment.behind; c < space_.classes(); ++c)
        if (const double* rest = chains_.find(local_row(segment, k, p, c)))
          add_stages(chains_, local_row(segment, i, p, space_.class_before(c)), rest, space_.times(c, i, k));
    }
    for (int c = segment.behind; c < space_.classes(); ++c) chains_.keep(local_row(segment, i, p, c), segment.limit);
  }
}

void BranchSolver::lay_out_groups(const Segment& segment, int e) {
  for (const int i : asked_before(segment, e)) {
    for (int c = segment.behind; c < space_.classes(); ++c)
      if (const double* one = chains_.find(local_row(segment, i, e, c)))
        std::copy_n(one, space_.states(), groups_.open(local_row(segment, i, e, c)));
    for (const int p : segment.starts)
      if (p > i && p < e) join_groups(segment, i, p, e);
    for (int c = segment.behind; c < space_.classes(); ++c) groups_.keep(local_row(segment, i, e, c), segment.limit);
  }
}

// One of the two classes is c, the other at most c. When the group of class c is joined, up_to_chains_ holds the chains
// below c; when the chain is, up_to_groups_ holds the groups up to c: no pair is met twice.
void BranchSolver::join_groups(const Segment& segment, int i, int p, int e) {
  std::fill(up_to_chains_.begin(), up_to_chains_.end(), kNever);
  std::fill(up_to_groups_.begin(), up_to_groups_.end(), kNever);
  const auto include = [&](std::vector<double>& up_to, const double* more) {
    for (int x = 0; x < space_.states(); ++x) up_to[x] = std::min(up_to[x], more[x]);
  };
  for (int c = segment.behind; c < space_.classes(); ++c) {
    const double* chain = chains_.find(local_row(segment, i, p, c));
    const double* group = groups_.find(local_row(segment, p, e, c));
    const int to = local_row(segment, i, e, c);
    if (group != nullptr) {
      lower_all(space_, groups_.open(to), up_to_chains_.data(), group, larger);
      include(up_to_groups_, group);
    }
    if (chain != nullptr) {
      lower_all(space_, groups_.open(to), chain, up_to_groups_.data(), larger);
      include(up_to_chains_, chain);
    }
  }
}

void BranchSolver::add_up(const Segment& segment, int i) {
  for (int c = segment.behind; c < space_.classes(); ++c) {
    std::fill(scratch_.begin(), scratch_.end(), kNever);
    bool some = false;
    for (const int e : segment.ends) {
      const double* groups = e > i ? groups_.find(local_row(segment, i, e, c)) : nullptr;
      if (groups == nullptr) continue;
      lower_all(space_, scratch_.data(), behind(segment, e), groups, plus);
      some = true;
    }
    if (!some) continue;
    double* values = from_.open(row(i, c));
    // The trace starts from the class behind the segment that gave the value.
    int* made_of = behind_.data() + static_cast<std::size_t>(row(i, c)) * space_.states();
    for (int x = 0; x < space_.states(); ++x)
      if (scratch_[x] < values[x]) values[x] = scratch_[x], made_of[x] = segment.behind;
  }
}

}  // namespace meshwright::stage_dp
