// SPDX-License-Identifier: Apache-2.0
// Dynamic programming over (layer, border state). A label is a path's time and bytes; its charged cost is the time with
// its bytes at the guiding price. A label is dropped when its charged cost exceeds the minimum by more than can still
// be gained (the slack). Many labels fall into buckets by bytes, and each bucket keeps the one of least charged cost.
#include "core/planner/spans/layer_mixture.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace meshwright {

namespace {

constexpr std::size_t kArcs = 10;     // pairs of border states kept of a layer, beside those on the paths at the prices
constexpr std::size_t kPoints = 24;   // choices of a layer between two border states
constexpr std::size_t kLabels = 256;  // of a border state

constexpr double kNever = std::numeric_limits<double>::infinity();

// One item for each interval of bytes: that of least value.
template <class Item>
class Buckets {
 public:
  Buckets(std::size_t count, double from, double to)
      : from_(from),
        scale_(static_cast<double>(count) / std::max(to - from, 1.0)),
        items_(count + 1),
        used_(count + 1) {}
  void put(double bytes, double value, const Item& item) {
    const auto at = std::min(items_.size() - 1, static_cast<std::size_t>(std::max(0.0, (bytes - from_) * scale_)));
    if (used_[at] && items_[at].first <= value) return;
    used_[at] = true;
    items_[at] = {value, item};
  }
  [[nodiscard]] std::vector<Item> take() const {
    std::vector<Item> found;
    for (std::size_t i = 0; i < items_.size(); ++i)
      if (used_[i]) found.push_back(items_[i].second);
    return found;
  }

 private:
  double from_, scale_;
  std::vector<std::pair<double, Item>> items_;
  std::vector<bool> used_;
};

class Mixer {
 public:
  Mixer(const LayerClasses& layers, const SpanBudget& budget, SpanSolver& solver, const MixRequest& request)
      : layers_(layers),
        budget_(budget),
        solver_(solver),
        request_(request),
        end_(layers.layers()),
        price_(solver.memory_price(request.prices.front())) {}

  std::optional<LayerMixture> run() {
    find_costs_ahead();
    const double minimum = *std::min_element(ahead_.front().begin(), ahead_.front().end());
    // By weak duality no path that fits takes less than minimum - price * room. The slack is how far `below` is above
    // that.
    slack_ = request_.below.si() + price_ * request_.room.si() - minimum;
    if (slack_ <= 0.0) return std::nullopt;
    choose_arcs(minimum);
    find_bytes_ahead();
    labels_.resize(end_ + 1);
    labels_.front().resize(layers_.in_states(0));
    for (auto& of_state : labels_.front()) of_state.push_back({0.0, 0.0, 0, 0, 0});
    for (int layer = 0; layer < end_; ++layer) add_labels(layer);
    return fastest();
  }

 private:
  // A layer's choice: time and bytes, which choice's ops, and its parameters' strategies.
  struct Point {
    double time = 0, bytes = 0;
    const LayerSolution* base = nullptr;
    std::vector<int> parameters;
  };
  struct Arc {
    std::size_t in, out;
    const std::vector<Point>* points;
  };
  struct Label {
    double time = 0, bytes = 0;
    std::size_t label = 0, arc = 0, point = 0;  // before the layer; of the layer
  };
  using ByState = IndexedVector<int, std::vector<double>>;  // [layer][border state before it]

  [[nodiscard]] double charged(double time, double bytes) const { return time + price_ * bytes; }
  [[nodiscard]] const CostMatrix& matrix(int layer) const {
    return solver_.matrices().cheapest(request_.prices.front(), layer);
  }

  // Least charged cost from each border state to the end.
  void find_costs_ahead() {
    ahead_.resize(end_ + 1);
    ahead_.back().assign(layers_.out_states(end_ - 1), 0.0);
    for (int layer = end_ - 1; layer >= 0; --layer) {
      const std::vector<double>& after = ahead_[layer + 1];
      std::vector<double>& before = ahead_[layer];
      before.assign(layers_.in_states(layer), kNever);
      for (std::size_t in = 0; in < before.size(); ++in)
        for (std::size_t out = 0; out < after.size(); ++out)
          if (const auto& cost = matrix(layer)[in * after.size() + out])
            before[in] = std::min(before[in], cost->si() + after[out]);
    }
  }

