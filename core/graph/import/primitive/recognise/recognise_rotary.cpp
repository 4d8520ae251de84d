// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/recognise/recogniser.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/graph/import/primitive/turning.h"

namespace meshwright::primitive {

// --- rotary embedding ---

// The two tensors whose last dimensions lie behind one another in that of i, joined there or stacked in front of it.
std::optional<std::pair<int, int>> Recogniser::joined_halves(int i) const {
  if (is(i, Kind::Concat) && over_last(i) && at(i).inputs.size() == 2)
    return std::pair(at(i).inputs[0], at(i).inputs[1]);
  if (!is(i, Kind::Reshape) || !is(at(i).inputs[0], Kind::Concat)) return std::nullopt;
  const Node stacked = at(at(i).inputs[0]);
  const std::size_t rank = stacked.shape.size();
  Shape half = at(i).shape;
  if (rank < 2 || half.size() + 1 != rank || stacked.inputs.size() != 2 || stacked.shape[rank - 2] != 2 ||
      stacked.details.axes[0] != static_cast<std::int64_t>(rank) - 2)
    return std::nullopt;
  half.back() /= 2;
  std::vector<int> halves;
  for (const int piece : stacked.inputs)
    if (is(piece, Kind::Reshape) && at(at(piece).inputs[0]).shape == half) halves.push_back(at(piece).inputs[0]);
  return halves.size() == 2 ? std::optional(std::pair(halves[0], halves[1])) : std::nullopt;
}

// x of (-x2, x1), the halves of its last dimension.
Recogniser::Found Recogniser::rotated_half(int i) const {
  const auto halves = joined_halves(i);
  if (!halves) return std::nullopt;
  const Scaled second = unscaled(halves->first);
  const int first = halves->second;
  if (!near(second.factor, -1.0) || !is(second.node, Kind::Slice) || !is(first, Kind::Slice)) return std::nullopt;
  const int x = at(first).inputs[0];
  const std::int64_t half = at(x).shape.back() / 2;
  const bool fits = at(second.node).inputs[0] == x && over_last(first) && over_last(second.node) &&
                    at(first).shape.back() == half && at(second.node).shape.back() == half &&
                    at(first).details.start[0] == 0 && at(second.node).details.start[0] == half &&
                    2 * half == at(x).shape.back();
  return fits ? Found(x) : std::nullopt;
}

// x of (-x1, x0, -x3, x2, ...), the pairs of its last dimension.
Recogniser::Found Recogniser::rotated_pairs(int i) const {
  const auto below = [&](int node) { return is(node, Kind::Reshape) ? at(node).inputs[0] : node; };
  const int pairs = below(i);
  if (!is(pairs, Kind::Concat) || at(pairs).inputs.size() != 2 || !over_last(pairs) || at(pairs).shape.back() != 2)
    return std::nullopt;
  const Scaled second = unscaled(below(at(pairs).inputs[0]));
  const int odd = below(second.node), even = below(at(pairs).inputs[1]);
  const auto one_of_two = [&](int slice, std::int64_t start) {
    return is(slice, Kind::Slice) && over_last(slice) && at(slice).shape.back() == 1 &&
           at(slice).details.start[0] == start && at(at(slice).inputs[0]).shape.back() == 2;
  };
  if (!near(second.factor, -1.0) || !one_of_two(odd, 1) || !one_of_two(even, 0)) return std::nullopt;
  const int parted = at(even).inputs[0], x = below(parted);
  return at(odd).inputs[0] == parted && at(x).shape == at(i).shape ? Found(x) : std::nullopt;
}

// x turned by the angles of these tables, which have one number for each dimension, or for each pair of them: of the
// halves of x, or of its neighbours (`neighbours`).
Recogniser::Found Recogniser::turned(int x, int cosines, int sines, bool neighbours) {
  if (at(sines).trained || at(cosines).trained || at(sines).shape != at(cosines).shape) return std::nullopt;
  const Shape table = at(sines).shape;
  const auto rank = static_cast<std::int64_t>(at(x).shape.size());
  const std::int64_t dims = at(x).shape.back();
  std::optional<std::int64_t> positions;
  for (std::size_t d = 0; d + 1 < table.size(); ++d)
    if (table[d] > 1 && table[d] % kBatchProbe != 0) positions = rank - static_cast<std::int64_t>(table.size() - d);
  if (!positions || *positions < 0 || (table.back() != dims && 2 * table.back() != dims)) return std::nullopt;
  const auto from_end = static_cast<std::size_t>(rank - 1 - *positions);
  const std::optional<Turning> turning = turning_of_tables(b_, cosines, sines, dims, from_end, neighbours);
  if (!turning) return std::nullopt;
  return b_.rotary(x, *positions, dims, *turning, neighbours);
}

Recogniser::Found Recogniser::rotary(int x, int y) {
  for (const auto& [straight, across] : {std::pair{x, y}, std::pair{y, x}}) {
    if (!is(straight, Kind::Multiply) || !is(across, Kind::Multiply)) continue;
    for (const std::size_t k : {0, 1}) {
      const Found halves = rotated_half(at(across).inputs[k]);
      const Found of = halves ? halves : rotated_pairs(at(across).inputs[k]);
      if (!of) continue;
      const int sines = at(across).inputs[1 - k];
      const std::vector<int>& other = at(straight).inputs;
      if (other[0] != *of && other[1] != *of) continue;
      if (const Found made = turned(*of, other[0] == *of ? other[1] : other[0], sines, !halves)) return made;
    }
  }
  return std::nullopt;
}

// Of (first cos - second sin, second cos + first sin).
std::optional<Recogniser::Turned> Recogniser::turned_parts(int straight, int across) const {
  if (!is(straight, Kind::Subtract) || !is(across, Kind::Add)) return std::nullopt;
  const int a = at(straight).inputs[0], b = at(straight).inputs[1];
  int c = at(across).inputs[0], d = at(across).inputs[1];
  for (const int term : {a, b, c, d})
    if (!is(term, Kind::Multiply)) return std::nullopt;
  // The operand of a term that is not a table of numbers.
  const auto part = [&](int term, std::size_t k) { return at(term).inputs[k]; };
  for (const std::size_t k : {0u, 1u})
    for (const std::size_t m : {0u, 1u}) {
      const Turned found{part(a, k), part(b, m), part(a, 1 - k), part(b, 1 - m)};
      if (at(found.cosines).trained || at(found.sines).trained || found.first == found.second) continue;
      const auto is_product = [&](int term, int x, int y) {
        return at(term).inputs == std::vector<int>{x, y} || at(term).inputs == std::vector<int>{y, x};
      };
      for (int turn = 0; turn < 2; ++turn, std::swap(c, d))
        if (is_product(c, found.second, found.cosines) && is_product(d, found.first, found.sines)) return found;
    }
  return std::nullopt;
}

// (x1 cos - x2 sin, x2 cos + x1 sin), of the halves of x, or of any two tensors.
Recogniser::Found Recogniser::rotary_of_halves(const std::vector<int>& halves) {
  if (halves.size() != 2) return std::nullopt;
  const std::optional<Turned> of = turned_parts(halves[0], halves[1]);
  if (!of || at(of->first).shape != at(of->second).shape || at(of->first).shape.empty()) return std::nullopt;
  const auto half_of = [&](int half, bool second) -> Found {
    if (!is(half, Kind::Slice) || !over_last(half)) return std::nullopt;
    const std::int64_t width = at(half).shape.back();
    const int x = at(half).inputs[0];
    const bool fits = 2 * width == at(x).shape.back() && at(half).details.start[0] == (second ? width : 0);
    return fits ? Found(x) : std::nullopt;
  };
  const Found x = half_of(of->first, false);
  if (x && x == half_of(of->second, true)) return turned(*x, of->cosines, of->sines, false);
  const auto last = static_cast<std::int64_t>(at(of->first).shape.size()) - 1;
  return turned(b_.concat({of->first, of->second}, last), of->cosines, of->sines, false);
}

// The same of the pairs of neighbours of x, (..., pair, 2), each element of a pair as (..., pair, 1).
Recogniser::Found Recogniser::rotary_of_pairs(const std::vector<int>& elements) {
  if (elements.size() != 2 || at(elements[0]).shape.size() < 2 || at(elements[0]).shape.back() != 1 ||
      !is(elements[0], Kind::Reshape) || !is(elements[1], Kind::Reshape))
    return std::nullopt;
  const std::optional<Turned> of = turned_parts(at(elements[0]).inputs[0], at(elements[1]).inputs[0]);
  if (!of) return std::nullopt;
  const auto pairs_of = [&](int element, std::int64_t which) -> Found {
    const int slice = is(element, Kind::Reshape) ? at(element).inputs[0] : element;
    if (!is(slice, Kind::Slice) || !over_last(slice) || at(slice).shape.back() != 1) return std::nullopt;
    const int pairs = at(slice).inputs[0];
    const bool fits = at(pairs).shape.back() == 2 && at(slice).details.start[0] == which;
    return fits ? Found(pairs) : std::nullopt;
  };
  const Found pairs = pairs_of(of->first, 0);
  if (!pairs || pairs != pairs_of(of->second, 1)) return std::nullopt;
  Shape whole = at(*pairs).shape, merged = whole;
  merged.pop_back();
  merged.back() *= 2;
  const int x = b_.reshape(*pairs, merged);
  const Found made = turned(x, of->cosines, of->sines, true);
  return made ? Found(b_.reshape(*made, whole)) : std::nullopt;
}

// The first dimensions of x turned, and the others behind them.
Recogniser::Found Recogniser::rotary_of_first(const std::vector<int>& pieces) {
  if (pieces.size() != 2 || !is(pieces[0], Kind::Rotary) || !is(pieces[1], Kind::Slice)) return std::nullopt;
  const Node turned = at(pieces[0]), rest = at(pieces[1]);
  const int first = turned.inputs[0];
  const std::int64_t dims = turned.shape.back();
  const bool fits = is(first, Kind::Slice) && over_last(first) && over_last(pieces[1]) &&
                    at(first).inputs[0] == rest.inputs[0] && at(first).details.start[0] == 0 &&
                    rest.details.start[0] == dims && turned.details.window[0] == dims &&
                    dims + rest.shape.back() == at(rest.inputs[0]).shape.back();
  if (!fits) return std::nullopt;
  return b_.add(Kind::Rotary, {rest.inputs[0]}, at(rest.inputs[0]).shape, false, turned.details);
}

}  // namespace meshwright::primitive
