// SPDX-License-Identifier: Apache-2.0
#include "costmodel/calibration/neighbours.h"

#include <algorithm>
#include <cmath>

namespace meshwright {

namespace {

constexpr double kWidth = 0.8;         // h, in octaves
constexpr double kModelWeight = 0.3;   // of the model as a measurement
constexpr double kReach = 3 * kWidth;  // farther measurements weigh less than 0.011 and are left out
constexpr double kSame = 1e-9;         // squared distance of shapes that differ by rounding alone

// Twice the ranks are as far as a factor of 16 in size: another number of ranks may take other links.
constexpr double kRanksApart = 4.0;

double octaves(std::int64_t size) { return std::log2(static_cast<double>(size)); }

double squared_distance(const ShapePoint& a, const ShapePoint& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

double weight_at(double squared) { return std::exp(-squared / (2 * kWidth * kWidth)); }

}  // namespace

ShapePoint shape_point(const ProductShape& product) {
  return {octaves(product.m), octaves(product.n), octaves(product.k), octaves(product.batch),
          std::log2(product.result_element.si())};
}

// Widths decide which kernel a library takes.
ShapePoint shape_point(const AttentionShape& attention) {
  return {octaves(attention.batch),
          octaves(attention.heads),
          octaves(attention.heads / attention.kv_heads),
          octaves(attention.queries),
          octaves(attention.keys) - octaves(attention.queries),
          octaves(attention.key_width + attention.value_width)};
}

ShapePoint shape_point(Bytes collective, int ranks) {
  return {std::log2(collective.si()), kRanksApart * octaves(ranks)};
}

std::optional<ShapePoint> shape_point(const KernelRow& row) {
  if (const auto* product = std::get_if<ProductShape>(&row.kernel)) return shape_point(*product);
  if (const auto* attention = std::get_if<AttentionShape>(&row.kernel)) return shape_point(*attention);
  if (const auto* collective = std::get_if<MeasuredCollective>(&row.kernel))
    return shape_point(collective->size, collective->ranks);
  return std::nullopt;
}

Basis Correction::basis() const {
  if (exact) return Basis::Measured;
  return weight >= kModelWeight ? Basis::Interpolated : Basis::Modelled;
}

struct Neighbours::Sums {
  double weight = 0.0, log_ratio = 0.0;
  int exact = 0;
  double exact_log_ratio = 0.0;

  [[nodiscard]] double factor() const { return std::exp(log_ratio / (weight + kModelWeight)); }
};

Neighbours::Neighbours(std::vector<Measured> measured) : tree_(std::move(measured)), split_(tree_.size()) {
  build(0, tree_.size());
}

void Neighbours::build(std::size_t begin, std::size_t end) {
  if (end - begin < 2) return;
  std::size_t widest = 0;
  double width = -1.0;
  for (std::size_t i = 0; i < ShapePoint().size(); ++i) {
    const auto [low, high] = std::minmax_element(
        tree_.begin() + static_cast<std::ptrdiff_t>(begin), tree_.begin() + static_cast<std::ptrdiff_t>(end),
        [i](const Measured& a, const Measured& b) { return a.at[i] < b.at[i]; });
    if (high->at[i] - low->at[i] <= width) continue;
    width = high->at[i] - low->at[i];
    widest = i;
  }
  const std::size_t middle = begin + (end - begin) / 2;
  std::nth_element(tree_.begin() + static_cast<std::ptrdiff_t>(begin),
                   tree_.begin() + static_cast<std::ptrdiff_t>(middle),
                   tree_.begin() + static_cast<std::ptrdiff_t>(end),
                   [widest](const Measured& a, const Measured& b) { return a.at[widest] < b.at[widest]; });
  split_[middle] = widest;
  build(begin, middle);
  build(middle + 1, end);
}

void Neighbours::add_near(const ShapePoint& point, std::size_t begin, std::size_t end, Sums& sums) const {
  if (begin == end) return;
  const std::size_t middle = begin + (end - begin) / 2;
  const Measured& here = tree_[middle];
  const double squared = squared_distance(point, here.at);
  if (squared < kReach * kReach) {
    const double weight = weight_at(squared);
    sums.weight += weight;
    sums.log_ratio += weight * here.log_ratio;
    if (squared < kSame) {
      ++sums.exact;
      sums.exact_log_ratio += here.log_ratio;
    }
  }
  const double beyond = point[split_[middle]] - here.at[split_[middle]];
  if (beyond < kReach) add_near(point, begin, middle, sums);
  if (beyond > -kReach) add_near(point, middle + 1, end, sums);
}

Correction Neighbours::at(const ShapePoint& point) const {
  Sums sums;
  add_near(point, 0, tree_.size(), sums);
  if (sums.exact > 0) return {std::exp(sums.exact_log_ratio / sums.exact), sums.weight, true};
  return {sums.factor(), sums.weight, false};
}

Correction Neighbours::without(const Measured& one) const {
  Sums sums;
  add_near(one.at, 0, tree_.size(), sums);
  sums.weight -= 1.0;
  sums.log_ratio -= one.log_ratio;
  return {sums.factor(), sums.weight, sums.exact > 1};
}

}  // namespace meshwright
