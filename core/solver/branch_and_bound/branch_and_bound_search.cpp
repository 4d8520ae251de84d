// SPDX-License-Identifier: Apache-2.0
#include "core/solver/branch_and_bound/branch_and_bound_search.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace meshwright::portfolio {

namespace {

constexpr std::size_t kComparisons = 48;   // a state is compared with that many kept ones of its frontier at most
constexpr std::size_t kMaxBrokenRows = 4;  // reported
constexpr std::size_t kMaxEnds = 1000;     // complete choices looked at for one that keeps every row
constexpr double kWorkOfPush = 20.0, kWorkOfState = 200.0;  // in additions
constexpr std::size_t kCrowd = 4;  // states are thinned out when there are that many times the width

constexpr std::size_t kStatesBetweenLooks = 1024;  // at the clock

}  // namespace

TreeSearch::TreeSearch(const Reduced& reduced, const EliminationPlan& plan, const std::vector<Multipliers>& multipliers,
                       const std::vector<int>& watched)
    : reduced_(reduced), plan_(plan), base_(side_by_side(reduced.field)), watched_(watched) {
  for (const Multipliers& m : multipliers) {
    relaxed_.push_back(std::make_unique<Elimination>(plan));
    std::vector<double> cost = charged(reduced, plan, m);
    root_.push_back(relaxed_.back()->run(cost) + given_back(reduced, m));
    if (charged_.empty()) charged_ = std::move(cost);
  }
  stride_ = relaxed_.size() + 1 + watched_.size();
  order_layers();
  measure_rows();
}

// Parents first, the smaller subtrees first so that fewer frontiers are open at once. Subtrees without memory need no
// search: their messages are exact.
// A node of the frontier is carried along until the last layer that looks at it; then states that differ only there are
// alike.
void TreeSearch::order_layers() {
  const auto& buckets = plan_.buckets();
  std::vector<int> order;  // nodes
  if (!plan_.exact()) {
    for (int b = buckets.count() - 1; b >= 0; --b)
      if (plan_.buckets_of(buckets[b].node).front() == b) order.push_back(buckets[b].node);
  } else {
    IndexedVector<int, bool> open(buckets.size(), false);
    IndexedVector<int, int> size(buckets.size(), 1);
    IndexedVector<int, std::vector<int>> below(buckets.size());
    std::vector<int> stack;
    for (const MemoryPiece& piece : reduced_.pieces) open[plan_.buckets_of(piece.node).front()] = true;
    // Children come before their parents, so one pass marks all ancestors of nodes with memory.
    for (int b = 0; b < buckets.count(); ++b) {
      const int parent = buckets[b].parent;
      if (!open[b]) continue;
      if (parent < 0) {
        stack.push_back(b);
        continue;
      }
      open[parent] = true;
      size[parent] += size[b];
      below[parent].push_back(b);
    }
    // The stack is taken from its end, so the smallest subtree goes there.
    const auto larger = [&](int a, int b) { return size[a] > size[b]; };
    std::stable_sort(stack.begin(), stack.end(), larger);
    while (!stack.empty()) {
      const int bucket = stack.back();
      stack.pop_back();
      order.push_back(buckets[bucket].node);
      std::stable_sort(below[bucket].begin(), below[bucket].end(), larger);
      stack.insert(stack.end(), below[bucket].begin(), below[bucket].end());
    }
  }
  // [node]: the last layer that looks at its label.
  std::vector<std::size_t> last_look(plan_.first().size(), 0);
  for (std::size_t l = 0; l < order.size(); ++l)
    for (int b : plan_.buckets_of(order[l]))
      for (int node : buckets[b].scope) last_look[node] = l;
  std::vector<int> frontier;
  for (std::size_t l = 0; l < order.size(); ++l) {
    Layer layer;
    layer.node = order[l];
    const auto place = [&](int node) { return std::find(frontier.begin(), frontier.end(), node) - frontier.begin(); };
    for (int b : plan_.buckets_of(layer.node)) {
      layer.scope.emplace_back();
      for (int node : buckets[b].scope) layer.scope.back().push_back(place(node));
    }
    for (std::size_t f = 0; f < frontier.size(); ++f)
      if (last_look[frontier[f]] > l) {
        layer.frontier.push_back(frontier[f]);
        layer.carried.push_back(f);
      }
    if (last_look[layer.node] > l) {
      layer.frontier.push_back(layer.node);
      layer.carried.push_back(frontier.size());
    }
    frontier = layer.frontier;
    layers_.push_back(std::move(layer));
  }
}

