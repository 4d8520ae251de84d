// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/builder.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright::primitive {

namespace {

std::string text_of(const Node& node) {
  const Details& d = node.details;
  std::string text = fmt::format("{} {} {} {} {:a} {} {}|", static_cast<int>(node.kind), node.integer, d.groups,
                                 static_cast<int>(d.comparison), d.number, d.causal, node.inputs.size());
  text += fmt::format("{}{}|", d.interleaved, d.alibi);
  for (const int input : node.inputs) text += fmt::format("{},", input);
  for (const auto* list : {&node.shape, &d.axes, &d.start, &d.window, &d.stride, &d.before, &d.after}) {
    text += '|';
    for (const std::int64_t number : *list) text += fmt::format("{},", number);
  }
  for (const double number : d.numbers) text += fmt::format("{:a},", number);
  return text;
}

}  // namespace

void Builder::fail(const std::string& why) const { throw InputError(fmt::format("op '{}': {}", name, why)); }

int Builder::add(Kind kind, std::vector<int> inputs, Shape shape, bool integer, Details details) {
  expect(shape.size() <= kMaxRank,
         fmt::format("a tensor of {} dimensions is beyond the {} that are read", shape.size(), kMaxRank));
  (void)elements_of(shape);
  Node node{kind, std::move(inputs), std::move(shape), integer, std::move(details), name, block};
  if (!node.inputs.empty()) {
    if (kind != Kind::Complex &&
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](int i) { return is_complex(i); }))
      fail(fmt::format("complex numbers have no {} here", name_of(kind)));
    node.constant = kind != Kind::Dropout &&
                    std::all_of(node.inputs.begin(), node.inputs.end(), [&](int i) { return at(i).constant; });
    node.trained = std::any_of(node.inputs.begin(), node.inputs.end(), [&](int i) { return at(i).trained; });
    if (node.constant && kind != Kind::Complex) compute(node);
    if (node.values) return constant(node.shape, node.integer, std::move(node.values));
    const auto [made, is_new] = made_.emplace(text_of(node), static_cast<int>(module_.nodes.size()));
    if (!is_new) return made->second;
    if (const std::int64_t ahead = ahead_of_batch(node); ahead > 1) ahead_of_batch_.emplace(made->second, ahead);
  }
  module_.nodes.push_back(std::move(node));
  return once_for_samples(static_cast<int>(module_.nodes.size()) - 1);
}

// A constant that is alike for all samples, of numbers that one sample's tell: those, repeated.
int Builder::once_for_samples(int x) {
  const Node& node = at(x);
  if (!node.constant || node.inputs.empty() || node.kind == Kind::Broadcast || node.kind == Kind::Complex) return x;
  const auto d =
      static_cast<std::size_t>(std::find(node.shape.begin(), node.shape.end(), kBatchProbe) - node.shape.begin());
  if (d == node.shape.size()) return x;
  const Shape whole = node.shape;
  const std::optional<int> one = one_along(x, d);
  return one && at(*one).values ? broadcast(*one, whole) : x;
}

int Builder::input(const std::string& called, const Shape& of, bool integer) {
  const int made = add(Kind::Input, {}, of, integer);
  module_.nodes.back().name = called;
  return made;
}

int Builder::parameter(const std::string& called, const Shape& of) {
  for (const std::int64_t size : of)
    expect(!holds_batch(size),
           fmt::format("parameter '{}' has a size of {}, a multiple of the number {} that stands for "
                       "the batch; pad it to another size",
                       called, size, kBatchProbe));
  const int made = add(Kind::Parameter, {}, of, false);
  module_.nodes.back().name = called;
  module_.nodes.back().trained = true;
  return made;
}

