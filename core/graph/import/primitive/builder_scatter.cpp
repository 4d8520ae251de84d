// SPDX-License-Identifier: Apache-2.0
// Elements that others take the place of, or are added to.
#include <algorithm>
#include <set>

#include "core/base/errors.h"
#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

namespace {

// What stands at each place behind the scatter: an element of x by its number, or one of the updates behind those.
std::optional<std::vector<double>> places_behind(std::int64_t size, const std::vector<std::int64_t>& replaced) {
  std::vector<double> places;
  for (std::int64_t i = 0; i < size; ++i) places.push_back(static_cast<double>(i));
  std::set<std::int64_t> met;
  for (std::size_t k = 0; k < replaced.size(); ++k) {
    if (!met.insert(replaced[k]).second) return std::nullopt;
    places[static_cast<std::size_t>(replaced[k])] = static_cast<double>(size + static_cast<std::int64_t>(k));
  }
  return places;
}

}  // namespace

// Tuples that run along each dimension from one element to another: the updates are a box of x.
std::optional<int> Builder::region_replaced(int x, int indices, int updates) {
  const Shape of = shape(x), tuples = shape(indices);
  const auto depth = static_cast<std::size_t>(tuples.back());
  if (tuples.size() != depth + 1) return std::nullopt;
  const std::vector<std::int64_t> all = integers_of(indices, "indices");
  Shape starts, box;
  std::int64_t inner = elements_of(tuples) / tuples.back();
  for (std::size_t d = 0; d < depth; ++d) {
    const std::int64_t count = tuples[d], size = of[d];
    inner /= count;
    const std::int64_t first = all[d], start = first < 0 && !holds_batch(size) ? first + size : first;
    for (std::int64_t i = 0; i < elements_of(tuples) / tuples.back(); ++i)
      if (all[static_cast<std::size_t>(i) * depth + d] != first + i / inner % count) return std::nullopt;
    // All samples of the file's own batch are those of any.
    const bool samples = holds_batch(size);
    if (samples && (start != 0 || count != size / kBatchProbe * module_.batch)) return std::nullopt;
    expect(samples || (start >= 0 && start + count <= size), fmt::format("its indices are outside of {}", to_text(of)));
    starts.push_back(start);
    box.push_back(samples ? size : count);
  }
  Shape whole = box;
  whole.insert(whole.end(), of.begin() + static_cast<std::ptrdiff_t>(depth), of.end());
  int made = broadcast(rebatched(updates, whole), whole);
  // From the last dimension to the first, what stands beside the box.
  for (std::size_t d = depth; d-- > 0;) {
    int around = x;
    for (std::size_t before = 0; before < d; ++before)
      around = slice(around, static_cast<std::int64_t>(before), starts[before], starts[before] + box[before]);
    const auto axis = static_cast<std::int64_t>(d);
    std::vector<int> pieces = {made};
    if (starts[d] > 0) pieces.insert(pieces.begin(), slice(around, axis, 0, starts[d]));
    if (starts[d] + box[d] < of[d]) pieces.push_back(slice(around, axis, starts[d] + box[d], of[d]));
    made = concat(pieces, axis);
  }
  return made;
}

