// SPDX-License-Identifier: Apache-2.0
// The order of things: presolve; the exact finish at once where elimination is cheap; then rounds, each on what the
// last one left. A round passes messages and searches by turns, longer each time; when the bound can drop labels, it
// drops them, presolves again and ends the round; when nothing moves any more, the exact finish gets another try at
// what is left, with more work than before, and then neighbours are merged.
#include "core/solver/portfolio/portfolio.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>
#include <utility>

#include "core/solver/bound/bound.h"
#include "core/solver/branch_and_bound/branch_and_bound_hubs.h"
#include "core/solver/elimination/elimination.h"
#include "core/solver/local_search/local_search.h"
#include "core/solver/portfolio/finish.h"
#include "core/solver/portfolio/portfolio_least_peak.h"
#include "core/solver/presolve/presolve.h"

namespace meshwright::portfolio {

namespace {

constexpr double kLargeField = 3e5;                  // entries of all edge tables from which two threads pay
constexpr double kFinishLabels = 12000;              // labels up to which the exact finish has a chance
constexpr double kMergedEntries = 20000;             // by which merging may let the edge tables grow
constexpr double kCheapElimination = 2e7;            // additions of one elimination: below, the finish comes first
constexpr double kFirstWork = 1e9, kMoreWork = 4.0;  // of the finish: its first try, and by how much the next has more
constexpr double kMaxWorkUntimed = 1e10;             // of its last try where no time is set
constexpr double kPresolveShare = 0.5;               // of the budget, before any labels are known
constexpr double kSearchShare = 0.5;                 // of what is then left, for finding some
constexpr double kFirstAim = 2e-4;                   // above the bound, relative: where the optimum is supposed first
constexpr double kAimShare = 0.5, kFirstAimShare = 0.3;  // of the time left, for one such try; before branching on hubs
constexpr int kBranchingPasses = 256;                    // that one slice of branching on hubs takes as long as
constexpr int kSlicesPerLook = 8;                        // between looks at what branching gains
constexpr double kMinGainOfGap = 0.02;                   // from look to look; below, branching stops
constexpr int kMinPasses = 128;                          // of the last turn of a round in which nothing moved
constexpr double kSettled = 1e-9;  // relative gap that counts as none when costs are not whole numbers

bool is_whole(double x) { return x == kForbidden || (std::floor(x) == x && std::abs(x) < 1e15); }

bool has_whole_costs(const Field& field) {
  const auto whole = [](const std::vector<double>& costs) { return std::all_of(costs.begin(), costs.end(), is_whole); };
  return is_whole(field.constant) &&
         std::all_of(field.nodes.begin(), field.nodes.end(), [&](const auto& node) { return whole(node.cost); }) &&
         std::all_of(field.edges.begin(), field.edges.end(), [&](const auto& edge) { return whole(edge.cost); });
}

class Portfolio {
 public:
  Portfolio(const Field& field, const Options& options)
      : field_(field), options_(options), whole_(has_whole_costs(field)), budget_(options.budget) {}

  Result run() {
    const Budget share = part_of_budget(kPresolveShare);
    reduced_ = presolve(field_, share);
    say("presolve");
    if (share.over()) {
      search_only();
      if (!budget_.over()) reduced_ = presolve(reduced_, {}, budget_);
    }
    if (!settled_ && !budget_.over() && suits_finish()) finish_off(true);
    while (!settled_ && !budget_.over() && round()) {
    }
    if (!result_.labels && !budget_.over()) add_least_peak(field_, options_, result_);
    return std::move(result_);
  }

 private:
  // What is left has been looked at to the end: the best known labels are the best, if they cost no more than the
  // target; if not, the target is a lower bound.
  void settle(const std::string& method) {
    settled_ = true;
    result_.lower_bound = std::max(result_.lower_bound, std::min(result_.cost, target_));
    if (result_.cost > target_) return;
    result_.method = method;
    result_.proven_infeasible = !result_.labels;
  }

  void say(const std::string& stage) const {
    if (!options_.on_progress) return;
    const std::optional<double> cost = result_.labels ? std::optional(result_.cost) : std::nullopt;
    options_.on_progress({budget_.used(), cost, result_.lower_bound, stage});
  }

  // `labels` of the reduced field, feasible there.
  void take(const Labels& labels, const std::string& method) {
    const Labels lifted = reduced_.lift(labels);
    // Evaluated in the whole field, so that rounding in the reduced one never decides.
    const FieldValue value = evaluate(field_, lifted);
    if (value.cost >= result_.cost || value.peak > field_.limit) return;
    result_.labels = lifted;
    result_.cost = value.cost;
    result_.method = method;
  }

