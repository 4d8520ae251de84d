// SPDX-License-Identifier: Apache-2.0
// Operations that make, move, choose and sum elements.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "core/base/errors.h"
#include "core/graph/import/xla/lowering.h"

namespace meshwright::xla {

namespace {

using primitive::Kind;
using primitive::Node;
using primitive::Shape;

const Shape& sizes_of(const Lowering& l, const FlatOp& op) { return l.type(op.results[0]).sizes; }

void expect_axes(Lowering& l, const std::vector<std::int64_t>& axes, std::size_t rank) {
  std::vector<std::int64_t> sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  const bool fits = sorted.empty() || (sorted.front() >= 0 && sorted.back() < static_cast<std::int64_t>(rank) &&
                                       std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
  l.b.expect(fits, fmt::format("its dimensions are none of a tensor of {}", rank));
}

void constant(Lowering& l, const FlatOp& op) {
  const Shape& sizes = sizes_of(l, op);
  const auto& values = op.instruction->attributes.values;
  const bool integer = l.is_integer(op.results[0]);
  const std::int64_t count = primitive::elements_of(sizes);
  if (l.is_complex(op.results[0])) {
    const auto numbers = values ? static_cast<std::int64_t>(values->size()) : 0;
    const bool known = numbers == 2 || numbers == 2 * count;
    return l.set(op, l.b.complex_constant(sizes, known ? values : std::nullopt), sizes);
  }
  const bool one = values && !values->empty() &&
                   std::all_of(values->begin(), values->end(), [&](double value) { return value == values->front(); });
  if (one) return l.set(op, l.b.constant({}, integer, std::vector<double>{values->front()}), sizes);
  if (values && values->size() == 1)  // a number that is no number
    return l.set(op, l.b.constant({}, integer, *values), sizes);
  const bool whole = values && static_cast<std::int64_t>(values->size()) == count;
  l.set(op, l.b.constant(sizes, integer, whole ? values : std::nullopt), sizes);
}

void iota(Lowering& l, const FlatOp& op) {
  const Shape& sizes = sizes_of(l, op);
  const auto d = static_cast<std::size_t>(op.instruction->attributes.index);
  l.b.expect(d < sizes.size(),
             fmt::format("its dimension {} is outside of its type's, 0 to {}", d, static_cast<int>(sizes.size()) - 1));
  Shape to(sizes.size(), 1);
  to[d] = sizes[d];
  const int numbers = l.b.range(0.0, static_cast<double>(sizes[d]), 1.0, l.is_integer(op.results[0]));
  l.set(op, l.b.reshape(numbers, to), sizes);
}

void broadcast(Lowering& l, const FlatOp& op) {
  const Lowered& x = l.operand(op, 0);
  const std::vector<std::int64_t>& dims = op.instruction->attributes.dimensions;
  Shape shape = sizes_of(l, op), to(shape.size(), 1);
  l.b.expect(dims.size() == x.shape.size(), "its dimensions are not one for each of its operand's");
  expect_axes(l, dims, shape.size());
  const bool sorted = std::is_sorted(dims.begin(), dims.end());
  if (!sorted) {
    std::vector<std::int64_t> order(dims.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
      return dims[static_cast<std::size_t>(i)] < dims[static_cast<std::size_t>(j)];
    });
    const Lowered turned = l.transposed(x, order);
    for (std::size_t k = 0; k < order.size(); ++k) {
      const auto d = static_cast<std::size_t>(dims[static_cast<std::size_t>(order[k])]);
      if (turned.shape[k] != 1) shape[d] = turned.shape[k];
      to[d] = l.real(turned, k);
    }
    return l.set(op, l.b.shape(turned.node).empty() ? turned.node : l.b.reshape(turned.node, to), shape);
  }
  for (std::size_t k = 0; k < dims.size(); ++k) {
    const auto d = static_cast<std::size_t>(dims[k]);
    if (x.shape[k] != 1) shape[d] = x.shape[k];  // StableHLO widens a dimension of one element
    to[d] = l.real(x, k);
  }
  l.set(op, l.b.shape(x.node).empty() ? x.node : l.b.reshape(x.node, to), shape);
}

void reshape(Lowering& l, const FlatOp& op) { l.set(op.results[0], l.reshaped(l.operand(op, 0), sizes_of(l, op))); }

void transpose(Lowering& l, const FlatOp& op) {
  l.set(op.results[0], l.transposed(l.operand(op, 0), op.instruction->attributes.dimensions));
}

void slice(Lowering& l, const FlatOp& op) {
  const Attributes& a = op.instruction->attributes;
  Lowered x = l.operand(op, 0);
  l.b.expect(a.start.size() == x.shape.size() && a.limit.size() == x.shape.size(), "it lacks a range for a dimension");
  for (std::size_t d = 0; d < x.shape.size(); ++d)
    x = l.sliced(x, d, a.start[d], a.limit[d], d < a.stride.size() ? a.stride[d] : 1);
  l.set(op.results[0], x);
}

std::int64_t own_size(Lowering& l, std::int64_t size) {
  return primitive::holds_batch(size) ? size / primitive::kBatchProbe * l.b.module().batch : size;
}

// Where a dynamic slice starts; clamped, so that it lies within.
std::vector<std::int64_t> starts_of(Lowering& l, const FlatOp& op, std::size_t first, const Lowered& x,
                                    const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> starts;
  l.b.expect(op.operands.size() == first + x.shape.size() && sizes.size() == x.shape.size(),
             "it lacks an index for a dimension");
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    const auto start = l.number(l.operand_value(op, first + d));
    const std::int64_t room = own_size(l, x.shape[d]) - sizes[d];
    l.b.expect(start.has_value() || room == 0, "it starts at an index that the file leaves open");
    l.b.expect(room >= 0 && !std::isnan(start.value_or(0.0)), "it is larger than its operand, or starts at no number");
    starts.push_back(static_cast<std::int64_t>(std::clamp(start.value_or(0.0), 0.0, static_cast<double>(room))));
  }
  return starts;
}

void dynamic_slice(Lowering& l, const FlatOp& op) {
  Lowered x = l.operand(op, 0);
  const std::vector<std::int64_t>& sizes = op.instruction->attributes.sizes;
  const std::vector<std::int64_t> starts = starts_of(l, op, 1, x, sizes);
  for (std::size_t d = 0; d < x.shape.size(); ++d) x = l.sliced(x, d, starts[d], starts[d] + sizes[d], 1);
  l.set(op.results[0], x);
}

void dynamic_update_slice(Lowering& l, const FlatOp& op) {
  const Lowered x = l.operand(op, 0), update = l.operand(op, 1);
  l.b.expect(update.shape.size() == x.shape.size(), "its update has another number of dimensions");
  Shape sizes;
  for (const std::int64_t size : update.shape) sizes.push_back(own_size(l, size));
  const std::vector<std::int64_t> starts = starts_of(l, op, 2, x, sizes);
  std::vector<std::size_t> differing;
  for (std::size_t d = 0; d < x.shape.size(); ++d)
    if (sizes[d] != own_size(l, x.shape[d])) differing.push_back(d);
  if (differing.empty()) return l.set(op.results[0], update);
  l.b.expect(differing.size() == 1, "it writes a part of more than one dimension, which has no equal here");
  const std::size_t d = differing[0];
  std::vector<Lowered> pieces;
  if (starts[d] > 0) pieces.push_back(l.sliced(x, d, 0, starts[d], 1));
  pieces.push_back(update);
  const std::int64_t end = starts[d] + sizes[d], size = own_size(l, x.shape[d]);
  if (end < size) pieces.push_back(l.sliced(x, d, end, size, 1));
  l.set(op.results[0], l.joined(pieces, d));
}

void concatenate(Lowering& l, const FlatOp& op) {
  const std::vector<std::int64_t>& dims = op.instruction->attributes.dimensions;
  l.b.expect(dims.size() == 1, "it lacks its dimension");
  expect_axes(l, dims, sizes_of(l, op).size());
  std::vector<Lowered> pieces;
  for (std::size_t k = 0; k < op.operands.size(); ++k) {
    pieces.push_back(l.operand(op, k));
    l.b.expect(pieces[k].shape.size() == sizes_of(l, op).size(), "its pieces have different numbers of dimensions");
  }
  l.b.expect(!pieces.empty(), "nothing to put together");
  l.set(op.results[0], l.joined(pieces, static_cast<std::size_t>(dims[0])));
}

// So many numbers behind each element but the last, along each dimension.
int padded_between(Lowering& l, int x, const Numbers& interior, double fill) {
  for (std::size_t d = 0; d < interior.size(); ++d) {
    if (interior[d] == 0) continue;
    const auto axis = static_cast<std::int64_t>(d);
    Shape to = l.b.shape(x);
    l.b.expect(interior[d] > 0 && !primitive::holds_batch(to[d]), "it pads the batch");
    Numbers none(to.size() + 1, 0), behind = none;
    behind[d + 1] = interior[d];
    to[d] *= interior[d] + 1;
    const std::int64_t size = to[d] - interior[d];
    if (size <= 0) continue;
    x = l.b.slice(l.b.reshape(l.b.pad(l.b.unsqueeze(x, {axis + 1}), none, behind, fill), to), axis, 0, size);
  }
  return x;
}

void pad(Lowering& l, const FlatOp& op) {
  const Attributes& a = op.instruction->attributes;
  const Lowered& x = l.operand(op, 0);
  const auto fill = l.b.scalar_of(l.operand(op, 1).node);
  l.b.expect(fill.has_value(), "it pads with a number that the file leaves open");
  l.b.expect(a.low.size() == x.shape.size() && a.high.size() == x.shape.size(), "it lacks a padding for a dimension");
  const auto none = [](std::int64_t pads) { return pads == 0; };
  if (!std::all_of(a.interior.begin(), a.interior.end(), none)) {
    l.b.expect(a.interior.size() == a.low.size(), "it lacks a padding for a dimension");
    const int wide = padded_between(l, l.whole(x), a.interior, *fill);
    return l.set(op, l.b.pad(wide, a.low, a.high, *fill), l.type(op.results[0]).sizes);
  }
  if (std::all_of(a.low.begin(), a.low.end(), none) && std::all_of(a.high.begin(), a.high.end(), none))
    return l.set(op.results[0], x);
  for (std::size_t d = 0; d < x.shape.size(); ++d)
    l.b.expect(!primitive::holds_batch(x.shape[d]) || (a.low[d] == 0 && a.high[d] == 0), "it pads the batch");
  l.set_padded(op.results[0], {l.operand_value(op, 0), a.low, a.high, *fill});
}

void reverse(Lowering& l, const FlatOp& op) {
  Lowered x = l.operand(op, 0);
  expect_axes(l, op.instruction->attributes.dimensions, x.shape.size());
  for (const std::int64_t axis : op.instruction->attributes.dimensions) {
    const auto d = static_cast<std::size_t>(axis);
    if (l.real(x, d) == 1) continue;
    l.b.expect(!primitive::holds_batch(x.shape[d]), "samples in reversed order have no equal here");
    x.node = l.b.slice(x.node, axis, -1, -x.shape[d] - 1, -1);
  }
  l.set(op.results[0], x);
}

// --- reductions ---

enum class Sum { Add, Max, Min, Or, And, None };

Sum sum_of(const std::string& opcode) {
  if (opcode == "add") return Sum::Add;
  if (opcode == "maximum") return Sum::Max;
  if (opcode == "minimum") return Sum::Min;
  if (opcode == "or") return Sum::Or;
  if (opcode == "and") return Sum::And;
  return Sum::None;
}

void reduce(Lowering& l, const FlatOp& op) {
  if (lower_arg_max(l, op)) return;
  l.b.expect(op.operands.size() == 2 && op.results.size() == 1,
             "a reduction of several tensors at once (as of an arg max) has no equal here");
  const Lowered x = l.operand(op, 0);
  const auto& values = l.b.at(x.node).values;
  if (l.applied(*op.instruction) == "multiply" && values && sizes_of(l, op).empty()) {  // as of sizes
    double product = 1.0;
    for (const double value : *values) product *= value;
    const double repeats = static_cast<double>(primitive::elements_of(x.shape)) / static_cast<double>(values->size());
    return l.set(op, l.b.constant({}, l.is_integer(op.results[0]), std::vector<double>{std::pow(product, repeats)}),
                 {});
  }
  const Sum sum = sum_of(l.applied(*op.instruction));
  if (sum == Sum::Add && lower_sum_of_choices(l, op, x)) return;
  l.b.expect(sum != Sum::None, "a reduction that neither adds nor compares has no equal here");
  const std::vector<std::int64_t>& axes = op.instruction->attributes.dimensions;
  expect_axes(l, axes, x.shape.size());
  Shape shape, to;
  double repeats = 1.0;
  std::vector<std::int64_t> summed;
  int node = l.ranked(x);
  for (std::size_t d = 0; d < x.shape.size(); ++d) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) != axes.end();
    if (!reduced) {
      shape.push_back(x.shape[d]);
      to.push_back(l.b.shape(node)[d]);
    } else if (l.b.shape(node)[d] == 1) {
      repeats *= static_cast<double>(own_size(l, x.shape[d]));
    } else {
      summed.push_back(static_cast<std::int64_t>(d));
    }
  }
  const bool integer = l.b.at(node).integer;
  const auto scalar = [&](double value) { return l.b.constant({}, integer, std::vector<double>{value}); };
  if (sum == Sum::Min) node = l.b.negated(node);
  if (sum == Sum::And) node = l.b.unary(Kind::Not, node);
  // Only numbers have a maximum.
  const bool truths = (sum == Sum::And || sum == Sum::Or) && integer && !l.b.at(node).constant && !summed.empty();
  if (truths) node = l.b.unary(Kind::ToFloat, node);
  if (!summed.empty()) node = l.b.reduce(sum == Sum::Add ? Kind::ReduceSum : Kind::ReduceMax, node, summed, true);
  if (sum == Sum::Add && repeats != 1.0) node = l.b.binary(Kind::Multiply, node, scalar(repeats));
  if (truths) node = l.b.compare(Comparison::NotEqual, node, l.b.scalar(0.0));
  if (sum == Sum::Min) node = l.b.negated(node);
  if (sum == Sum::And) node = l.b.unary(Kind::Not, node);
  node = l.b.reshape(node, to);
  const auto start = l.b.scalar_of(l.operand(op, 1).node);
  l.b.expect(start.has_value(), "it starts with a number that the file leaves open");
  const double far = 1e30;
  const bool neutral = (sum == Sum::Add && *start == 0.0) || (sum == Sum::Max && (*start <= -far || integer)) ||
                       (sum == Sum::Min && (*start >= far || integer)) || (sum == Sum::Or && *start == 0.0) ||
                       (sum == Sum::And && *start != 0.0);
  if (!neutral) {
    const Kind kind = sum == Sum::Add ? Kind::Add : sum == Sum::Min ? Kind::Minimum : Kind::Maximum;
    node = l.b.binary(kind, node, scalar(*start));
  }
  l.set(op, node, shape);
}