int Builder::scattered(int x, int indices, int updates) {
  const Shape of = shape(x), tuples = shape(indices), given = shape(updates);
  expect(!tuples.empty() && tuples.back() >= 1 && tuples.back() <= std::ssize(of),
         "its indices do not fit its operand");
  const auto depth = static_cast<std::size_t>(tuples.back());
  if (!at(x).values || !at(updates).values)
    if (const std::optional<int> box = region_replaced(x, indices, updates)) return *box;
  std::int64_t blocks = 1, each = 1;
  for (std::size_t d = 0; d + 1 < tuples.size(); ++d) blocks *= tuples[d];
  for (std::size_t d = depth; d < of.size(); ++d) each *= of[d];
  expect(elements_of(given) == blocks * each, "its updates do not fit its indices");
  const std::vector<std::int64_t> places = integers_of(indices, "indices");
  std::vector<std::int64_t> starts;
  for (std::int64_t i = 0; i < blocks; ++i) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < depth; ++d) {
      const std::int64_t index = places[static_cast<std::size_t>(i) * depth + d];
      expect(index >= -of[d] && index < of[d] && !holds_batch(of[d]),
             fmt::format("its index {} is outside of {}", index, to_text(of)));
      at = at * of[d] + (index < 0 ? index + of[d] : index);
    }
    starts.push_back(at);
  }
  if (at(x).values && at(updates).values) {
    std::vector<double> values = *at(x).values;
    for (std::size_t i = 0; i < starts.size(); ++i)
      std::copy_n(at(updates).values->begin() + static_cast<std::ptrdiff_t>(i) * each, each,
                  values.begin() + static_cast<std::ptrdiff_t>(starts[i]) * each);
    return constant(of, at(x).integer, std::move(values));
  }
  const std::int64_t rows = elements_of(of) / std::max<std::int64_t>(each, 1);
  expect(rows <= kMaxRow, "a scatter into so many places has no equal here");
  std::optional<std::vector<double>> behind = places_behind(rows, starts);
  expect(behind.has_value(), "a scatter of which two updates have one place has no equal here");
  const int both = concat({reshape(x, {rows, each}), reshape(updates, {blocks, each})}, 0);
  return reshape(gather(both, constant({rows}, true, std::move(behind)), 0), of);
}

// Whether the indices along a dimension are told from each other by how they are made: of the largest numbers.
bool Builder::are_unlike(int ids, std::size_t d) const {
  if (shape(ids)[d] == 1) return true;
  const Node& node = at(ids);
  if (node.kind == Kind::TopKIndex) return d + 1 == node.shape.size() && node.details.number == 0.0;
  if (node.kind == Kind::Transpose) return are_unlike(node.inputs[0], static_cast<std::size_t>(node.details.axes[d]));
  if (node.kind == Kind::Slice) return are_unlike(node.inputs[0], d);
  if (node.kind != Kind::Broadcast && node.kind != Kind::Reshape) return false;
  // The same dimension below those of one element that were put in or taken away, or were repeated.
  const Shape& from = shape(node.inputs[0]);
  Shape wide, own;
  std::size_t place = 0;
  for (std::size_t i = 0; i < node.shape.size(); ++i) {
    const bool repeated = node.kind == Kind::Broadcast && (i + from.size() < node.shape.size() ||
                                                           from[i + from.size() - node.shape.size()] != node.shape[i]);
    if (i == d && (repeated || node.shape[i] == 1)) return false;
    if (i == d) place = wide.size();
    if (!repeated && node.shape[i] != 1) wide.push_back(node.shape[i]);
  }
  std::vector<std::size_t> below;
  for (std::size_t i = 0; i < from.size(); ++i)
    if (from[i] != 1) {
      own.push_back(from[i]);
      below.push_back(i);
    }
  return own == wide && are_unlike(node.inputs[0], below[place]);
}

int Builder::counted_from_front(int ids, std::int64_t size) {
  if (at(ids).values) return from_front(ids, size);
  int below = ids;
  while (at(below).kind == Kind::Reshape || at(below).kind == Kind::Broadcast || at(below).kind == Kind::Transpose)
    below = at(below).inputs[0];
  if (at(below).kind == Kind::TopKIndex) return ids;  // from the front already
  const auto whole = [&](std::int64_t value) {
    return constant({}, true, std::vector<double>{static_cast<double>(value)});
  };
  return select(compare(Comparison::Less, ids, whole(0)), binary(Kind::Add, ids, whole(size)), ids);
}

