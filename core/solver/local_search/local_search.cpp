// SPDX-License-Identifier: Apache-2.0
// Each round decodes labels along messages while memory has a price (local_search_relaxation.h), chooses large blocks
// anew under the same prices, descends by small blocks until memory is kept and nothing improves, then fuses the
// outcome with the best labels and others kept: node by node the better of them, again by elimination.
#include "core/solver/local_search/local_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/errors.h"
#include "core/solver/local_search/local_search_block.h"
#include "core/solver/local_search/local_search_model.h"
#include "core/solver/local_search/local_search_region.h"
#include "core/solver/local_search/local_search_relaxation.h"

namespace meshwright::portfolio {

namespace {

constexpr int kPasses = 20;                                                           // of messages per round
constexpr int kSweeps = 3;                                                            // choosing all nodes as one block
constexpr double kSweepTable = 20000.0, kDescentTable = 65536.0, kFusionTable = 1e6;  // entries per elimination

constexpr double kStepsPerNode = 0.25, kMinSteps = 200.0;  // of a descent
constexpr double kLargestBall = 300.0;                     // nodes; sizes are spread evenly over their logarithm
constexpr double kTwoBalls = 0.25;                         // share of the steps
// Share of the steps from feasible labels that use a lower price of memory and go by cost alone.
constexpr double kIgnoringMemory = 0.2;
// Share of those steps with noise: prices alone never lead to labels within the convex hull of cost and memory.
constexpr double kNoisy = 0.5;
// The penalty on memory gets steeper as a descent goes on: exponents per largest amount of memory of one label.
constexpr double kFirstSteepness = 2.0, kLastSteepness = 100.0, kMaxExponent = 100.0;
constexpr double kPriceUp = 0.01, kPriceDown = 0.001;  // after a step beyond the limits, and after one within

constexpr int kFusionTries = 8;  // prices of memory, by bisection
constexpr std::size_t kKept = 8, kFused = 3;
constexpr long kConfirmEvery = 500;  // steps

}  // namespace

struct LocalSearch::State {
  State(const Reduced& reduced, std::uint64_t seed);

  void decode(const Guide* guide);
  void round();
  void choose_start();
  void sweep();
  void descend();
  void step();
  void choose_steepness(double progress);
  void fuse();
  void try_fusion(std::vector<int> nodes, std::vector<std::vector<int>> choices);

  [[nodiscard]] BlockRequest request_for(const std::vector<int>& nodes, double max_table);
  void take(const std::vector<LabelChange>& changes);
  void take_back();
  void set(Labels labels);
  void compare();
  void keep_best();
  void back_to_best();
  void confirm();
  [[nodiscard]] double potential() const;
  [[nodiscard]] double some_noise();  // REQUIRES: best
  [[nodiscard]] bool stopped();

  SearchModel model;
  Relaxation relaxation;
  Regions regions;
  BlockSolver solver;
  Assignment now;
  Random random;
  std::function<bool()> stop;
  bool over = false;  // `stop` said so

  std::optional<Labels> best;  // as kept up to date; every other change is in `differing`
  double best_cost = kForbidden;
  std::vector<int> differing;       // nodes whose label now may not be that of `best`
  std::vector<char> differs;        // [node] is in it
  std::optional<Labels> confirmed;  // recomputed from nothing
  double confirmed_cost = kForbidden;
  bool has_start = false;  // `now` was given and is where the next round begins