  // Per layer the pairs of border states on or nearest to the cheapest path, and those that lead between the paths of
  // the request's prices. Pairs outside of the slack are of no use.
  void choose_arcs(double minimum) {
    std::vector<std::vector<InOutStates>> own;  // [price of the request][layer]
    for (const int price : request_.prices) own.push_back(solver_.paths(price, 0, end_ - 1).trace(end_));
    std::vector<double> before(layers_.in_states(0), 0.0);  // least charged cost from the start
    for (int layer = 0; layer < end_; ++layer) {
      const std::size_t outs = layers_.out_states(layer);
      const CostMatrix& costs = matrix(layer);
      std::vector<std::pair<double, std::size_t>> near;  // excess over the minimum, pair
      std::vector<double> after(outs, kNever);
      for (std::size_t pair = 0; pair < costs.size(); ++pair) {
        if (!costs[pair]) continue;
        const double reached = before[pair / outs] + costs[pair]->si();
        after[pair % outs] = std::min(after[pair % outs], reached);
        // With the cost ahead: the minimum charged cost of the paths through the pair, less that of all paths.
        const double excess = reached + ahead_[layer + 1][pair % outs] - minimum;
        if (excess <= slack_) near.emplace_back(excess, pair);
      }
      std::sort(near.begin(), near.end());
      const auto is_on_path = [&](const auto side, std::size_t state) {
        return std::any_of(own.begin(), own.end(), [&](const std::vector<InOutStates>& path) {
          return static_cast<std::size_t>(path[layer].*side) == state;
        });
      };
      std::vector<Arc>& arcs = arcs_.emplace_back();
      for (std::size_t i = 0; i < near.size(); ++i) {
        const std::size_t in = near[i].second / outs, out = near[i].second % outs;
        if (i >= kArcs && !(is_on_path(&InOutStates::first, in) && is_on_path(&InOutStates::second, out))) continue;
        const std::vector<Point>& points = points_of(layer, in, out);
        if (!points.empty()) arcs.push_back({in, out, &points});
      }
      before = std::move(after);
    }
  }

  // The choices of a layer between two border states: those at the request's prices, each with its parameters varied.
  const std::vector<Point>& points_of(int layer, std::size_t in, std::size_t out) {
    const auto [known, is_new] = points_.try_emplace({layers_.class_of(layer), in, out});
    if (!is_new) return known->second;
    std::vector<Point> all;
    std::vector<std::pair<int, std::vector<int>>> bases;  // variant and strategies of the ops
    for (const int price : request_.prices) {
      const LayerSolution& solved = solver_.solve(price, layer, {static_cast<int>(in), static_cast<int>(out)});
      const LayerModel::Parts parts = layers_.model(layer, solved.variant).parts(solved.choice);
      std::pair base(solved.variant, solved.choice.strategy);
      // Bases differ in their ops alone, so the parameters' strategies are blanked.
      for (const auto& parameter : parts.parameters) base.second[parameter.node] = -1;
      if (std::find(bases.begin(), bases.end(), base) != bases.end()) continue;
      bases.push_back(std::move(base));
      for (Point& point : vary_parameters(solved, parts)) all.push_back(std::move(point));
    }
    const double minimum = matrix(layer)[in * layers_.out_states(layer) + out]->si();
    return known->second = thin(all, minimum);
  }

