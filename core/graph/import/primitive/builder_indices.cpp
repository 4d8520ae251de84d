// SPDX-License-Identifier: Apache-2.0
// Elements by lists of indices, as exporters make masks of positions: every query's and every key's position, picked
// from one list that is repeated for the batch.
#include "core/graph/import/primitive/builder.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"

namespace meshwright::primitive {

namespace {

bool is_elementwise(Kind kind) { return is_unary(kind) || is_binary(kind) || kind == Kind::Select; }

}  // namespace

bool repeats_along(const Shape& shape, const std::vector<double>& values, std::size_t d) {
  std::size_t inner = 1;
  for (std::size_t i = d + 1; i < shape.size(); ++i) inner *= static_cast<std::size_t>(shape[i]);
  const std::size_t rows = static_cast<std::size_t>(shape[d]), block = inner * rows;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] != values[i / block * block + i % inner]) return false;
  return true;
}

// x of one element along dimension d, where x is the same for each of them, as far as its making tells.
std::optional<int> Builder::one_along(int x, std::size_t d) {
  if (const auto known = ones_.find({x, d}); known != ones_.end()) return known->second;
  constexpr int kMaxDepth = 200;  // of what a file makes a mask of
  if (ones_depth_ == kMaxDepth) return std::nullopt;
  ++ones_depth_;
  const std::optional<int> found = made_of_one(x, d);
  --ones_depth_;
  return ones_[{x, d}] = found;
}

std::optional<int> Builder::made_of_one(int x, std::size_t d) {
  const Node node = at(x);
  if (node.shape[d] == 1) return x;
  if (node.values && repeats_along(node.shape, *node.values, d)) return slice(x, static_cast<std::int64_t>(d), 0, 1);
  Shape to = node.shape;
  to[d] = 1;
  // An operand has fewer dimensions where it is repeated for the first ones.
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
  // Factors side by side, one of which may be the same for all products.
  if (node.kind == Kind::MatMul && d + 2 < node.shape.size()) {
    std::vector<int> inputs;
    for (const int input : node.inputs) {
      const std::optional<int> inner = operand(input);
      if (!inner) return std::nullopt;
      inputs.push_back(*inner);
    }
    return matmul(inputs[0], inputs[1]);
  }
  // The rows of a product are those of its first factor.
  if (node.kind == Kind::MatMul && d + 2 <= node.shape.size() && d + 1 < shape(node.inputs[0]).size() &&
      shape(node.inputs[0]).size() == node.shape.size() && shape(node.inputs[1]).size() == 2) {
    const std::optional<int> rows = one_along(node.inputs[0], d);
    return rows ? std::optional(matmul(*rows, node.inputs[1])) : std::nullopt;
  }
  if (node.kind == Kind::Transpose) {
    const std::optional<int> inner = one_along(node.inputs[0], static_cast<std::size_t>(node.details.axes[d]));
    return inner ? std::optional(transpose(*inner, node.details.axes)) : std::nullopt;
  }
  if (node.kind == Kind::Reshape) {  // which leaves the dimension as it is
    const Shape& from = shape(node.inputs[0]);
    const std::int64_t ahead =
        elements_of(Shape(node.shape.begin(), node.shape.begin() + static_cast<std::ptrdiff_t>(d)));
    std::int64_t met = 1;
    for (std::size_t i = 0; i < from.size() && met <= ahead; met *= std::max<std::int64_t>(from[i++], 1)) {
      if (met != ahead || from[i] != node.shape[d]) continue;
      const std::optional<int> inner = one_along(node.inputs[0], i);
      return inner ? std::optional(reshape(*inner, to)) : std::nullopt;
    }
    if (const std::optional<int> below = parted_below(x, d)) return one_along(*below, d);
    return alike_in_group(x, d);
  }
  // Queries, keys and values of a sample meet each other alone; sinks, of one dimension, are those of heads.
  if (node.kind == Kind::Attention && d == 0) {
    std::vector<int> inputs;
    for (const int input : node.inputs) {
      const std::optional<int> inner = shape(input).size() == 1 ? std::optional(input) : one_along(input, 0);
      if (!inner) return std::nullopt;
      inputs.push_back(*inner);
    }
    return add(node.kind, std::move(inputs), to, false, node.details);
  }
  const bool normalises = node.kind == Kind::LayerNorm || node.kind == Kind::RmsNorm;
  if (normalises && d + 1 < node.shape.size()) {  // over the last dimension
    const std::optional<int> inner = one_along(node.inputs[0], d);
    if (!inner) return std::nullopt;
    std::vector<int> inputs = node.inputs;
    inputs[0] = *inner;
    return add(node.kind, std::move(inputs), to, false, node.details);
  }
  if (node.kind == Kind::Convolution && d == 0) {
    const std::optional<int> inner = one_along(node.inputs[0], 0);
    return inner ? std::optional(add(node.kind, {*inner, node.inputs[1]}, to, false, node.details)) : std::nullopt;
  }
  const std::vector<std::int64_t>& axes = node.details.axes;
  const bool along = node.kind == Kind::CumSum || node.kind == Kind::Concat || node.kind == Kind::Slice ||
                     node.kind == Kind::Softmax || node.kind == Kind::ReduceSum || node.kind == Kind::ReduceMean ||
                     node.kind == Kind::ReduceMax;
  const bool beside = along && std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) == axes.end();
  if (!beside && !is_elementwise(node.kind)) return std::nullopt;
  std::vector<int> inputs;
  for (const int input : node.inputs) {
    const std::optional<int> inner = operand(input);
    if (!inner) return std::nullopt;
    inputs.push_back(*inner);
  }
  return add(node.kind, std::move(inputs), to, node.integer, node.details);
}

