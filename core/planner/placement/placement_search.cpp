// SPDX-License-Identifier: Apache-2.0
#include "core/planner/placement/placement_search.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/base/indexed_vector.h"

namespace meshwright {

namespace {

using Mask = std::uint64_t;
constexpr int kSlots = 64;               // items with attractions ahead that are told apart at once
constexpr std::size_t kMaxOptions = 64;  // ways to spread one item over several hosts that are tried

// By item, or by another number counted as int.
template <class T>
using Items = IndexedVector<int, T>;

// A host in use. Hosts that differ only in `id` are interchangeable.
struct Host {
  int free;
  Mask live;  // slots of the items on it that attract items yet to come
  int id;
  [[nodiscard]] auto role() const { return std::tuple(free, live); }
};

// The hosts of the items so far, as far as they matter for the rest.
struct State {
  Items<Host> open;        // in use and with room for some item to come; by role
  int fresh = 0;           // unused hosts
  std::vector<int> slack;  // see Packer::slack_
  double cost = 0.0, bound = 0.0;
  int used = 0;  // ids given out
  std::size_t hash = 0;
  int parent = -1;
  std::vector<int> taken;  // by the last item
};

bool same(const State& a, const State& b) {
  return a.fresh == b.fresh && std::equal(a.open.begin(), a.open.end(), b.open.begin(), b.open.end(),
                                          [](const Host& x, const Host& y) { return x.role() == y.role(); });
}

std::size_t hash_of(const State& state) {
  std::uint64_t hash = 0x9E3779B97F4A7C15u;
  const auto mix = [&](std::uint64_t value) {
    hash = (hash ^ value) * 0xBF58476D1CE4E5B9u;
    hash ^= hash >> 29;
  };
  for (const Host& host : state.open) {
    mix(static_cast<std::uint64_t>(host.free));
    mix(host.live);
  }
  mix(static_cast<std::uint64_t>(state.fresh));
  return static_cast<std::size_t>(hash);
}

// `count` hosts that are interchangeable for the next item: open[first] and following, or fresh ones (first = -1).
struct Group {
  int first, count, free;
  Mask live;
};
struct Choice {
  Group group;
  int hosts;
};

class Packer {
 public:
  explicit Packer(const PackingProblem& problem)
      : problem_(problem), items_(static_cast<int>(problem.items.size())), incoming_(problem.items.size()) {
    give_slots();
    bound_the_rest();
    smallest_from_.assign(items_ + 1, std::numeric_limits<int>::max());
    for (int k = items_ - 1; k >= 0; --k) smallest_from_[k] = std::min(smallest_from_[k + 1], item(k).devices);
    // Room is counted in pieces of one device and of the size of each item.
    thresholds_ = {1};
    for (const PackingProblem::Item& each : problem.items) thresholds_.push_back(each.devices);
    std::sort(thresholds_.begin(), thresholds_.end());
    thresholds_.erase(std::unique(thresholds_.begin(), thresholds_.end()), thresholds_.end());
  }

  [[nodiscard]] double bound() const {
    return left_out_ ? -std::numeric_limits<double>::infinity() : path_bound_[0][0] + others_bound_[0];
  }

  // Beam search, item by item: states with equal roles of hosts are one (same()), and while none is cut off by the
  // width or by kMaxOptions the result is exact.
  PackingResult search(double limit, std::size_t width) const {
    PackingResult result;
    result.exhaustive = !left_out_;
    Items<Items<State>> layers(1);
    if (State root = start(); enough(root.slack)) layers[0].push_back(std::move(root));
    for (int k = 0; k < items_; ++k) {
      layers.push_back(next_layer(layers.back(), k, limit, result.exhaustive));
      for (State& state : layers[k]) state.open = {};  // only the way back is needed from here on
      if (layers.back().size() <= width) continue;
      std::stable_sort(layers.back().begin(), layers.back().end(),
                       [](const State& a, const State& b) { return a.bound < b.bound; });
      layers.back().resize(width);
      result.exhaustive = false;
    }
    const auto best = std::min_element(layers.back().begin(), layers.back().end(),
                                       [](const State& a, const State& b) { return a.cost < b.cost; });
    if (best == layers.back().end()) return result;
    result.cost = best->cost;
    Items<std::vector<int>> packing(items_);
    const State* state = &*best;
    for (int k = items_; k > 0; --k) {
      packing[k - 1] = state->taken;
      state = &layers[k - 1][state->parent];
    }
    result.packing = std::move(packing).values();
    return result;
  }