  // A choice's ops with the ways to keep their parameters: a knapsack over parameters, which depend on nothing but
  // their reader, thinned out after each.
  std::vector<Point> vary_parameters(const LayerSolution& solved, const LayerModel::Parts& parts) const {
    if (parts.ops.working > request_.max_working) return {};
    std::vector<Point> points = {{budget_.time_of(parts.ops).si(), budget_.bytes_of(parts.ops).si(), &solved, {}}};
    for (const auto& parameter : parts.parameters) {
      std::vector<Point> ways;
      double cheapest = kNever;
      for (std::size_t p = 0; p < parameter.costs.size(); ++p) {
        const auto& cost = parameter.costs[p];
        if (!cost || cost->working > request_.max_working) continue;
        ways.push_back({budget_.time_of(*cost).si(), budget_.bytes_of(*cost).si(), nullptr, {static_cast<int>(p)}});
        cheapest = std::min(cheapest, charged(ways.back().time, ways.back().bytes));
      }
      if (ways.empty()) return {};
      std::erase_if(ways, [&](const Point& way) { return charged(way.time, way.bytes) > cheapest + slack_; });
      std::vector<Point> longer;
      for (const Point& point : points)
        for (const Point& way : ways) {
          longer.push_back(point);
          longer.back().time += way.time;
          longer.back().bytes += way.bytes;
          longer.back().parameters.push_back(way.parameters.front());
        }
      points = thin(longer, kNever);
    }
    return points;
  }
  // Those within the slack of the least charged cost, which is `minimum` at most; one for each interval of bytes.
  std::vector<Point> thin(const std::vector<Point>& points, double minimum) const {
    double from = kNever, to = -kNever;
    for (const Point& point : points) minimum = std::min(minimum, charged(point.time, point.bytes));
    const auto useful = [&](const Point& point) { return charged(point.time, point.bytes) <= minimum + slack_; };
    for (const Point& point : points) {
      if (!useful(point)) continue;
      from = std::min(from, point.bytes);
      to = std::max(to, point.bytes);
    }
    if (from > to) return {};
    Buckets<const Point*> kept(kPoints, from, to);
    for (const Point& point : points)
      if (useful(point)) kept.put(point.bytes, charged(point.time, point.bytes), &point);
    std::vector<Point> found;
    for (const Point* point : kept.take()) found.push_back(*point);
    return found;
  }

  // Minimum and maximum of bytes from each border state to the end, backwards: the minimum prunes labels that no longer
  // fit, the maximum says how much memory a path can still use.
  void find_bytes_ahead() {
    min_bytes_.resize(ahead_.size());
    max_bytes_.resize(ahead_.size());
    min_bytes_.back().assign(ahead_.back().size(), 0.0);
    max_bytes_.back().assign(ahead_.back().size(), 0.0);
    for (int layer = end_ - 1; layer >= 0; --layer) {
      min_bytes_[layer].assign(layers_.in_states(layer), kNever);
      max_bytes_[layer].assign(layers_.in_states(layer), -kNever);
      for (const Arc& arc : arcs_[layer])
        for (const Point& point : *arc.points) {
          double& min = min_bytes_[layer][arc.in];
          double& max = max_bytes_[layer][arc.in];
          min = std::min(min, point.bytes + min_bytes_[layer + 1][arc.out]);
          max = std::max(max, point.bytes + max_bytes_[layer + 1][arc.out]);
        }
    }
  }

  // Empty buckets for the labels of each border state after the layer.
  [[nodiscard]] std::vector<Buckets<Label>> buckets_after(int layer) const {
    const std::vector<std::vector<Label>>& before = labels_[layer];
    std::vector<double> from(layers_.out_states(layer), kNever), to(from.size(), -kNever);
    for (const Arc& arc : arcs_[layer]) {
      if (before[arc.in].empty()) continue;
      // Both are in ascending order of bytes.
      from[arc.out] = std::min(from[arc.out], before[arc.in].front().bytes + arc.points->front().bytes);
      to[arc.out] = std::max(to[arc.out], before[arc.in].back().bytes + arc.points->back().bytes);
    }
    std::vector<Buckets<Label>> buckets;
    for (std::size_t s = 0; s < from.size(); ++s) buckets.emplace_back(from[s] > to[s] ? 0 : kLabels, from[s], to[s]);
    return buckets;
  }

