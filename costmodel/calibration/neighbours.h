// SPDX-License-Identifier: Apache-2.0
// Measurements near in shape correct a model: what it got wrong there, it gets wrong here.
//
// A kernel is a point whose coordinates are the logarithms of its sizes to base 2, so that distances count octaves. The
// correction at a point is the weighted mean of log(measured / modelled) over the measurements, with Gaussian weights
// of width h = 0.8 octaves. The model itself counts as a measurement of log ratio 0 and weight 0.3, so that the
// correction fades where nothing was measured. Of the widths 0.25, 0.5 and 0.8 and the weights 0.3 and 1 these had the
// smallest errors on shapes kept back.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "core/sharding/cost_model.h"
#include "costmodel/calibration/kernel_rows.h"
#include "costmodel/terms/attention.h"
#include "costmodel/terms/products.h"

namespace meshwright {

using ShapePoint = std::array<double, 6>;

// Points are compared only with points of the same kind of kernel.
[[nodiscard]] ShapePoint shape_point(const ProductShape& product);
[[nodiscard]] ShapePoint shape_point(const AttentionShape& attention);
[[nodiscard]] ShapePoint shape_point(Bytes collective, int ranks);
[[nodiscard]] std::optional<ShapePoint> shape_point(const KernelRow& row);  // nullopt: a pass over memory

struct Correction {
  double factor = 1.0;  // measured over modelled
  double weight = 0.0;  // of all measurements near; each counts 1 at distance 0
  bool exact = false;   // the very shape was measured; the factor is the mean of those measurements alone

  // Interpolated: the measurements near count at least as much as the model.
  [[nodiscard]] Basis basis() const;
};

class Neighbours {
 public:
  struct Measured {
    ShapePoint at;
    double log_ratio;  // log(measured / modelled)
  };
  explicit Neighbours(std::vector<Measured> measured);

  [[nodiscard]] Correction at(const ShapePoint& point) const;
  // The correction at a measurement by the others alone. REQUIRES: one of those given.
  [[nodiscard]] Correction without(const Measured& one) const;

 private:
  struct Sums;
  void build(std::size_t begin, std::size_t end);
  void add_near(const ShapePoint& point, std::size_t begin, std::size_t end, Sums& sums) const;

  // A k-d tree (Bentley, CACM 18, 1975): the middle of a range splits it along split_[middle]; smaller coordinates are
  // before it.
  std::vector<Measured> tree_;
  std::vector<std::size_t> split_;
};

}  // namespace meshwright