  // Remembers states that led to nothing, by hash and then by comparison: equal rests are searched once.
  std::optional<Packing> search_depth_first() const {
    Items<std::vector<int>> packing(items_);
    Items<std::vector<State>> failed(items_);
    Items<std::unordered_multimap<std::size_t, std::size_t>> known(failed.size());
    const std::function<bool(const State&, int)> place_rest = [&](const State& state, int k) {
      if (k == items_) return true;
      const auto [first, last] = known[k].equal_range(state.hash);
      if (std::any_of(first, last, [&](const auto& entry) { return same(failed[k][entry.second], state); }))
        return false;
      bool done = false;
      for_each_option(state, k, [&](const std::vector<Choice>& choices) {
        auto child = place(state, k, choices, std::numeric_limits<double>::infinity());
        done = child && place_rest(*child, k + 1);
        if (done) packing[k] = child->taken;
        return !done;
      });
      if (done) return true;
      known[k].emplace(state.hash, failed[k].size());
      failed[k].push_back(state);
      return false;
    };
    const State root = start();
    if (!enough(root.slack) || !place_rest(root, 0)) return std::nullopt;
    return std::move(packing).values();
  }

 private:
  struct Incoming {
    int from;  // an earlier item
    double weight;
  };

  [[nodiscard]] const PackingProblem::Item& item(int k) const { return problem_.items[k]; }
  [[nodiscard]] double shared_at_most(int a, int b) const {
    // Counted against the larger item's hosts, as in place().
    const auto [few, many] = std::minmax(item(a).hosts, item(b).hosts);
    return static_cast<double>(few) / many;
  }
  [[nodiscard]] double least_cost(const Incoming& in, int k) const {
    // With a negative weight the cost is minimal when the items share no host.
    return std::min(in.weight, in.weight * (1 - shared_at_most(in.from, k)));
  }

  // An item holds a slot from its place in the order to its last partner's.
  void give_slots() {
    Items<int> last(items_, -1);
    for (const auto& a : problem_.attractions) last[a.first] = std::max(last[a.first], a.second);
    slot_.assign(items_, -1);
    still_live_.assign(items_, 0);
    Items<int> holder(kSlots, -1);
    for (int k = 0; k < items_; ++k) {
      for (int& item_there : holder)
        if (item_there >= 0 && last[item_there] <= k) item_there = -1;
      for (int s = 0; s < holder.count(); ++s)
        if (holder[s] >= 0) still_live_[k] |= Mask{1} << s;
      const auto unused = std::find(holder.begin(), holder.end(), -1);
      if (last[k] > k && unused != holder.end()) {
        slot_[k] = static_cast<int>(unused - holder.begin());
        *unused = k;
      }
    }
    // Without a free slot an attraction is left out, and the search proves nothing.
    for (const auto& a : problem_.attractions) {
      if (slot_[a.first] >= 0)
        incoming_[a.second].push_back({a.first, a.weight});
      else
        left_out_ = true;
    }
  }

  // path_bound_[k][r]: what the attractions between items j - 1 and j, j >= k, cost at least, when the hosts of item
  // k - 1 have room r at most and fresh hosts do not run out. others_bound_[k]: the same of other attractions to j >=
  // k.
  void bound_the_rest() {
    const int room = problem_.devices_per_host;
    path_bound_.assign(items_ + 1, Items<double>(room + 1, 0.0));
    others_bound_.assign(items_ + 1, 0.0);
    for (int k = items_ - 1; k >= 0; --k) {
      const int own = item(k).devices;
      double apart = 0.0, together = 0.0;
      others_bound_[k] = others_bound_[k + 1];
      for (const Incoming& in : incoming_[k]) {
        if (in.from != k - 1) {
          others_bound_[k] += least_cost(in, k);
          continue;
        }
        apart = in.weight;
        together = least_cost(in, k);
      }
      for (int r = 0; r <= room; ++r) {
        double& least = path_bound_[k][r];
        // Apart from item k - 1: the hosts of item k have at most the room that a fresh host has left.
        least = apart + path_bound_[k + 1][room - own];
        if (own > r) continue;
        // An item on several hosts may have a fresh host among them.
        const int left = item(k).hosts == 1 ? r - own : room - own;
        least = std::min(least, together + path_bound_[k + 1][left]);
      }
    }
  }

