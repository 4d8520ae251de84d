// SPDX-License-Identifier: Apache-2.0
// Elements by lists of indices, as exporters make masks of positions: every query's and every key's position, picked
// from one list that is repeated for the batch.
#include "core/graph/import/primitive/builder.h"

#include <algorithm>

namespace meshwright::primitive {

namespace {

bool is_elementwise(Kind kind) {
  return (kind >= Kind::Exp && kind <= Kind::ToInteger) || (kind >= Kind::Add && kind <= Kind::Compare) ||
         kind == Kind::Select;
}

// Whether all blocks of a constant along a dimension are alike.
bool repeats(const Shape& shape, const std::vector<double>& values, std::size_t d) {
  std::size_t inner = 1;
  for (std::size_t i = d + 1; i < shape.size(); ++i) inner *= static_cast<std::size_t>(shape[i]);
  const std::size_t rows = static_cast<std::size_t>(shape[d]), block = inner * rows;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != values[i / block * block + i % inner]) return false;
  return true;
}

}  // namespace

// x of one element along dimension d, where x is the same for each of them, as far as its making tells.
std::optional<int> Builder::one_along(int x, std::size_t d) {
  const Node node = at(x);
  if (node.shape[d] == 1) return x;
  if (node.values && repeats(node.shape, *node.values, d)) return slice(x, static_cast<std::int64_t>(d), 0, 1);
  Shape to = node.shape;
  to[d] = 1;
  // Of an operand: it has fewer dimensions where it is repeated for the first ones.
  const auto operand = [&](int input) -> std::optional<int> {
    const std::size_t rank = shape(input).size(), missing = node.shape.size() - rank;
    return d < missing ? std::optional(input) : one_along(input, d - missing);
  };
  if (node.kind == Kind::Broadcast) {
    const std::optional<int> inner = operand(node.inputs[0]);
    return inner ? std::optional(broadcast(*inner, to)) : std::nullopt;
  }
  if (node.kind == Kind::Gather) {  // rows of a table: as many as there are indices
    if (d >= shape(node.inputs[1]).size()) return std::nullopt;
    const std::optional<int> ids = one_along(node.inputs[1], d);
    return ids ? std::optional(gather(node.inputs[0], *ids, 0)) : std::nullopt;
  }
  const bool beside = (node.kind == Kind::CumSum || node.kind == Kind::Concat || node.kind == Kind::Slice) &&
                      node.details.axes[0] != static_cast<std::int64_t>(d);
  if (!beside && !is_elementwise(node.kind)) return std::nullopt;
  std::vector<int> inputs;
  for (const int input : node.inputs) {
    const std::optional<int> inner = operand(input);
    if (!inner) return std::nullopt;
    inputs.push_back(*inner);
  }
  return add(node.kind, std::move(inputs), to, node.integer, node.details);
}

// x[ids[0], ids[1], ...]: the lists, which broadcast, have an index into each of the first dimensions.
int Builder::pick_leading(int x, const std::vector<int>& ids) {
  expect(!ids.empty() && ids.size() <= shape(x).size(), "it has more indices than its operand has dimensions");
  Shape picked;
  for (const int one : ids) picked = broadcast_shape(picked, shape(one));
  std::optional<int> from;
  for (std::size_t d = 0; d < ids.size(); ++d) {
    // Which sample does not matter where all are alike.
    if (const std::optional<int> one = one_along(x, d)) {
      x = *one;
      continue;
    }
    const int size = constant({}, true, std::vector<double>{static_cast<double>(shape(x)[d])});
    from = from ? binary(Kind::Add, binary(Kind::Multiply, *from, size), ids[d]) : ids[d];
  }
  if (!from) from = constant({}, true, std::vector<double>{0.0});
  Shape rows(shape(x).begin() + static_cast<std::ptrdiff_t>(ids.size()), shape(x).end());
  Shape flat = rows;
  flat.insert(flat.begin(), -1);
  const int found = gather(reshape(x, flat), *from, 0);
  Shape to = picked;
  to.insert(to.end(), rows.begin(), rows.end());
  // Indices that do not matter leave their dimensions to be repeated.
  Shape narrow = shape(*from);
  narrow.insert(narrow.begin(), picked.size() - narrow.size(), 1);
  narrow.insert(narrow.end(), rows.begin(), rows.end());
  return broadcast(reshape(found, narrow), to);
}

std::optional<int> Builder::slice_of_piece(int x, std::int64_t start, std::int64_t stop) {
  const Node whole = at(x);
  const std::int64_t axis = whole.details.axes[0];
  for (const int piece : whole.inputs) {
    const std::int64_t size = shape(piece)[static_cast<std::size_t>(axis)];
    if (start < size) return stop <= size ? std::optional(slice(piece, axis, start, stop)) : std::nullopt;
    start -= size;
    stop -= size;
  }
  return std::nullopt;
}

// x[1:] - x[:-1] along an axis, of x behind what stands in front of it, if anything does.
int Builder::differences(int x, std::optional<int> front, std::int64_t axis) {
  if (front) x = concat({*front, x}, axis);
  axis = axis_of(x, axis);
  const std::int64_t size = shape(x)[static_cast<std::size_t>(axis)];
  return binary(Kind::Subtract, slice(x, axis, 1, size), slice(x, axis, 0, size - 1));
}

}  // namespace meshwright::primitive
