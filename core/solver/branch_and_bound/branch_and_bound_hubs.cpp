// SPDX-License-Identifier: Apache-2.0
#include "core/solver/branch_and_bound/branch_and_bound_hubs.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace meshwright::portfolio {

namespace {

constexpr int kIterationsOfLabel = 8;   // after a label of a hub is fixed
constexpr int kIterationsOfProbe = 4;   // the same, where only its gain is to be known
constexpr int kIterationsOfPart = 4;    // more, before a part is split
constexpr std::size_t kHubs = 24;       // nodes that parts are split at: those of the largest degree
constexpr double kSteepness = 8.0;      // exponents per gap: by how much a raised bound makes a part smaller
constexpr double kGapOfUnknown = 0.05;  // of the bound, while no labels are known
constexpr double kUndecided = 1e-9;     // of the bound: disagreement below counts as none
constexpr double kMaxNumbers = 2e8;     // stored by all parts that wait

}  // namespace

// A bound that parts go on from. It counts itself, so that memory is known while parts share it.
struct HubBranching::Stored {
  DualBound dual;
  int& count;
  Stored(const DualBound& from, int& counter) : dual(from), count(counter) { ++count; }
  Stored(const Stored&) = delete;
  Stored& operator=(const Stored&) = delete;
  ~Stored() { --count; }
};

namespace {

double numbers_of_bound(const Field& field) {
  double numbers = 5.0 * label_count(field);
  for (const Field::Edge& edge : field.edges)
    numbers += static_cast<double>(field.labels(edge.u) + field.labels(edge.v));
  return numbers;
}

bool is_open(const DualBound& dual, std::size_t node, std::size_t label, double cut) {
  const double marginal = dual.min_marginals()[node][label];
  return marginal < kForbidden && marginal <= cut;
}

std::size_t count_open(const DualBound& dual, std::size_t node, double cut) {
  std::size_t count = 0;
  for (std::size_t x = 0; x < dual.min_marginals()[node].size(); ++x) count += is_open(dual, node, x, cut);
  return count;
}

}  // namespace

HubBranching::HubBranching(const Reduced& reduced, const DualBound& root)
    : reduced_(reduced), entries_(entry_count(reduced.field)), numbers_(numbers_of_bound(reduced.field)) {
  degree_.assign(reduced.field.nodes.size(), 0.0);
  for (const Field::Edge& edge : reduced.field.edges) {
    degree_[edge.u] += 1.0;
    degree_[edge.v] += 1.0;
  }
  root_ = std::make_shared<Stored>(root, stored_);
  guide_ = root.guide();
}
HubBranching::~HubBranching() = default;

double HubBranching::lower_bound() const {
  if (!probed_) return root_->dual.value();
  return open_.empty() ? left_ : std::min(left_, open_.front().bound);
}

bool HubBranching::stuck() const {
  if (!probed_) return false;
  return open_.empty() || left_ < open_.front().bound || stored_ * numbers_ > kMaxNumbers;
}

std::vector<std::vector<bool>> HubBranching::kept() const {
  std::vector<std::vector<bool>> kept;
  for (const std::vector<double>& of_node : root_->dual.min_marginals()) {
    kept.emplace_back();
    for (const double of_label : of_node) kept.back().push_back(of_label < kForbidden);
  }
  return kept;
}

void HubBranching::iterate(DualBound& dual, double cut, int iterations, const Budget& budget) {
  for (int i = 0; i < iterations && dual.value() <= cut && dual.value() < kForbidden && !budget.over(); ++i) {
    dual.iterate(cut);
    // A pass forward and a pass backward go over every table once each.
    work_ += 2.0 * entries_;
  }
}

// Labels that cost more than the cut are taken out, so that messages pass them over. Where none is left, the bound of
// the rest is infinity.
void HubBranching::drop_labels(DualBound& dual, double cut) const {
  for (std::size_t node = 0; node < reduced_.field.nodes.size() && dual.value() <= cut; ++node) {
    const std::vector<double>& marginals = dual.min_marginals()[node];
    std::vector<bool> keep(marginals.size());
    bool changes = false;
    for (std::size_t x = 0; x < keep.size(); ++x) {
      keep[x] = is_open(dual, node, x, cut);
      changes = changes || (!keep[x] && marginals[x] < kForbidden);
    }
    if (changes) dual.keep_only(node, keep);
  }
}

// Nodes that are not decided: several labels are left, and edges disagree about them.
std::vector<std::size_t> HubBranching::doubts(const DualBound& dual, double cut) const {
  const std::vector<double> disagreement = dual.disagreement();
  const double little = kUndecided * std::abs(dual.value());
  std::vector<std::size_t> result;
  for (std::size_t node = 0; node < disagreement.size(); ++node)
    if (disagreement[node] > little && count_open(dual, node, cut) > 1) result.push_back(node);
  return result;
}