// --- tables ---

// Nodes that only change a shape, or a type of integers.
int below(const Lowering& l, int node) {
  for (int steps = 0; steps < 16; ++steps) {
    const Node& of = l.b.at(node);
    if (of.kind != Kind::Reshape && of.kind != Kind::Broadcast) return node;
    node = of.inputs[0];
  }
  return node;
}

// Column `k` of the last dimension of indices.
int column(Lowering& l, const Lowered& indices, std::size_t k) {
  const std::size_t last = indices.shape.size() - 1;
  const Lowered one = l.sliced(indices, last, static_cast<std::int64_t>(k), static_cast<std::int64_t>(k) + 1, 1);
  return l.ranked(one);
}

// Dimensions of the table that its rows have, with their places in the result; those of one element that the file does
// not collapse have none.
struct Rows {
  std::vector<std::int64_t> dims, places;
  bool fits = true;
};

Rows rows_of(const Attributes& a, std::size_t rank, std::size_t of_result) {
  Rows rows;
  const auto holds = [](const std::vector<std::int64_t>& list, std::int64_t axis) {
    return std::find(list.begin(), list.end(), axis) != list.end();
  };
  std::size_t next = 0;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(rank); ++d) {
    if (holds(a.collapsed_dims, d) || holds(a.operand_batch, d)) continue;
    if (next == a.offset_dims.size()) return {{}, {}, false};
    const std::int64_t place = a.offset_dims[next++];
    if (place < 0 || place >= static_cast<std::int64_t>(of_result)) return {{}, {}, false};
    if (holds(a.index_map, d) && a.sizes[static_cast<std::size_t>(d)] == 1) continue;
    rows.dims.push_back(d);
    rows.places.push_back(place);
  }
  rows.fits = next == a.offset_dims.size();
  return rows;
}