// A reshape that only parts dimension d into it and the next one, written before the op that it follows.
std::optional<int> Builder::parted_below(int x, std::size_t d) {
  const Shape to = at(x).shape;
  const Node below = at(at(x).inputs[0]);
  Shape merged = to;
  if (d + 1 >= to.size() || to.size() != below.shape.size() + 1) return std::nullopt;
  merged[d] *= to[d + 1];
  merged.erase(merged.begin() + static_cast<std::ptrdiff_t>(d) + 1);
  if (merged != below.shape) return std::nullopt;
  const auto parted = [&](int input, std::size_t at_dim) {
    Shape of = shape(input);
    const bool has = of[at_dim] != 1;
    of[at_dim] = has ? to[d] : 1;
    of.insert(of.begin() + static_cast<std::ptrdiff_t>(at_dim) + 1, has ? to[d + 1] : 1);
    return reshape(input, of);
  };
  if (below.kind == Kind::Transpose) {
    const auto from = static_cast<std::size_t>(below.details.axes[d]);
    Shape axes;
    for (const std::int64_t axis : below.details.axes) {
      axes.push_back(axis + (axis > static_cast<std::int64_t>(from) ? 1 : 0));
      if (axis == static_cast<std::int64_t>(from)) axes.push_back(axis + 1);
    }
    return transpose(parted(below.inputs[0], from), axes);
  }
  if (!is_elementwise(below.kind)) return std::nullopt;
  std::vector<int> inputs;
  for (const int input : below.inputs) {
    const std::size_t missing = below.shape.size() - shape(input).size();
    inputs.push_back(d < missing ? input : parted(input, d - missing));
  }
  return add(below.kind, std::move(inputs), to, below.integer, below.details);
}