int Builder::scattered_along(int x, int ids, int updates, std::int64_t axis, Joined joined) {
  axis = axis_of(x, axis);
  const auto d = static_cast<std::size_t>(axis), rank = shape(x).size();
  const std::optional<double> number = scalar_of(updates);
  expect(at(ids).integer && shape(ids).size() == rank && !holds_batch(shape(x)[d]),
         "its indices do not fit its operand");
  Shape whole = shape(x);
  whole[d] = shape(ids)[d];
  expect(broadcast_shape(shape(ids), whole) == whole, "a scatter into a part of its operand has no equal here");
  if (number)
    updates = broadcast(constant({}, at(x).integer, std::vector<double>{*number}), whole);
  else
    for (std::size_t i = 0; i < rank; ++i)
      updates = slice(updates, static_cast<std::int64_t>(i), 0, std::min(whole[i], shape(updates)[i]));
  expect(broadcast_shape(shape(updates), whole) == whole, "its updates do not fit its indices");
  const std::int64_t size = shape(x)[d], count = whole[d];
  const bool adds = joined == Joined::Adds;
  std::optional<int> row = adds || !at(ids).constant ? std::nullopt : std::optional(ids);
  for (std::size_t i = 0; i < rank && row; ++i)
    if (i != d) row = one_along(*row, i);
  if (row && !at(*row).values) row.reset();
  expect(adds || number || are_unlike(ids, d) || row,
         "a scatter of which two updates may have one place has no equal here");
  // Places that the file tells are those of one row.
  if (row) {
    const std::vector<std::int64_t> places = integers_of(from_front(*row, size), "indices");
    for (const std::int64_t place : places)
      expect(place >= 0 && place < size, fmt::format("its index {} is outside of {}", place, size));
    std::optional<std::vector<double>> behind = places_behind(size, places);
    expect(behind.has_value(), "a scatter of which two updates have one place has no equal here");
    return gather(concat({x, broadcast(updates, whole)}, axis), constant({size}, true, std::move(behind)), axis);
  }
  ids = counted_from_front(ids, size);
  // Whole rows behind each other: a product with rows of 0 and a 1.
  if (adds && d + 2 == rank && !at(x).integer)
    if (const std::optional<int> rows = one_along(ids, rank - 1)) {
      const int here = swap(one_hot(squeeze(*rows, {static_cast<std::int64_t>(rank) - 1}), size), -1, -2);
      return binary(Kind::Add, x, matmul(here, broadcast(updates, whole)));
    }
  constexpr std::int64_t kMost = std::int64_t{1} << 16;
  expect(elements_of({count, size}) <= kMost, "a scatter of so many elements to so many places has no equal here");
  const auto last = static_cast<std::int64_t>(rank) - 1;
  const auto behind = [&](int of) { return unsqueeze(swap(of, axis, last), {last + 1}); };
  const int here = compare(Comparison::Equal, behind(ids), range(0.0, static_cast<double>(size), 1.0, true));
  const int zero = constant({}, at(x).integer, std::vector<double>{0.0});
  const int moved = swap(x, axis, last);
  const auto summed = [&] { return reduce(Kind::ReduceSum, select(here, behind(updates), zero), {last}, false); };
  const int hit = adds ? -1 : reduce(Kind::ReduceMax, here, {last}, false);
  const int made = adds     ? binary(Kind::Add, moved, summed())
                   : number ? select(hit, constant({}, at(x).integer, std::vector<double>{*number}), moved)
                            : select(hit, summed(), moved);
  return swap(made, axis, last);
}

// Rows behind each other that one list of each sample chooses: a product with rows of 0 and a 1.
std::optional<int> Builder::pick_rows(int x, int ids, std::size_t d) {
  const Shape of = shape(x);
  if (d + 2 != of.size() || at(x).integer || holds_batch(of[d])) return std::nullopt;
  const std::optional<int> rows = one_along(ids, d + 1);
  if (!rows || shape(ids).back() != of.back()) return std::nullopt;
  for (std::size_t i = 0; i < d; ++i)
    if (shape(ids)[i] != of[i]) return std::nullopt;
  const int list = counted_from_front(squeeze(*rows, {static_cast<std::int64_t>(d) + 1}), of[d]);
  return matmul(one_hot(list, of[d]), x);
}

}  // namespace meshwright::primitive