  // Adds to the slack what `count` pieces of `devices` devices are worth.
  // floor(x / t) pieces of t devices fit into x.
  void count_in(std::vector<int>& slack, int devices, int count) const {
    for (std::size_t t = 0; t < thresholds_.size(); ++t) slack[t] += devices / thresholds_[t] * count;
  }
  // For every threshold t, pieces of t devices that fit in the free room less those that are needed: floor(x / t) is
  // superadditive, so a negative number means that the rest does not fit. For sizes that divide each other (items on
  // one host) the converse holds too: room lost to one size is lost to all smaller ones in proportion.
  [[nodiscard]] static bool enough(const std::vector<int>& slack) {
    return std::all_of(slack.begin(), slack.end(), [](int pieces) { return pieces >= 0; });
  }

  [[nodiscard]] State start() const {
    State root;
    root.fresh = problem_.hosts;
    root.slack.assign(thresholds_.size(), 0);
    count_in(root.slack, problem_.devices_per_host, root.fresh);
    for (const auto& each : problem_.items) count_in(root.slack, each.devices, -each.hosts);
    root.hash = hash_of(root);
    return root;
  }

  // The state with item k on the chosen hosts, unless the rest does not fit or it costs `limit` or more.
  std::optional<State> place(const State& from, int k, const std::vector<Choice>& choices, double limit) const {
    const auto& own = item(k);
    double cost = from.cost;
    for (const Incoming& in : incoming_[k]) {
      int common = 0;
      for (const Choice& c : choices)
        if (c.group.live >> slot_[in.from] & 1) common += c.hosts;
      cost += in.weight * (1 - static_cast<double>(common) / std::max(own.hosts, item(in.from).hosts));
    }
    int room = 0;
    for (const Choice& c : choices) room = std::max(room, c.group.free - own.devices);
    const double bound = cost + path_bound_[k + 1][room] + others_bound_[k + 1];
    if (bound >= limit) return std::nullopt;

    std::vector<int> slack = from.slack;
    count_in(slack, own.devices, own.hosts);
    for (const Choice& c : choices) {
      count_in(slack, c.group.free, -c.hosts);
      count_in(slack, c.group.free - own.devices, c.hosts);
    }
    if (!enough(slack)) return std::nullopt;

    State state{from.open, from.fresh, std::move(slack), cost, bound, from.used, 0, -1, {}};
    for (Host& host : state.open) host.live &= still_live_[k];  // its slot may be an earlier item's, now released
    const Mask own_bit = slot_[k] >= 0 ? Mask{1} << slot_[k] : 0;
    for (const Choice& c : choices)
      for (int h = 0; h < c.hosts; ++h) {
        if (c.group.first < 0) {
          --state.fresh;
          state.open.push_back({c.group.free, 0, state.used++});
        }
        Host& host = c.group.first < 0 ? state.open.back() : state.open[c.group.first + h];
        host.free -= own.devices;
        host.live |= own_bit;
        state.taken.push_back(host.id);
      }
    close(state, k);
    if (!enough(state.slack)) return std::nullopt;
    return state;
  }

  // Forgets what no longer matters once item k is placed.
  void close(State& state, int k) const {
    // A host that no later item fits on is closed, and its free devices are lost to all sizes.
    const int smallest = smallest_from_[k + 1];
    const auto is_closed = [&](const Host& host) {
      if (host.free >= smallest) return false;
      count_in(state.slack, host.free, -1);
      return true;
    };
    state.open.erase(std::remove_if(state.open.begin(), state.open.end(), is_closed), state.open.end());
    std::sort(state.open.begin(), state.open.end(),
              [](const Host& a, const Host& b) { return std::tuple(a.role(), a.id) < std::tuple(b.role(), b.id); });
    state.hash = hash_of(state);
  }