// The same of a reshape that merges or parts dimensions along all of which its operand is alike.
std::optional<int> Builder::alike_in_group(int x, std::size_t d) {
  const Shape to = at(x).shape;
  int inner = at(x).inputs[0];
  const Shape from = shape(inner);
  // The fewest dimensions on both sides, d among them, that have the same elements.
  std::size_t begin = 0, end = 0, own_begin = 0, own_end = 0;
  while (own_end <= d) {
    begin = end;
    own_begin = own_end;
    std::int64_t met = 1, own = 1;
    do {
      if (met <= own && end < from.size())
        met *= from[end++];
      else if (own_end < to.size())
        own *= to[own_end++];
      else
        return std::nullopt;
    } while (met != own || own_end == own_begin);
  }
  for (std::size_t i = begin; i < end; ++i) {
    const std::optional<int> one = one_along(inner, i);
    if (!one) return std::nullopt;
    inner = *one;
  }
  Shape once = to, result = to;
  for (std::size_t i = own_begin; i < own_end; ++i) once[i] = 1;
  result[d] = 1;
  return broadcast(reshape(inner, once), result);
}

void Builder::repeat_for_batch(int& x, std::size_t d, std::int64_t size) {
  const std::int64_t own = shape(x)[d];
  if (own == size || own != size / kBatchProbe * module_.batch) return;
  Shape whole = shape(x);
  whole[d] = size;
  x = rebatched(x, whole);
  expect(shape(x)[d] == size,
         "one of its factors is made for the file's own batch; export the model with a batch that is left open");
}

// The dimension along which a constant counts all elements of a dimension of x: 0, 1, ..., size - 1.
std::optional<std::size_t> Builder::counts_along(int ids, std::int64_t size) const {
  const Node& node = at(ids);
  if (!node.values || static_cast<std::int64_t>(node.values->size()) != size) return std::nullopt;
  for (std::size_t i = 0; i < node.values->size(); ++i)
    if ((*node.values)[i] != static_cast<double>(i)) return std::nullopt;
  for (std::size_t d = 0; d < node.shape.size(); ++d)
    if (node.shape[d] == size) return d;
  return std::nullopt;
}

// The indices of a constant, those below 0 from the front, too.
int Builder::from_front(int ids, std::int64_t size) {
  const Node& of = at(ids);
  const auto below = [](double index) { return index < 0.0; };
  if (!of.values || holds_batch(size) || std::none_of(of.values->begin(), of.values->end(), below)) return ids;
  std::vector<double> values = *of.values;
  for (double& index : values) index += index < 0.0 ? static_cast<double>(size) : 0.0;
  return constant(of.shape, true, std::move(values));
}

// Whether a list counts the samples, of the file's own batch or of any, along dimension 0.
bool Builder::counts_samples(int ids, std::int64_t size) const {
  const Node& node = at(ids);
  if (!holds_batch(size) || !node.values || node.shape.empty()) return false;
  const auto count = static_cast<std::int64_t>(node.values->size());
  if (node.shape[0] != count || (count != size && count != size / kBatchProbe * module_.batch)) return false;
  for (std::size_t i = 0; i < node.values->size(); ++i)
    if ((*node.values)[i] != static_cast<double>(i)) return false;
  return true;
}

int Builder::pick_of_samples(int x, int ids) {
  const Shape of = shape(x), chosen = shape(ids);
  Shape flat = {of[0], of[1], -1}, lists = {of[0], -1, of[1]}, to = chosen;
  to.insert(to.end(), of.begin() + 2, of.end());
  const auto whole = [&](std::int64_t value) {
    return constant({}, true, std::vector<double>{static_cast<double>(value)});
  };
  ids = select(compare(Comparison::Less, ids, whole(0)), binary(Kind::Add, ids, whole(of[1])), ids);
  return reshape(matmul(reshape(one_hot(ids, of[1]), lists), reshape(x, flat)), to);
}

// Where the largest element along an axis is, the first one of equal ones.
int Builder::arg_max(int x, std::int64_t axis, bool keep) {
  axis = axis_of(x, axis);
  const std::int64_t size = shape(x)[static_cast<std::size_t>(axis)];
  expect(!holds_batch(size), "it chooses among samples, which then have no micro-batches");
  Shape along(shape(x).size(), 1);
  along[static_cast<std::size_t>(axis)] = size;
  const int places = reshape(range(0.0, static_cast<double>(size), 1.0, true), along);
  const int largest = compare(Comparison::Equal, x, reduce(Kind::ReduceMax, x, {axis}, true));
  const int beyond = constant({}, true, std::vector<double>{static_cast<double>(size)});
  return least(select(largest, places, beyond), {axis}, keep);
}