int Builder::constant(const Shape& of, bool integer, std::optional<std::vector<double>> given) {
  if (given && static_cast<std::int64_t>(given->size()) != elements_of(of))
    fail(fmt::format("a constant of shape {} has {} values", to_text(of), given->size()));
  // The numbers of a row, such as all ids of a table, are kept beyond that, and indices, which no mask of 0 and 1 is.
  const bool row = std::count_if(of.begin(), of.end(), [](std::int64_t size) { return size != 1; }) <= 1;
  const auto is_truth = [](double value) { return value == 0.0 || value == 1.0; };
  const bool indices = integer && given && !std::all_of(given->begin(), given->end(), is_truth);
  const std::int64_t most = row || indices ? kMaxRow : kMaxValues;
  const bool kept = given && static_cast<std::int64_t>(given->size()) <= most &&
                    (given->size() <= 16 || (kept_ += static_cast<std::int64_t>(given->size())) <= kMaxKept);
  std::vector<double> head;
  if (given && !kept) {
    head.assign(given->begin(), given->begin() + static_cast<std::ptrdiff_t>(std::min(given->size(), kMaxHead)));
    given.reset();
  }
  std::string text;
  if (given) {
    const std::string_view bytes(reinterpret_cast<const char*>(given->data()), given->size() * sizeof(double));
    text = fmt::format("c{}{} {:x}", integer, to_text(of), stable_hash(bytes));
    const auto found = made_.find(text);
    if (found != made_.end() && at(found->second).values == given) return found->second;
  }
  const int made = add(Kind::Constant, {}, of, integer);
  module_.nodes.back().constant = true;
  module_.nodes.back().values = std::move(given);
  module_.nodes.back().head = std::move(head);
  if (!text.empty()) made_.emplace(std::move(text), made);
  return made;
}

int Builder::integers(const Shape& of) {
  return constant({static_cast<std::int64_t>(of.size())}, true, std::vector<double>(of.begin(), of.end()));
}

const std::vector<double>& Builder::values(int node, const char* what) const {
  if (!at(node).values) fail(fmt::format("its {} must be a constant that the file holds or its shapes tell", what));
  return *at(node).values;
}

Shape Builder::integers_of(int node, const char* what) const {
  constexpr double kMost = 4e18;
  Shape found;
  for (const double value : values(node, what))
    found.push_back(std::isnan(value) ? 0 : static_cast<std::int64_t>(std::clamp(value, -kMost, kMost)));
  return found;
}

std::optional<double> Builder::scalar_of(int node) const {
  const Node& of = at(node);
  if (of.values && of.values->size() == 1) return of.values->front();
  if (of.kind == Kind::Broadcast || of.kind == Kind::Reshape) return scalar_of(of.inputs[0]);
  return std::nullopt;
}

std::int64_t Builder::axis_of(int x, std::int64_t axis) const {
  const auto rank = static_cast<std::int64_t>(shape(x).size());
  if (axis < -rank || axis >= rank)
    fail(fmt::format("axis {} is outside of the dimensions of {}", axis, to_text(shape(x))));
  return axis < 0 ? axis + rank : axis;
}

// --- elementwise ---

Shape Builder::broadcast_shape(const Shape& x, const Shape& y) const {
  const std::size_t rank = std::max(x.size(), y.size());
  Shape result(rank, 1);
  const auto size = [rank](const Shape& of, std::size_t d) {
    return d + of.size() < rank ? std::int64_t{1} : of[d + of.size() - rank];
  };
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t a = size(x, d), b = size(y, d);
    result[d] = a == 1 ? b : a;
    // What the file made for its own batch holds for any.
    const auto of_file = [&](std::int64_t open, std::int64_t fixed) {
      return module_.batch > 0 && holds_batch(open) && open / kBatchProbe * module_.batch == fixed;
    };
    if (a == b || a == 1 || b == 1) continue;
    if (of_file(b, a)) result[d] = b;
    if (!of_file(b, a) && !of_file(a, b))
      fail(fmt::format("shapes {} and {} do not broadcast", to_text(x), to_text(y)));
  }
  return result;
}

// Several rows for each sample of the file's own batch, such as one of each head, alike for all samples: for any batch.
std::optional<int> Builder::rows_rebatched(int x, std::size_t d, std::int64_t size) {
  if (size == kBatchProbe || (module_.batch == 1 && !at(x).values)) return std::nullopt;
  Shape parted = shape(x), open = parted, merged = parted;
  parted[d] = module_.batch;
  open[d] = kBatchProbe;
  merged[d] = size;
  for (Shape* of : {&parted, &open}) of->insert(of->begin() + static_cast<std::ptrdiff_t>(d) + 1, size / kBatchProbe);
  const std::optional<int> rows = one_along(reshape(x, parted), d);
  return rows ? std::optional(reshape(broadcast(*rows, open), merged)) : std::nullopt;
}