// The memory of each layer's node in the watched rows, and what the layers behind it can take at most.
void TreeSearch::measure_rows() {
  std::vector<std::size_t> layer_of(plan_.first().size(), layers_.size());
  for (std::size_t l = 0; l < layers_.size(); ++l) layer_of[layers_[l].node] = l;
  for (std::size_t w = 0; w < watched_.size(); ++w) {
    limit_.push_back(reduced_.row_limit[watched_[w]]);
    for (const MemoryPiece& piece : reduced_.pieces) {
      if (watched_[w] < piece.begin || watched_[w] >= piece.end) continue;
      auto& memory = layers_[layer_of[piece.node]].memory;
      if (memory.empty() || memory.back().first != w) {
        // Pieces of one node may share a row: their memory adds up.
        memory.emplace_back(w, piece.memory);
        continue;
      }
      for (std::size_t x = 0; x < piece.memory.size(); ++x) memory.back().second[x] += piece.memory[x];
    }
  }
  std::vector<double> room = limit_;
  // Backwards, so that `room` is the limit less the maximum memory of all later layers.
  for (std::size_t l = layers_.size(); l-- > 0;) {
    layers_[l].room = room;
    for (const auto& [w, memory] : layers_[l].memory) room[w] -= *std::max_element(memory.begin(), memory.end());
  }
}

double TreeSearch::bound(const double* numbers) const { return *std::max_element(numbers, numbers + relaxed_.size()); }

// What each label of the layer's node adds to the bounds beside this frontier, per multipliers.
void TreeSearch::excesses(const Layer& layer, const std::uint16_t* frontier) {
  const std::size_t labels = plan_.labels(layer.node);
  excess_.assign(relaxed_.size() * labels, 0.0);
  const std::vector<int>& buckets = plan_.buckets_of(layer.node);
  for (std::size_t k = 0; k < relaxed_.size(); ++k)
    for (std::size_t b = 0; b < buckets.size(); ++b)
      relaxed_[k]->add_excess(
          buckets[b], [&](std::size_t d) { return static_cast<int>(frontier[layer.scope[b][d]]); },
          excess_.data() + k * labels);
}

// Extends a state by one label, unless a watched row or the cut forbids it.
// Numbers are lower bounds per multipliers, so exceeding the cut in one of them is enough. Memory is raised to `room`:
// what is below it cannot break a limit any more, and states that differ only there become comparable.
void TreeSearch::push(const Layer& layer, const States& from, std::size_t state, std::size_t from_frontier,
                      std::uint16_t label, States& to) {
  const std::size_t relaxed = relaxed_.size(), labels = plan_.labels(layer.node);
  const double* old = from.numbers.data() + state * stride_;
  for (const auto& [w, memory] : layer.memory)
    if (old[relaxed + 1 + w] + memory[label] > limit_[w]) return;
  for (std::size_t k = 0; k < relaxed; ++k)
    if (!(old[k] + excess_[k * labels + label] < cut_)) return;
  to.numbers.insert(to.numbers.end(), old, old + stride_);
  double* own = to.numbers.data() + to.numbers.size() - stride_;
  for (std::size_t k = 0; k < relaxed; ++k) own[k] += excess_[k * labels + label];
  // The true cost: the excess at the first multipliers, less what the label's memory is charged there.
  const std::size_t place = plan_.first()[layer.node] + label;
  own[relaxed] += excess_[label] - (charged_[place] - base_[place]);
  for (const auto& [w, memory] : layer.memory) own[relaxed + 1 + w] += memory[label];
  for (std::size_t w = 0; w < limit_.size(); ++w) own[relaxed + 1 + w] = std::max(own[relaxed + 1 + w], layer.room[w]);
  const std::uint16_t* seen = from.frontier.data() + state * from_frontier;
  for (std::size_t place_before : layer.carried)
    to.frontier.push_back(place_before == from_frontier ? label : seen[place_before]);
  to.step.push_back({static_cast<std::uint32_t>(state), label});
}

