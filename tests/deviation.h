// SPDX-License-Identifier: Apache-2.0
// How far a run's numbers are from those they should be.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "executor/executor.h"
#include "tests/run_on_host.h"

namespace meshwright {

// Relative to the largest number of `truth`; infinite where a number is none, or missing.
inline double deviation(const std::vector<double>& values, const std::vector<double>& truth) {
  if (values.size() != truth.size()) return std::numeric_limits<double>::infinity();
  double scale = 0.0, worst = 0.0;
  for (const double value : truth) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const double apart = std::abs(values[i] - truth[i]), relative = scale > 0.0 ? apart / scale : apart;
    worst = std::max(worst, std::isnan(relative) ? std::numeric_limits<double>::infinity() : relative);
  }
  return worst;
}

// The largest of a loss or of a weight.
inline double deviation(const RunResult& run, const RunResult& truth) {
  EXPECT_EQ(run.losses.size(), truth.losses.size());
  EXPECT_EQ(run.weights.size(), truth.weights.size());
  double worst = 0.0;
  for (std::size_t step = 0; step < truth.losses.size(); ++step)
    worst = std::max(worst, deviation({run.losses.at(step)}, {truth.losses[step]}));
  for (const auto& [name, values] : truth.weights) worst = std::max(worst, deviation(run.weights.at(name), values));
  return worst;
}

// The same, loss by loss and tensor by tensor.
inline void expect_same_training(const RunResult& run, const RunResult& truth, double bound) {
  EXPECT_EQ(run.losses.size(), truth.losses.size());
  EXPECT_EQ(run.weights.size(), truth.weights.size());
  for (std::size_t step = 0; step < truth.losses.size(); ++step)
    EXPECT_LE(deviation({run.losses.at(step)}, {truth.losses[step]}), bound) << "step " << step;
  for (const auto& [name, values] : truth.weights) EXPECT_LE(deviation(run.weights.at(name), values), bound) << name;
}

}  // namespace meshwright
