// SPDX-License-Identifier: Apache-2.0
#include "validation/compare_steps.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace meshwright {

namespace {

constexpr std::size_t kLongest = 4;  // pieces of work kept of each term
// [term]
constexpr std::array<double, kTerms> kSigmas = {0.25, 0.25, 0.25, 0.7, 0.3, 0.35};
constexpr double kUnexplained = 0.06;

// The work of the term whose share of the step differs most between the two.
std::string largest_difference(const StepUncertainty& first, const StepUncertainty& second, Term term) {
  std::map<std::string, double> shares;
  for (const StepWork& work : first.work)
    if (work.term == term) shares[work.what] += work.time / first.step;
  for (const StepWork& work : second.work)
    if (work.term == term) shares[work.what] -= work.time / second.step;
  const auto largest = std::max_element(shares.begin(), shares.end(), [](const auto& a, const auto& b) {
    return std::abs(a.second) < std::abs(b.second);
  });
  return largest == shares.end() ? "" : largest->first;
}

}  // namespace

StepUncertainty uncertainty_of(const UncertainStep& uncertain, Seconds step, const std::vector<StepWork>& work) {
  StepUncertainty result{.step = step};
  for (std::size_t t = 0; t < kTerms; ++t) result.slopes[t] = slope_of(uncertain, step, static_cast<Term>(t));
  result.deviation = deviation_of(uncertain, result.slopes);
  result.work = longest_of_each_term(work, kLongest);
  return result;
}

bool StepComparison::decided() const { return std::abs(log_ratio) > kDeviationsOfInterval * deviation; }

double StepComparison::first_is_faster() const {
  return deviation > 0.0 ? normal_probability(-log_ratio / deviation) : 0.5;
}

StepComparison compare_steps(const StepUncertainty& first, const StepUncertainty& second) {
  StepComparison result{.log_ratio = std::log(first.step / second.step)};
  double squares = 0.0, largest = 0.0;
  for (std::size_t t = 0; t < kTerms; ++t) {
    const double part = std::abs(kSigmas[t] * (first.slopes[t] - second.slopes[t]));
    squares += part * part;
    if (part <= largest) continue;
    largest = part;
    result.term = static_cast<Term>(t);
  }
  if (result.log_ratio == 0.0 && squares == 0.0) return result;
  squares += kUnexplained * kUnexplained;
  result.deviation = std::sqrt(squares);
  result.share = largest * largest / squares;
  if (result.term) result.what = largest_difference(first, second, *result.term);
  return result;
}

}  // namespace meshwright
