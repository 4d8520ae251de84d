// SPDX-License-Identifier: Apache-2.0
// Tensors made of pieces of others, and of the same one several times.
#include <algorithm>
#include <cmath>

#include "core/base/errors.h"
#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

std::vector<int> Builder::parts(int x, std::int64_t axis, const std::vector<std::int64_t>& sizes) {
  std::vector<int> found;
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    found.push_back(slice(x, axis, start, start + size));
    start += size;
  }
  return found;
}

int Builder::concat(std::vector<int> xs, std::int64_t axis) {
  expect(!xs.empty(), "nothing to put together");
  axis = axis_of(xs[0], axis);
  if (std::any_of(xs.begin(), xs.end(), [&](int x) { return is_complex(x); })) {
    std::vector<int> real, imaginary;
    for (const int x : xs) {
      real.push_back(real_of(x));
      imaginary.push_back(imaginary_of(x));
    }
    const int first = concat(real, axis);
    return complex(first, concat(imaginary, axis));
  }
  const auto d = static_cast<std::size_t>(axis);
  Shape sample = shape(xs[0]);  // of a piece that holds the batch, if there is one
  for (const int x : xs)
    if (std::any_of(shape(x).begin(), shape(x).end(), holds_batch)) sample = shape(x);
  for (int& x : xs) {
    if (shape(x).size() != sample.size()) continue;
    sample[d] = shape(x)[d];
    // The file's own samples by their number, as indices have them, are those of any batch.
    if (d > 0 && module_.batch > 1 && sample[0] == kBatchProbe && counts_samples(x, kBatchProbe)) {
      Shape column(sample.size(), 1);
      column[0] = kBatchProbe;
      x = reshape(range(0.0, static_cast<double>(kBatchProbe), 1.0, true), column);
    }
    x = rebatched(x, sample);
  }
  Shape to = shape(xs[0]);
  to[d] = 0;
  std::vector<int> pieces;
  for (const int x : xs) {
    Shape like = shape(x);
    expect(like.size() == to.size(), "its pieces have different numbers of dimensions");
    to[d] += like[d];
    if (like[d] > 0) pieces.push_back(x);
    like[d] = to[d];
    expect(like == to, fmt::format("{} does not continue {}", to_text(shape(x)), to_text(shape(xs[0]))));
  }
  if (pieces.size() == 1) return pieces[0];
  // Pieces of one number are that number.
  const auto one = pieces.empty() || !at(pieces[0]).constant ? std::nullopt : scalar_of(pieces[0]);
  const bool alike = one && std::all_of(pieces.begin(), pieces.end(), [&](int piece) {
                       return at(piece).constant && !at(piece).values && scalar_of(piece) == one;
                     });
  if (alike) return broadcast(constant({}, at(pieces[0]).integer, std::vector<double>{*one}), to);
  if (pieces.empty()) return xs[0];
  return add(Kind::Concat, pieces, to, at(pieces[0]).integer, {.axes = {axis}});
}

int Builder::stack(std::vector<int> xs, std::int64_t axis) {
  expect(!xs.empty(), "nothing to put together");
  const auto rank = static_cast<std::int64_t>(shape(xs[0]).size()) + 1;
  expect(axis >= -rank && axis < rank, fmt::format("axis {} is outside of {} to {}", axis, -rank, rank - 1));
  for (int& x : xs) x = unsqueeze(x, {axis});
  return concat(std::move(xs), axis);
}

int Builder::repeat(int x, std::int64_t axis, std::int64_t times) {
  axis = axis_of(x, axis);
  Shape wide = shape(x), merged = shape(x);
  wide.insert(wide.begin() + axis + 1, times);
  merged[static_cast<std::size_t>(axis)] = elements_of({merged[static_cast<std::size_t>(axis)], times});
  return reshape(broadcast(unsqueeze(x, {axis + 1}), wide), merged);
}

