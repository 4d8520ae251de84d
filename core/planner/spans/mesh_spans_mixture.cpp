// SPDX-License-Identifier: Apache-2.0
// Between a price of bytes at which a stage's sharding is too large and one at which it leaves memory unused: layers
// solved at several prices in one path, crossing over where their borders cost least, with parameters kept one by one
// as they fit. Dynamic programming over (layer, border state) with labels of time and bytes; what exceeds the least
// priced cost by more than is still to be gained is dropped, and of many labels those of least priced cost remain, one
// for each width of bytes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/planner/spans/mesh_spans_state.h"

namespace meshwright {

namespace {

constexpr std::size_t kArcs = 10;    // pairs of border states kept of a layer, but for those of the paths at the prices
constexpr std::size_t kPoints = 24;  // ways of a layer between two border states
constexpr std::size_t kLabels = 256;  // of a border state

constexpr double kNever = std::numeric_limits<double>::infinity();

// One item for each width of bytes: that of least value.
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

}  // namespace

class MeshSpans::State::Mixer {
 public:
  Mixer(State& state, const MixRequest& request)
      : state_(state),
        request_(request),
        price_(state.weights[static_cast<std::size_t>(request.prices.front())].memory_price),
        ahead_(static_cast<std::size_t>(state.layers) + 1) {}

  std::optional<Mixture> run() {
    price_rest();
    const double least = *std::min_element(ahead_.front().begin(), ahead_.front().end());
    slack_ = request_.below.si() + price_ * request_.room.si() - least;
    if (slack_ <= 0.0) return std::nullopt;
    choose_arcs();
    most_rest();
    labels_.resize(static_cast<std::size_t>(state_.layers) + 1);
    labels_.front().resize(state_.ins(0));
    for (auto& of_state : labels_.front()) of_state.push_back({0.0, 0.0, 0, 0, 0});
    for (int layer = 0; layer < state_.layers; ++layer) step(layer);
    return best();
  }

 private:
  // A layer's choice: time and bytes, which choice's ops, and its parameters' strategies.
  struct Point {
    double time = 0, bytes = 0;
    const Solved* base = nullptr;
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
  static std::size_t at(int layer) { return static_cast<std::size_t>(layer); }
  [[nodiscard]] double priced(double time, double bytes) const { return time + price_ * bytes; }
  [[nodiscard]] const Matrix& matrix(int layer) const {
    return state_.matrices[static_cast<std::size_t>(request_.prices.front())][state_.model_class(layer)];
  }

  // Least priced cost from each border state to the end.
  void price_rest() {
    ahead_.back().assign(state_.outs(state_.layers - 1), 0.0);
    for (int layer = state_.layers - 1; layer >= 0; --layer) {
      auto& of = ahead_[at(layer)];
      of.assign(state_.ins(layer), kNever);
      for (std::size_t in = 0; in < of.size(); ++in)
        for (std::size_t out = 0; out < ahead_[at(layer) + 1].size(); ++out)
          if (const auto& cost = matrix(layer)[in * ahead_[at(layer) + 1].size() + out])
            of[in] = std::min(of[in], cost->si() + ahead_[at(layer) + 1][out]);
    }
  }

  // The pairs of states nearest to the cheapest path, and those of every price's own path and between two of them.
  void choose_arcs() {
    using Path = std::vector<std::pair<int, int>>;
    std::vector<Path> own;
    for (const int price : request_.prices)
      own.push_back(trace(state_.paths(static_cast<std::size_t>(price), 0, state_.layers - 1), at(state_.layers)));
    std::vector<double> before(state_.ins(0), 0.0);
    const double least = *std::min_element(ahead_.front().begin(), ahead_.front().end());
    for (int layer = 0; layer < state_.layers; ++layer) {
      const std::size_t outs = state_.outs(layer);
      std::vector<std::pair<double, std::size_t>> near;
      std::vector<double> after(outs, kNever);
      for (std::size_t i = 0; i < matrix(layer).size(); ++i) {
        if (!matrix(layer)[i]) continue;
        const double reached = before[i / outs] + matrix(layer)[i]->si();
        after[i % outs] = std::min(after[i % outs], reached);
        const double excess = reached + ahead_[at(layer) + 1][i % outs] - least;
        if (excess <= slack_) near.emplace_back(excess, i);
      }
      std::sort(near.begin(), near.end());
      std::vector<std::size_t> chosen;
      for (std::size_t i = 0; i < near.size(); ++i) {
        const auto is_end = [&](const auto end_of, std::size_t state) {
          return std::any_of(own.begin(), own.end(),
                             [&](const Path& path) { return at(path[at(layer)].*end_of) == state; });
        };
        const std::size_t pair = near[i].second;
        if (i < kArcs ||
            (is_end(&Path::value_type::first, pair / outs) && is_end(&Path::value_type::second, pair % outs)))
          chosen.push_back(pair);
      }
      arcs_.emplace_back();
      for (const std::size_t i : chosen) {
        const auto& points = points_of(layer, i / outs, i % outs);
        if (!points.empty()) arcs_.back().push_back({i / outs, i % outs, &points});
      }
      before = std::move(after);
    }
  }

