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

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// A table that a bucket's total is a sum of, at the labels that are decided; what a step of each open node moves.
struct Summand {
  const double* value;
  std::vector<std::size_t> step;  // [open node]

  [[nodiscard]] double at_labels(const std::vector<std::size_t>& position) const {
    std::size_t place = 0;
    for (std::size_t d = 0; d < position.size(); ++d) place += step[d] * position[d];
    return value[place];
  }
};

// Counts through all labels of the open nodes. Returns the best, or `like` where it is within `slack` of it.
std::vector<std::size_t> best_labels(const std::vector<std::size_t>& sizes, std::vector<Summand> summands,
                                     const std::vector<std::size_t>& like, double slack) {
  std::vector<std::size_t> position(sizes.size(), 0), best = position;
  double least = kForbidden;
  for (bool more = true; more;) {
    double sum = 0.0;
    for (const Summand& summand : summands) sum += *summand.value;
    if (sum < least) {
      least = sum;
      best = position;
    }
    more = false;
    for (std::size_t d = sizes.size(); d-- > 0 && !more;) {
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
  std::vector<Summand> summands = {{own_.data() + bucket.own, {}}, {outside_.data() + bucket.message, {}}};
  for (const EliminationPlan::Table& from : bucket.tables) summands.push_back({table(from), {}});
  std::vector<int> open;
  std::vector<std::size_t> sizes, preferred;
  // `step(s)`: entries of summand s per label of the node.
  const auto place = [&](int node, const auto& step) {
    const int label = labels[at(node)];
    for (std::size_t s = 0; s < summands.size(); ++s)
      if (label == kOpen)
        summands[s].step.push_back(step(s));
      else
        summands[s].value += step(s) * at(label);
    if (label != kOpen) return;
    open.push_back(node);
    sizes.push_back(plan_.labels(node));
    preferred.push_back(at(like[at(node)]));
  };
  place(bucket.node, [&](std::size_t s) { return s < 2 ? std::size_t{s == 0} : bucket.tables[s - 2].per_label; });
  std::size_t outside_step = bucket.size;
  for (std::size_t d = 0; d < bucket.scope.size(); ++d) {
    outside_step /= plan_.labels(bucket.scope[d]);
    place(bucket.scope[d], [&](std::size_t s) {
      return s == 0 ? 0 : s == 1 ? outside_step : bucket.tables[s - 2].stride[d];
    });
  }
  const auto best = best_labels(sizes, std::move(summands), preferred, kAsGood * std::abs(value_));
  for (std::size_t d = 0; d < open.size(); ++d) labels[at(open[d])] = static_cast<int>(best[d]);
}

void Elimination::decode_with(int node, int label, const Labels& like, Labels& labels) const {
  MW_CHECK(plan_.exact() && outside_.size() == messages_.size(), "decode_with needs min-marginals of an exact plan");
  labels.assign(plan_.first().size() - 1, kOpen);
  labels[at(node)] = label;
  const auto& buckets = plan_.buckets();
  for (int b = plan_.buckets_of(node).front(); b >= 0; b = buckets[at(b)].parent)
    decode_around(buckets[at(b)], like, labels);
  // A bucket's scope is of nodes eliminated later: they are decided before it.
  std::vector<double> excess;
  for (int b = static_cast<int>(buckets.size()) - 1; b >= 0; --b) {
    const EliminationPlan::Bucket& bucket = buckets[at(b)];
    if (labels[at(bucket.node)] != kOpen) continue;
    excess.assign(plan_.labels(bucket.node), 0.0);
    add_excess(
        b, [&](std::size_t d) { return at(labels[at(bucket.scope[d])]); }, excess.data());
    const auto best = std::min_element(excess.begin(), excess.end());
    const int preferred = like[at(bucket.node)];
    const bool as_good = excess[at(preferred)] <= *best + kAsGood * std::abs(value_);
    labels[at(bucket.node)] = as_good ? preferred : static_cast<int>(best - excess.begin());
  }
}

}  // namespace meshwright::portfolio