// x at the label, of the last dimension: every dimension before it is a batch, or is counted by its own column.
bool picks_labels(Lowering& l, const FlatOp& op, const Attributes& a, const Lowered& x, const Lowered& indices) {
  const std::size_t rank = x.shape.size(), last = rank - 1;
  if (rank < 2 || a.index_map.empty()) return false;
  if (std::any_of(a.sizes.begin(), a.sizes.end(), [](std::int64_t size) { return size != 1; })) return false;
  if (a.index_map.back() != static_cast<std::int64_t>(last)) return false;
  for (std::size_t d = 0; d < last; ++d) {
    const auto axis = static_cast<std::int64_t>(d);
    if (std::find(a.operand_batch.begin(), a.operand_batch.end(), axis) != a.operand_batch.end()) continue;
    const auto at = std::find(a.index_map.begin(), a.index_map.end(), axis);
    if (own_size(l, x.shape[d]) == 1) continue;
    if (at == a.index_map.end()) return false;
    const Node counted = l.b.at(below(l, column(l, indices, static_cast<std::size_t>(at - a.index_map.begin()))));
    if (!counted.constant || (counted.values && counted.values->size() > 1 && (*counted.values)[1] != 1.0))
      return false;
  }
  const auto columns = static_cast<std::int64_t>(a.index_map.size());
  const Lowered labels = l.sliced(indices, indices.shape.size() - 1, columns - 1, columns, 1);
  Shape rows(x.shape.begin(), x.shape.end() - 1), own_rows;
  for (const std::int64_t size : rows) own_rows.push_back(own_size(l, size));
  int ids = l.whole(labels);
  Shape of_ids;
  for (const std::int64_t size : l.b.shape(ids)) of_ids.push_back(own_size(l, size));
  if (primitive::elements_of(of_ids) != primitive::elements_of(own_rows)) return false;
  ids = l.b.reshape(ids, own_rows);
  const int picked = l.b.pick_label(l.whole(x), ids);
  l.set(op.results[0], l.reshaped({picked, rows}, sizes_of(l, op)));
  return true;
}

