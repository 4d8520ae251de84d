// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/turning.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "core/graph/import/primitive/node_values.h"

namespace meshwright::primitive {

namespace {

constexpr double kUsualBase = 10000.0;
constexpr double kRounding = 1e-4;  // of angles from tables in single precision

// The only input that a node is made of, if there is one at most.
struct Leaves {
  std::optional<int> input = {};
  bool known = true;
};

Leaves leaves_below(const Builder& b, int node) {
  constexpr std::size_t kMaxBelow = 1000;
  Leaves found;
  std::set<int> seen;
  std::vector<int> open = {node};
  while (!open.empty()) {
    const int next = open.back();
    open.pop_back();
    if (b.at(next).constant || !seen.insert(next).second) continue;
    if (b.at(next).inputs.empty()) {
      found.known = found.known && b.at(next).kind == Kind::Input && !found.input;
      found.input = next;
    }
    open.insert(open.end(), b.at(next).inputs.begin(), b.at(next).inputs.end());
    if (seen.size() > kMaxBelow) return {{}, false};
  }
  return found;
}

// What makes a table's elements: an input of positions counts from 0.
std::optional<NodeValues> values_below(const Builder& b, int table, std::int64_t& budget) {
  const Leaves leaves = leaves_below(b, table);
  if (!leaves.known) return std::nullopt;
  if (!leaves.input) return NodeValues(b, budget);
  const Node& input = b.at(*leaves.input);
  if (!input.integer || input.shape.empty() || input.shape.back() > kMaxRow) return std::nullopt;
  std::vector<double> positions(static_cast<std::size_t>(input.shape.back()));
  std::iota(positions.begin(), positions.end(), 0.0);
  return NodeValues(b, *leaves.input, std::move(positions), budget);
}

struct Table {
  NodeValues values;
  int node;
  std::size_t rank, axis;

  double at(std::int64_t position, std::int64_t pair) {
    NodeValues::Index index{};
    index[axis] = position;
    index[rank - 1] = pair;
    return values.element(node, index);
  }
};

// Frequencies of which the first is 1 and the others go down by a constant factor have a base alone.
Turning turning_of(const std::vector<double>& frequencies, double amplitude, std::int64_t dims) {
  const std::size_t pairs = frequencies.size();
  const double last = frequencies.back(), width = static_cast<double>(dims);
  double base = pairs > 1 ? std::pow(last, -width / (2.0 * static_cast<double>(pairs - 1))) : kUsualBase;
  if (std::abs(base - std::round(base)) < kRounding * base) base = std::round(base);
  const auto fits = [&](double candidate) {
    for (std::size_t j = 0; j < pairs; ++j) {
      const double plain = std::pow(candidate, -2.0 * static_cast<double>(j) / width);
      if (std::abs(frequencies[j] - plain) > kRounding * plain) return false;
    }
    return true;
  };
  Turning made{.base = base, .divisors = {}, .amplitude = amplitude};
  if (std::abs(amplitude - 1.0) < kRounding) made.amplitude = 1.0;
  if (base > 1.0 && base < 1e12 && fits(base)) return made;
  made.base = kUsualBase;
  for (std::size_t j = 0; j < pairs; ++j)
    made.divisors.push_back(std::pow(kUsualBase, -2.0 * static_cast<double>(j) / width) / frequencies[j]);
  return made;
}

}  // namespace

std::optional<Turning> turning_of_tables(const Builder& b, int cosines, int sines, std::int64_t dims, std::size_t axis,
                                         bool doubled) {
  const Shape shape = b.at(sines).shape;
  const std::int64_t pairs = dims / 2;
  const bool fits = pairs > 0 && !shape.empty() && shape.size() <= NodeValues::kMaxRank && axis < shape.size() &&
                    b.at(cosines).shape == shape && (shape.back() == pairs || shape.back() == dims) &&
                    shape[shape.size() - 1 - axis] > 1;
  if (!fits) return std::nullopt;
  std::int64_t budget = 1 << 24;
  std::optional<NodeValues> of_cosines = values_below(b, cosines, budget), of_sines = values_below(b, sines, budget);
  if (!of_cosines || !of_sines) return Turning{.base = kUsualBase};
  Table cosine{std::move(*of_cosines), cosines, shape.size(), shape.size() - 1 - axis},
      sine{std::move(*of_sines), sines, shape.size(), shape.size() - 1 - axis};
  cosine.values.compute_single_elements();
  sine.values.compute_single_elements();
  std::vector<double> frequencies;
  const double amplitude = cosine.at(0, 0);
  bool turns = amplitude > 0.0;
  for (std::int64_t j = 0; j < pairs && turns; ++j) {
    const std::int64_t column = doubled && shape.back() == dims ? 2 * j : j;
    const double first_sine = sine.at(0, column), first_cosine = cosine.at(0, column);
    const double s = sine.at(1, column), c = cosine.at(1, column);
    turns = std::abs(first_sine) < kRounding * amplitude &&
            std::abs(first_cosine - amplitude) < kRounding * amplitude &&
            std::abs(std::hypot(s, c) - amplitude) < kRounding * amplitude && std::atan2(s, c) > 0.0;
    frequencies.push_back(std::atan2(s, c));
  }
  if (cosine.values.failed() || sine.values.failed()) return Turning{.base = kUsualBase};
  if (!turns) return std::nullopt;
  return turning_of(frequencies, amplitude, dims);
}

}  // namespace meshwright::primitive