// x[ids[0], ids[1], ...]: the lists, which broadcast, have an index into each of the first dimensions.
int Builder::pick_leading(int x, std::vector<int> ids) {
  expect(!ids.empty() && ids.size() <= shape(x).size(), "it has more indices than its operand has dimensions");
  Shape picked;
  for (const int one : ids) picked = broadcast_shape(picked, shape(one));
  for (std::size_t d = 0; d < ids.size(); ++d) {
    while (at(ids[d]).kind == Kind::Broadcast) ids[d] = at(ids[d]).inputs[0];
    ids[d] = from_front(ids[d], shape(x)[d]);
  }
  const bool of_samples = ids.size() == 2 && !at(ids[1]).constant && counts_samples(ids[0], shape(x)[0]) &&
                          shape(ids[0]).size() == picked.size() && shape(ids[1]).size() == picked.size() &&
                          shape(ids[1])[0] == shape(x)[0] && !holds_batch(shape(x)[1]);
  if (of_samples) return pick_of_samples(x, ids[1]);
  // Which sample does not matter where all are alike.
  std::vector<std::size_t> matter;
  for (std::size_t d = 0; d < ids.size(); ++d) {
    const std::optional<int> one = one_along(x, d);
    if (one)
      x = *one;
    else
      matter.push_back(d);
  }
  const Shape rows(shape(x).begin() + static_cast<std::ptrdiff_t>(ids.size()), shape(x).end());
  const auto with_rows = [&](Shape of) {
    of.insert(of.end(), rows.begin(), rows.end());
    return of;
  };
  const Shape to = with_rows(picked);
  // Lists that count all elements of their dimensions, each along a later one of the result, only part these.
  Shape parted(picked.size(), 1);
  std::size_t next = 0;
  bool counts = true;
  for (const std::size_t d : matter) {
    const std::optional<std::size_t> along = counts_along(ids[d], shape(x)[d]);
    const std::size_t at_result = along ? *along + picked.size() - shape(ids[d]).size() : 0;
    counts = counts && along && at_result >= next;
    if (!counts) break;
    parted[at_result] = shape(x)[d];
    next = at_result + 1;
  }
  if (counts) return broadcast(reshape(x, with_rows(parted)), to);
  std::optional<int> from;
  for (const std::size_t d : matter) {
    const int size = constant({}, true, std::vector<double>{static_cast<double>(shape(x)[d])});
    from = from ? binary(Kind::Add, binary(Kind::Multiply, *from, size), ids[d]) : ids[d];
  }
  Shape flat = rows;
  flat.insert(flat.begin(), -1);
  const int found = gather(reshape(x, flat), *from, 0);
  // Indices that do not matter leave their dimensions to be repeated.
  Shape narrow = shape(*from);
  narrow.insert(narrow.begin(), picked.size() - narrow.size(), 1);
  return broadcast(reshape(found, with_rows(narrow)), to);
}