// Rows of a table: all of its other dimensions, behind those of the ids.
bool looks_up(Lowering& l, const FlatOp& op, const Attributes& a, const Lowered& table, const Lowered& indices) {
  const std::size_t rank = table.shape.size();
  if (a.index_map.size() != 1 || !a.operand_batch.empty() || a.sizes.size() != rank || rank == 0) return false;
  const std::int64_t axis = a.index_map[0];
  for (std::size_t d = 0; d < rank; ++d)
    if (a.sizes[d] != (static_cast<std::int64_t>(d) == axis ? 1 : own_size(l, table.shape[d]))) return false;
  const Rows rows = rows_of(a, rank, sizes_of(l, op).size());
  if (!rows.fits || rows.dims.size() + 1 != rank) return false;
  Shape of_ids;
  for (std::size_t d = 0; d + 1 < indices.shape.size(); ++d) of_ids.push_back(own_size(l, indices.shape[d]));
  Lowered ids = indices;
  ids.node = l.whole(indices);
  ids = l.reshaped(ids, of_ids);
  // Indices that the file tells, as of an enlarged image, in the place of the dimension that they choose from.
  if (of_ids.size() == 1 && l.b.at(ids.node).values && !l.b.at(table.node).values && rows.places == rows.dims) {
    const int made = l.b.gather(l.whole(table), ids.node, axis);
    l.set(op.results[0], {made, l.b.shape(made)});
    return true;
  }
  std::vector<std::int64_t> order = {axis};
  order.insert(order.end(), rows.dims.begin(), rows.dims.end());
  const Lowered turned = l.transposed(table, order);
  const int looked_up = l.b.gather(l.whole(turned), ids.node, 0);
  Shape shape = ids.shape;
  shape.insert(shape.end(), turned.shape.begin() + 1, turned.shape.end());
  // HLO names the places of the table's dimensions in the result: those of ids take the others in order.
  std::vector<std::int64_t> axes;
  std::int64_t next = 0;
  for (std::int64_t place = 0; place < static_cast<std::int64_t>(sizes_of(l, op).size()); ++place) {
    const auto row = std::find(rows.places.begin(), rows.places.end(), place);
    const bool dropped =
        row == rows.places.end() && std::find(a.offset_dims.begin(), a.offset_dims.end(), place) != a.offset_dims.end();
    if (row != rows.places.end())
      axes.push_back(static_cast<std::int64_t>(of_ids.size()) + (row - rows.places.begin()));
    else if (!dropped)
      axes.push_back(next++);
  }
  if (axes.size() != shape.size() || next != static_cast<std::int64_t>(of_ids.size())) return false;
  l.set(op.results[0], l.reshaped(l.transposed({looked_up, shape}, axes), sizes_of(l, op)));
  return true;
}

