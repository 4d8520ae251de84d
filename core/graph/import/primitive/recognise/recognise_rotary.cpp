// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/recognise/recogniser.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/graph/import/primitive/turning.h"

namespace meshwright::primitive {

// --- rotary embedding ---

// x of (-x2, x1), the halves of its last dimension.
Recogniser::Found Recogniser::rotated_half(int i) const {
  if (!is(i, Kind::Concat) || !over_last(i) || at(i).inputs.size() != 2) return std::nullopt;
  const Scaled second = unscaled(at(i).inputs[0]);
  const int first = at(i).inputs[1];
  if (!near(second.factor, -1.0) || !is(second.node, Kind::Slice) || !is(first, Kind::Slice)) return std::nullopt;
  const int x = at(first).inputs[0];
  const std::int64_t half = at(x).shape.back() / 2;
  const bool halves = at(second.node).inputs[0] == x && over_last(first) && over_last(second.node) &&
                      at(first).shape.back() == half && at(second.node).shape.back() == half &&
                      at(first).details.start[0] == 0 && at(second.node).details.start[0] == half &&
                      2 * half == at(x).shape.back();
  return halves ? Found(x) : std::nullopt;
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

// (x1 cos - x2 sin, x2 cos + x1 sin), of the halves of x.
Recogniser::Found Recogniser::rotary_of_halves(const std::vector<int>& halves) {
  if (halves.size() != 2 || !is(halves[0], Kind::Subtract) || !is(halves[1], Kind::Add)) return std::nullopt;
  // Half k of a tensor times a table.
  struct Term {
    int x = -1, half = 0, table = -1;
  };
  const auto term_of = [&](int i) {
    Term term;
    if (!is(i, Kind::Multiply)) return term;
    for (const std::size_t k : {0u, 1u}) {
      const int half = at(i).inputs[k];
      if (!is(half, Kind::Slice) || !over_last(half)) continue;
      const int x = at(half).inputs[0];
      const std::int64_t width = at(half).shape.back(), start = at(half).details.start[0];
      if (2 * width != at(x).shape.back() || (start != 0 && start != width)) continue;
      term = {x, start == 0 ? 1 : 2, at(i).inputs[1 - k]};
    }
    return term;
  };
  const Term a = term_of(at(halves[0]).inputs[0]), b = term_of(at(halves[0]).inputs[1]);
  Term c = term_of(at(halves[1]).inputs[0]), d = term_of(at(halves[1]).inputs[1]);
  if (c.half == 1) std::swap(c, d);
  const bool fits = a.x >= 0 && a.half == 1 && b.half == 2 && c.half == 2 && d.half == 1 && b.x == a.x && c.x == a.x &&
                    d.x == a.x && c.table == a.table && d.table == b.table;
  return fits ? turned(a.x, a.table, b.table, false) : std::nullopt;
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
