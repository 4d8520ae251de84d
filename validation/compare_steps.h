// SPDX-License-Identifier: Apache-2.0
// Whether predictions tell which of two plans is faster.
//
// The errors of two plans for one job on one cluster are mostly the same: a device that is slower than its data sheet
// slows both. What is left of them is the error of the difference,
//
//   D^2 = 0.06^2 + sum over terms (sigma (e_a - e_b))^2       0 for plans that do not differ
//
// e: change of log(step) with the logarithm of the term's times (slope_of); sigma: how far the term's times are off;
// 0.06: what no term explains. docs/cost-model.md says which pairs of published runs the numbers are from.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "validation/interval.h"
#include "validation/step_work.h"

namespace meshwright {

// What a comparison needs of a step.
struct StepUncertainty {
  Seconds step{0.0};
  double deviation = 0.0;  // of log(predicted / true)
  Slopes slopes{};
  std::vector<StepWork> work = {};  // the longest of each term
};
[[nodiscard]] StepUncertainty uncertainty_of(const UncertainStep& uncertain, Seconds step,
                                             const std::vector<StepWork>& work);

struct StepComparison {
  double log_ratio = 0.0;         // of the steps, first over second
  double deviation = 0.0;         // of it
  std::optional<Term> term = {};  // of the terms, the one that the deviation is most of; nullopt: they do not differ
  double share = 0.0;             // of this term in the square of the deviation
  std::string what = {};          // of its work, what the plans differ most in; "" where nothing is known of it

  // Whether the faster is so nine times in ten or more, on either side.
  [[nodiscard]] bool decided() const;
  // Whether the plans are the same to the model.
  [[nodiscard]] bool alike() const { return deviation == 0.0; }
  // The probability that the first is the faster.
  [[nodiscard]] double first_is_faster() const;
};
[[nodiscard]] StepComparison compare_steps(const StepUncertainty& first, const StepUncertainty& second);

}  // namespace meshwright