// Indices that the file tells are slices.
bool cuts(Lowering& l, const FlatOp& op, const Attributes& a, const Lowered& table, const Lowered& indices) {
  if (indices.shape.size() != 1 || !a.operand_batch.empty() || a.sizes.size() != table.shape.size()) return false;
  Lowered x = table;
  for (std::size_t k = 0; k < a.index_map.size(); ++k) {
    const auto start = l.b.scalar_of(column(l, indices, k));
    const std::int64_t axis = a.index_map[k];
    if (!start || std::isnan(*start) || axis < 0 || axis >= static_cast<std::int64_t>(x.shape.size())) return false;
    const auto d = static_cast<std::size_t>(axis);
    const double room = static_cast<double>(own_size(l, x.shape[d]) - a.sizes[d]);
    const auto from = static_cast<std::int64_t>(std::clamp(*start, 0.0, std::max(room, 0.0)));
    x = l.sliced(x, d, from, from + a.sizes[d], 1);
  }
  for (std::size_t d = 0; d < x.shape.size(); ++d)
    if (own_size(l, x.shape[d]) != a.sizes[d]) return false;
  l.set(op.results[0], l.reshaped(x, sizes_of(l, op)));
  return true;
}

// A slice as long as its dimension begins at its start, whatever its index is: without the columns of such.
void drop_whole_slices(Lowering& l, const Lowered& table, Attributes& a, Lowered& indices) {
  const std::size_t last = indices.shape.size() - 1;
  std::vector<std::int64_t> kept;
  std::vector<Lowered> columns;
  for (std::size_t k = 0; k < a.index_map.size(); ++k) {
    const auto axis = static_cast<std::size_t>(a.index_map[k]);
    if (axis >= table.shape.size() || axis >= a.sizes.size() || a.sizes[axis] == own_size(l, table.shape[axis]))
      continue;
    kept.push_back(a.index_map[k]);
    columns.push_back(l.sliced(indices, last, static_cast<std::int64_t>(k), static_cast<std::int64_t>(k) + 1, 1));
  }
  if (columns.empty() || kept.size() == a.index_map.size()) return;
  a.index_map = kept;
  indices = columns.size() == 1 ? columns[0] : l.joined(columns, last);
}

