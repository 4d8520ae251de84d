// SPDX-License-Identifier: Apache-2.0
#include "core/planner/layers/layer_branches.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/errors.h"
#include "core/base/indexed_vector.h"

namespace meshwright {

namespace {

// The branches of a segment while it grows by one thing after another: there is a border wherever no thing reads
// across.
class GrowingSegment {
 public:
  explicit GrowingSegment(int first) : first_(first), end_(first) {}

  void add(const std::vector<int>& reads) {
    starts_.push_back(end_++);
    const auto earliest = std::lower_bound(reads.begin(), reads.end(), first_);
    // This thing is of one branch with the earliest that it reads, and with all things in between.
    if (earliest != reads.end())
      while (starts_.back() > *earliest) starts_.pop_back();
  }
  // A branch with less than `least` work is one with the next; the last with the one before.
  [[nodiscard]] std::vector<LayerRun> runs(const IndexedVector<int, double>& work_before, double least) const {
    std::vector<LayerRun> runs;
    const auto is_small = [&] { return work_before[runs.back().last + 1] - work_before[runs.back().first] < least; };
    for (std::size_t b = 0; b < starts_.size(); ++b) {
      const int last = (b + 1 < starts_.size() ? starts_[b + 1] : end_) - 1;
      if (runs.empty() || !is_small())
        runs.push_back({starts_[b], last});
      else
        runs.back().last = last;
    }
    if (runs.size() > 1 && is_small()) {
      runs.pop_back();
      runs.back().last = end_ - 1;
    }
    return runs;
  }
  [[nodiscard]] bool is_one() const { return starts_.size() == 1; }
  // For one that is_one(): things up to `end` that stay in its branch.
  void grow_to(int end) { end_ = end; }

 private:
  int first_, end_;
  std::vector<int> starts_;  // of the branches, ascending
};

// The best segments of the things before some number: what they spare of one line of all.
struct Chain {
  double work = 0.0;           // of all but each segment's longest branch
  double pairs = 0.0;          // of things that need not wait for one another; decides between equal work
  int first = 0;               // of the last segment
  std::vector<LayerRun> runs;  // its branches; empty: one

  [[nodiscard]] bool is_better_than(const Chain& other) const {
    return std::tuple(work, pairs) > std::tuple(other.work, other.pairs);
  }
};

// The things that begin a branch wherever a segment begins behind all that they read.
class FreshThings {
 public:
  explicit FreshThings(const IndexedVector<int, std::vector<int>>& reads) : by_last_read_(reads.size() + 1) {
    for (int i = 0; i < reads.count(); ++i) by_last_read_[reads[i].empty() ? 0 : reads[i].back() + 1].push_back(i);
  }
  // To be called with 0, 1, 2 and so on: the segments of `first` are next.
  void advance(int first) { fresh_.insert(by_last_read_[first].begin(), by_last_read_[first].end()); }
  // The first of them at `from` or later; -1: none.
  [[nodiscard]] int next(int from) const {
    const auto found = fresh_.lower_bound(from);
    return found == fresh_.end() ? -1 : *found;
  }