// What the file repeats for its own batch, repeated for any: as `to` has it.
int Builder::rebatched(int x, const Shape& to) {
  Shape now = shape(x);
  if (module_.batch == 0 || now.size() > to.size()) return x;
  bool changes = false;
  for (std::size_t d = 0; d < now.size(); ++d) {
    const std::int64_t size = to[d + to.size() - now.size()];
    if (!holds_batch(size) || now[d] == size || now[d] != size / kBatchProbe * module_.batch) continue;
    if (const std::optional<int> rows = rows_rebatched(x, d, size)) return rebatched(*rows, to);
    if (module_.batch > 1)
      if (const std::optional<int> one = one_along(x, d)) {
        Shape whole = shape(*one);
        whole[d] = size;
        return rebatched(broadcast(*one, whole), to);
      }
    now[d] = size;
    changes = true;
  }
  if (!changes) return x;
  if (module_.batch == 1) return broadcast(x, now);
  return at(x).kind == Kind::Broadcast ? broadcast(at(x).inputs[0], now) : x;
}

// The same for an op that broadcasts by itself: what one sample has of one element stays.
int Builder::rebatched_operand(int x, const Shape& to) {
  if (module_.batch > 1) return rebatched(x, to);
  if (module_.batch == 0 || shape(x).size() > to.size()) return x;
  for (std::size_t d = 0; d < shape(x).size(); ++d) {
    const std::int64_t size = to[d + to.size() - shape(x).size()];
    if (holds_batch(size) && shape(x)[d] == size / kBatchProbe && shape(x)[d] > 1)
      if (const std::optional<int> rows = rows_rebatched(x, d, size)) return rebatched_operand(*rows, to);
  }
  return x;
}

int Builder::range(double start, double end, double step, bool integer) {
  const double count = std::ceil((end - start) / step);
  expect(step != 0.0 && count < 1e15, "its numbers have no end");
  const auto length = static_cast<std::int64_t>(std::max(count, 0.0));
  if (length > kMaxRow) return constant({length}, integer, std::nullopt);
  std::vector<double> values;
  for (std::int64_t i = 0; i < length; ++i) values.push_back(start + static_cast<double>(i) * step);
  return constant({length}, integer, std::move(values));
}

int Builder::negated(int x) {
  return binary(Kind::Multiply, x, constant({}, at(x).integer, std::vector<double>{-1.0}));
}

int Builder::unary(Kind kind, int x) {
  if (const std::optional<int> made = complex_unary(kind, x)) return *made;
  const Node of = at(x);
  if (kind == Kind::ToFloat && !of.integer) return x;
  if (kind == Kind::ToInteger && of.integer) return x;
  if (kind == Kind::Reciprocal && of.kind == Kind::Sqrt) return unary(Kind::Rsqrt, of.inputs[0]);
  const bool integer = kind == Kind::ToInteger || kind == Kind::Not || (of.integer && kind != Kind::ToFloat);
  return add(kind, {x}, of.shape, integer);
}

// A simpler form of (x kind y), if there is one.
// Nothing but zeros, as far as a constant tells.
bool Builder::is_zero(int x) const {
  const Node& node = at(x);
  const bool moves = node.kind == Kind::Broadcast || node.kind == Kind::Reshape || node.kind == Kind::Transpose ||
                     node.kind == Kind::Slice;
  if (moves && node.constant && !node.values) return is_zero(node.inputs[0]);
  return node.values &&
         std::all_of(node.values->begin(), node.values->end(), [](double value) { return value == 0.0; });
}