int Builder::pick_along(int x, int ids, std::int64_t axis) {
  axis = axis_of(x, axis);
  const auto d = static_cast<std::size_t>(axis);
  expect(at(ids).integer && shape(ids).size() == shape(x).size(), "its indices do not fit its operand");
  ids = from_front(ids, shape(x)[d]);
  // Which element does not matter where all are alike.
  if (at(x).constant)
    if (const std::optional<int> one = one_along(x, d)) return broadcast(*one, shape(ids));
  const Node &table = at(x), &chosen = at(ids);
  bool alike = true;
  for (std::size_t i = 0; i < table.shape.size(); ++i) alike = alike && (i == d || chosen.shape[i] == table.shape[i]);
  if (table.values && chosen.values && alike) {
    std::int64_t inner = 1;
    for (std::size_t i = d + 1; i < table.shape.size(); ++i) inner *= table.shape[i];
    std::vector<double> picked;
    for (std::size_t i = 0; i < chosen.values->size(); ++i) {
      const auto place = static_cast<std::int64_t>(i), row = static_cast<std::int64_t>((*chosen.values)[i]);
      if (row < 0 || row >= table.shape[d]) fail(fmt::format("index {} is beyond its table", row));
      const std::int64_t outer = place / inner / chosen.shape[d];
      picked.push_back(
          (*table.values)[static_cast<std::size_t>((outer * table.shape[d] + row) * inner + place % inner)]);
    }
    return constant(chosen.shape, table.integer, std::move(picked));
  }
  if (!table.constant && chosen.constant)
    if (const std::optional<int> picked = pick_by_constants(x, ids, d)) return *picked;
  if (const std::optional<int> rows = pick_rows(x, ids, d)) return *rows;
  const auto last = static_cast<std::int64_t>(shape(x).size()) - 1;
  if (axis == last && shape(ids).back() == 1) return unsqueeze(pick_label(x, squeeze(ids, {last})), {last});
  // Several of each row, by a comparison of each with all places.
  constexpr std::int64_t kMost = std::int64_t{1} << 16;
  const std::int64_t size = shape(x)[d], count = shape(ids)[d];
  expect(!holds_batch(size) && elements_of({size, count}) <= kMost,
         "a gather of so many elements of so many has no equal here");
  for (std::size_t i = 0; i < shape(x).size(); ++i)
    expect(i == d || shape(ids)[i] == shape(x)[i], "a gather of a part of the rows has no equal here");
  const int turned = unsqueeze(swap(counted_from_front(ids, size), axis, last), {last + 1});
  const int here = compare(Comparison::Equal, turned, range(0.0, static_cast<double>(size), 1.0, true));
  const int zero = constant({}, at(x).integer, std::vector<double>{0.0});
  const int each = select(here, unsqueeze(swap(x, axis, last), {last}), zero);
  return swap(reduce(Kind::ReduceSum, each, {last + 1}, false), axis, last);
}

// The same of indices that are known, as of scores by the distance of a key: they tell places among the elements of the
// dimensions that they depend on, and the other dimensions are alike.
std::optional<int> Builder::pick_by_constants(int x, int ids, std::size_t d) {
  const Shape of = shape(x), to = shape(ids);
  Shape order, inner;  // the dimensions that are alike, and those in which the places lie
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto axis = static_cast<std::int64_t>(i);
    const std::optional<int> one = i == d ? std::nullopt : one_along(ids, i);
    const bool of_file = holds_batch(of[i]) && to[i] == of[i] / kBatchProbe * module_.batch && one;
    if (i != d && to[i] != of[i] && !of_file) return std::nullopt;
    if (one) ids = *one;
    if (i != d) (one ? order : inner).push_back(axis);
  }
  inner.push_back(static_cast<std::int64_t>(d));
  if (!at(ids).values) return std::nullopt;
  const auto sizes = [](const Shape& all, const Shape& axes) {
    Shape found;
    for (const std::int64_t axis : axes) found.push_back(all[static_cast<std::size_t>(axis)]);
    return found;
  };
  const Shape alike = sizes(of, order), rows = sizes(of, Shape(inner.begin(), inner.end() - 1));
  const std::int64_t from = of[d], count = to[d];
  if (std::any_of(rows.begin(), rows.end(), holds_batch) || holds_batch(from)) return std::nullopt;
  order.insert(order.end(), inner.begin(), inner.end());
  const std::vector<double> chosen = *at(transpose(ids, order)).values;
  std::vector<double> places;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const double row = std::floor(static_cast<double>(i) / static_cast<double>(count)),
                 size = static_cast<double>(from);
    const double place = chosen[i] < 0.0 ? chosen[i] + size : chosen[i];
    expect(place >= 0.0 && place < size, fmt::format("index {} is beyond its table of {}", chosen[i], from));
    places.push_back(row * size + place);
  }
  Shape merged = alike, parted = alike;
  merged.push_back(elements_of(rows) * from);
  parted.insert(parted.end(), rows.begin(), rows.end());
  parted.push_back(count);
  const auto picks = static_cast<std::int64_t>(places.size());
  const int list = constant({picks}, true, std::move(places));
  const int picked = gather(reshape(transpose(x, order), merged), list, static_cast<std::int64_t>(alike.size()));
  Shape back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return transpose(reshape(picked, parted), back);
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

