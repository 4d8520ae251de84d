// SPDX-License-Identifier: Apache-2.0
// Fits numbers of a software profile to published runs.
//
//   minimise  sum_i w_i H(log(predicted_i / published_i))  +  1/2 sum_j (log(x_j / x0_j) / s_j)^2
//
// H(r) = sqrt(1 + (r / corner)^2) - 1, so that a few odd rows do not decide. w_i = 1 / sqrt(rows of its source): rows
// of one source share its errors, so that many of them say less than their number. The prior (x0: the profile's own
// numbers) keeps what rows do not determine; without it, errors on rows kept back grow.
//
// Rows are planned and lowered once. Steps are minimised as if log(predicted) were linear in log(x), from differences
// of predictions, within a region that shrinks where that does not hold; so a fit takes tens of predictions of each
// row. The same input gives the same result, whatever the number of threads.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "costmodel/calibration/residuals.h"
#include "validation/prepared_run.h"

namespace meshwright {

struct SoftwareFitOptions {
  // Keys of software_numbers(), or the name of a list: "launch" (what the host does), "steps" (what the device and the
  // network do). Of a list, numbers that rows do not determine stay as they are.
  std::vector<std::string> numbers;
  // Share of the configurations kept back. Rows of one model and plan stay together, as they tell of each other.
  double holdout = 0.0;
  std::uint64_t seed = 1;
  int threads = 1;
  int max_numbers = 0;  // of those listed, as many as rows determine best; 0: all
  // Error, as a logarithm, from which on rows count by its size rather than its square; the more, the stronger the
  // prior.
  double corner = 0.05;
  bool only_if_contradicted = false;  // leave all numbers where the rows are as the profile says, within its spread
};

struct FittedNumber {
  std::string key;
  double start = 0.0, value = 0.0;
  // Root mean square, over the rows fitted, of the change of log(predicted) with the logarithm of the number.
  double sensitivity = 0.0;
  bool at_bound = false;
};

// Errors with the profile's own numbers and with the fitted ones.
struct ErrorsOfFit {
  ErrorSummary before, after;
  int covered = 0;  // rows that lie in their intervals of 90 % after the fit
};

struct SoftwareFit {
  SoftwareProfile profile;  // `start` with the fitted numbers, and the spread of what is left
  std::vector<FittedNumber> numbers;
  std::vector<std::pair<std::string, std::string>> not_fitted;  // number, reason
  ErrorsOfFit fitted, kept_back;
  int predictions = 0;  // of all rows fitted
};

// Errors of other runs with the numbers of `start` and with those of the fit.
[[nodiscard]] ErrorsOfFit errors_on(const std::vector<PreparedRun>& runs, const SoftwareProfile& start,
                                    const SoftwareFit& fit, int threads);

// Whether a fit of this seed and share keeps the run back: by its source, model, plan and cluster.
[[nodiscard]] bool run_kept_back(const PublishedRun& run, double share, std::uint64_t seed);

// Throws InputError for unknown numbers, a holdout outside 0 to 0.9, and when no row is left to fit.
// REQUIRES: every run has a published time.
[[nodiscard]] SoftwareFit fit_software(const std::vector<PreparedRun>& runs, const SoftwareProfile& start,
                                       const SoftwareFitOptions& options);

}  // namespace meshwright
