// SPDX-License-Identifier: Apache-2.0
#include "core/solver/branch_and_bound/branch_and_bound_messages.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "core/solver/branch_and_bound/branch_and_bound_dual.h"
#include "core/solver/elimination/elimination.h"

namespace meshwright::portfolio {

namespace {

constexpr int kIterations = 16;           // between looks at how the bound moves
constexpr int kMaxIterations = 512;       // of one part's bound
constexpr double kMinGainOfGap = 0.005;   // a gain of one look that is not worth another
constexpr double kWorthReducing = 0.8;    // of the labels left: presolve again
constexpr double kWorkOfReducing = 20.0;  // per entry
constexpr std::size_t kCandidates = 6;    // of each kind, tried before one node is split
constexpr int kProbeIterations = 6;       // for each half of a trial
constexpr double kMinGain = 1e-3;         // of the gap, that a half is taken to gain
constexpr double kGapUnknown = 0.05;      // of the bound, while no labels are known
constexpr double kWorkOfExact = 1e8;
constexpr double kNumbersPerLabel = 5.0;  // stored by the bound of a part
constexpr double kMaxStored = 2e8;        // by all parts that wait: beyond, it ends as if the work were done

using Kept = std::vector<std::vector<bool>>;  // [node][label]

std::vector<bool> flat(const Kept& kept) {
  std::vector<bool> result;
  for (const std::vector<bool>& of_node : kept) result.insert(result.end(), of_node.begin(), of_node.end());
  return result;
}

std::size_t count(const std::vector<bool>& kept) { return std::count(kept.begin(), kept.end(), true); }

double kept_count(const Kept& kept) {
  double sum = 0.0;
  for (const std::vector<bool>& of_node : kept) sum += static_cast<double>(count(of_node));
  return sum;
}

}  // namespace

struct MessageBranching::Epoch {
  explicit Epoch(Reduced from)
      : reduced(std::move(from)),
        labels(label_count(reduced.field)),
        entries(entry_count(reduced.field)),
        numbers(kNumbersPerLabel * labels) {
    for (const Field::Edge& edge : reduced.field.edges)
      numbers += static_cast<double>(reduced.field.labels(edge.u) + reduced.field.labels(edge.v));
  }
  const Reduced reduced;  // leads to the whole field
  const double labels, entries;
  double numbers;  // that a part stores
  bool tried_exact = false;
};

struct MessageBranching::Part {
  std::shared_ptr<Epoch> epoch;
  std::unique_ptr<DualBound> dual;
  Kept kept;
  double bound;