  // The most that labels worth looking for may cost.
  [[nodiscard]] double cutoff() const {
    const double rounding = 1e-12 * std::abs(std::min(result_.cost, target_));
    if (!(rounding < kForbidden)) return kForbidden;
    // Among whole costs the next better one is less by at least 1.
    return std::min(result_.cost - (whole_ ? 1.0 : 0.0), target_) + rounding;
  }

  void take_bound(double bound) {
    result_.lower_bound = std::max(result_.lower_bound, std::min({bound, result_.cost, target_}));
    const bool close = result_.labels && result_.cost - bound <= kSettled * std::abs(result_.cost) && !whole_;
    if (bound > cutoff() || close) settle(result_.method);
  }

  [[nodiscard]] Budget part_of_budget(double share) const {
    Budget part = budget_;
    if (budget_.left() < kForbidden) part.limit_s = budget_.used() + share * std::max(0.0, budget_.left());
    return part;
  }

  void search_only();
  bool round();
  void turn(DualBound& bound, LocalSearch& guided, LocalSearch& search, int length);
  void search_beside(LocalSearch& search, int length, const std::function<void()>& other_work);
  void walk(LocalSearch& walker, std::size_t max_steps) const;
  void branch_on_hubs(const DualBound& bound, LocalSearch& guided, LocalSearch& search);
  [[nodiscard]] bool drop_labels(const DualBound& bound, const Reduced& from);
  [[nodiscard]] std::vector<std::vector<bool>> hopeless_labels(const DualBound& bound) const;
  [[nodiscard]] bool aim_low(const DualBound& bound);
  [[nodiscard]] bool tighten(DualBound& bound);
  [[nodiscard]] bool suits_finish() const;
  [[nodiscard]] bool is_large() const { return entry_count(reduced_.field) >= kLargeField; }
  void finish_off(bool allow_glpk);

