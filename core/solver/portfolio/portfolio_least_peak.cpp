// SPDX-License-Identifier: Apache-2.0
#include "core/solver/portfolio/portfolio_least_peak.h"

#include <algorithm>

#include "core/solver/local_search/local_search.h"

namespace meshwright::portfolio {

namespace {

constexpr int kHalvings = 20;
constexpr int kSearchSteps = 256;

// The field with costs that only say what is forbidden.
Field feasibility_only(Field field) {
  const auto flatten = [](std::vector<double>& costs) {
    for (double& cost : costs)
      if (cost < kForbidden) cost = 0.0;
  };
  for (Field::Node& node : field.nodes) flatten(node.cost);
  for (Field::Edge& edge : field.edges) flatten(edge.cost);
  field.constant = 0.0;
  return field;
}

// Labels of finite cost within field.limit, if a short search finds some.
std::optional<Labels> labels_within(const Field& field, const Options& options) {
  const Reduced reduced = presolve(field, options.budget);
  if (reduced.infeasible) return std::nullopt;
  if (reduced.field.nodes.empty()) return reduced.lift({});
  LocalSearch search(reduced, options.seed);
  search.start_from(nullptr);
  int steps = 0;
  search.run([&] { return ++steps > kSearchSteps || search.best() || options.budget.over(); });
  if (!search.best()) return std::nullopt;
  return reduced.lift(*search.best());
}

double largest_memory(const Field& field) {
  double sum = 0.0;
  for (const Field::Node& node : field.nodes)
    if (!node.memory.empty()) sum += *std::max_element(node.memory.begin(), node.memory.end());
  return sum;
}

}  // namespace

void add_least_peak(const Field& field, const Options& options, Result& result) {
  Field plain = feasibility_only(field);
  plain.limit = largest_memory(plain);  // never exceeded: failing there means that the pairs allow nothing
  if (presolve(plain, options.budget).infeasible) return;
  double low = result.proven_infeasible && field.limit < plain.limit ? field.limit : 0.0, high = plain.limit;
  // First from below: presolve proves limits infeasible.
  for (int i = 0; i < kHalvings && !options.budget.over(); ++i) {
    plain.limit = low + 0.5 * (high - low);
    (presolve(plain, options.budget).infeasible ? low : high) = plain.limit;
  }
  result.least_peak_bound = low;
  plain.limit = largest_memory(plain);
  high = plain.limit;
  // Then from above: a short search finds labels within ever lower limits.
  for (int i = 0; i < kHalvings && high - low > 1e-4 * high && !options.budget.over(); ++i) {
    if (const std::optional<Labels> labels = labels_within(plain, options)) {
      high = evaluate(plain, *labels).peak;
      result.least_peak = high;
    } else if (i == 0) {
      // Nothing was found with all of the memory, so nothing will be found with less.
      return;
    } else {
      low = plain.limit;  // not proven, but nothing was found there
    }
    plain.limit = low + 0.5 * (high - low);
  }
}

}  // namespace meshwright::portfolio