std::optional<int> Builder::simpler(Kind kind, int x, int y) {
  const std::optional<double> b = scalar_of(y);
  // x c / c, as of a sum over windows and the count of their elements.
  if (kind == Kind::Divide && at(x).kind == Kind::Multiply && at(x).inputs[1] == y && at(y).values &&
      at(x).shape == shape(at(x).inputs[0]) &&
      std::none_of(at(y).values->begin(), at(y).values->end(), [](double value) { return value == 0.0; }))
    return at(x).inputs[0];
  const bool whole = at(x).integer || (at(x).constant && at(y).constant);
  if (whole) return std::nullopt;
  if (kind == Kind::Multiply && x == y) return unary(Kind::Square, x);
  if (kind == Kind::Power && b == 2.0) return unary(Kind::Square, x);
  if (kind == Kind::Power && b == 0.5) return unary(Kind::Sqrt, x);
  if (kind == Kind::Power && b == -0.5) return unary(Kind::Rsqrt, x);
  if (kind == Kind::Subtract && b) return binary(Kind::Add, x, scalar(-*b));
  if (kind == Kind::Divide && b && *b != 0.0) return binary(Kind::Multiply, x, scalar(1.0 / *b));
  if (kind == Kind::Divide && at(y).kind == Kind::Sqrt)
    return binary(Kind::Multiply, x, unary(Kind::Rsqrt, at(y).inputs[0]));
  if (kind == Kind::Divide && scalar_of(x) == 1.0 && shape(x).empty()) return unary(Kind::Reciprocal, y);
  const bool same_shape = broadcast_shape(shape(x), shape(y)) == shape(x);
  if (kind == Kind::Multiply && b == 1.0 && same_shape) return x;
  if (kind == Kind::Add && (b == 0.0 || is_zero(y)) && same_shape) return x;
  // A bound that is the least or the largest number of a type: of half precision, the narrowest.
  constexpr double kWidest = 65504.0;
  const bool cuts_nothing = b && (kind == Kind::Maximum ? *b <= -kWidest : kind == Kind::Minimum && *b >= kWidest);
  if (cuts_nothing && same_shape) {
    const std::string note = "bounds of 65504 or more, and of -65504 or less, are taken as none";
    const bool widest = std::abs(*b) >= -kHiddenScore;
    if (!widest && std::find(module_.notes.begin(), module_.notes.end(), note) == module_.notes.end())
      module_.notes.push_back(note);
    return x;
  }
  if (kind == Kind::Multiply && b == 0.0 && same_shape) return broadcast(scalar(0.0), shape(x));
  return std::nullopt;
}

int Builder::binary(Kind kind, int x, int y) {
  if (const std::optional<int> made = complex_binary(kind, x, y)) return *made;
  const bool symmetric = kind == Kind::Add || kind == Kind::Multiply || kind == Kind::Maximum || kind == Kind::Minimum;
  if (symmetric && scalar_of(x) && !scalar_of(y)) std::swap(x, y);
  if (kind == Kind::Multiply)
    if (const std::optional<int> made = random_product(x, y)) return *made;
  if (const std::optional<int> other = simpler(kind, x, y)) return *other;
  const Shape to = broadcast_shape(shape(x), shape(y));
  x = rebatched_operand(x, to);
  y = rebatched_operand(y, to);
  return add(kind, {x, y}, to, at(x).integer && at(y).integer);
}

int Builder::compare(Comparison comparison, int x, int y) {
  if (const std::optional<int> made = random_comparison(comparison, x, y)) return *made;
  const Shape to = broadcast_shape(shape(x), shape(y));
  x = rebatched_operand(x, to);
  y = rebatched_operand(y, to);
  return add(Kind::Compare, {x, y}, to, true, {.comparison = comparison});
}

// Whether all elements of a constant are true, or all false.
std::optional<bool> Builder::same_truth(int p) const {
  if (!at(p).constant) return std::nullopt;
  if (const std::optional<double> one = scalar_of(p)) return *one != 0.0;
  if (!at(p).values || at(p).values->empty()) return std::nullopt;
  const bool first = at(p).values->front() != 0.0;
  const bool same = std::all_of(at(p).values->begin(), at(p).values->end(),
                                [first](double value) { return (value != 0.0) == first; });
  return same ? std::optional(first) : std::nullopt;
}

int Builder::select(int p, int x, int y) {
  if (const std::optional<int> made = random_choice(p, x, y)) return *made;
  const Shape to = broadcast_shape(shape(p), broadcast_shape(shape(x), shape(y)));
  // What is chosen everywhere.
  if (const std::optional<bool> always = same_truth(p)) return broadcast(*always ? x : y, to);
  if (is_complex(x) || is_complex(y)) {
    const int first = select(p, real_of(x), real_of(y));
    return complex(first, select(p, imaginary_of(x), imaginary_of(y)));
  }
  for (int* one : {&p, &x, &y}) *one = rebatched_operand(*one, to);
  return add(Kind::Select, {p, x, y}, to, at(x).integer);
}