// Among nodes that were split before, at the root or in another part, the one whose labels make the smallest parts,
// together. Where all of these are decided, the node of the largest degree.
std::optional<std::size_t> HubBranching::choose(const DualBound& dual, double cut) const {
  std::optional<std::size_t> best, other;
  double least = kForbidden;
  for (const std::size_t node : doubts(dual, cut)) {
    const auto known = records_.find(node);
    if (known == records_.end()) {
      if (!other || degree_[node] > degree_[*other]) other = node;
      continue;
    }
    const double weight = static_cast<double>(count_open(dual, node, cut)) * known->second.weight / known->second.count;
    if (best && weight >= least) continue;
    least = weight;
    best = node;
  }
  return best ? best : other;
}

// Fixes each label of some hubs once, to know which hub gains most. What exceeds the cut is dropped for good.
void HubBranching::probe_root(double cut, const Budget& budget) {
  drop_labels(root_->dual, cut);
  std::vector<std::size_t> nodes = doubts(root_->dual, cut);
  std::stable_sort(nodes.begin(), nodes.end(), [&](std::size_t a, std::size_t b) { return degree_[a] > degree_[b]; });
  nodes.resize(std::min(nodes.size(), kHubs));
  for (const std::size_t node : nodes) {
    if (budget.over() || root_->dual.value() > cut) break;
    std::vector<Part> before = std::move(open_);
    split(root_, node, {root_->dual.value(), cut, kIterationsOfProbe}, budget);
    if (budget.over()) {
      open_ = std::move(before);
      break;
    }
    std::vector<bool> keep(root_->dual.min_marginals()[node].size(), false);
    for (const Part& part : open_) keep[part.label] = true;
    root_->dual.keep_only(node, keep);
    open_ = std::move(before);
  }
  probed_ = true;
  // The node and the label do not matter at the root: see restore().
  if (root_->dual.value() <= cut) open_.push_back({nullptr, 0, 0, root_->dual.value()});
}

// The bound of a part is not kept while it waits, only that of the part it was split from: most parts are never
// examined.
std::shared_ptr<HubBranching::Stored> HubBranching::restore(const Part& part, double cut, const Budget& budget) {
  auto stored = std::make_shared<Stored>(part.parent ? part.parent->dual : root_->dual, stored_);
  if (part.parent) {
    std::vector<bool> keep(stored->dual.min_marginals()[part.node].size(), false);
    keep[part.label] = true;
    stored->dual.renew();
    stored->dual.keep_only(part.node, keep);
    iterate(stored->dual, cut, kIterationsOfLabel, budget);
  }
  drop_labels(stored->dual, cut);
  iterate(stored->dual, cut, kIterationsOfPart, budget);
  return stored;
}

// One part for every label of the node that is left. Out of time, the labels that were not tried have the bound of the
// whole.
void HubBranching::split(const std::shared_ptr<const Stored>& from, std::size_t node, const Split& how,
                         const Budget& budget) {
  const double gap = how.cut < kForbidden ? how.cut - how.bound : kGapOfUnknown * std::abs(how.bound);
  double weight = 0.0;
  int labels = 0;
  for (std::size_t x = 0; x < from->dual.min_marginals()[node].size(); ++x) {
    if (!is_open(from->dual, node, x, how.cut)) continue;
    double of_label = how.bound;
    if (!budget.over()) {
      DualBound dual(from->dual);
      std::vector<bool> keep(from->dual.min_marginals()[node].size(), false);
      keep[x] = true;
      dual.renew();
      dual.keep_only(node, keep);
      iterate(dual, how.cut, how.iterations, budget);
      of_label = std::max(how.bound, dual.value());
    }
    ++labels;
    if (of_label > how.cut || of_label == kForbidden) continue;
    weight += gap > 0.0 ? std::exp(-kSteepness * (of_label - how.bound) / gap) : 1.0;
    open_.push_back({from, node, x, of_label});
    std::push_heap(open_.begin(), open_.end(), is_later);
  }
  if (labels == 0 || budget.over()) return;
  Record& known = records_[node];
  known.weight += weight / labels;
  ++known.count;
}

void HubBranching::run(double cut, double max_work, const Budget& budget) {
  work_ = 0.0;
  if (!probed_) probe_root(cut, budget);
  while (!stuck() && work_ < max_work && !budget.over()) {
    std::pop_heap(open_.begin(), open_.end(), is_later);
    const Part part = std::move(open_.back());
    open_.pop_back();
    if (part.bound > cut) {  // and so are all others
      open_.clear();
      break;
    }
    ++parts_;
    const std::shared_ptr<Stored> stored = restore(part, cut, budget);
    const double bound = std::max(part.bound, stored->dual.value());
    if (bound > cut || bound == kForbidden) continue;
    guide_ = stored->dual.guide();
    if (const std::optional<std::size_t> node = choose(stored->dual, cut))
      split(stored, *node, {bound, cut, kIterationsOfLabel}, budget);
    else
      left_ = std::min(left_, bound);
  }
}

}  // namespace meshwright::portfolio