// false: out of time.
bool TreeSearch::expand(const Layer& layer, const States& from, std::size_t from_frontier, States& to,
                        const Budget& budget) {
  to.numbers.clear();
  to.frontier.clear();
  to.step.clear();
  const auto labels = static_cast<std::uint16_t>(plan_.labels(layer.node));
  for (std::size_t state = 0; state < from.count(); ++state) {
    // Neighbouring states mostly have the same frontier: they were sorted by it.
    const std::uint16_t* frontier = from.frontier.data() + state * from_frontier;
    if (state == 0 || !std::equal(frontier, frontier + from_frontier, frontier - from_frontier))
      excesses(layer, frontier);
    for (std::uint16_t label = 0; label < labels; ++label) push(layer, from, state, from_frontier, label, to);
    work_ += kWorkOfPush * labels;
    if (to.count() > kCrowd * width_ + 4096) thin(layer, to);
    if (state % kStatesBetweenLooks == 0 && budget.over()) return false;
  }
  thin(layer, to);
  return true;
}

// States come by rising cost, so any kept one costs no more: it dominates where it leaves as much room in every row.
bool TreeSearch::dominated(const States& states, std::size_t state, const std::vector<std::size_t>& kept) const {
  const double* own = states.numbers.data() + state * stride_ + relaxed_.size() + 1;
  for (std::size_t k = 0; k < std::min(kept.size(), kComparisons); ++k) {
    // The latest kept ones are closest in cost, the first ones are cheapest: look at both ends.
    const std::size_t other = k % 2 == 0 ? kept[k / 2] : kept[kept.size() - 1 - k / 2];
    const double* theirs = states.numbers.data() + other * stride_ + relaxed_.size() + 1;
    bool no_more = true;
    for (std::size_t w = 0; w < limit_.size() && no_more; ++w) no_more = theirs[w] <= own[w];
    if (no_more) return true;
  }
  return false;
}

// The least bound among those left out is all that has to be remembered of them.
void TreeSearch::keep_cheapest(const States& states, std::vector<std::size_t>& kept, std::size_t width) {
  if (kept.size() <= width) return;
  std::vector<std::pair<double, std::size_t>> by_bound;
  for (std::size_t k = 0; k < kept.size(); ++k)
    by_bound.emplace_back(bound(states.numbers.data() + kept[k] * stride_), k);
  std::nth_element(by_bound.begin(), by_bound.begin() + static_cast<std::ptrdiff_t>(width), by_bound.end());
  for (std::size_t k = width; k < by_bound.size(); ++k) left_out_ = std::min(left_out_, by_bound[k].first);
  by_bound.resize(width);
  std::vector<std::size_t> places;
  for (const auto& [unused, place] : by_bound) places.push_back(place);
  // Back in the old order states of one frontier stand together.
  std::sort(places.begin(), places.end());
  for (std::size_t& place : places) place = kept[place];
  kept = std::move(places);
}

void TreeSearch::select(const std::vector<std::size_t>& kept, std::size_t frontier, States& states) const {
  States chosen;
  for (std::size_t state : kept) {
    const auto number = states.numbers.begin() + static_cast<std::ptrdiff_t>(state * stride_);
    chosen.numbers.insert(chosen.numbers.end(), number, number + static_cast<std::ptrdiff_t>(stride_));
    const auto label = states.frontier.begin() + static_cast<std::ptrdiff_t>(state * frontier);
    chosen.frontier.insert(chosen.frontier.end(), label, label + static_cast<std::ptrdiff_t>(frontier));
    chosen.step.push_back(states.step[state]);
  }
  states = std::move(chosen);
}

