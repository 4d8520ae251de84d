// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/recognise/recogniser.h"

#include <algorithm>
#include <cmath>
#include <set>

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

// x turned by the angles of these tables, which have one number for each dimension, or for each pair of them.
Recogniser::Found Recogniser::turned(int x, int cosines, int sines) {
  if (at(sines).trained || at(cosines).trained || at(sines).shape != at(cosines).shape) return std::nullopt;
  const Shape table = at(sines).shape;
  const auto rank = static_cast<std::int64_t>(at(x).shape.size());
  const std::int64_t dims = at(x).shape.back();
  std::optional<std::int64_t> positions;
  for (std::size_t d = 0; d + 1 < table.size(); ++d)
    if (table[d] > 1 && table[d] % kBatchProbe != 0) positions = rank - static_cast<std::int64_t>(table.size() - d);
  if (!positions || *positions < 0 || (table.back() != dims && 2 * table.back() != dims)) return std::nullopt;
  const auto from_end = static_cast<std::size_t>(rank - 1 - *positions);
  const std::optional<Turning> turning = turning_of_tables(b_, cosines, sines, dims, from_end);
  return turning ? Found(b_.rotary(x, *positions, dims, *turning)) : std::nullopt;
}

Recogniser::Found Recogniser::rotary(int x, int y) {
  for (const auto& [straight, across] : {std::pair{x, y}, std::pair{y, x}}) {
    if (!is(straight, Kind::Multiply) || !is(across, Kind::Multiply)) continue;
    for (const std::size_t k : {0, 1}) {
      const Found of = rotated_half(at(across).inputs[k]);
      if (!of) continue;
      const int sines = at(across).inputs[1 - k];
      const std::vector<int>& other = at(straight).inputs;
      if (other[0] != *of && other[1] != *of) continue;
      if (const Found made = turned(*of, other[0] == *of ? other[1] : other[0], sines)) return made;
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
  return fits ? turned(a.x, a.table, b.table) : std::nullopt;
}

}  // namespace meshwright::primitive