// Elements of (samples, size, ...) written as one row, at sample * size + a place of each sample's own: these places.
std::optional<int> Builder::own_places_in_samples(int row, int ids) {
  const Node table = at(row), sum = at(ids);
  if (table.kind != Kind::Reshape || sum.kind != Kind::Add || sum.shape.size() != 1) return std::nullopt;
  const int x = table.inputs[0];
  const Shape of = shape(x);
  if (of.size() < 2 || !holds_batch(of[0]) || holds_batch(of[1]) || table.shape[0] != of[0] * of[1] ||
      !std::equal(of.begin() + 2, of.end(), table.shape.begin() + 1, table.shape.end()))
    return std::nullopt;
  for (std::size_t k : {0, 1}) {
    const Node& first = at(sum.inputs[k]);
    const int places = sum.inputs[1 - k];
    if (!first.values || at(places).constant || shape(places) != Shape{of[0]}) continue;
    const auto count = static_cast<std::int64_t>(first.values->size());
    bool fits = count == of[0] || count == of[0] / kBatchProbe * module_.batch;
    for (std::size_t i = 0; fits && i < first.values->size(); ++i)
      fits = (*first.values)[i] == static_cast<double>(i) * static_cast<double>(of[1]);
    if (!fits) continue;
    const int picked = pick_of_samples(x, reshape(places, {of[0], 1}));
    return squeeze(picked, {1});
  }
  return std::nullopt;
}

// Elements of (samples, size) written as one row, at sample * size + the same places of every sample: these places.
std::optional<int> Builder::places_in_samples(int row, int ids) {
  const Node table = at(row), sum = at(ids);
  if (table.kind != Kind::Reshape || sum.kind != Kind::Add || !sum.constant) return std::nullopt;
  const int x = table.inputs[0];
  const Shape of = shape(x);
  if (of.size() != 2 || !holds_batch(of[0]) || table.shape[0] != of[0] * of[1]) return std::nullopt;
  for (std::size_t k : {0, 1}) {
    const Node &first = at(sum.inputs[k]), &places = at(sum.inputs[1 - k]);
    const std::size_t rank = sum.shape.size();
    if (!first.values || !places.values || first.shape.size() != rank || places.shape.size() > rank) continue;
    const auto batch =
        static_cast<std::size_t>(std::find(first.shape.begin(), first.shape.end(), of[0]) - first.shape.begin());
    if (batch == rank || static_cast<std::int64_t>(first.values->size()) != of[0]) continue;
    bool fits = true;
    for (std::size_t i = 0; fits && i < first.values->size(); ++i)
      fits = (*first.values)[i] == static_cast<double>(i) * static_cast<double>(of[1]);
    for (std::size_t d = 0; d < batch; ++d) fits = fits && sum.shape[d] == 1;
    const std::size_t missing = rank - places.shape.size();
    if (!fits || (batch >= missing && places.shape[batch - missing] != 1)) continue;
    Shape to = sum.shape;
    to.insert(to.end(), table.shape.begin() + 1, table.shape.end());
    const int list = reshape(sum.inputs[1 - k], {static_cast<std::int64_t>(places.values->size())});
    return reshape(gather(x, list, 1), to);
  }
  return std::nullopt;
}

}  // namespace meshwright::primitive
