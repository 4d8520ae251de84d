// SPDX-License-Identifier: Apache-2.0
#include "executor/measure/cold_arrays.h"

#include <algorithm>
#include <numeric>

namespace meshwright {

namespace {

constexpr std::size_t kMostSets = 1024;
constexpr double kGoldenRatio = 0.618033988749895;

// Has no divisor in common with `count`, and is about the golden part of it: a walk in such steps comes everywhere.
std::size_t stride_through(std::size_t count) {
  std::size_t stride = std::max<std::size_t>(1, static_cast<std::size_t>(kGoldenRatio * static_cast<double>(count)));
  while (std::gcd(stride, count) != 1) --stride;
  return stride;
}

}  // namespace

ColdOrder::ColdOrder(std::size_t bytes, Bytes step)
    : count_(std::min(kMostSets, static_cast<std::size_t>(step.si()) / bytes + 1)), stride_(stride_through(count_)) {}

void ColdArrays::resize(std::int64_t elements, Bytes step) {
  elements_ = static_cast<std::size_t>(elements);
  order_ = ColdOrder(2 * elements_ * sizeof(float), step);
  in_at_ = out_at_ = 0;
  const std::size_t all = order_.count() * elements_;
  in_.resize(std::max(in_.size(), all), 1.0f);
  out_.resize(std::max(out_.size(), all), 0.0f);
}

void ColdArrays::next() {
  out_at_ = order_.next() * elements_;
  const bool in_cache = elements_ * sizeof(float) <= static_cast<std::size_t>(kBytesOfCoreCache);
  in_at_ = in_cache ? 0 : out_at_;
}

}  // namespace meshwright