  const std::vector<Point>& points_of(int layer, std::size_t in, std::size_t out) {
    const auto [known, is_new] = points_.try_emplace({state_.model_class(layer), in, out});
    if (!is_new) return known->second;
    std::vector<Point> all;
    std::vector<std::pair<std::size_t, std::vector<int>>> bases;
    for (const int price : request_.prices) {
      const Solved& solved = state_.solve_between(price, layer, static_cast<int>(in), static_cast<int>(out));
      const LayerModel::Parts parts = state_.model(layer, solved.variant).parts(solved.choice);
      std::pair base(solved.variant, solved.choice.strategy);
      for (const auto& parameter : parts.parameters) base.second[static_cast<std::size_t>(parameter.node)] = -1;
      if (std::find(bases.begin(), bases.end(), base) != bases.end()) continue;
      bases.push_back(std::move(base));
      for (Point& point : vary(solved, parts)) all.push_back(std::move(point));
    }
    const double least = matrix(layer)[in * state_.outs(layer) + out]->si();
    return known->second = thin(all, least);
  }

  // A choice's ops with every way to keep their parameters, as far as one can be of use.
  std::vector<Point> vary(const Solved& solved, const LayerModel::Parts& parts) const {
    if (parts.ops.working > request_.most_working) return {};
    std::vector<Point> points = {{state_.time_of(parts.ops).si(), state_.bytes_of(parts.ops).si(), &solved, {}}};
    for (const auto& parameter : parts.parameters) {
      std::vector<Point> ways;
      double cheapest = kNever;
      for (std::size_t p = 0; p < parameter.costs.size(); ++p) {
        const auto& cost = parameter.costs[p];
        if (!cost || cost->working > request_.most_working) continue;
        ways.push_back({state_.time_of(*cost).si(), state_.bytes_of(*cost).si(), nullptr, {static_cast<int>(p)}});
        cheapest = std::min(cheapest, priced(ways.back().time, ways.back().bytes));
      }
      if (ways.empty()) return {};
      std::erase_if(ways, [&](const Point& way) { return priced(way.time, way.bytes) > cheapest + slack_; });
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
  // Those within the slack of the least priced cost, one for each width of bytes.
  std::vector<Point> thin(const std::vector<Point>& points, double least) const {
    double from = kNever, to = -kNever;
    for (const Point& point : points) least = std::min(least, priced(point.time, point.bytes));
    const auto useful = [&](const Point& point) { return priced(point.time, point.bytes) <= least + slack_; };
    for (const Point& point : points) {
      if (!useful(point)) continue;
      from = std::min(from, point.bytes);
      to = std::max(to, point.bytes);
    }
    if (from > to) return {};
    Buckets<const Point*> kept(kPoints, from, to);
    for (const Point& point : points)
      if (useful(point)) kept.put(point.bytes, priced(point.time, point.bytes), &point);
    std::vector<Point> found;
    for (const Point* point : kept.take()) found.push_back(*point);
    return found;
  }

  // Fewest and most bytes from each border state to the end.
  void most_rest() {
    fewest_.resize(ahead_.size());
    most_.resize(ahead_.size());
    fewest_.back().assign(ahead_.back().size(), 0.0);
    most_.back().assign(ahead_.back().size(), 0.0);
    for (int layer = state_.layers - 1; layer >= 0; --layer) {
      fewest_[at(layer)].assign(state_.ins(layer), kNever);
      most_[at(layer)].assign(state_.ins(layer), -kNever);
      for (const Arc& arc : arcs_[at(layer)])
        for (const Point& point : *arc.points) {
          double& fewest = fewest_[at(layer)][arc.in];
          double& most = most_[at(layer)][arc.in];
          fewest = std::min(fewest, point.bytes + fewest_[at(layer) + 1][arc.out]);
          most = std::max(most, point.bytes + most_[at(layer) + 1][arc.out]);
        }
    }
  }

  void step(int layer) {
    const auto& before = labels_[at(layer)];
    auto& after = labels_[at(layer) + 1];
    after.resize(state_.outs(layer));
    std::vector<double> from(after.size(), kNever), to(after.size(), -kNever);
    for (const Arc& arc : arcs_[at(layer)]) {
      if (before[arc.in].empty()) continue;
      // Both are in ascending order of bytes.
      from[arc.out] = std::min(from[arc.out], before[arc.in].front().bytes + arc.points->front().bytes);
      to[arc.out] = std::max(to[arc.out], before[arc.in].back().bytes + arc.points->back().bytes);
    }
    std::vector<Buckets<Label>> kept;
    for (std::size_t s = 0; s < after.size(); ++s) kept.emplace_back(from[s] > to[s] ? 0 : kLabels, from[s], to[s]);
    const double room = request_.room.si();
    for (std::size_t a = 0; a < arcs_[at(layer)].size(); ++a) {
      const Arc& arc = arcs_[at(layer)][a];
      const double ahead = ahead_[at(layer) + 1][arc.out];
      const double fewest = fewest_[at(layer) + 1][arc.out], most = most_[at(layer) + 1][arc.out];
      for (std::size_t l = 0; l < before[arc.in].size(); ++l)
        for (std::size_t p = 0; p < arc.points->size(); ++p) {
          const double time = before[arc.in][l].time + (*arc.points)[p].time;
          const double bytes = before[arc.in][l].bytes + (*arc.points)[p].bytes;
          if (bytes + fewest > room) continue;
          const double limit = request_.below.si() + price_ * std::min(room, bytes + most);
          if (priced(time, bytes) + ahead >= limit) continue;
          // At the end only time counts.
          const bool last = layer + 1 == state_.layers;
          kept[arc.out].put(bytes, last ? time : priced(time, bytes), {time, bytes, l, a, p});
        }
    }
    for (std::size_t s = 0; s < after.size(); ++s) after[s] = kept[s].take();
  }

  std::optional<Mixture> best() const {
    const Label* best = nullptr;
    for (const auto& of_state : labels_.back())
      for (const Label& label : of_state)
        if (best == nullptr || label.time < best->time) best = &label;
    if (best == nullptr) return std::nullopt;
    Mixture found{{}, {}, {}, {}};
    for (int layer = state_.layers - 1; layer >= 0; --layer) {
      const Arc& arc = arcs_[at(layer)][best->arc];
      const Point& point = (*arc.points)[best->point];
      ShardingChoice choice = point.base->choice;
      std::size_t next = 0;
      const LayerModel& model = state_.model(layer, point.base->variant);
      for (const auto& parameter : model.parts(choice).parameters)
        choice.strategy[static_cast<std::size_t>(parameter.node)] = point.parameters[next++];
      found.cost += model.cost(choice);
      found.states.emplace_back(static_cast<int>(arc.in), static_cast<int>(arc.out));
      found.variants.push_back(point.base->variant);
      found.choices.push_back(std::move(choice));
      best = &labels_[at(layer)][arc.in][best->label];
    }
    std::reverse(found.states.begin(), found.states.end());
    std::reverse(found.variants.begin(), found.variants.end());
    std::reverse(found.choices.begin(), found.choices.end());
    found.cost = state_.count_repeated(found.cost);
    if (!state_.fits(found.cost) || state_.time_of(found.cost) >= request_.below) return std::nullopt;
    return found;
  }

  State& state_;
  const MixRequest& request_;
  const double price_;                              // seconds per byte
  double slack_ = 0;                                // seconds that a path's priced cost may exceed the least
  std::vector<std::vector<double>> ahead_;          // [layer][state before it]: least priced cost to the end
  std::vector<std::vector<double>> fewest_, most_;  // bytes to the end
  std::vector<std::vector<Arc>> arcs_;              // [layer]
  std::map<std::array<std::size_t, 3>, std::vector<Point>> points_;
  std::vector<std::vector<std::vector<Label>>> labels_;  // [layer][state before it]
};

std::optional<MeshSpans::State::Mixture> MeshSpans::State::mix(const MixRequest& request) {
  return Mixer(*this, request).run();
}

}  // namespace meshwright
