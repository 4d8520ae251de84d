// SPDX-License-Identifier: Apache-2.0
// From one label outwards: what is above its bucket is chosen on the way to the root, what is below on the way back.
#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/solver/elimination/elimination.h"

namespace meshwright::portfolio {

namespace {

constexpr int kOpen = -1;
constexpr double kAsGood = 1e-13;  // of the value: what rounding makes of equal sums

// A table that a bucket's total is a sum of, at the labels that are decided; what a step of each open node moves.
struct Summand {
  const double* value;
  std::vector<std::size_t> step;  // [open node]

  [[nodiscard]] double at_labels(const std::vector<std::size_t>& position) const {
    std::size_t place = 0;
    for (std::size_t d = 0; d < position.size(); ++d) place += step[d] * position[d];
    return value[place];
  }
  // Adds what it has at the labels of the last open node.
  void add_to(std::vector<double>& row) const {
    const std::size_t stride = step.back();
    if (stride == 1)
      for (std::size_t x = 0; x < row.size(); ++x) row[x] += value[x];
    else
      for (std::size_t x = 0; x < row.size(); ++x) row[x] += value[stride * x];
  }
};

// Counts through all labels of the open nodes. Returns the best, or `like` where it is within `slack` of it.
std::vector<std::size_t> best_labels(const std::vector<std::size_t>& sizes, std::vector<Summand> summands,
                                     const std::vector<std::size_t>& like, double slack) {
  MW_CHECK(!sizes.empty(), "nothing is open");
  std::vector<std::size_t> position(sizes.size(), 0), best = position;
  std::vector<double> row(sizes.back());
  double least = kForbidden;
  for (bool more = true; more;) {
    std::fill(row.begin(), row.end(), 0.0);
    for (const Summand& summand : summands) summand.add_to(row);
    const auto here = std::min_element(row.begin(), row.end());
    if (*here < least) {
      least = *here;
      best = position;
      best.back() = static_cast<std::size_t>(here - row.begin());
    }
    more = false;
    // An odometer over the labels of the other open nodes: each summand's pointer moves along.
    for (std::size_t d = sizes.size() - 1; d-- > 0 && !more;) {
      more = ++position[d] < sizes[d];
      for (Summand& summand : summands)
        summand.value = more ? summand.value + summand.step[d] : summand.value - summand.step[d] * (sizes[d] - 1);
      if (!more) position[d] = 0;
    }
  }
  MW_CHECK(least < kForbidden, "no choice of {} labels goes together with those that are decided", sizes.size());
  double sum = 0.0;  // the walk has come back to its start
  for (const Summand& summand : summands) sum += summand.at_labels(like);
  return sum <= least + slack ? like : best;
}

}  // namespace

void Elimination::decode_around(const EliminationPlan::Bucket& bucket, const Labels& like, Labels& labels) const {
  // The message's outside is summed up like a table over the scope alone.
  std::vector<Summand> summands = {{outside_.data() + bucket.message, {}}};
  for (std::size_t s = 0; s < bucket.sources.size(); ++s) summands.push_back({table(bucket, s), {}});
  std::vector<int> open;
  std::vector<std::size_t> sizes, preferred;
  // `steps`: entries of each summand per label of the node.
  const auto place = [&](int node, const std::vector<std::size_t>& steps) {
    const auto label = labels[node];
    for (std::size_t s = 0; s < summands.size(); ++s)
      if (label == kOpen)
        summands[s].step.push_back(steps[s]);
      else
        summands[s].value += steps[s] * label;
    if (label != kOpen) return;
    open.push_back(node);
    sizes.push_back(plan_.labels(node));
    preferred.push_back(like[node]);
  };
  const auto& sources = bucket.combination->sources;
  std::vector<std::size_t> steps = {0};
  for (const auto& source : sources) steps.push_back(source.own.stride);
  // Entry 0 is the message's outside, which does not depend on the bucket's own node.
  place(bucket.node, steps);
  steps[0] = bucket.size;
  for (std::size_t d = 0; d < bucket.scope.size(); ++d) {
    steps[0] /= plan_.labels(bucket.scope[d]);
    std::fill(steps.begin() + 1, steps.end(), 0);
    for (std::size_t s = 0; s < sources.size(); ++s)
      for (const auto& other : sources[s].others)
        if (other.place == d) steps[s + 1] = other.stride;
    place(bucket.scope[d], steps);
  }
  if (open.empty()) return;
  const auto best = best_labels(sizes, std::move(summands), preferred, kAsGood * std::abs(value_));
  for (std::size_t d = 0; d < open.size(); ++d) labels[open[d]] = static_cast<int>(best[d]);
}

void Elimination::decode_with(int node, int label, const Labels& like, Labels& labels) const {
  MW_CHECK(plan_.exact() && outside_.size() == messages_.size(), "decode_with needs min-marginals of an exact plan");
  labels.assign(plan_.first().size() - 1, kOpen);
  const auto decided = [&](int of) -> int& { return labels[of]; };
  decided(node) = label;
  const auto& buckets = plan_.buckets();
  for (int b = plan_.buckets_of(node).front(); b >= 0; b = buckets[b].parent) decode_around(buckets[b], like, labels);
  // A bucket's scope is of nodes eliminated later: they are decided before it.
  std::vector<double> excess;
  for (int b = buckets.count() - 1; b >= 0; --b) {
    const EliminationPlan::Bucket& bucket = buckets[b];
    if (decided(bucket.node) != kOpen) continue;
    excess.assign(plan_.labels(bucket.node), 0.0);
    add_excess(
        b, [&](std::size_t d) { return decided(bucket.scope[d]); }, excess.data());
    const auto best = std::min_element(excess.begin(), excess.end());
    const int preferred = like[bucket.node];
    // Ties within rounding go to `like`, so that the labels differ from it only where they must.
    const bool as_good = excess[preferred] <= *best + kAsGood * std::abs(value_);
    decided(bucket.node) = as_good ? preferred : static_cast<int>(best - excess.begin());
  }
}

}  // namespace meshwright::portfolio
