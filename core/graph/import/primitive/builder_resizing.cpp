// SPDX-License-Identifier: Apache-2.0
// Images of another size: each result is a mean of elements, weighed by where it lies among them.
#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

namespace {

// Where results lie among `from` elements.
double place_of(std::int64_t result, std::int64_t from, std::int64_t to, double factor, Builder::Places places) {
  const auto i = static_cast<double>(result);
  switch (places) {
    case Builder::Places::Corners:
      return to > 1 ? i * static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0.0;
    case Builder::Places::Starts:
      return i / factor;
    default:
      return (i + 0.5) / factor - 0.5;
  }
}

// Weights of the elements around a place, of which the first one is `first`.
struct Weights {
  std::int64_t first;
  std::vector<double> numbers;
};
// The weight in a cubic convolution of an element that is `place` elements away.
double cubic_weight(double place, double a) {
  const double d = std::abs(place);
  if (d < 1.0) return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0;
  return d < 2.0 ? ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a : 0.0;
}
Weights weights_at(double place, Builder::Between between) {
  const double below = std::floor(place), rest = place - below;
  const auto first = static_cast<std::int64_t>(below);
  switch (between) {
    case Builder::Between::Nearest:  // down, as PyTorch and the default of ONNX's Upsample
      return {first, {1.0}};
    case Builder::Between::NearestRoundedDown:
      return {static_cast<std::int64_t>(std::ceil(place - 0.5)), {1.0}};
    case Builder::Between::NearestRoundedUp:
      return {static_cast<std::int64_t>(std::floor(place + 0.5)), {1.0}};
    case Builder::Between::Linear:
      return rest == 0.0 ? Weights{first, {1.0}} : Weights{first, {1.0 - rest, rest}};
    default:
      break;
  }
  constexpr double kA = -0.75;  // as PyTorch and ONNX have it
  std::vector<double> numbers;
  for (const double at : {1.0 + rest, rest, 1.0 - rest, 2.0 - rest}) numbers.push_back(cubic_weight(at, kA));
  return {first - 1, std::move(numbers)};
}

}  // namespace

// Results that lie alike among their elements, every so many-th, are made together of shifted images.
int Builder::interleaved(int x, std::int64_t axis, std::int64_t to, Places places, Between between) {
  const auto d = static_cast<std::size_t>(axis);
  const std::int64_t from = shape(x)[d], times = to / from;
  std::vector<Weights> phases;
  bool repeats = true;
  for (std::int64_t i = 0; i < times; ++i) {
    phases.push_back(weights_at(place_of(i, from, to, static_cast<double>(times), places), between));
    repeats = repeats && phases.back().first == 0 && phases.back().numbers.size() == 1;
  }
  if (repeats) return repeat(x, axis, times);
  const auto one = [&](std::int64_t index) { return slice(x, axis, index, index + 1); };
  std::map<std::int64_t, int> shifted;
  const auto shift = [&](std::int64_t by) {
    if (const auto known = shifted.find(by); known != shifted.end()) return known->second;
    std::vector<int> pieces;
    for (std::int64_t k = 0; k < std::min(-by, from); ++k) pieces.push_back(one(0));
    if (std::abs(by) < from)
      pieces.push_back(slice(x, axis, std::max<std::int64_t>(by, 0), from - std::max<std::int64_t>(-by, 0)));
    for (std::int64_t k = 0; k < std::min(by, from); ++k) pieces.push_back(one(from - 1));
    return shifted[by] = concat(pieces, axis);
  };
  std::vector<int> results;
  for (const Weights& weights : phases) {
    std::optional<int> sum;
    for (std::size_t k = 0; k < weights.numbers.size(); ++k) {
      const int part =
          binary(Kind::Multiply, shift(weights.first + static_cast<std::int64_t>(k)), scalar(weights.numbers[k]));
      sum = sum ? binary(Kind::Add, *sum, part) : part;
    }
    results.push_back(*sum);
  }
  Shape merged = shape(x);
  merged[d] = to;
  return reshape(stack(results, axis + 1), merged);
}

