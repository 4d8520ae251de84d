// SPDX-License-Identifier: Apache-2.0
#include "core/planner/portfolio/local_search.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/base/errors.h"
#include "core/planner/portfolio/local_search_block.h"
#include "core/planner/portfolio/local_search_model.h"
#include "core/planner/portfolio/local_search_region.h"

namespace meshwright::portfolio {

static double knob(const char* name, double d) {
  const char* v = std::getenv(name);
  return v ? std::atof(v) : d;
}

struct LocalSearch::State {
  State(const Reduced& reduced, std::uint64_t seed)
      : model(reduced), regions(model), solver(model), now(model, Labels(at(model.nodes()), 0)), random(seed) {
    double cost = 0, mem = 0;
    for (auto& n : reduced.field.nodes) {
      double lo = kForbidden, hi = -kForbidden;
      for (double c : n.cost)
        if (c < kForbidden) lo = std::min(lo, c), hi = std::max(hi, c);
      if (hi > lo) cost += hi - lo;
    }
    for (auto& n : reduced.field.edges) {
      double lo = kForbidden, hi = -kForbidden;
      for (double c : n.cost)
        if (c < kForbidden) lo = std::min(lo, c), hi = std::max(hi, c);
      if (hi > lo) cost += hi - lo;
    }
    for (auto& p : reduced.pieces) mem += *std::max_element(p.memory.begin(), p.memory.end());
    unit = mem > 0 ? std::max(cost, 1.0) / mem * 1e-4 : 0;
    {
      std::vector<double> neg;
      for (double l : reduced.row_limit) neg.push_back(-l);
      MemoryProfile limits(neg);
      scale = 0;
      for (auto& p : reduced.pieces)
        for (double m : p.memory)
          if (m > scale && m <= -limits.largest(p.begin, p.end)) scale = m;
      if (scale <= 0) scale = 1;
      std::fprintf(stderr, "scale %.4g unit %.4g\n", scale, unit);
    }
    position.assign(at(model.nodes()), 0);
  }
  void decode(const Guide* guide);
  void sweep();
  void step();
  double potential() const;
  bool take(const std::vector<LabelChange>& changes);
  void keep_best();
  void back_to_best();