int Builder::dropout(int x, double probability) {
  expect(probability >= 0.0 && probability < 1.0, fmt::format("a dropout of {} is none", probability));
  return probability == 0.0 ? x : add(Kind::Dropout, {x}, shape(x), false, {.number = probability});
}

// --- shapes ---

int Builder::transpose(int x, const Shape& axes) {
  if (is_complex(x)) return part_by_part(x, [&](int part) { return transpose(part, axes); });
  const Node of = at(x);
  expect(axes.size() == of.shape.size(), fmt::format("{} axes do not order {}", axes.size(), to_text(of.shape)));
  Shape to;
  Shape sorted = axes, whole = axes;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t d = 0; d < axes.size(); ++d)
    expect(sorted[d] == static_cast<std::int64_t>(d), "its axes are no order of all axes");
  for (const std::int64_t axis : axes) to.push_back(of.shape[static_cast<std::size_t>(axis)]);
  if (axes == sorted) return x;
  if (of.kind == Kind::Transpose) {
    for (std::size_t d = 0; d < axes.size(); ++d) whole[d] = of.details.axes[static_cast<std::size_t>(axes[d])];
    return transpose(of.inputs[0], whole);
  }
  // Where only dimensions of one element move, the elements stay in order.
  Shape moved = axes;
  std::erase_if(moved, [&](std::int64_t axis) { return of.shape[static_cast<std::size_t>(axis)] == 1; });
  if (std::is_sorted(moved.begin(), moved.end())) {
    const int source = of.kind == Kind::Reshape ? of.inputs[0] : x;
    return shape(source) == to ? source : add(Kind::Reshape, {source}, to, of.integer);
  }
  if (const std::optional<int> below = transposed_below(x, axes)) return *below;
  return add(Kind::Transpose, {x}, to, of.integer, {.axes = axes});
}

// Of a tensor that another transpose made before dimensions of one element were put in or taken away: one transpose.
std::optional<int> Builder::transposed_below(int x, const Shape& axes) {
  const Node of = at(x);
  if (of.kind != Kind::Reshape || at(of.inputs[0]).kind != Kind::Transpose) return std::nullopt;
  const Shape inner = shape(of.inputs[0]);
  Shape to, wide_axes;  // of inner, those of more than one element
  std::vector<std::int64_t> place(of.shape.size(), -1);
  std::size_t next = 0;
  for (std::size_t d = 0; d < of.shape.size(); ++d) {
    if (of.shape[d] == 1) continue;
    while (next < inner.size() && inner[next] == 1) ++next;
    if (next == inner.size() || inner[next] != of.shape[d]) return std::nullopt;
    place[d] = static_cast<std::int64_t>(next++);
  }
  for (std::size_t d = 0; d < inner.size(); ++d)
    if (inner[d] == 1)
      wide_axes.push_back(static_cast<std::int64_t>(d));
    else if (std::find(place.begin(), place.end(), static_cast<std::int64_t>(d)) == place.end())
      return std::nullopt;
  for (const std::int64_t axis : axes) {
    to.push_back(of.shape[static_cast<std::size_t>(axis)]);
    if (place[static_cast<std::size_t>(axis)] >= 0) wide_axes.push_back(place[static_cast<std::size_t>(axis)]);
  }
  return reshape(transpose(of.inputs[0], wide_axes), to);
}

int Builder::swap(int x, std::int64_t a, std::int64_t b) {
  Shape axes(shape(x).size());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<std::size_t>(axis_of(x, a))], axes[static_cast<std::size_t>(axis_of(x, b))]);
  return transpose(x, axes);
}

int Builder::broadcast(int x, const Shape& to) {
  const Shape result = broadcast_shape(shape(x), to);
  if (is_complex(x)) return part_by_part(x, [&](int part) { return broadcast(part, to); });
  return result == shape(x) ? x : add(Kind::Broadcast, {x}, result, at(x).integer);
}