  const Field& field_;
  const Options& options_;
  const bool whole_;
  Budget budget_;
  Reduced reduced_;                                  // all labellings that may cost no more than the cutoff are in it
  double target_ = kForbidden;                       // set while only labels that cost no more are looked for
  std::vector<std::pair<int, double>> multipliers_;  // (step, multiplier) of the last round's rows
  Result result_;
  bool settled_ = false;
  double aimed_at_ = -kForbidden;  // the bound when the optimum was last supposed to be close to it
  bool branched_ = false;          // on hubs
  int rounds_ = 0, searches_ = 0, idle_tightenings_ = 0;
  double tightened_at_ = -kForbidden;  // the bound when nodes were merged last
  double finish_work_ = kFirstWork;    // that the finish may do next
};

// Where presolve takes so much of the time: some labels first, whatever comes after.
void Portfolio::search_only() {
  if (reduced_.infeasible) return;
  const Budget share = part_of_budget(kSearchShare);
  LocalSearch search(reduced_, options_.seed);
  search.start_from(nullptr);
  search.run([&] { return search.best() ? share.over() : budget_.over(); });
  if (search.best()) take(*search.best(), "local search");
  say("search");
}

void Portfolio::walk(LocalSearch& walker, std::size_t max_steps) const {
  std::size_t steps = 0;
  walker.run([&] { return ++steps > max_steps || budget_.over(); });
}

// The long search, whose steps grow with the field, and other work that takes about as long as `length` passes of
// messages; where a second thread pays, the search runs beside the work, as long as that takes.
void Portfolio::search_beside(LocalSearch& search, int length, const std::function<void()>& other_work) {
  if (options_.threads > 1 && entry_count(reduced_.field) > kLargeField) {
    std::atomic<bool> done = false;
    std::thread other([&] { search.run([&] { return done || budget_.over(); }); });
    other_work();
    done = true;
    other.join();
  } else {
    other_work();
    walk(search, static_cast<std::size_t>(length) * (1 + reduced_.field.nodes.size() / 500));
  }
}

// One turn: `length` passes of messages, a short search along them, and the long search.
void Portfolio::turn(DualBound& bound, LocalSearch& guided, LocalSearch& search, int length) {
  const std::size_t few_steps = static_cast<std::size_t>(length) / (1 + reduced_.field.nodes.size() / 500);
  search_beside(search, length, [&] {
    double longest = 0.0;  // pass so far, in seconds: the last one must not begin when the time is short
    for (int i = 0; i < length && budget_.left() > longest; ++i) {
      const double before = budget_.used();
      bound.iterate(std::min(result_.cost, target_));
      longest = std::max(longest, budget_.used() - before);
    }
    guided.start_from(&bound.guide());
    walk(guided, few_steps);
  });
  for (const LocalSearch* walker : {&search, &guided})
    if (walker->best()) take(*walker->best(), "local search");
  take_bound(bound.value());
}

// Where the bound has come to rest far below the cost: parts of the search space in which hubs are decided have better
// bounds. Ends where that helps too little; labels that are in no part are dropped then.
void Portfolio::branch_on_hubs(const DualBound& bound, LocalSearch& guided, LocalSearch& search) {
  branched_ = true;
  HubBranching hubs(reduced_, bound);
  const double work = 2.0 * kBranchingPasses * entry_count(reduced_.field);
  const std::size_t few_steps = static_cast<std::size_t>(kBranchingPasses) / (1 + reduced_.field.nodes.size() / 500);
  double before = bound.value();
  for (int slice = 1; !settled_ && !budget_.over() && !hubs.stuck(); ++slice) {
    search_beside(search, kBranchingPasses, [&] {
      hubs.run(cutoff(), work, budget_);
      guided.start_from(&hubs.guide());
      walk(guided, few_steps);
    });
    for (const LocalSearch* walker : {&search, &guided})
      if (walker->best()) take(*walker->best(), "local search");
    take_bound(hubs.lower_bound());
    say("branching on hubs");
    if (slice % kSlicesPerLook != 0) continue;
    if (hubs.lower_bound() - before < kMinGainOfGap * (cutoff() - before)) break;
    before = hubs.lower_bound();
  }
  if (settled_ || budget_.over()) return;
  std::vector<std::vector<bool>> hopeless = hubs.kept();
  for (std::vector<bool>& of_node : hopeless) of_node.flip();
  reduced_ = presolve(reduced_, hopeless, budget_);
  say("fixing");
}

// False: nothing is left to do.
bool Portfolio::round() {
  ++rounds_;
  if (reduced_.infeasible) {
    settle(rounds_ == 1 ? "presolve" : "reduced costs");
    return false;
  }
  if (reduced_.field.nodes.empty()) {
    take({}, "elimination");
    settle("elimination");
    return false;
  }
  DualBound bound(reduced_, multipliers_);
  LocalSearch guided(reduced_, options_.seed + static_cast<std::uint64_t>(++searches_));
  LocalSearch search(reduced_, options_.seed + static_cast<std::uint64_t>(++searches_));
  const auto start_from_known = [&] {
    const std::optional<Labels> known = result_.labels ? reduced_.project(*result_.labels) : std::nullopt;
    if (known) search.start_from(*known);
    return known.has_value();
  };
  if (!start_from_known()) search.start_from(nullptr);
  double before = -kForbidden, cost_before = kForbidden;
  for (int length = 16;; length = std::min(2 * length, 1024)) {
    turn(bound, guided, search, length);
    say("bound and search");
    if (settled_ || budget_.over()) return false;
    multipliers_ = bound.multipliers_by_step();
    if (drop_labels(bound, reduced_)) return true;
    const double step = 1e-5 * std::abs(bound.value());
    if (bound.value() <= before + 50.0 * step) {
      const double best_before = result_.cost;
      if (aim_low(bound)) return !settled_;  // `reduced_` is another one now
      if (result_.cost < best_before) (void)start_from_known();
      if (!branched_ && target_ == kForbidden && is_large()) {
        branch_on_hubs(bound, guided, search);
        return !settled_;
      }
    }
    if (length >= kMinPasses && bound.value() <= before + step && result_.cost >= cost_before - step) break;
    before = bound.value();
    cost_before = result_.cost;
  }
  const bool finishing = label_count(reduced_.field) <= kFinishLabels;
  if (finishing) finish_off(false);
  if (settled_) return false;
  if (tighten(bound)) return true;
  if (finishing) finish_off(true);
  if (settled_) return false;
  return budget_.left() < kForbidden || finish_work_ <= kMaxWorkUntimed;
}

std::vector<std::vector<bool>> Portfolio::hopeless_labels(const DualBound& bound) const {
  std::vector<std::vector<bool>> hopeless;
  for (const std::vector<double>& of_node : bound.min_marginals()) {
    hopeless.emplace_back();
    for (double of_label : of_node) hopeless.back().push_back(of_label > cutoff());
  }
  return hopeless;
}

// Whether so many labels of `from` could be dropped that presolve was worth its time; `reduced_` is then what is left.
bool Portfolio::drop_labels(const DualBound& bound, const Reduced& from) {
  const std::vector<std::vector<bool>> hopeless = hopeless_labels(bound);
  double count = 0.0;
  for (const std::vector<bool>& of_node : hopeless)
    count += static_cast<double>(std::count(of_node.begin(), of_node.end(), true));
  if (count < 0.05 * label_count(from.field)) return false;
  reduced_ = presolve(from, hopeless, budget_);
  say("fixing");
  return true;
}

// When the bound has come to rest: pairs of labels are dropped as well, and neighbours merged. False: this has helped
// too little lately, or changes nothing.
bool Portfolio::tighten(DualBound& bound) {
  if (bound.value() < tightened_at_ + 1e-4 * std::abs(bound.value()) && ++idle_tightenings_ > 2) return false;
  tightened_at_ = std::max(tightened_at_, bound.value());
  const std::size_t nodes = reduced_.field.nodes.size();
  const double entries = entry_count(reduced_.field);
  Reduced tighter = reduced_;
  if (cutoff() < kForbidden) bound.forbid_pairs(cutoff(), tighter.field);
  tighter = presolve(tighter, hopeless_labels(bound), budget_);
  if (!tighter.infeasible) tighter = merge_nodes(tighter, std::max(kMergedEntries, 0.25 * entries), budget_);
  reduced_ = std::move(tighter);
  say("merging");
  return reduced_.infeasible || reduced_.field.nodes.size() < nodes || entry_count(reduced_.field) < 0.9 * entries;
}

// Where the bound may be far closer to the optimum than the best known labels are: supposes that the optimum is a
// little above the bound, which drops most labels, and solves what is left. Labels found so are optimal; if there are
// none, the supposed optimum is a new bound, and the next supposition is bolder. False: not tried, or in vain: then
// `reduced_` is what it was.
bool Portfolio::aim_low(const DualBound& bound) {
  // Not inside of another such try, not again at about the same bound, and only for large fields.
  const bool again = bound.value() < aimed_at_ + 1e-3 * std::abs(bound.value());
  if (target_ < kForbidden || again || !is_large()) return false;
  double above = kFirstAim;
  if (result_.lower_bound + above * std::abs(result_.lower_bound) > result_.cost) return false;
  aimed_at_ = bound.value();
  Reduced all = std::move(reduced_);  // its tables stay where they are: `bound` goes on pointing to them
  const Budget whole_budget = budget_;
  const double share = branched_ ? kAimShare : kFirstAimShare;
  bool found = false, in_vain = false;
  for (; !found && !in_vain && !whole_budget.over(); above *= 4.0) {
    target_ = result_.lower_bound + above * std::abs(result_.lower_bound);
    if (target_ > result_.cost) break;
    budget_ = whole_budget;
    budget_ = part_of_budget(share);
    const bool dropped = drop_labels(bound, all);
    while (dropped && !settled_ && !budget_.over() && round()) {
    }
    found = dropped && result_.cost <= target_;  // all that may be better is in what is left
    // A bolder try would take longer than this one, which has not come to an end.
    in_vain = dropped && !found && !settled_ && !branched_;
    // If the part was settled, the target is a lower bound now. The next try starts from all labels.
    if (!found) settled_ = false;
  }
  target_ = kForbidden;
  budget_ = whole_budget;
  if (!found) reduced_ = std::move(all);
  return found;
}

// Whether the exact finish may settle it without anyone's help.
bool Portfolio::suits_finish() const {
  if (reduced_.infeasible || reduced_.field.nodes.empty() || entry_count(reduced_.field) > kCheapElimination)
    return false;
  const std::optional<EliminationOrder> order = elimination_order(reduced_.field, kCheapElimination);
  return order && order->work <= kCheapElimination;
}

void Portfolio::finish_off(bool allow_glpk) {
  FinishOptions options;
  options.budget = budget_;
  options.upper_bound = std::min(result_.cost, target_);
  options.allow_glpk = allow_glpk && options_.allow_glpk && budget_.left() < kForbidden;
  options.max_work = finish_work_;
  options.multipliers = multipliers_;
  finish_work_ *= kMoreWork;
  const Finish end = finish(reduced_, options);
  if (end.labels) take(*end.labels, end.method);
  if (end.complete)
    settle(end.method);
  else
    take_bound(end.lower_bound);
  say("finish");
}

}  // namespace

double Result::gap() const {
  if (!labels) return kForbidden;
  if (cost <= lower_bound) return 0.0;
  return cost == 0.0 ? kForbidden : (cost - lower_bound) / std::abs(cost);
}

Result solve(const Field& field, const Options& options) { return Portfolio(field, options).run(); }

}  // namespace meshwright::portfolio
