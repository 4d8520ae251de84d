// SPDX-License-Identifier: Apache-2.0
#include "core/solver/branch_and_bound/branch_and_bound.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/solver/branch_and_bound/branch_and_bound_search.h"

namespace meshwright::portfolio {

namespace {

constexpr double kRelative = 1e-11;  // costs this close to each other are taken as equal
constexpr double kRounding = 2e-13;  // of sums of costs
constexpr int kRunsAtRoot = 150, kRunsInside = 10;
constexpr double kWorthAnother = 0.8;                         // of the labels left: bound once more
constexpr std::size_t kWidthAtRoot = 30, kWidthInside = 300;  // of the search: for a first choice, and for all
constexpr std::size_t kNodesToSearch = 30;
// After so many parts the whole space is searched with so much width, later, at work in balance, with more.
constexpr int kPartsBeforeRetry = 40;
constexpr std::size_t kWidthOfRetry = 500, kMoreWidth = 4, kLargestWidth = 200000;
constexpr double kWorkPerNode = 500.0, kWorkPerEntry = 4.0;  // of making a part a field of its own
constexpr double kWorthRetry = 0.5;  // of the work that the wider search may take: spent on parts in between
constexpr double kFactors[] = {1.0, 0.97, 1.03, 0.85, 1.2};  // of the best multipliers, that bound the search
constexpr double kMaxWork = 1e8;      // additions of an exact elimination that is repeated; beyond, messages are split
constexpr double kMaxWorkOnce = 3e9;  // of one that settles everything
// Entries of the messages at the root, larger from round to round.
constexpr double kFirstMessage = 1024.0, kMessageGrowth = 8.0, kMaxMessage = 524288.0;

// The largest number all finite costs are multiples of; 0: they are not whole numbers.
double common_step(const Field& field) {
  double step = 0.0;
  const auto take = [&](const std::vector<double>& costs) {
    for (double cost : costs) {
      if (cost == kForbidden || cost == 0.0) continue;
      // From 2^53, about 9e15, a double need not be an exact whole number.
      if (cost != std::floor(cost) || std::abs(cost) > 9e15) return false;
      double rest = std::abs(cost);
      // Euclid's algorithm for the step so far and this cost.
      while (rest != 0.0) {
        const double next = std::fmod(step, rest);
        step = rest;
        rest = next;
      }
    }
    return true;
  };
  for (const Field::Node& node : field.nodes)
    if (!take(node.cost)) return 0.0;
  for (const Field::Edge& edge : field.edges)
    if (!take(edge.cost)) return 0.0;
  return step;
}

}  // namespace

Incumbent::Incumbent(const Reduced& reduced, double upper_bound)
    : reduced_(reduced), step_(common_step(reduced.field)), cost_(upper_bound) {
  lower(upper_bound);
}

// Where all costs are multiples of one step, so are the sums: a better choice is better by a whole step, and everything
// above the next lower multiple is cut off. Elsewhere it has to be better by more than rounding.
void Incumbent::lower(double cost) {
  cost_ = cost;
  if (cost == kForbidden) return;
  const double constant = reduced_.field.constant;
  const double rounding = kRounding * std::max(std::abs(cost), std::abs(constant));
  if (step_ > 4.0 * rounding) {
    const double below = constant + step_ * (std::ceil((cost - constant - rounding) / step_) - 1.0);
    cut_ = below + std::min(0.25 * step_, rounding + 1e-6 * step_);
  } else {
    cut_ = cost - kRelative * std::max(std::abs(cost), 1e-3 * std::abs(constant));
  }
}

bool Incumbent::offer(const Labels& labels) {
  const double cost = evaluate(reduced_.field, labels).cost;
  if (!(cost < cost_) || excess(reduced_, labels) > 0.0) return false;
  labels_ = labels;
  lower(cost);
  return true;
}

struct BranchAndBound::View {
  ShrunkField shrunk;
  std::optional<EliminationPlan> plan;
  std::optional<RowDual> dual;
  std::vector<std::size_t> original;  // per label of the shrunk field: its place among those of the whole field
  Multipliers multipliers;
  std::vector<double> marginals;
};

BranchAndBound::BranchAndBound(const Reduced& reduced, double max_table, double max_work, Incumbent& incumbent,
                               const Budget& budget)
    : reduced_(reduced),
      max_table_(max_table),
      max_work_(max_work),
      incumbent_(incumbent),
      budget_(budget),
      first_{0},
      watched_(reduced.row_limit.size(), false),
      entries_(entry_count(reduced.field)) {
  for (const Field::Node& node : reduced.field.nodes) first_.push_back(first_.back() + node.cost.size());
  kept_.assign(first_.back(), true);
}

// Depth first into the half that the dual solution prefers, else the part of the lowest bound. Now and then the whole
// space is searched at once with a larger width, which settles what splitting would take apart piece by piece.
void BranchAndBound::run() {
  open_.push({kept_, Multipliers(reduced_.row_limit.size(), 0.0), -kForbidden});
  double work_before_retry = 0.0;
  for (std::size_t width = kWidthOfRetry; (!open_.empty() || !next_.empty()) && !over();) {
    if (next_.empty()) {
      next_.push_back(open_.top());
      open_.pop();
    }
    Part part = std::move(next_.back());
    next_.clear();
    if (part.bound < incumbent_.cut()) examine(std::move(part));
    if (parts_ < kPartsBeforeRetry || work_ < work_before_retry || (open_.empty() && next_.empty())) continue;
    const double before = work_;
    if (settles_whole(width)) {
      open_ = {};
      next_.clear();
    }
    // A wider search takes about kMoreWidth times the work of this one. It waits until the parts have taken half as
    // much.
    work_before_retry = work_ + kWorthRetry * static_cast<double>(kMoreWidth) * (work_ - before);
    width = std::min(width * kMoreWidth, kLargestWidth);
  }
  // What is still open bounds the optimum from below.
  for (const Part& part : next_) lower_bound_ = std::min(lower_bound_, part.bound);
  for (; !open_.empty(); open_.pop()) lower_bound_ = std::min(lower_bound_, open_.top().bound);
}

// Splitting tells equal blocks of a model apart one by one; the search does not, once the cut leaves it little.
bool BranchAndBound::settles_whole(std::size_t width) {
  Part whole{kept_, root_multipliers_, -kForbidden};
  std::optional<View> view;
  do {
    view.emplace();
    if (!bound(*view, whole)) return true;
    if (over()) return false;
  } while (tighten(*view, whole) && !over());
  kept_ = whole.kept;
  root_multipliers_ = whole.multipliers;
  search(*view, whole, width);
  return whole.bound >= incumbent_.cut();
}

// Bounds a part and drops labels until neither gains much, searches it, and splits what is left.
void BranchAndBound::examine(Part part) {
  ++parts_;
  std::optional<View> view;
  do {
    view.emplace();
    if (!bound(*view, part)) return;
    if (budget_.over()) {
      open_.push(std::move(part));
      return;
    }
    const bool again = tighten(*view, part);
    // The root's labels and multipliers hold for the whole space: settles_whole starts from them.
    if (parts_ == 1) {
      kept_ = part.kept;
      root_multipliers_ = part.multipliers;
    }
    // Larger messages raise the bound of an inexact plan. The root tries them round by round.
    const bool larger = parts_ == 1 && !view->plan->exact() && max_message_ < std::min(kMaxMessage, max_table_);
    if (!again && !larger) break;
  } while (!over());
  if (parts_ == 1 || view->plan->buckets().size() <= kNodesToSearch)
    search(*view, part, parts_ == 1 ? kWidthAtRoot : kWidthInside);
  if (part.bound < incumbent_.cut()) split(*view, part);
}

// The order of the root serves all its parts: they have fewer nodes and edges.
void BranchAndBound::plan(View& view, const Part& part) {
  const Field& field = view.shrunk.reduced.field;
  std::vector<int> moved(reduced_.field.nodes.size(), -1), nodes, order;
  for (std::size_t i = 0; i < moved.size(); ++i) {
    const auto first = part.kept.begin() + static_cast<std::ptrdiff_t>(first_[i]);
    const auto last = part.kept.begin() + static_cast<std::ptrdiff_t>(first_[i + 1]);
    if (std::count(first, last, true) < 2) continue;
    moved[i] = static_cast<int>(nodes.size());
    nodes.push_back(static_cast<int>(i));
    for (std::size_t x = first_[i]; x < first_[i + 1]; ++x)
      if (part.kept[x]) view.original.push_back(x);
  }
  if (parts_ == 1) {
    const std::optional<EliminationOrder> exact = elimination_order(field, max_table_);
    const double max_work = view.shrunk.reduced.row_limit.empty() ? kMaxWorkOnce : kMaxWork;
    // An exact elimination gives the best bound. It is taken where many runs of it are affordable.
    if (exact && exact->work <= max_work)
      max_message_ = kForbidden;
    else
      max_message_ = max_message_ == kForbidden
                         ? std::min(kFirstMessage, max_table_)
                         : std::min(max_message_ * kMessageGrowth, std::min(kMaxMessage, max_table_));
    order_.clear();
    for (int node : max_message_ == kForbidden ? exact->nodes : bounded_elimination_order(field, max_message_))
      order_.push_back(nodes[node]);
  }
  // Nodes with one label left are gone. The others keep their order.
  for (int node : order_)
    if (moved[node] >= 0) order.push_back(moved[node]);
  view.plan.emplace(field, order, max_message_);
}

// false: nothing of the part is left below the cut.
bool BranchAndBound::bound(View& view, Part& part) {
  view.shrunk = shrink(reduced_, part.kept);
  const Reduced& small = view.shrunk.reduced;
  if (small.infeasible) return false;
  plan(view, part);
  for (int row : view.shrunk.rows) view.multipliers.push_back(part.multipliers[row]);
  view.dual.emplace(small, *view.plan);
  work_ += kWorkPerNode * static_cast<double>(reduced_.field.nodes.size()) + kWorkPerEntry * entries_;
  view.dual->ascend(view.multipliers, incumbent_.cut(), parts_ == 1 ? kRunsAtRoot : kRunsInside, budget_);
  work_ += view.dual->work();
  if (view.dual->labels()) incumbent_.offer(small.lift(*view.dual->labels()));
  part.bound = std::max(part.bound, view.dual->value());
  return part.bound < incumbent_.cut() && !(small.row_limit.empty() && view.plan->exact());
}

// Drops the labels that cannot be in anything below the cut; true: so many that it pays to start over.
bool BranchAndBound::tighten(View& view, Part& part) {
  const Reduced& small = view.shrunk.reduced;
  const Multipliers& best = view.dual->multipliers();
  for (std::size_t r = 0; r < best.size(); ++r) part.multipliers[view.shrunk.rows[r]] = best[r];
  view.multipliers = best;
  Elimination& elimination = view.dual->elimination();
  elimination.run(charged(small, *view.plan, best));
  elimination.min_marginals(view.marginals);
  // About three eliminations: a run and the pass back.
  work_ += 3.0 * view.plan->work();
  const double offset = given_back(small, best);
  std::size_t left = 0;
  for (std::size_t x = 0; x < view.original.size(); ++x) {
    // No labels of the part that use this one and keep the rows cost less than this sum.
    const bool keep = view.marginals[x] + offset < incumbent_.cut();
    part.kept[view.original[x]] = keep;
    left += keep;
  }
  // A label whose memory alone exceeds a row that is left fits nowhere in this part.
  for (const MemoryPiece& piece : small.pieces) {
    const double room = *std::min_element(small.row_limit.begin() + piece.begin, small.row_limit.begin() + piece.end);
    for (std::size_t x = 0; x < piece.memory.size(); ++x) {
      const std::size_t place = view.original[view.plan->first()[piece.node] + x];
      if (piece.memory[x] <= room || !part.kept[place]) continue;
      part.kept[place] = false;
      --left;
    }
  }
  return static_cast<double>(left) < kWorthAnother * static_cast<double>(view.original.size());
}

// Partial choices are bounded at several multiples of the multipliers: no single ones are best for all of them.
void BranchAndBound::search(const View& view, Part& part, std::size_t width) {
  const Reduced& small = view.shrunk.reduced;
  if (!view.plan->exact()) return;
  std::vector<Multipliers> sets;
  for (double factor : kFactors) {
    sets.push_back(view.multipliers);
    for (double& m : sets.back()) m *= factor;
  }
  // Few rows matter, and the fewer are watched, the more partial choices are alike: rows join when choices break them.
  std::vector<int> watched;
  for (std::size_t r = 0; r < view.multipliers.size(); ++r)
    if (view.multipliers[r] > 0.0 || watched_[view.shrunk.rows[r]]) watched.push_back(static_cast<int>(r));
  for (bool again = true; again && !budget_.over();) {
    TreeSearch tree(small, *view.plan, sets, watched);
    const SearchResult found = tree.run(incumbent_.cut(), width, budget_);
    work_ += static_cast<double>(sets.size()) * view.plan->work() + found.work;
    if (found.labels) incumbent_.offer(small.lift(*found.labels));
    part.bound = std::max(part.bound, std::min(found.left_out, found.broken));
    for (int row : found.broken_rows) {
      watched.push_back(row);
      watched_[view.shrunk.rows[row]] = true;
    }
    again = !found.broken_rows.empty() && part.bound < incumbent_.cut() && work_ < max_work_;
  }
}

// The node whose labels in the dual solution differ most in what their memory is charged; without any such, the one the
// dual solution has decided least.
BranchAndBound::Choice BranchAndBound::choose(const View& view) const {
  const auto& first = view.plan->first();
  const std::vector<double> charge = charged(view.shrunk.reduced, *view.plan, view.multipliers),
                            base = side_by_side(view.shrunk.reduced.field);
  const std::vector<double> shares = view.dual->shares();
  Choice charges{0, 0.0, {}}, doubt{0, -1.0, {}};
  for (std::size_t i = 0; i + 1 < first.size(); ++i) {
    double mean = 0.0, spread = 0.0, largest = 0.0;
    for (std::size_t x = first[i]; x < first[i + 1]; ++x) {
      mean += shares[x] * (charge[x] - base[x]);
      largest = std::max(largest, shares[x]);
    }
    for (std::size_t x = first[i]; x < first[i + 1]; ++x) spread += shares[x] * std::abs(charge[x] - base[x] - mean);
    std::vector<bool> low, most;
    for (std::size_t x = first[i]; x < first[i + 1]; ++x) {
      low.push_back(charge[x] - base[x] <= mean);
      most.push_back(shares[x] == largest);
    }
    const auto parts = [](const std::vector<bool>& side) {
      return std::find(side.begin(), side.end(), !side.front()) != side.end();
    };
    if (spread > charges.weight && parts(low)) charges = {i, spread, low};
    if (1.0 - largest > doubt.weight) {
      if (!parts(most)) most.front() = !most.front();
      doubt = {i, 1.0 - largest, most};
    }
  }
  return charges.weight > 0.0 ? charges : doubt;
}

// One half keeps the labels of the chosen side, the other the rest; the half with more of the dual solution goes first.
void BranchAndBound::split(const View& view, const Part& part) {
  const Choice choice = choose(view);
  const std::size_t first = view.plan->first()[choice.node];
  const std::vector<double> shares = view.dual->shares();
  Part one = part, other = part;
  double share = 0.0;
  for (std::size_t x = 0; x < choice.side.size(); ++x) {
    (choice.side[x] ? other : one).kept[view.original[first + x]] = false;
    if (choice.side[x]) share += shares[first + x];
  }
  if (share <= 0.5) std::swap(one, other);
  next_.push_back(std::move(one));
  open_.push(std::move(other));
}

}  // namespace meshwright::portfolio
