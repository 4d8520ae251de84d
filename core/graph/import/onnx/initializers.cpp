// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/onnx/initializers.h"

#include <algorithm>
#include <cmath>

namespace meshwright::onnx {

// Numbers that hide scores, or zeros and ones that say which.
bool is_mask(const std::vector<double>& values, const std::vector<std::int64_t>& dims) {
  bool hides = true, tells = dims.size() >= 2;
  bool zeros = false, others = false;
  for (const double value : values) {
    hides = hides && (value == 0.0 || value <= kMasked);
    tells = tells && (value == 0.0 || value == 1.0);
    zeros = zeros || value == 0.0;
    others = others || value != 0.0;
  }
  return others && (hides || (tells && zeros));
}

// Cosines or sines of positions times frequencies, one row for each position from 0 on, all times one amplitude.
bool is_turning_table(const std::vector<double>& values, const std::vector<std::int64_t>& dims) {
  if (dims.size() < 2 || values.size() <= static_cast<std::size_t>(dims.back())) return false;
  const double first = values[0], most = first == 0.0 ? 4.0 : 1.0001 * first;
  if (first != 0.0 && !(first > 0.25 && first < 4.0)) return false;
  bool varies = false;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i < static_cast<std::size_t>(dims.back()) && values[i] != first) return false;
    if (!(std::abs(values[i]) <= most)) return false;
    varies = varies || values[i] != first;
  }
  return varies;
}

// The same with sines and cosines side by side in each row, in either order.
bool is_table_of_both(const std::vector<double>& values, const std::vector<std::int64_t>& dims) {
  const auto width = dims.empty() ? 0 : static_cast<std::size_t>(dims.back()), half = width / 2;
  if (dims.size() < 2 || half == 0 || width % 2 != 0 || values.size() <= width) return false;
  const double amplitude = std::max(values[0], values[half]);
  if (!(amplitude > 0.25 && amplitude < 4.0)) return false;
  for (std::size_t i = 0; i < values.size(); i += width)
    for (std::size_t j = i; j < i + half; ++j) {
      if (i == 0 && (values[j] != values[0] || values[j + half] != amplitude - values[0])) return false;
      if (std::abs(std::hypot(values[j], values[j + half]) - amplitude) > 1e-3 * amplitude) return false;
    }
  return true;
}

// Positions times a slope, one for each row, as they are added to scores: from 0 on, or up to 0 where one row serves
// all queries.
bool is_progression(const std::vector<double>& values, const std::vector<std::int64_t>& dims) {
  const auto width = dims.empty() ? 0 : static_cast<std::size_t>(dims.back());
  if (dims.size() < 2 || width < 4 || values.size() <= width) return false;
  const bool ends_at_zero = values[0] != 0.0 && dims.size() > 2 && dims[dims.size() - 2] == 1;
  for (std::size_t i = 0; i < values.size(); i += width) {
    const std::size_t zero = ends_at_zero ? i + width - 1 : i;
    const double step = ends_at_zero ? values[zero] - values[zero - 1] : values[i + 1] - values[i];
    for (std::size_t j = i; j < i + width; ++j) {
      const double expected = step * (static_cast<double>(j) - static_cast<double>(zero));
      if (step == 0.0 || std::abs(values[j] - expected) > 1e-2 * std::abs(step)) return false;
    }
  }
  return true;
}

// Whether x is y with its two dimensions swapped, by the bytes that the file itself holds.
bool is_transposed(const TensorValue& x, const TensorValue& y) {
  const bool fits = x.dims.size() == 2 && y.dims == std::vector<std::int64_t>{x.dims[1], x.dims[0]} &&
                    x.type == y.type && !x.integer() && !x.raw.empty() && x.raw.size() == y.raw.size() &&
                    x.dims[0] > 1 && x.dims[1] > 1;
  if (!fits) return false;
  const auto rows = static_cast<std::size_t>(x.dims[0]), columns = static_cast<std::size_t>(x.dims[1]);
  const std::size_t width = x.raw.size() / rows / columns;
  if (width * rows * columns != x.raw.size()) return false;
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j)
      if (x.raw.compare((i * columns + j) * width, width, y.raw, (j * rows + i) * width, width) != 0) return false;
  return true;
}

}  // namespace meshwright::onnx