int Builder::tile(int x, std::vector<std::int64_t> times) {
  const std::size_t rank = shape(x).size();
  expect(times.size() >= rank && times.size() <= kMaxRank, "its repeats are fewer than its dimensions");
  for (const std::int64_t count : times) expect(count >= 0, "it is repeated fewer times than none");
  Shape of(times.size() - rank, 1), wide, merged;
  of.insert(of.end(), shape(x).begin(), shape(x).end());
  for (std::size_t d = 0; d < of.size(); ++d) {
    if (of[d] != 1 && times[d] != 1) wide.push_back(times[d]);
    wide.push_back(of[d] == 1 ? times[d] : of[d]);
    merged.push_back(elements_of({times[d], of[d]}));
  }
  Shape narrow;
  for (std::size_t d = 0; d < of.size(); ++d) {
    if (of[d] != 1 && times[d] != 1) narrow.push_back(1);
    narrow.push_back(of[d]);
  }
  return reshape(broadcast(reshape(x, narrow), wide), merged);
}

int Builder::pad(int x, const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& after, double value) {
  constexpr std::int64_t kMost = 1 << 20;
  const std::size_t rank = shape(x).size();
  expect(before.size() == rank && after.size() == rank, "its padding is not one for each dimension");
  const int within = x;
  bool adds = false;
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t size = shape(x)[d];
    for (const std::int64_t count : {before[d], after[d]})
      expect(count > -kMost && count < kMost, "its padding is out of range");
    expect(before[d] == 0 || !holds_batch(size), "the batch has no padding");
    const auto axis = static_cast<std::int64_t>(d);
    if (before[d] < 0 || after[d] < 0)
      x = slice(x, axis, std::max<std::int64_t>(-before[d], 0), size - std::max<std::int64_t>(-after[d], 0));
    std::vector<int> pieces = {x};
    const auto filled = [&](std::int64_t count) {
      Shape of = shape(x);
      of[d] = count;
      return broadcast(constant({}, at(x).integer, std::vector<double>{value}), of);
    };
    if (before[d] > 0) pieces.insert(pieces.begin(), filled(before[d]));
    if (after[d] > 0) pieces.push_back(filled(after[d]));
    if (pieces.size() == 1) continue;
    adds = true;
    x = concat(pieces, axis);
  }
  const bool only_adds = adds &&
                         std::all_of(before.begin(), before.end(), [](std::int64_t count) { return count >= 0; }) &&
                         std::all_of(after.begin(), after.end(), [](std::int64_t count) { return count >= 0; });
  if (only_adds && value == 0.0) padded_[x] = {within, before, after};
  return x;
}

// More elements before and after each dimension: those that lie there, the other way round and without the edge itself,
// or the edge several times.
int Builder::pad_by_inside(int x, const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& after,
                           bool reflects) {
  constexpr std::int64_t kMost = 4096;
  expect(before.size() == shape(x).size() && after.size() == before.size(),
         "its padding is not one for each dimension");
  for (std::size_t d = 0; d < before.size(); ++d) {
    if (before[d] == 0 && after[d] == 0) continue;
    const std::int64_t size = shape(x)[d], room = reflects ? size - 1 : kMost;
    expect(!holds_batch(size), "the batch has no padding");
    expect(size > 0 && before[d] >= 0 && after[d] >= 0 && std::max(before[d], after[d]) <= std::min(room, kMost),
           "its padding is out of range");
    const auto axis = static_cast<std::int64_t>(d);
    const auto one = [&](std::int64_t index) { return slice(x, axis, index, index + 1); };
    std::vector<int> pieces;
    for (std::int64_t k = before[d]; k > 0; --k) pieces.push_back(one(reflects ? k : 0));
    pieces.push_back(x);
    for (std::int64_t k = 1; k <= after[d]; ++k) pieces.push_back(one(reflects ? size - 1 - k : size - 1));
    x = concat(pieces, axis);
  }
  return x;
}

// Before each dimension its end, and behind it its beginning.
int Builder::pad_by_other_end(int x, const std::vector<std::int64_t>& before, const std::vector<std::int64_t>& after) {
  expect(before.size() == shape(x).size() && after.size() == before.size(),
         "its padding is not one for each dimension");
  for (std::size_t d = 0; d < before.size(); ++d) {
    if (before[d] == 0 && after[d] == 0) continue;
    const std::int64_t size = shape(x)[d];
    expect(!holds_batch(size) && before[d] >= 0 && after[d] >= 0 && std::max(before[d], after[d]) <= size,
           "its padding is out of range");
    const auto axis = static_cast<std::int64_t>(d);
    std::vector<int> pieces = {x};
    if (before[d] > 0) pieces.insert(pieces.begin(), slice(x, axis, size - before[d], size));
    if (after[d] > 0) pieces.push_back(slice(x, axis, 0, after[d]));
    x = concat(pieces, axis);
  }
  return x;
}