  std::vector<Labels> kept;  // ends of descents
  double amount = 1.0;       // of memory: the largest of one label that fits by itself
  double least_price = 0.0;
  double price = 0.0;
  long steps = 0, rounds = 0;
  std::vector<int> block;
  std::vector<LabelChange> undo;
};

LocalSearch::State::State(const Reduced& reduced, std::uint64_t seed)
    : model(reduced),
      relaxation(model),
      regions(model),
      solver(model),
      now(model, Labels(model.nodes(), 0)),
      random(seed),
      differs(model.nodes(), 0) {
  std::vector<double> room;
  for (double limit : reduced.row_limit) room.push_back(-limit);
  const MemoryProfile limits(room);
  double memory_sum = 0.0, largest = 0.0;
  for (const MemoryPiece& piece : reduced.pieces)
    for (double memory : piece.memory) {
      memory_sum += memory / static_cast<double>(piece.memory.size());
      // The profile has the limits negated, so this is the smallest limit of the piece's rows.
      if (memory <= -limits.largest(piece.begin, piece.end)) largest = std::max(largest, memory);
    }
  if (largest > 0.0) amount = largest;
  // Far below any price that matters: prices grow from it by factors.
  if (memory_sum > 0.0) least_price = 1e-8 * model.forbidden() / memory_sum;
  now.set_steepness(kFirstSteepness / amount);
}

bool LocalSearch::State::stopped() { return over || (over = stop()); }

double LocalSearch::State::potential() const {
  // The slope of price / s * exp(s x) at the limit, x = 0, is `price` for every steepness s.
  return now.cost() + price / now.pressure().steepness() * now.pressure().total();
}

// Up to a node's share of the cost, evenly spread over three orders of magnitude.
double LocalSearch::State::some_noise() {
  const double share = std::abs(best_cost - model.reduced().field.constant) / model.nodes();
  return share * std::pow(10.0, -3.0 * random.unit());
}

// Greedy: nodes in their order, each given the neighbours decided before it.
void LocalSearch::State::decode(const Guide* guide) {
  Labels labels(model.nodes(), -1);
  std::vector<double> cost;
  for (int i = 0; i < model.nodes(); ++i) {
    const double* own = guide ? (*guide)[i].data() : model.cost(i);
    cost.assign(own, own + model.labels(i));
    for (const SearchModel::Neighbour& neighbour : model.neighbours(i)) {
      if (labels[neighbour.node] < 0) continue;
      const double* row = neighbour.costs + labels[neighbour.node] * cost.size();
      for (std::size_t k = 0; k < cost.size(); ++k) cost[k] += row[k];
    }
    labels[i] = static_cast<int>(std::min_element(cost.begin(), cost.end()) - cost.begin());
  }
  set(std::move(labels));
}

void LocalSearch::State::set(Labels labels) {
  now.set(std::move(labels));
  compare();
}

// After `now` was replaced as a whole.
void LocalSearch::State::compare() {
  std::fill(differs.begin(), differs.end(), 0);
  differing.clear();
  for (int i = 0; best && i < model.nodes(); ++i) {
    if (now.label(i) == (*best)[i]) continue;
    differs[i] = 1;
    differing.push_back(i);
  }
  keep_best();
}

void LocalSearch::State::take(const std::vector<LabelChange>& changes) {
  undo.clear();
  for (const LabelChange& change : changes) {
    undo.push_back({change.node, now.label(change.node)});
    now.change(change.node, change.label);
    if (differs[change.node]) continue;
    differs[change.node] = 1;
    differing.push_back(change.node);
  }
}

void LocalSearch::State::take_back() {
  for (auto change = undo.rbegin(); change != undo.rend(); ++change) now.change(change->node, change->label);
  // An exponent that overflowed cannot be taken back.
  if (!(now.pressure().total() < 1e250)) now.set_steepness(now.pressure().steepness());
}

// O(nodes that differ): copying all labels at every improvement would cost more than the moves.
void LocalSearch::State::keep_best() {
  if (!now.feasible() || now.cost() >= best_cost) return;
  if (!best) best = now.labels();
  for (int i : differing) {
    (*best)[i] = now.label(i);
    differs[i] = 0;
  }
  differing.clear();
  best_cost = now.cost();
}

void LocalSearch::State::back_to_best() {
  for (int i : differing) {
    now.change(i, (*best)[i]);
    differs[i] = 0;
  }
  differing.clear();
}

// Only labels whose cost and memory were recomputed are handed out.
void LocalSearch::State::confirm() {
  if (!best || best_cost >= confirmed_cost) return;
  const Reduced& reduced = model.reduced();
  const double cost = evaluate(reduced.field, *best).cost;
  MW_CHECK(std::abs(cost - best_cost) <= 1e-12 * model.forbidden(), "the cost was kept as {}, it is {}", best_cost,
           cost);
  if (excess(reduced, *best) > 0.0) {
    // Rounding of memory sums that are no whole numbers.
    best = confirmed;
    best_cost = confirmed_cost;
    compare();
    return;
  }
  if (cost >= confirmed_cost) return;
  confirmed = best;
  confirmed_cost = cost;
}

void LocalSearch::State::round() {
  choose_start();
  for (int n = 0; n < kSweeps && !stopped(); ++n) sweep();
  // Low at first: steps from infeasible labels raise it.
  price = std::max(least_price, 0.5 * relaxation.typical_price());
  descend();
  if (!stopped() && best) fuse();
  now.refresh();
  confirm();
  ++rounds;
}

void LocalSearch::State::choose_start() {
  const std::optional<Labels> given = has_start ? std::optional(now.labels()) : std::nullopt;
  has_start = false;
  relaxation.advance(
      kPasses, now, [this] { compare(); }, [this] { return stopped(); });
  // Once messages and prices settle they lead to the same labels again and again: every other round adds noise.
  if (given)
    set(*given);
  else if (rounds % 2 == 1 && best)
    set(relaxation.decode(some_noise(), random));
}

BlockRequest LocalSearch::State::request_for(const std::vector<int>& nodes, double max_table) {
  BlockRequest request;
  request.nodes = &nodes;
  request.now = &now;
  request.max_table = max_table;
  request.stop = [this] { return stopped(); };
  return request;
}

void LocalSearch::State::sweep() {
  BlockRequest request = request_for(regions.everything(), kSweepTable);
  request.costs = &relaxation.costs(1.0);
  take(solver.solve(request, random));
  keep_best();
}

void LocalSearch::State::descend() {
  const auto count = static_cast<long>(std::max(kMinSteps, kStepsPerNode * model.nodes()));
  for (long n = 0; n < count && !stopped(); ++n) {
    const double progress = static_cast<double>(n) / static_cast<double>(count);
    if (n % 100 == 0) choose_steepness(progress);
    step();
    if (++steps % kConfirmEvery == 0) confirm();
  }
}

// From a flat penalty, which lets memory move freely, to one that is nearly the hard limit. The exponent of the worst
// row is capped: beyond kMaxExponent sums overflow.
void LocalSearch::State::choose_steepness(double progress) {
  double steepness = kFirstSteepness * std::pow(kLastSteepness / kFirstSteepness, std::min(1.0, 1.2 * progress));
  const double beyond = now.memory().largest() / amount;
  if (beyond > 0.0) steepness = std::min(steepness, kMaxExponent / beyond);
  now.set_steepness(steepness / amount);
}

// One move: a ball of nodes (or two that share memory rows) solved anew. From infeasible labels the price of memory
// rises until they are feasible; a move is kept when it breaks nothing new and does not cost more.
void LocalSearch::State::step() {
  const std::vector<int>& nodes = regions.everything();
  const int center = nodes[random.below(static_cast<int>(nodes.size()))];
  const int size = 1 + static_cast<int>(std::pow(kLargestBall, random.unit()));
  regions.ball(center, size, random, block);
  if (random.unit() < kTwoBalls) regions.second_ball(center, size, random, block);
  const bool feasible = now.feasible();
  const bool by_cost = feasible && random.unit() < kIgnoringMemory;
  if (!feasible) {
    const double share = static_cast<double>(block.size()) / static_cast<double>(model.nodes());
    price = std::min(std::max(least_price, price * (1.0 + share)), model.forbidden() / amount);
  }
  BlockRequest request = request_for(block, kDescentTable);
  request.price = by_cost ? price * random.unit() : price;
  if (by_cost && random.unit() < kNoisy) request.noise = some_noise();
  const std::vector<LabelChange>& changes = solver.solve(request, random);
  if (changes.empty()) return;
  const double before = by_cost ? now.cost() : potential();
  const int violations = now.violations();
  take(changes);
  const double after = by_cost ? now.cost() : potential();
  if (now.violations() > violations || (now.violations() == violations && !(after <= before))) {
    take_back();
  } else if (feasible && !now.feasible()) {
    take_back();
    if (!by_cost) price *= 1.0 + kPriceUp;
  } else {
    if (feasible) price *= 1.0 - kPriceDown;
    keep_best();
  }
}

// The labels now and some others kept, against the best ones: where they differ, each node may take any of theirs.
void LocalSearch::State::fuse() {
  std::vector<Labels> others{now.labels()};
  if (now.feasible()) {
    if (kept.size() < kKept)
      kept.push_back(now.labels());
    else
      kept[random.below(static_cast<int>(kKept))] = now.labels();
  }
  while (others.size() < kFused && !kept.empty()) others.push_back(kept[random.below(static_cast<int>(kept.size()))]);
  back_to_best();
  std::vector<int> nodes;
  std::vector<std::vector<int>> choices;
  for (int i = 0; i < model.nodes(); ++i) {
    std::vector<int> choice;
    for (const Labels& labels : others)
      if (labels[i] != now.label(i)) choice.push_back(labels[i]);
    if (choice.empty()) continue;
    nodes.push_back(i);
    choices.push_back(std::move(choice));
  }
  if (!nodes.empty()) try_fusion(std::move(nodes), std::move(choices));
}

// The least factor on the prices of memory under which the outcome keeps the memory, by bisection.
void LocalSearch::State::try_fusion(std::vector<int> nodes, std::vector<std::vector<int>> choices) {
  for (std::size_t n = 0; n < nodes.size(); ++n) choices[n].push_back(now.label(nodes[n]));
  BlockRequest request = request_for(nodes, kFusionTable);
  request.choices = &choices;
  double low = 0.0, high = kForbidden, factor = 1.0;
  for (int n = 0; n < kFusionTries && !stopped(); ++n) {
    request.costs = &relaxation.costs(factor);
    take(solver.solve(request, random));
    // `low` breaks the memory and `high` keeps it, but for the first values, which are not tried.
    (now.feasible() ? high : low) = factor;
    keep_best();
    back_to_best();
    factor = high < kForbidden ? (low + high) / 2.0 : 2.0 * factor;
  }
}

LocalSearch::LocalSearch(const Reduced& reduced, std::uint64_t seed) : state_(std::make_unique<State>(reduced, seed)) {}
LocalSearch::~LocalSearch() = default;

void LocalSearch::start_from(const Guide* guide) {
  state_->decode(guide);
  state_->has_start = guide != nullptr;
}

void LocalSearch::start_from(const Labels& labels) {
  state_->set(labels);
  state_->has_start = true;
}

void LocalSearch::run(const std::function<bool()>& stop) {
  State& state = *state_;
  state.stop = stop;
  state.over = false;
  const bool nothing_to_choose = state.regions.everything().empty();
  if (nothing_to_choose) state.set(state.now.labels());
  while (!nothing_to_choose && !state.model.reduced().infeasible && !state.stopped()) state.round();
  state.confirm();
  state.stop = nullptr;
}

const std::optional<Labels>& LocalSearch::best() const { return state_->confirmed; }

}  // namespace meshwright::portfolio