void gather(Lowering& l, const FlatOp& op) {
  Attributes a = op.instruction->attributes;
  const Lowered table = l.operand(op, 0);
  Lowered indices = l.operand(op, 1);
  l.b.expect(l.b.at(indices.node).integer, "its indices are no integers");
  const auto rank = static_cast<std::int64_t>(indices.shape.size());
  l.b.expect(a.index_vector_dim == rank || (rank > 0 && a.index_vector_dim == rank - 1),
             "indices along an inner dimension have no equal here");
  if (a.index_vector_dim == rank) {
    Shape wide;
    for (const std::int64_t size : indices.shape) wide.push_back(own_size(l, size));
    wide.push_back(1);
    indices = l.reshaped(indices, wide);
  }
  const auto found = [&] {
    return cuts(l, op, a, table, indices) || looks_up(l, op, a, table, indices) ||
           picks_labels(l, op, a, table, indices);
  };
  if (lower_sorted_rows(l, op, table, indices) || found()) return;
  const std::size_t columns = a.index_map.size();
  drop_whole_slices(l, table, a, indices);
  if (a.index_map.size() != columns && found()) return;
  l.b.fail("its indices are neither rows of a table nor labels; such a choice has no equal here");
}

const std::map<std::string, Rule>& shape_rules() {
  static const std::map<std::string, Rule> kRules = {
      {"constant", constant},
      {"iota", iota},
      {"broadcast", broadcast},
      {"reshape", reshape},
      {"bitcast", reshape},
      {"transpose", transpose},
      {"slice", slice},
      {"dynamic-slice", dynamic_slice},
      {"dynamic-update-slice", dynamic_update_slice},
      {"concatenate", concatenate},
      {"pad", pad},
      {"reverse", reverse},
      {"reduce", reduce},
      {"gather", gather},
  };
  return kRules;
}

}  // namespace

Rule shape_rule(const std::string& name) {
  const auto found = shape_rules().find(name);
  return found == shape_rules().end() ? nullptr : found->second;
}

}  // namespace meshwright::xla