int Builder::roll(int x, std::int64_t axis, std::int64_t shift) {
  axis = axis_of(x, axis);
  const std::int64_t size = shape(x)[static_cast<std::size_t>(axis)];
  expect(size > 0 && !holds_batch(size), "the batch is not moved");
  const std::int64_t by = (shift % size + size) % size;
  if (by == 0) return x;
  return concat({slice(x, axis, size - by, size), slice(x, axis, 0, size - by)}, axis);
}

int Builder::triangle(int x, std::int64_t offset, bool upper) {
  const Shape of = shape(x);
  expect(of.size() >= 2, "a triangle has two dimensions");
  // A mask of many numbers is taken for what masks are.
  if (at(x).constant && (!at(x).values || elements_of(of) > kMaxValues))
    return constant(of, at(x).integer, std::nullopt);
  const std::int64_t rows = of[of.size() - 2], columns = of.back();
  const int ahead = binary(Kind::Subtract, range(0.0, static_cast<double>(columns), 1.0, true),
                           unsqueeze(range(0.0, static_cast<double>(rows), 1.0, true), {1}));
  const int kept = compare(upper ? Comparison::GreaterEqual : Comparison::LessEqual, ahead, integers({offset}));
  return select(kept, x, constant({}, at(x).integer, std::vector<double>{0.0}));
}

int Builder::least(int x, const std::vector<std::int64_t>& axes, bool keep) {
  return negated(reduce(Kind::ReduceMax, negated(x), axes, keep));
}

// The largest number is taken off all first, so that no exponential is too large.
int Builder::log_of_sum(int x, const std::vector<std::int64_t>& axes, bool keep) {
  const int most = reduce(Kind::ReduceMax, x, axes, true);
  const int sum = reduce(Kind::ReduceSum, unary(Kind::Exp, binary(Kind::Subtract, x, most)), axes, true);
  const int made = binary(Kind::Add, unary(Kind::Log, sum), most);
  return keep ? made : squeeze(made, axes);
}

int Builder::nonzero(int x) {
  return compare(Comparison::NotEqual, x, constant({}, at(x).integer, std::vector<double>{0.0}));
}

int Builder::rounded(int x, Rounding rounding) {
  if (at(x).integer && rounding != Rounding::ToSign) return x;
  if (rounding == Rounding::ToSign && !at(x).values) {
    const int zero = constant({}, at(x).integer, std::vector<double>{0.0});
    const int below = select(compare(Comparison::Less, x, zero), scalar(-1.0), scalar(0.0));
    return select(compare(Comparison::Greater, x, zero), scalar(1.0), below);
  }
  if (!at(x).values && at(x).constant && at(x).kind == Kind::Broadcast) {
    const Shape whole = shape(x);
    return broadcast(rounded(at(x).inputs[0], rounding), whole);
  }
  expect(at(x).values.has_value(), "a rounding of what is no small constant has no equal here");
  std::vector<double> values = *at(x).values;
  for (double& value : values)
    value = rounding == Rounding::Up        ? std::ceil(value)
            : rounding == Rounding::Down    ? std::floor(value)
            : rounding == Rounding::Nearest ? std::nearbyint(value)
                                            : static_cast<double>((value > 0.0) - (value < 0.0));
  return constant(shape(x), at(x).integer, std::move(values));
}

int Builder::remainder(int x, int y, bool of_divisor) {
  expect(at(x).integer && at(y).integer, "a remainder of other than whole numbers has no equal here");
  const int rest = binary(Kind::Subtract, x, binary(Kind::Multiply, binary(Kind::Divide, x, y), y));
  if (!of_divisor) return rest;
  const int zero = constant({}, true, std::vector<double>{0.0});
  const int unlike = compare(Comparison::Less, binary(Kind::Multiply, rest, y), zero);
  return select(unlike, binary(Kind::Add, rest, y), rest);
}

}  // namespace meshwright::primitive