  SearchModel model;
  Regions regions;
  BlockSolver solver;
  double price = 0, steep = 1, scale = 1;
  Assignment now;
  Random random;
  std::optional<Labels> best;
  double best_cost = kForbidden;
  std::vector<int> dirty;
  std::vector<char> position;
  double unit = 0, limit_scale = 0;
  std::vector<int> block;
  std::vector<LabelChange> undo;
  long sweeps = 0, steps = 0, accepted = 0, infeasible = 0, improved = 0, none = 0, worse = 0;
  long rounds = 0;
};

void LocalSearch::State::decode(const Guide* guide) {
  Labels labels(at(model.nodes()), -1);
  std::vector<double> cost;
  for (int i = 0; i < model.nodes(); ++i) {
    if (guide)
      cost = (*guide)[at(i)];
    else
      cost.assign(model.cost(i), model.cost(i) + model.labels(i));
    for (const auto& n : model.neighbours(i)) {
      if (labels[at(n.node)] < 0) continue;
      for (int k = 0; k < model.labels(i); ++k) cost[at(k)] += n.costs[labels[at(n.node)] * model.labels(i) + k];
    }
    labels[at(i)] = static_cast<int>(std::min_element(cost.begin(), cost.end()) - cost.begin());
  }
  now.set(labels);
  best_cost = best_cost;
}

bool LocalSearch::State::take(const std::vector<LabelChange>& changes) {
  undo.clear();
  for (auto& c : changes) {
    undo.push_back({c.node, now.label(c.node)});
    now.change(c.node, c.label);
    if (!position[at(c.node)]) position[at(c.node)] = 1, dirty.push_back(c.node);
  }
  return true;
}

void LocalSearch::State::keep_best() {
  if (!now.feasible() || now.cost() >= best_cost) return;
  if (!best)
    best = now.labels();
  else
    for (int i : dirty) (*best)[at(i)] = now.label(i);
  for (int i : dirty) position[at(i)] = 0;
  dirty.clear();
  best_cost = now.cost();
}

void LocalSearch::State::back_to_best() {
  for (int i : dirty) now.change(i, (*best)[at(i)]), position[at(i)] = 0;
  dirty.clear();
}

void LocalSearch::State::sweep() {
  static const double table = knob("SWEEP_TABLE", 20000);
  BlockRequest request;
  request.nodes = &regions.everything();
  request.now = &now;
  request.largest_table = table;
  take(solver.solve(request, random));
  keep_best();
  ++sweeps;
}

double LocalSearch::State::potential() const {
  return now.cost() + (price > 0 ? price / now.pressure().steepness() * now.pressure().total() : 0.0);
}

void LocalSearch::State::step() {
  static const double table = knob("TABLE", 65536), maxsize = knob("MAXSIZE", 300), prel = knob("PREL", 0.2),
                      noise = knob("NOISE", 0), rate = knob("RATE", 1), up = knob("UP", 0.01),
                      down = knob("DOWN", 0.001), bmax = knob("BMAX", 100), brate = knob("BRATE", 1);
  ++steps;
  const int center = regions.everything()[at(random.below(static_cast<int>(regions.everything().size())))];
  const int size = static_cast<int>(std::exp(random.unit() * std::log(maxsize))) + 1;
  regions.ball(center, size, random, block);
  const double share = static_cast<double>(block.size()) / static_cast<double>(model.nodes());
  BlockRequest request;
  request.nodes = &block;
  request.now = &now;
  request.largest_table = table;
  request.noise = noise;
  const bool was = now.feasible();
  const bool relaxed = was && random.unit() < prel;
  request.price = relaxed ? price * random.unit() : price;
  if (!was) price = std::max(unit, price * (1 + rate * share));
  if (steps % 2000 == 0 || (!was && steps % 200 == 0)) {
    const double b = now.pressure().steepness() * scale;
    const double over = std::max(now.memory().largest(), 0.0) / scale;
    double want = std::min(bmax, b * (steps % 2000 == 0 ? 1 + 0.2 * brate : 1));
    if (over > 0) want = std::min(want, 100 / over);
    now.set_steepness(want / scale);
  }
  if (steps % 20000 == 0) now.refresh();
  const auto& changes = solver.solve(request, random);
  if (changes.empty()) {
    ++none;
    return;
  }
  const double before = relaxed ? now.cost() : potential();
  const int violations = now.violations();
  take(changes);
  bool back = false;
  if (now.violations() > violations)
    back = true;
  else if (was && !now.feasible()) {
    ++infeasible;
    back = true;
    if (!relaxed) price *= 1 + up;
  } else if (!((relaxed ? now.cost() : potential()) <= before || now.violations() < violations)) {
    ++worse;
    back = true;
  } else if (was)
    price *= 1 - down;
  if (back) {
    for (auto u = undo.rbegin(); u != undo.rend(); ++u) now.change(u->node, u->label);
    if (!(now.pressure().total() < 1e250)) now.set_steepness(now.pressure().steepness());
  } else {
    ++accepted;
    if (now.cost() < best_cost && now.feasible()) ++improved;
    keep_best();
  }
}

LocalSearch::LocalSearch(const Reduced& reduced, std::uint64_t seed) : state_(std::make_unique<State>(reduced, seed)) {}
LocalSearch::~LocalSearch() = default;

void LocalSearch::start_from(const Guide* guide) { state_->decode(guide); }
void LocalSearch::start_from(const Labels& labels) { state_->now.set(labels); }

void LocalSearch::run(const std::function<bool()>& stop) {
  State& s = *state_;
  static const double sweeps = knob("SWEEPS", 20), b0 = knob("B0", 2);
  while (!stop()) {
    if (s.sweeps < sweeps) {
      s.sweep();
      if (s.sweeps >= sweeps) {
        const double over = std::max(s.now.memory().largest(), 0.0) / s.scale;
        s.now.set_steepness(std::min(b0, over > 0 ? 100 / over : b0) / s.scale);
      }
      continue;
    }
    s.step();
    if (std::getenv("TRACE") && s.steps % 1000 == 0)
      std::fprintf(stderr,
                   "step %ld cost %.0f best %.0f viol %d over %.0f price %.3g steep %.3g tot %.3g work %.3g acc %ld\n",
                   s.steps, s.now.cost(), s.best_cost, s.now.violations(), s.now.memory().largest(), s.price,
                   s.now.pressure().steepness() * s.scale, s.now.pressure().total(), s.solver.work(), s.accepted);
  }
  std::fprintf(stderr, "sweeps %ld steps %ld none %ld acc %ld improved %ld infeas %ld worse %ld price %.3g work %.3g\n",
               s.sweeps, s.steps, s.none, s.accepted, s.improved, s.infeasible, s.worse, s.price, s.solver.work());
}

const std::optional<Labels>& LocalSearch::best() const { return state_->best; }
double LocalSearch::best_cost() const { return state_->best_cost; }

}  // namespace meshwright::portfolio