int Builder::slice(int x, std::int64_t axis, std::int64_t start, std::int64_t stop, std::int64_t step) {
  if (is_complex(x)) return part_by_part(x, [&](int part) { return slice(part, axis, start, stop, step); });
  axis = axis_of(x, axis);
  Shape to = shape(x);
  std::int64_t& size = to[static_cast<std::size_t>(axis)];
  expect(step != 0, "a step of 0 slices nothing");
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto within = [&](std::int64_t index) { return std::clamp(index < 0 ? index + size : index, low, high); };
  start = within(start);
  stop = step < 0 && stop < -size ? -1 : within(stop);
  const std::int64_t length = step > 0 ? (stop - start + step - 1) / step : (start - stop - step - 1) / -step;
  if (length <= 0) step = 1;  // of nothing
  if (step == 1 && start == 0 && stop == size) return x;
  if (at(x).kind == Kind::Concat && at(x).details.axes[0] == axis && step == 1)
    if (const std::optional<int> piece = slice_of_piece(x, start, stop)) return *piece;
  // A broadcast has the same numbers all along the axis.
  if (const Node of = at(x); of.kind == Kind::Broadcast && length > 0 && !holds_batch(size)) {
    const Shape& from = shape(of.inputs[0]);
    const std::size_t missing = of.shape.size() - from.size(), d = static_cast<std::size_t>(axis);
    if (d < missing || from[d - missing] == 1) {
      size = length;
      return broadcast(of.inputs[0], to);
    }
  }
  // The file's own batch stands for all samples.
  if (step == 1 && start == 0 && holds_batch(size) && stop == size / kBatchProbe * module_.batch) return x;
  // Every so many-th element, to the end: one of each group of so many.
  if (step > 1 && !at(x).constant && size % step == 0 && start < step && stop > size - step + start) {
    Shape grouped = shape(x);
    grouped[static_cast<std::size_t>(axis)] /= step;
    grouped.insert(grouped.begin() + axis + 1, step);
    return squeeze(slice(reshape(x, grouped), axis + 1, start, start + 1), {axis + 1});
  }
  if (step > 1 && !at(x).constant && length > 0 && !holds_batch(size)) return every(x, axis, start, length, step);
  constexpr std::int64_t kMostReversed = 1024;
  if (step < 0 && !at(x).constant && length > 0 && length <= kMostReversed && !holds_batch(size)) {
    std::vector<int> pieces;
    for (std::int64_t i = 0; i < length; ++i) pieces.push_back(slice(x, axis, start + i * step, start + i * step + 1));
    return concat(pieces, axis);
  }
  size = std::max<std::int64_t>(length, 0);
  expect(step == 1 || at(x).constant, fmt::format("a slice of every {}th element has no equal here", step));
  Details details{.axes = {axis}, .start = {start}};
  if (step != 1) details.stride = {step};
  return add(Kind::Slice, {x}, to, at(x).integer, details);
}

int Builder::squeeze(int x, Shape axes) {
  for (std::int64_t& axis : axes) axis = axis_of(x, axis);
  Shape to;
  for (std::size_t d = 0; d < shape(x).size(); ++d) {
    const bool named = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) != axes.end();
    expect(!named || shape(x)[d] == 1, fmt::format("axis {} of {} is no single element", d, to_text(shape(x))));
    if (!named && (shape(x)[d] != 1 || !axes.empty())) to.push_back(shape(x)[d]);
  }
  return reshape(x, to);
}

int Builder::unsqueeze(int x, Shape axes) {
  const auto rank = static_cast<std::int64_t>(shape(x).size() + axes.size());
  Shape to(static_cast<std::size_t>(rank), 0);
  for (const std::int64_t axis : axes) {
    expect(axis >= -rank && axis < rank, fmt::format("axis {} is outside of {} to {}", axis, -rank, rank - 1));
    to[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] = 1;
  }
  std::size_t next = 0;
  for (std::int64_t& size : to) {
    if (size != 0) continue;
    expect(next < shape(x).size(), "its axes are given twice");
    size = shape(x)[next++];
  }
  expect(next == shape(x).size(), "its axes are given twice");
  return reshape(x, to);
}

}  // namespace meshwright::primitive