int Builder::resized_along(int x, std::int64_t axis, std::int64_t to, std::optional<double> factor, Places places,
                           Between between) {
  axis = axis_of(x, axis);
  const auto d = static_cast<std::size_t>(axis);
  const Shape of = shape(x);
  constexpr std::int64_t kMost = 1 << 16;
  expect(!holds_batch(of[d]) && of[d] > 0 && to > 0 && to < kMost && of[d] < kMost, "it is resized out of range");
  const double scale = factor ? *factor : static_cast<double>(to) / static_cast<double>(of[d]);
  if (to == of[d] && (scale == 1.0 || places == Places::Corners)) return x;
  // Means of equal elements, as of the mask of whole images.
  if (at(x).constant)
    if (const std::optional<int> one = one_along(x, d)) {
      Shape resized = of;
      resized[d] = to;
      return broadcast(*one, resized);
    }
  const bool whole = to % of[d] == 0 && scale == static_cast<double>(to / of[d]) && places != Places::Corners;
  if (whole && to / of[d] <= kMaxPhases) return interleaved(x, axis, to, places, between);
  // A product with a matrix of weights, one column of each result.
  std::vector<double> weights(static_cast<std::size_t>(of[d] * to), 0.0);
  for (std::int64_t i = 0; i < to; ++i) {
    const Weights own = weights_at(place_of(i, of[d], to, scale, places), between);
    for (std::size_t k = 0; k < own.numbers.size(); ++k) {
      const std::int64_t element = std::clamp<std::int64_t>(own.first + static_cast<std::int64_t>(k), 0, of[d] - 1);
      weights[static_cast<std::size_t>(element * to + i)] += own.numbers[k];
    }
  }
  return averaged_along(x, axis, to, std::move(weights));
}

// Every result is the mean of all elements that its window of the filter reaches, which is as wide as the results lie
// apart, as Pillow resizes and PyTorch where it antialiases.
int Builder::smoothed_along(int x, std::int64_t axis, std::int64_t to, std::optional<double> factor, Places places,
                            Between between) {
  const bool corners = places == Places::Corners, cubic = between == Between::Cubic;
  axis = axis_of(x, axis);
  const std::int64_t from = shape(x)[static_cast<std::size_t>(axis)];
  expect(!holds_batch(from) && from > 0 && to > 0 && from * to < kMaxValues, "it is resized out of range");
  const double all = static_cast<double>(from), results = static_cast<double>(to);
  const double apart = corners  ? (to > 1 ? (all - 1.0) / (results - 1.0) : 0.0)
                       : factor ? 1.0 / *factor
                                : all / results;
  const double wide = std::max(apart, 1.0), reach = (cubic ? 2.0 : 1.0) * wide;
  constexpr double kA = -0.5;  // as Pillow has it
  const auto filter = [&](double place) {
    return cubic ? cubic_weight(place, kA) : std::max(1.0 - std::abs(place), 0.0);
  };
  std::vector<double> weights(static_cast<std::size_t>(from * to), 0.0);
  for (std::int64_t i = 0; i < to; ++i) {
    const double center = apart * (static_cast<double>(i) + 0.5);
    const auto begin = std::max<std::int64_t>(static_cast<std::int64_t>(center - reach + 0.5), 0);
    const auto end = std::min<std::int64_t>(static_cast<std::int64_t>(center + reach + 0.5), from);
    double sum = 0.0;
    for (std::int64_t k = begin; k < end; ++k) sum += filter((static_cast<double>(k) - center + 0.5) / wide);
    for (std::int64_t k = begin; k < end && sum != 0.0; ++k)
      weights[static_cast<std::size_t>(k * to + i)] = filter((static_cast<double>(k) - center + 0.5) / wide) / sum;
  }
  return averaged_along(x, axis, to, std::move(weights));
}

// `weights`: (elements, results).
int Builder::averaged_along(int x, std::int64_t axis, std::int64_t to, std::vector<double> weights) {
  const std::int64_t from = shape(x)[static_cast<std::size_t>(axis)];
  const std::string note = "images that are resized by no whole factor are products with matrices of weights";
  if (std::find(module_.notes.begin(), module_.notes.end(), note) == module_.notes.end()) module_.notes.push_back(note);
  const int matrix = constant({from, to}, false, std::move(weights));
  return swap(matmul(swap(x, axis, -1), matrix), axis, -1);
}

// Means of windows that divide a dimension as evenly as they can.
int Builder::adaptive_average_along(int x, std::int64_t axis, std::int64_t to) {
  axis = axis_of(x, axis);
  const std::int64_t from = shape(x)[static_cast<std::size_t>(axis)];
  expect(!holds_batch(from) && from > 0 && to > 0 && from * to < kMaxValues, "its pooling is out of range");
  std::vector<double> weights(static_cast<std::size_t>(from * to), 0.0);
  for (std::int64_t i = 0; i < to; ++i) {
    const std::int64_t begin = i * from / to, end = ((i + 1) * from + to - 1) / to;
    for (std::int64_t k = begin; k < end; ++k)
      weights[static_cast<std::size_t>(k * to + i)] = 1.0 / static_cast<double>(end - begin);
  }
  return averaged_along(x, axis, to, std::move(weights));
}

}  // namespace meshwright::primitive