 private:
  IndexedVector<int, std::vector<int>> by_last_read_;
  std::set<int> fresh_;
};

// Every chain that ends with several branches first..end-1, offered to best[end] for every `end`.
void offer_branches(const IndexedVector<int, std::vector<int>>& reads, const IndexedVector<int, double>& before,
                    double least_work, int first, const FreshThings& fresh, IndexedVector<int, Chain>& best) {
  GrowingSegment segment(first);
  for (int end = first + 1; end <= reads.count(); ++end) {
    segment.add(reads[end - 1]);
    if (segment.is_one()) {
      // It stays one up to the next thing that reads nothing of it.
      const int next = fresh.next(end);
      if (next < 0) return;
      segment.grow_to(next);
      end = next;
      continue;
    }
    std::vector<LayerRun> runs = segment.runs(before, least_work);
    if (runs.size() == 1) continue;
    const auto pairs_of = [](double things) { return things * (things - 1.0) / 2.0; };
    double longest = 0.0, ordered = 0.0;
    for (const LayerRun& run : runs) {
      longest = std::max(longest, before[run.last + 1] - before[run.first]);
      ordered += pairs_of(run.last + 1 - run.first);
    }
    Chain chain{best[first].work + (before[end] - before[first] - longest),
                best[first].pairs + (pairs_of(end - first) - ordered), first, std::move(runs)};
    if (best[end].runs.empty() || chain.is_better_than(best[end])) best[end] = std::move(chain);
  }
}

// For the things before each number (its index) the best chain of segments that hold them: a longest path over the
// ends of segments. `reads` are sorted; `before`: work of the first n things. A segment of one branch spares nothing,
// so that the best of these is found without a look at each; those of several are short where things read what is
// just before them.
IndexedVector<int, Chain> best_chains(const IndexedVector<int, std::vector<int>>& reads,
                                      const IndexedVector<int, double>& before, double least_work) {
  const int count = reads.count();
  IndexedVector<int, Chain> best(reads.size() + 1);
  FreshThings fresh(reads);
  Chain one;  // the best that ends with a segment of one branch
  for (int end = 0; end <= count; ++end) {
    // All that end here with several branches have been offered. Of equal chains the longest last segment is taken.
    if (end > 0) {
      const Chain& last = best[end - 1];
      if (last.is_better_than(one)) one = {last.work, last.pairs, end - 1, {}};
      Chain& here = best[end];
      if (here.runs.empty() || one.is_better_than(here) || (!here.is_better_than(one) && one.first <= here.first))
        here = one;
    }
    if (end == count) break;
    fresh.advance(end);
    offer_branches(reads, before, least_work, end, fresh, best);
  }
  return best;
}

}  // namespace

LayerBranches branches_of(const std::vector<std::vector<int>>& reads, const std::vector<double>& work,
                          double least_work) {
  const int count = static_cast<int>(reads.size());
  require(count >= 1, "branches: there are no layers; give at least one.");
  require(work.empty() || work.size() == reads.size(), "branches: {} layers have work, of {}; give all or none.",
          work.size(), count);
  IndexedVector<int, std::vector<int>> sorted(reads);
  IndexedVector<int, double> before = {0.0};
  for (int i = 0; i < count; ++i) {
    std::sort(sorted[i].begin(), sorted[i].end());
    require(sorted[i].empty() || (sorted[i].front() >= 0 && sorted[i].back() < i),
            "branches: {} reads one that does not come before it; number them in topological order.", i);
    before.push_back(before.back() + (work.empty() ? 1.0 : work[i]));
  }

  const IndexedVector<int, Chain> best = best_chains(sorted, before, least_work);
  LayerBranches found;
  for (int end = count; end > 0; end = best[end].first) {
    std::vector<LayerRun> runs = best[end].runs;
    if (runs.empty()) runs = {{best[end].first, end - 1}};
    // Neighbouring segments of one branch each are one segment.
    if (runs.size() == 1 && !found.segments.empty() && found.segments.back().size() == 1)
      found.segments.back().front().first = runs.front().first;
    else
      found.segments.push_back(runs);
  }
  std::reverse(found.segments.begin(), found.segments.end());
  return found;
}

LayerBranches find_branches(const Graph& graph, const Layers& layers) {
  IndexedVector<int, std::set<int>> reads(layers.count);
  for (const OpId id : forward_ops(graph)) {
    const int layer = layers.layer_of_op[id.index()];
    for (const TensorId input : graph.op(id).inputs) {
      const auto producer = graph.tensor(input).producer;
      if (!producer || graph.op(*producer).phase != Phase::Forward) continue;
      const int made_in = layers.layer_of_op[producer->index()];
      if (made_in != layer) reads[layer].insert(made_in);
    }
  }
  std::vector<std::vector<int>> lists;
  for (const std::set<int>& read : reads) lists.emplace_back(read.begin(), read.end());
  return branches_of(lists);
}

void require_branches_of(const LayerBranches& branches, int layers) {
  int next = 0;
  for (const std::vector<LayerRun>& segment : branches.segments) {
    require(!segment.empty(), "branches: a segment has no branch; leave it out.");
    for (const LayerRun& run : segment) {
      require(run.first == next && run.last >= run.first,
              "branches: a branch has layers {}..{} where layer {} comes next; list runs of layers in order.",
              run.first, run.last, next);
      next = run.last + 1;
    }
  }
  require(next == layers, "branches: they have {} layers, but there are {}; give all of them.", next, layers);
}

std::vector<std::vector<int>> following_stages(const LayerBranches& branches, const std::vector<LayerRun>& stages) {
  IndexedVector<int, int> stage_of;  // [layer]
  for (std::size_t s = 0; s < stages.size(); ++s) {
    require(stages[s].first == stage_of.count() && stages[s].last >= stages[s].first,
            "branches: stage {} has layers {}..{} where layer {} comes next; list stages in order.", s, stages[s].first,
            stages[s].last, stage_of.size());
    stage_of.resize(stages[s].last + 1, static_cast<int>(s));
  }
  require_branches_of(branches, stage_of.count());
  IndexedVector<int, std::set<int>> following(stages.size());
  const auto link = [&](int layer, int next) {
    const int from = stage_of[layer], to = stage_of[next];
    if (from != to) following[from].insert(to);
  };
  for (std::size_t g = 0; g < branches.segments.size(); ++g)
    for (const LayerRun& run : branches.segments[g]) {
      for (int layer = run.first; layer < run.last; ++layer) link(layer, layer + 1);
      if (g + 1 == branches.segments.size()) continue;
      // The end of a branch feeds every branch of the next segment.
      for (const LayerRun& next : branches.segments[g + 1]) link(run.last, next.first);
    }
  std::vector<std::vector<int>> lists;
  for (const std::set<int>& next : following) lists.emplace_back(next.begin(), next.end());
  return lists;
}

}  // namespace meshwright