// States are compared only within a frontier, and sorted by its hash to bring those of one together. Frontiers whose
// hashes collide break each other's groups up, which costs comparisons but no correctness.
void TreeSearch::thin(const Layer& layer, States& states) {
  const std::size_t frontier = layer.frontier.size(), relaxed = relaxed_.size();
  work_ += (kWorkOfState + 4.0 * static_cast<double>(stride_)) * static_cast<double>(states.count());
  std::vector<std::uint64_t> hash(states.count(), 0);
  for (std::size_t s = 0; s < states.count(); ++s)
    for (std::size_t f = 0; f < frontier; ++f)
      hash[s] = (hash[s] ^ (states.frontier[s * frontier + f] + 1U)) * 0x9E3779B97F4A7C15U, hash[s] ^= hash[s] >> 29;
  const auto cost = [&](std::size_t s) { return states.numbers[s * stride_ + relaxed]; };
  std::vector<std::size_t> order(states.count()), kept, group;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (hash[a] != hash[b]) return hash[a] < hash[b];
    return cost(a) != cost(b) ? cost(a) < cost(b) : a < b;
  });
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto* own = states.frontier.data() + order[i] * frontier;
    if (i > 0 && !std::equal(own, own + frontier, states.frontier.data() + order[i - 1] * frontier)) group.clear();
    if (dominated(states, order[i], group)) continue;
    group.push_back(order[i]);
    kept.push_back(order[i]);
  }
  keep_cheapest(states, kept, width_);
  select(kept, frontier, states);
}

SearchResult TreeSearch::run(double cut, std::size_t width, const Budget& budget) {
  SearchResult result;
  cut_ = cut;
  width_ = width;
  left_out_ = kForbidden;
  work_ = 0.0;
  steps_.clear();
  States states, next;
  states.numbers = root_;
  states.numbers.push_back(root_[0]);  // only differences of costs matter
  states.numbers.resize(stride_, 0.0);
  states.step.push_back({0, 0});
  const double before = bound(states.numbers.data());
  if (!(before < cut)) return result;
  std::size_t frontier = 0;
  for (const Layer& layer : layers_) {
    if (!expand(layer, states, frontier, next, budget)) {
      // This bound holds for all that was not searched.
      result.left_out = before;
      result.work = work_;
      return result;
    }
    frontier = layer.frontier.size();
    std::swap(states, next);
    steps_.push_back(states.step);
  }
  result.left_out = left_out_;
  result.work = work_;
  finish(states, result);
  return result;
}

Labels TreeSearch::trace(Step last) const {
  Labels labels(plan_.first().size() - 1, -1);
  for (std::size_t l = layers_.size(); l-- > 0;) {
    labels[layers_[l].node] = last.label;
    if (l > 0) last = steps_[l - 1][last.parent];
  }
  // The nodes outside of the layers have no memory below them: each takes its cheapest label beside its scope.
  std::vector<double> excess;
  for (int b = plan_.buckets().count() - 1; b >= 0; --b) {
    const EliminationPlan::Bucket& bucket = plan_.buckets()[b];
    if (labels[bucket.node] >= 0) continue;
    excess.assign(plan_.labels(bucket.node), 0.0);
    relaxed_[0]->add_excess(
        b, [&](std::size_t d) { return labels[bucket.scope[d]]; }, excess.data());
    labels[bucket.node] = static_cast<int>(std::min_element(excess.begin(), excess.end()) - excess.begin());
  }
  return labels;
}

// The worst row that `labels` break.
void TreeSearch::note_broken(const Labels& labels, SearchResult& result) const {
  const std::vector<double> beyond = row_excesses(reduced_, labels);
  const auto row = static_cast<int>(std::max_element(beyond.begin(), beyond.end()) - beyond.begin());
  const bool known = std::find(result.broken_rows.begin(), result.broken_rows.end(), row) != result.broken_rows.end();
  if (!known && result.broken_rows.size() < kMaxBrokenRows) result.broken_rows.push_back(row);
}

// The cheapest complete choice that keeps all rows, and what is known of cheaper ones that do not.
void TreeSearch::finish(const States& last, SearchResult& result) const {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t s = 0; s < last.count(); ++s) order.emplace_back(last.numbers[s * stride_ + relaxed_.size()], s);
  std::sort(order.begin(), order.end());
  if (order.size() > kMaxEnds) order.resize(kMaxEnds);  // those behind cost no less than a broken one
  for (const auto& [cost, state] : order) {
    Labels labels = trace(last.step[state]);
    if (excess(reduced_, labels) <= 0.0) {
      result.cost = evaluate(reduced_.field, labels).cost;
      result.labels = std::move(labels);
      return;
    }
    result.broken = std::min(result.broken, bound(last.numbers.data() + state * stride_));
    note_broken(labels, result);
  }
}

}  // namespace meshwright::portfolio
