// SPDX-License-Identifier: Apache-2.0
#include "costmodel/calibration/residuals.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/base/random.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr double kCorner = 0.05;  // of a logarithm: where the loss turns from quadratic to linear

double pseudo_huber(double x) { return kCorner * kCorner * (std::sqrt(1.0 + (x / kCorner) * (x / kCorner)) - 1.0); }

// The smallest of the sorted values that at least this share of them does not exceed.
double quantile(const std::vector<double>& sorted, double share) {
  const auto at = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(at, 1) - 1];
}

}  // namespace

void Residuals::add(Seconds predicted, Seconds measured) {
  MW_CHECK(predicted.si() > 0 && measured.si() > 0, "times of {} and {} s", predicted.si(), measured.si());
  logs_.push_back(std::log(predicted / measured));
}

void Residuals::add(const Residuals& others) { logs_.insert(logs_.end(), others.logs_.begin(), others.logs_.end()); }

ErrorSummary Residuals::summary() const {
  ErrorSummary summary;
  summary.rows = rows();
  if (logs_.empty()) return summary;
  std::vector<double> sizes;
  for (const double log : logs_) {
    const double error = std::expm1(log);
    summary.bias += error / static_cast<double>(logs_.size());
    summary.mean += std::abs(error) / static_cast<double>(logs_.size());
    sizes.push_back(std::abs(error));
  }
  std::sort(sizes.begin(), sizes.end());
  summary.median = quantile(sizes, 0.5);
  summary.p90 = quantile(sizes, 0.9);
  return summary;
}

double Residuals::robust_loss() const {
  double sum = 0.0;
  for (const double log : logs_) sum += pseudo_huber(log);
  return sum / static_cast<double>(logs_.size());
}

bool kept_back(const std::string& group, double share, std::uint64_t seed) {
  return Random(stable_hash(fmt::format("{} {}", seed, group))).unit() < share;
}

}  // namespace meshwright