  Part(std::shared_ptr<Epoch> of, const std::vector<std::pair<int, double>>& multipliers, double bound_before)
      : epoch(std::move(of)), dual(std::make_unique<DualBound>(epoch->reduced, multipliers)), bound(bound_before) {
    for (const Field::Node& node : epoch->reduced.field.nodes) kept.emplace_back(node.cost.size(), true);
  }
  // The labels of `node` that `half` keeps.
  Part(const Part& from, std::size_t node, const std::vector<bool>& side, bool half, std::unique_ptr<DualBound> probed)
      : epoch(from.epoch), dual(std::move(probed)), kept(from.kept), bound(std::max(from.bound, dual->value())) {
    for (std::size_t x = 0; x < side.size(); ++x)
      if (side[x] != half) kept[node][x] = false;
  }
};

MessageBranching::MessageBranching(const Reduced& reduced, const std::vector<std::pair<int, double>>& multipliers,
                                   double max_work, Incumbent& incumbent, const Budget& budget,
                                   double cheap_elimination)
    : reduced_(reduced),
      multipliers_(multipliers),
      max_work_(max_work),
      cheap_elimination_(cheap_elimination),
      incumbent_(incumbent),
      budget_(budget) {}
MessageBranching::~MessageBranching() = default;

void MessageBranching::run() {
  Reduced whole = reduced_;
  // The incumbent takes labels of `reduced`, so the lift of the root ends there.
  whole.lift = [](const Labels& labels) { return labels; };
  leave(std::make_unique<Part>(std::make_shared<Epoch>(std::move(whole)), multipliers_, -kForbidden));
  kept_ = flat(open_.front()->kept);
  while (!open_.empty() && !over()) {
    std::unique_ptr<Part> part = take_lowest();
    if (part->bound < incumbent_.cut()) examine(std::move(part));
  }
  for (const std::unique_ptr<Part>& part : open_) lower_bound_ = std::min(lower_bound_, part->bound);
}

// Best first: the part of the lowest bound is the one that holds the bound of the whole search down.
void MessageBranching::leave(std::unique_ptr<Part> part) {
  stored_ += part->epoch->numbers;
  open_.push_back(std::move(part));
  std::push_heap(open_.begin(), open_.end(), is_later);
}

std::unique_ptr<MessageBranching::Part> MessageBranching::take_lowest() {
  std::pop_heap(open_.begin(), open_.end(), is_later);
  std::unique_ptr<Part> part = std::move(open_.back());
  open_.pop_back();
  stored_ -= part->epoch->numbers;
  return part;
}

bool MessageBranching::is_later(const std::unique_ptr<Part>& a, const std::unique_ptr<Part>& b) {
  return a->bound > b->bound;
}

bool MessageBranching::over() const { return work_ >= max_work_ || stored_ >= kMaxStored || budget_.over(); }

double MessageBranching::gap(double bound) const {
  return incumbent_.cut() < kForbidden ? incumbent_.cut() - bound : kGapUnknown * std::abs(bound) + 1.0;
}

void MessageBranching::iterate(const Epoch& epoch, DualBound& dual, int iterations) {
  for (int i = 0; i < iterations && dual.value() < incumbent_.cut() && !budget_.over(); ++i) {
    dual.iterate(incumbent_.cut());
    // A pass forward and a pass backward go over every table once each.
    work_ += 2.0 * epoch.entries;
  }
}

void MessageBranching::examine(std::unique_ptr<Part> part) {
  const bool is_root = ++parts_ == 1;
  if (!bound(*part)) return;
  // A label that the root dropped costs at least the cut in every part.
  if (is_root) kept_ = flat(part->kept);
  while (!over() && kept_count(part->kept) <= kWorthReducing * part->epoch->labels) {
    part = reduce(std::move(part));
    if (!part || !bound(*part)) return;
  }
  if (over())
    leave(std::move(part));
  else if (!settle_exactly(*part))
    split(*part);
}

// false: nothing of the part is left below the cut.
// Messages converge slowly; passes end when a look gains too little of the gap that is left.
bool MessageBranching::bound(Part& part) {
  DualBound& dual = *part.dual;
  for (int done = 0; done < kMaxIterations && !over(); done += kIterations) {
    const double before = dual.value();
    iterate(*part.epoch, dual, kIterations);
    part.bound = std::max(part.bound, dual.value());
    if (part.bound >= incumbent_.cut()) return false;
    offer(part);
    if (!drop(part)) return false;
    if (dual.value() - before < kMinGainOfGap * gap(dual.value())) break;
  }
  return part.bound < incumbent_.cut();
}

// false: a node has no label left.
bool MessageBranching::drop(Part& part) {
  const Guide& marginals = part.dual->min_marginals();
  for (std::size_t i = 0; i < part.kept.size(); ++i) {
    bool any = false, changed = false;
    for (std::size_t x = 0; x < part.kept[i].size(); ++x) {
      if (part.kept[i][x] && marginals[i][x] >= incumbent_.cut()) {
        part.kept[i][x] = false;
        changed = true;
      }
      any = any || part.kept[i][x];
    }
    if (!any) return false;
    if (changed) part.dual->keep_only(i, part.kept[i]);
  }
  return true;
}

// nullptr: nothing is left.
// Presolve pays once many labels are gone. The messages start anew, as the field is another one; the multipliers go on.
std::unique_ptr<MessageBranching::Part> MessageBranching::reduce(std::unique_ptr<Part> part) {
  Reduced tight = part->epoch->reduced;
  // With fewer pairs allowed, presolve may drop more labels.
  if (incumbent_.cut() < kForbidden) part->dual->forbid_pairs(incumbent_.cut(), tight.field);
  Kept dropped = part->kept;
  for (std::vector<bool>& of_node : dropped) of_node.flip();
  work_ += kWorkOfReducing * part->epoch->entries;
  Reduced reduced = presolve(tight, dropped, budget_);
  // Out of time, presolve may have stopped midway. The part as it was is still valid.
  if (budget_.over()) return part;
  if (reduced.infeasible) return nullptr;
  if (reduced.field.nodes.empty()) {
    incumbent_.offer(reduced.lift({}));
    return nullptr;
  }
  return std::make_unique<Part>(std::make_shared<Epoch>(std::move(reduced)), part->dual->multipliers_by_step(),
                                part->bound);
}

// Labels decided node by node along the guide.
void MessageBranching::offer(const Part& part) {
  const Field& field = part.epoch->reduced.field;
  const Guide& guide = part.dual->guide();
  Labels labels(field.nodes.size(), -1);
  std::vector<std::vector<std::pair<std::size_t, bool>>> edges(field.nodes.size());
  for (std::size_t e = 0; e < field.edges.size(); ++e) {
    edges[field.edges[e].u].emplace_back(e, true);
    edges[field.edges[e].v].emplace_back(e, false);
  }
  // Each node sees only the edges to neighbours that are decided.
  for (std::size_t i = 0; i < labels.size(); ++i) {
    std::vector<double> cost = guide[i];
    for (const auto& [e, from_u] : edges[i]) {
      const Field::Edge& edge = field.edges[e];
      const int other = labels[from_u ? edge.v : edge.u];
      if (other < 0) continue;
      for (std::size_t x = 0; x < cost.size(); ++x)
        cost[x] += from_u ? edge.cost[x * field.labels(edge.v) + other] : edge.cost[other * cost.size() + x];
    }
    labels[i] = static_cast<int>(std::min_element(cost.begin(), cost.end()) - cost.begin());
  }
  if (!(evaluate(field, labels).cost < incumbent_.cost())) return;
  if (excess(part.epoch->reduced, labels) > 0.0) return;
  incumbent_.offer(part.epoch->reduced.lift(labels));
}

// Where elimination has become cheap. true: nothing of the part is left below the cut.
bool MessageBranching::settle_exactly(Part& part) {
  // The exact search covers the whole field of the epoch, so one try serves all its parts.
  if (part.epoch->tried_exact) return false;
  part.epoch->tried_exact = true;
  const Reduced& reduced = part.epoch->reduced;
  const std::optional<EliminationOrder> order = elimination_order(reduced.field, cheap_elimination_);
  if (!order || order->work > cheap_elimination_) return false;
  Incumbent incumbent(reduced, incumbent_.cost());
  BranchAndBound exact(reduced, cheap_elimination_, kWorkOfExact, incumbent, budget_);
  exact.run();
  // Charged in full: the search inside counts its work by itself.
  work_ += kWorkOfExact;
  if (incumbent.labels()) incumbent_.offer(reduced.lift(*incumbent.labels()));
  part.bound = std::max(part.bound, exact.lower_bound());
  return part.bound >= incumbent_.cut();
}

// Nodes where the bound may be loose: labels disagree across edges, or labels that cost nearly the same are charged
// differently for their memory, so that the relaxation mixes them.
std::vector<MessageBranching::Choice> MessageBranching::candidates(const Part& part) const {
  const std::vector<double> disagreement = part.dual->disagreement();
  const Guide& cost = part.dual->guide();
  std::vector<std::vector<double>> charge(part.kept.size());
  for_each_priced_piece(part.epoch->reduced.pieces, part.dual->multipliers(),
                        [&](const MemoryPiece& piece, double price) {
                          std::vector<double>& of_node = charge[piece.node];
                          of_node.resize(piece.memory.size(), 0.0);
                          for (std::size_t x = 0; x < piece.memory.size(); ++x) of_node[x] += price * piece.memory[x];
                        });
  std::vector<Choice> by_disagreement, by_charge;
  for (std::size_t i = 0; i < part.kept.size(); ++i) {
    if (count(part.kept[i]) < 2) continue;
    by_disagreement.push_back({i, disagreement[i], {}});
    if (charge[i].empty()) continue;
    const std::size_t cheapest = static_cast<int>(std::min_element(cost[i].begin(), cost[i].end()) - cost[i].begin());
    Choice mixed{i, 0.0, std::vector<bool>(cost[i].size(), false)};
    double middle = 0.0;
    for (std::size_t x = 0; x < cost[i].size(); ++x) {
      if (!part.kept[i][x]) continue;
      // Positive where the memory charges of two labels differ by more than their costs: the relaxation mixes the two.
      const double weight = std::abs(charge[i][x] - charge[i][cheapest]) - (cost[i][x] - cost[i][cheapest]);
      if (weight <= mixed.weight) continue;
      mixed.weight = weight;
      middle = 0.5 * (charge[i][x] + charge[i][cheapest]);
    }
    if (mixed.weight <= 0.0) continue;
    for (std::size_t x = 0; x < cost[i].size(); ++x) mixed.side[x] = part.kept[i][x] && charge[i][x] < middle;
    by_charge.push_back(std::move(mixed));
  }
  std::vector<Choice> result;
  for (auto* choices : {&by_disagreement, &by_charge}) {
    std::stable_sort(choices->begin(), choices->end(),
                     [](const Choice& a, const Choice& b) { return a.weight > b.weight; });
    choices->resize(std::min(choices->size(), kCandidates));
    for (Choice& choice : *choices) {
      if (choice.side.empty()) choice.side = cheaper_half(part, choice.node);
      result.push_back(std::move(choice));
    }
  }
  return result;
}

std::vector<bool> MessageBranching::cheaper_half(const Part& part, std::size_t node) const {
  const std::vector<double>& cost = part.dual->guide()[node];
  std::vector<std::size_t> labels;
  for (std::size_t x = 0; x < cost.size(); ++x)
    if (part.kept[node][x]) labels.push_back(x);
  std::stable_sort(labels.begin(), labels.end(), [&](std::size_t a, std::size_t b) { return cost[a] < cost[b]; });
  std::vector<bool> side(cost.size(), false);
  for (std::size_t k = 0; k < labels.size() / 2; ++k) side[labels[k]] = true;
  return side;
}

std::unique_ptr<DualBound> MessageBranching::probe(const Part& part, std::size_t node, const std::vector<bool>& kept) {
  auto half = std::make_unique<DualBound>(*part.dual);
  half->renew();
  half->keep_only(node, kept);
  iterate(*part.epoch, *half, kProbeIterations);
  return half;
}

// Strong branching: the score is the product of both halves' gains (Achterberg 2007), a small least gain standing in
// for none, so that a split that helps one half alone still counts.
void MessageBranching::split(Part& part) {
  std::vector<Choice> choices = candidates(part);
  if (choices.empty()) return offer(part);  // one label each
  const double most = gap(part.bound);
  const auto gain = [&](const std::unique_ptr<DualBound>& half) {
    return std::clamp(half->value() - part.bound, kMinGain * most, most);
  };
  Choice best_choice{};
  std::array<std::unique_ptr<DualBound>, 2> best;
  double best_score = -1.0;
  for (Choice& choice : choices) {
    std::vector<bool> rest = part.kept[choice.node];
    for (std::size_t x = 0; x < rest.size(); ++x) rest[x] = rest[x] && !choice.side[x];
    std::array<std::unique_ptr<DualBound>, 2> halves{probe(part, choice.node, choice.side),
                                                     probe(part, choice.node, rest)};
    const double score = gain(halves[0]) * gain(halves[1]);
    if (score <= best_score) continue;
    best_score = score;
    best = std::move(halves);
    best_choice = std::move(choice);
  }
  for (const bool first : {true, false}) {
    std::unique_ptr<DualBound>& half = best[first ? 0 : 1];
    auto next = std::make_unique<Part>(part, best_choice.node, best_choice.side, first, std::move(half));
    if (next->bound < incumbent_.cut()) leave(std::move(next));
  }
}

}  // namespace meshwright::portfolio