  // Calls visit(choices) for every essentially different set of hosts for item k, fullest hosts first, while it says
  // so.
  template <class Visit>
  void for_each_option(const State& state, int k, const Visit& visit) const {
    const auto& own = item(k);
    std::vector<Group> groups;
    for (int h = 0; h < state.open.count(); ++h) {
      const Host& host = state.open[h];
      if (host.free < own.devices) continue;
      if (h > 0 && host.role() == state.open[h - 1].role())
        ++groups.back().count;
      else
        groups.push_back({h, 1, host.free, host.live});
    }
    if (state.fresh > 0) groups.push_back({-1, state.fresh, problem_.devices_per_host, 0});
    std::vector<int> available(groups.size() + 1, 0);  // hosts in this group and those after it
    for (std::size_t g = groups.size(); g-- > 0;) available[g] = available[g + 1] + groups[g].count;
    std::vector<Choice> choices;
    const auto choose = [&](const auto& self, std::size_t g, int wanted) -> bool {
      if (wanted == 0) return visit(choices);
      if (available[g] < wanted) return true;
      for (int count = std::min(wanted, groups[g].count); count > 0; --count) {
        choices.push_back({groups[g], count});
        const bool more = self(self, g + 1, wanted - count);
        choices.pop_back();
        if (!more) return false;
      }
      return self(self, g + 1, wanted);
    };
    choose(choose, 0, own.hosts);
  }

  Items<State> next_layer(const Items<State>& layer, int k, double limit, bool& exhaustive) const {
    Items<State> next;
    const auto hash = [&](int i) { return next[i].hash; };
    const auto equal = [&](int i, int j) { return same(next[i], next[j]); };
    std::unordered_set<int, decltype(hash), decltype(equal)> known(layer.size() * 2, hash, equal);
    for (int i = 0; i < layer.count(); ++i) {
      std::size_t options = 0;
      for_each_option(layer[i], k, [&](const std::vector<Choice>& choices) {
        if (++options > kMaxOptions) {
          exhaustive = false;
          return false;
        }
        auto child = place(layer[i], k, choices, limit);
        if (!child) return true;
        child->parent = i;
        next.push_back(std::move(*child));
        const auto [twin, is_new] = known.insert(next.count() - 1);
        if (is_new) return true;
        if (next.back().cost < next[*twin].cost) std::swap(next[*twin], next.back());
        next.pop_back();
        return true;
      });
    }
    return next;
  }

  const PackingProblem& problem_;
  int items_;
  Items<std::vector<Incoming>> incoming_;
  Items<int> slot_;         // of each item, or -1
  Items<Mask> still_live_;  // slots of earlier items that are held beyond each item
  bool left_out_ = false;   // an attraction without a slot: the search ignores it and proves nothing
  Items<Items<double>> path_bound_;
  Items<double> others_bound_;
  Items<int> smallest_from_;  // fewest devices per host of items k, k + 1, ...
  std::vector<int> thresholds_;
};

}  // namespace

PackingResult find_packing(const PackingProblem& problem, double limit, std::size_t width) {
  return Packer(problem).search(limit, width);
}

double packing_bound(const PackingProblem& problem) { return Packer(problem).bound(); }

std::optional<Packing> find_any_packing(const PackingProblem& problem) {
  // The largest first: the hard ones while there is room.
  std::vector<std::size_t> order(problem.items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const auto& x = problem.items[a];
    const auto& y = problem.items[b];
    return std::tuple(x.devices, x.hosts) > std::tuple(y.devices, y.hosts);
  });
  PackingProblem sorted{problem.devices_per_host, problem.hosts, {}, {}};
  for (const std::size_t k : order) sorted.items.push_back(problem.items[k]);
  const auto found = Packer(sorted).search_depth_first();
  if (!found) return std::nullopt;
  Packing packing(problem.items.size());
  for (std::size_t k = 0; k < order.size(); ++k) packing[order[k]] = (*found)[k];
  return packing;
}

}  // namespace meshwright