  void add_labels(int layer) {
    const std::vector<std::vector<Label>>& before = labels_[layer];
    std::vector<Buckets<Label>> kept = buckets_after(layer);
    const double room = request_.room.si();
    const bool is_last = layer + 1 == end_;
    for (std::size_t a = 0; a < arcs_[layer].size(); ++a) {
      const Arc& arc = arcs_[layer][a];
      const double ahead = ahead_[layer + 1][arc.out];
      const double min_ahead = min_bytes_[layer + 1][arc.out], max_ahead = max_bytes_[layer + 1][arc.out];
      for (std::size_t l = 0; l < before[arc.in].size(); ++l)
        for (std::size_t p = 0; p < arc.points->size(); ++p) {
          const double time = before[arc.in][l].time + (*arc.points)[p].time;
          const double bytes = before[arc.in][l].bytes + (*arc.points)[p].bytes;
          if (bytes + min_ahead > room) continue;
          // Charged cost of a whole path that takes as long as `below`, with the most bytes this one can end with.
          const double limit = request_.below.si() + price_ * std::min(room, bytes + max_ahead);
          if (charged(time, bytes) + ahead >= limit) continue;
          // At the end only time counts.
          kept[arc.out].put(bytes, is_last ? time : charged(time, bytes), {time, bytes, l, a, p});
        }
    }
    std::vector<std::vector<Label>>& after = labels_[layer + 1];
    for (const Buckets<Label>& of_state : kept) after.push_back(of_state.take());
  }

  // The path that ends in the fastest label, read off backwards.
  std::optional<LayerMixture> fastest() const {
    const Label* best = nullptr;
    for (const auto& of_state : labels_.back())
      for (const Label& label : of_state)
        if (best == nullptr || label.time < best->time) best = &label;
    if (best == nullptr) return std::nullopt;
    LayerMixture found;
    for (int layer = end_ - 1; layer >= 0; --layer) {
      const Arc& arc = arcs_[layer][best->arc];
      const Point& point = (*arc.points)[best->point];
      ShardingChoice choice = point.base->choice;
      std::size_t next = 0;
      const LayerModel& model = layers_.model(layer, point.base->variant);
      for (const auto& parameter : model.parts(choice).parameters)
        choice.strategy[parameter.node] = point.parameters[next++];
      found.cost += model.cost(choice);
      found.states.emplace_back(static_cast<int>(arc.in), static_cast<int>(arc.out));
      found.variants.push_back(point.base->variant);
      found.choices.push_back(std::move(choice));
      best = &labels_[layer][arc.in][best->label];
    }
    std::reverse(found.states.begin(), found.states.end());
    std::reverse(found.variants.begin(), found.variants.end());
    std::reverse(found.choices.begin(), found.choices.end());
    found.cost = budget_.with_recomputed_share(found.cost);
    if (!budget_.fits(found.cost) || budget_.time_of(found.cost) >= request_.below) return std::nullopt;
    return found;
  }

  const LayerClasses& layers_;
  const SpanBudget& budget_;
  SpanSolver& solver_;
  const MixRequest& request_;
  const int end_;                              // number of layers
  const double price_;                         // the guiding one: seconds per byte
  double slack_ = 0;                           // seconds by which a path's charged cost may exceed the minimum
  ByState ahead_, min_bytes_, max_bytes_;      // charged cost and bytes to the end
  IndexedVector<int, std::vector<Arc>> arcs_;  // [layer]
  std::map<std::tuple<int, std::size_t, std::size_t>, std::vector<Point>> points_;  // (class, in, out)
  IndexedVector<int, std::vector<std::vector<Label>>> labels_;                      // [layer][border state before it]
};

}  // namespace

std::optional<LayerMixture> mix_layers(const LayerClasses& layers, const SpanBudget& budget, SpanSolver& solver,
                                       const MixRequest& request) {
  return Mixer(layers, budget, solver, request).run();
}

}  // namespace meshwright
