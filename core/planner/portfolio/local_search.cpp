// SPDX-License-Identifier: Apache-2.0
#include "core/planner/portfolio/local_search.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/base/errors.h"
#include "core/planner/portfolio/local_search_block.h"
#include "core/planner/portfolio/local_search_messages.h"
#include "core/planner/portfolio/local_search_model.h"
#include "core/planner/portfolio/local_search_region.h"

namespace meshwright::portfolio {

static double knob(const char* name, double d) {
  const char* v = std::getenv(name);
  return v ? std::atof(v) : d;
}

struct LocalSearch::State {
  State(const Reduced& reduced, std::uint64_t seed)
      : model(reduced), messages(model), regions(model), solver(model), now(model, Labels(at(model.nodes()), 0)), random(seed) {
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
  void dive();
  void fuse();
  void price_costs(double factor);
  std::vector<double> lambda;
  std::vector<std::vector<double>> priced;
  std::vector<Labels> elite;
  long dives = 0;
  double progress = 0;
  double step_size = 0.1;
  void step();
  double potential() const;
  bool take(const std::vector<LabelChange>& changes);
  void keep_best();
  void back_to_best();

  SearchModel model;
  Messages messages;
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
  double in_cycle = 0, cycle_length = 0;
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

void LocalSearch::State::price_costs(double factor) {
    const std::size_t rows = lambda.size();
    std::vector<double> before(rows + 1, 0.0);
    for (std::size_t r = 0; r < rows; ++r) before[r + 1] = before[r] + factor * lambda[r];
    for (int i = 0; i < model.nodes(); ++i) {
      priced[at(i)].assign(model.cost(i), model.cost(i) + model.labels(i));
      for (const auto& piece : model.pieces(i)) {
        const double price_here = before[at(piece.end)] - before[at(piece.begin)];
        if (price_here != 0)
          for (int k = 0; k < model.labels(i); ++k) priced[at(i)][at(k)] += price_here * piece.memory[k];
      }
    }
}

// Chooses between the labels now and the best ones, node by node.
void LocalSearch::State::fuse() {
  static const double table = knob("FUSE_TABLE", 1e6), tries = knob("FUSE_TRIES", 8);
  if (!best) return;
  static const double pool = knob("POOL", 8), others = knob("OTHERS", 2);
  std::vector<int> nodes;
  std::vector<std::vector<int>> choices;
  std::vector<Labels> from;
  if (now.feasible()) {
    if (elite.size() < pool) elite.push_back(now.labels());
    else elite[at(random.below(static_cast<int>(pool)))] = now.labels();
  }
  from.push_back(now.labels());
  for (int n = 1; n < others && !elite.empty(); ++n) from.push_back(elite[at(random.below(static_cast<int>(elite.size())))]);
  back_to_best();
  for (int i = 0; i < model.nodes(); ++i) {
    std::vector<int> c;
    for (auto& l : from) if (l[at(i)] != now.label(i) && std::find(c.begin(), c.end(), l[at(i)]) == c.end()) c.push_back(l[at(i)]);
    if (!c.empty()) nodes.push_back(i), choices.push_back(c);
  }
  const double was = best_cost;
  double low = 0, high = kForbidden, factor = 1;
  for (int t = 0; t < tries && !nodes.empty(); ++t) {
    price_costs(factor);
    BlockRequest request;
    request.nodes = &nodes;
    request.choices = &choices;
    request.now = &now;
    request.costs = &priced;
    request.largest_table = table;
    take(solver.solve(request, random));
    if (now.feasible()) { high = factor; keep_best(); } else low = factor;
    back_to_best();
    factor = high < kForbidden ? (low + high) / 2 : 2 * factor;
    for (std::size_t n = 0; n < nodes.size(); ++n) if (std::find(choices[n].begin(), choices[n].end(), now.label(nodes[n])) == choices[n].end()) choices[n].push_back(now.label(nodes[n]));
  }
  if (std::getenv("TRACE")) std::fprintf(stderr, "  fused %zu nodes: %.0f -> %.0f\n", nodes.size(), was, best_cost);
}

void LocalSearch::State::dive() {
  static const double passes = knob("PASSES", 20), s0 = knob("S0", 0.05), sd = knob("SD", 0.98);
  const Reduced& reduced = model.reduced();
  const std::size_t rows = reduced.row_limit.size();
  if (lambda.empty()) {
    lambda.assign(rows, 0.0);
    step_size = s0;
    for (int i = 0; i < model.nodes(); ++i) priced.emplace_back(model.cost(i), model.cost(i) + model.labels(i));
    for (int p = 0; p < 50; ++p) messages.pass(priced);
  }
  Labels labels;
  for (int p = 0; p < passes; ++p) {
    price_costs(1.0);
    messages.pass(priced);
    labels = messages.decode(priced);
    now.set(labels);
    if (now.feasible() && now.cost() < best_cost) { best = labels; best_cost = now.cost(); }
    double norm = 0;
    std::vector<double> g(rows);
    for (std::size_t r = 0; r < rows; ++r) {
      g[r] = now.memory().sum(static_cast<int>(r));
      if (g[r] < 0 && lambda[r] == 0) g[r] = 0;
      norm += g[r] * g[r];
    }
    if (norm > 0) {
      const double step = step_size * std::abs(now.cost()) / norm;
      for (std::size_t r = 0; r < rows; ++r) lambda[r] = std::max(0.0, lambda[r] + step * g[r]);
    }
    step_size *= sd;
    if (step_size < 0.002) step_size = s0 * 0.5;
  }
  if (std::getenv("TRACE")) std::fprintf(stderr, "dive %ld: decoded %.0f viol %d over %.0f step %.3g\n", dives, now.cost(), now.violations(), now.memory().largest(), step_size);
  ++dives;
  dirty.clear();
  std::fill(position.begin(), position.end(), 0);
  for (int i = 0; best && i < model.nodes(); ++i) if (now.label(i) != (*best)[at(i)]) dirty.push_back(i), position[at(i)] = 1;
}

void LocalSearch::State::sweep() {
  static const double table = knob("SWEEP_TABLE", 20000);
  BlockRequest request;
  request.nodes = &regions.everything();
  request.now = &now;
  request.largest_table = table;
  if (!priced.empty() && knob("LSW", 1) > 0) request.costs = &priced;
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
                      down = knob("DOWN", 0.001), bmax = knob("BMAX", 100), b0 = knob("B0", 2);
  ++steps;
  const int center = regions.everything()[at(random.below(static_cast<int>(regions.everything().size())))];
  const int size = static_cast<int>(std::exp(random.unit() * std::log(maxsize))) + 1;
  regions.ball(center, size, random, block);
  const double share = static_cast<double>(block.size()) / static_cast<double>(model.nodes());
  BlockRequest request;
  request.nodes = &block;
  request.now = &now;
  request.largest_table = table;
  const bool was = now.feasible();
  static const double cyc0 = knob("CYC", 4000), grow = knob("GROW", 1.5), t1 = knob("T1", 0.001), fromcur = knob("FROMCUR", 0);
  double temperature = 0;
  if (best && noise > 0) {
    if (cycle_length == 0) cycle_length = cyc0;
    if (++in_cycle > cycle_length) {
      in_cycle = 0; cycle_length *= grow;
      if (std::getenv("TRACE")) std::fprintf(stderr, "cycle end: cost %.0f best %.0f price %.3g next %.0f\n", now.cost(), best_cost, price, cycle_length);
      if (fromcur < 0.5) { back_to_best(); }
    }
    const double f = in_cycle / cycle_length;
    if (f < 0.9) temperature = noise * std::abs(best_cost - model.reduced().field.constant) / model.nodes() * std::pow(t1, f / 0.9);
  }
  request.noise = temperature;
  const bool relaxed = was && random.unit() < prel;
  request.price = relaxed ? price * random.unit() : price;
  if (!was) price = std::max(unit, price * (1 + rate * share));
  if (steps % 100 == 0) {
    const double over = std::max(now.memory().largest(), 0.0) / scale;
    double want = b0 * std::pow(bmax / b0, std::min(1.0, progress * 1.2));
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
  } else if (temperature == 0 && !((relaxed ? now.cost() : potential()) <= before || now.violations() < violations)) {
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
  static const double b0 = knob("B0", 2), per = knob("PER", 0), psweeps = knob("PSW", 3);
  static const double calib = knob("CALIB", 0.5);
  static const double after = knob("AFTER", 0), perf = knob("PERF", 0.5), fusing = knob("FUSING", 1);
  const double steps_per_dive = per > 0 ? per : std::max(200.0, perf * s.model.nodes());
  const auto descend = [&](double steps) {
    s.in_cycle = 0;
    for (long n = 0; n < steps && !stop(); ++n) {
      s.progress = n / steps;
      s.step();
    }
    if (std::getenv("TRACE")) std::fprintf(stderr, "  step %ld cost %.0f best %.0f viol %d over %.0f price %.3g steep %.3g\n", s.steps, s.now.cost(), s.best_cost, s.now.violations(), s.now.memory().largest(), s.price, s.now.pressure().steepness() * s.scale);
  };
  const auto calibrate = [&] {
    const double over = std::max(s.now.memory().largest(), 0.0) / s.scale;
    s.now.set_steepness(std::min(b0, over > 0 ? 100 / over : b0) / s.scale);
    double sum = 0, squares = 0;
    for (double l : s.lambda) sum += l, squares += l * l;
    s.price = sum > 0 ? std::max(s.unit, calib * squares / sum) : s.unit;
  };
  while (!stop()) {
    s.dive();
    for (int i = 0; i < psweeps; ++i) s.sweep();
    if (std::getenv("TRACE")) std::fprintf(stderr, "  swept %.0f viol %d over %.0f price %.3g\n",  s.now.cost(), s.now.violations(), s.now.memory().largest(), s.price);
    calibrate();
    descend(steps_per_dive);
    if (stop()) break;
    if (fusing > 0) s.fuse();
    if (s.best && after > 0) { s.back_to_best(); calibrate(); descend(steps_per_dive * after); }
  }
  std::fprintf(stderr, "sweeps %ld steps %ld none %ld acc %ld improved %ld infeas %ld worse %ld price %.3g work %.3g\n",
               s.sweeps, s.steps, s.none, s.accepted, s.improved, s.infeasible, s.worse, s.price, s.solver.work());
}

const std::optional<Labels>& LocalSearch::best() const { return state_->best; }
double LocalSearch::best_cost() const { return state_->best_cost; }

}  // namespace meshwright::portfolio
