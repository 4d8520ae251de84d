// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/onnx/initializers.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/graph/import/primitive/builder.h"

namespace meshwright::onnx {

// Numbers that hide scores, or zeros and ones that say which.
bool is_mask(const std::vector<double>& values, const std::vector<std::int64_t>& dims) {
  bool hides = true, tells = dims.size() >= 2, one = tells;
  bool zeros = false, others = false;
  double least = 0.0;
  for (const double value : values) least = std::min(least, value);
  for (const double value : values) {
    hides = hides && (value == 0.0 || value <= kMasked);
    one = one && (value == 0.0 || value == least);
    tells = tells && (value == 0.0 || value == 1.0);
    zeros = zeros || value == 0.0;
    others = others || value != 0.0;
  }
  return others && (hides || (tells && zeros) || (one && zeros && least <= kOnlyMasked));
}

// Cosines or sines of positions times frequencies, one row for each position from 0 on, all times one amplitude.
bool is_turning_table(const std::vector<double>& values, const std::vector<std::int64_t>& dims) {
  if (dims.size() < 2 || dims.back() < 2 || values.size() <= static_cast<std::size_t>(dims.back())) return false;
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

namespace {

// A tensor without what repeats along dimension d.
std::vector<double> first_along(std::vector<std::int64_t>& dims, const std::vector<double>& values, std::size_t d) {
  std::size_t inner = 1;
  for (std::size_t i = d + 1; i < dims.size(); ++i) inner *= static_cast<std::size_t>(dims[i]);
  const std::size_t block = inner * static_cast<std::size_t>(dims[d]);
  std::vector<double> kept;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (i % block < inner) kept.push_back(values[i]);
  dims[d] = 1;
  return kept;
}

}  // namespace

std::optional<HiddenScores> hidden_scores(const std::vector<std::int64_t>& dims, const std::vector<double>& values) {
  constexpr double kLargestWeight = 25.0, kRounding = 1e-6;
  const auto is_hidden = [](double value) { return value <= kOnlyMasked; };
  const auto fits = [&](double value) { return is_hidden(value) || std::abs(value) < kLargestWeight; };
  if (dims.size() < 3 || !std::all_of(values.begin(), values.end(), fits) ||
      std::none_of(values.begin(), values.end(), is_hidden))
    return std::nullopt;
  // A dimension along which the weight is the same once the mask is taken off.
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    std::size_t inner = 1;
    for (std::size_t i = d + 1; i < dims.size(); ++i) inner *= static_cast<std::size_t>(dims[i]);
    const std::size_t block = inner * static_cast<std::size_t>(dims[d]);
    // The weight, of numbers that nothing hides and rounds.
    std::vector<double> own(values.size(), kMasked);
    const auto first = [&](std::size_t i) { return i / block * block + i % inner; };
    for (std::size_t i = 0; i < values.size(); ++i)
      if (!is_hidden(values[i])) own[first(i)] = values[i];
    std::vector<double> mask(values.size(), 0.0);
    double hidden = 0.0;
    bool alike = true;
    for (std::size_t i = 0; alike && i < values.size(); ++i) {
      const double weight = own[first(i)];
      if (is_hidden(values[i]) && hidden == 0.0) hidden = std::round(values[i] - weight);
      if (is_hidden(values[i])) mask[i] = hidden;
      alike = weight != kMasked && std::abs(values[i] - mask[i] - weight) <= kRounding * std::abs(mask[i]);
    }
    if (!alike) continue;
    HiddenScores told{dims, dims, {}, std::move(mask)};
    told.values = first_along(told.own, own, d);
    for (std::size_t e = 0; e < dims.size(); ++e)
      if (dims[e] > 1 && primitive::repeats_along(told.mask_dims, told.mask, e))
        told.mask = first_along(told.mask_dims, told.mask, e);
    return told;
  }
  return std::nullopt;
}

std::optional<PickedRows> picked_rows(const std::vector<std::int64_t>& dims, const std::vector<double>& values) {
  constexpr std::size_t kFewest = 16;  // places
  if (dims.size() < 3 || dims[0] != 1 || dims[1] < 2) return std::nullopt;
  const auto columns = static_cast<std::size_t>(dims[1]), places = values.size() / columns;
  if (places < kFewest) return std::nullopt;
  std::map<std::vector<double>, std::size_t> rows;
  PickedRows found{0, dims[1], {}};
  for (std::size_t i = 0; i < places; ++i) {
    std::vector<double> row;
    for (std::size_t c = 0; c < columns; ++c) row.push_back(values[c * places + i]);
    const auto known = rows.emplace(std::move(row), rows.size()).first;
    if (2 * rows.size() > places) return std::nullopt;
    found.ids.push_back(static_cast<double>(known->second));
  }
  found.rows = static_cast<std::int64_t>(rows.size());
  return rows.size() > 1 ? std::optional(found) : std::nullopt;
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
