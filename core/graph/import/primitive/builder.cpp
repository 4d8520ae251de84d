// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/builder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright::primitive {

namespace {

using Sizes = std::vector<std::int64_t>;

bool is_unary(Kind kind) { return kind >= Kind::Exp && kind <= Kind::ToInteger; }
bool is_binary(Kind kind) { return kind >= Kind::Add && kind <= Kind::Compare; }

// Row-major strides of `shape` as one of `rank` dimensions; 0 where it repeats.
Sizes strides_in(const Shape& shape, std::size_t rank) {
  Sizes strides(rank, 0);
  if (shape.size() > rank) return strides;  // of an op that is not elementwise
  std::int64_t step = 1;
  for (std::size_t d = shape.size(); d-- > 0; step *= shape[d])
    strides[d + rank - shape.size()] = shape[d] == 1 ? 0 : step;
  return strides;
}

// The index into a tensor of these strides of element `at` of `shape`.
std::size_t index_of(std::int64_t at, const Shape& shape, const Sizes& strides) {
  std::int64_t index = 0;
  for (std::size_t d = shape.size(); d-- > 0; at /= shape[d]) index += at % shape[d] * strides[d];
  return static_cast<std::size_t>(index);
}

double binary_value(Kind kind, double x, double y, Comparison comparison, bool integer) {
  switch (kind) {
    case Kind::Add:
      return x + y;
    case Kind::Subtract:
      return x - y;
    case Kind::Multiply:
      return x * y;
    case Kind::Divide:
      return integer ? (y == 0.0 ? 0.0 : std::trunc(x / y)) : x / y;
    case Kind::Power:
      return std::pow(x, y);
    case Kind::Maximum:
      return std::max(x, y);
    case Kind::Minimum:
      return std::min(x, y);
    default:
      break;
  }
  switch (comparison) {
    case Comparison::Less:
      return x < y ? 1.0 : 0.0;
    case Comparison::LessEqual:
      return x <= y ? 1.0 : 0.0;
    case Comparison::Equal:
      return x == y ? 1.0 : 0.0;
    case Comparison::NotEqual:
      return x != y ? 1.0 : 0.0;
    case Comparison::GreaterEqual:
      return x >= y ? 1.0 : 0.0;
    case Comparison::Greater:
      return x > y ? 1.0 : 0.0;
  }
  return 0.0;
}

// Nothing for functions that no shape or mask is made with.
std::optional<double> unary_value(Kind kind, double x) {
  switch (kind) {
    case Kind::Exp:
      return std::exp(x);
    case Kind::Log:
      return std::log(x);
    case Kind::Sqrt:
      return std::sqrt(x);
    case Kind::Rsqrt:
      return 1.0 / std::sqrt(x);
    case Kind::Reciprocal:
      return 1.0 / x;
    case Kind::Square:
      return x * x;
    case Kind::Abs:
      return std::abs(x);
    case Kind::Sin:
      return std::sin(x);
    case Kind::Cos:
      return std::cos(x);
    case Kind::Not:
      return x == 0.0 ? 1.0 : 0.0;
    case Kind::ToFloat:
      return x;
    case Kind::ToInteger:
      return std::trunc(x);
    default:
      return std::nullopt;
  }
}

std::string text_of(const Node& node) {
  const Details& d = node.details;
  std::string text = fmt::format("{} {} {} {} {:a} {} {}|", static_cast<int>(node.kind), node.integer, d.groups,
                                 static_cast<int>(d.comparison), d.number, d.causal, node.inputs.size());
  for (const int input : node.inputs) text += fmt::format("{},", input);
  for (const auto* list : {&node.shape, &d.axes, &d.start, &d.window, &d.stride, &d.before, &d.after}) {
    text += '|';
    for (const std::int64_t number : *list) text += fmt::format("{},", number);
  }
  return text;
}

}  // namespace

void Builder::fail(const std::string& why) const { throw InputError(fmt::format("op '{}': {}", name, why)); }

int Builder::add(Kind kind, std::vector<int> inputs, Shape shape, bool integer, Details details) {
  expect(shape.size() <= kMaxRank, fmt::format("a tensor of {} dimensions is none of a model", shape.size()));
  (void)elements_of(shape);
  Node node{kind, std::move(inputs), std::move(shape), integer, std::move(details), name, block};
  if (!node.inputs.empty()) {
    node.constant = std::all_of(node.inputs.begin(), node.inputs.end(), [&](int i) { return at(i).constant; });
    node.trained = std::any_of(node.inputs.begin(), node.inputs.end(), [&](int i) { return at(i).trained; });
    if (node.constant) compute(node);
    if (node.values) return constant(node.shape, node.integer, std::move(node.values));
    const auto [made, is_new] = made_.emplace(text_of(node), static_cast<int>(module_.nodes.size()));
    if (!is_new) return made->second;
  }
  module_.nodes.push_back(std::move(node));
  return static_cast<int>(module_.nodes.size()) - 1;
}

int Builder::input(const std::string& called, const Shape& of, bool integer) {
  const int made = add(Kind::Input, {}, of, integer);
  module_.nodes.back().name = called;
  return made;
}

int Builder::parameter(const std::string& called, const Shape& of) {
  const int made = add(Kind::Parameter, {}, of, false);
  module_.nodes.back().name = called;
  module_.nodes.back().trained = true;
  return made;
}

int Builder::constant(const Shape& of, bool integer, std::optional<std::vector<double>> given) {
  if (given && static_cast<std::int64_t>(given->size()) != elements_of(of))
    fail(fmt::format("a constant of shape {} has {} values", to_text(of), given->size()));
  if (given && given->size() > static_cast<std::size_t>(kMaxValues)) given.reset();
  std::string text;
  if (given && given->size() <= 16) {
    text = fmt::format("c{}{}", integer, to_text(of));
    for (const double value : *given) text += fmt::format(",{:a}", value);
    const auto found = made_.find(text);
    if (found != made_.end()) return found->second;
  }
  const int made = add(Kind::Constant, {}, of, integer);
  module_.nodes.back().constant = true;
  module_.nodes.back().values = std::move(given);
  if (!text.empty()) made_.emplace(std::move(text), made);
  return made;
}

int Builder::integers(const Sizes& of) {
  return constant({static_cast<std::int64_t>(of.size())}, true, std::vector<double>(of.begin(), of.end()));
}

const std::vector<double>& Builder::values(int node, const char* what) const {
  if (!at(node).values) fail(fmt::format("its {} must be a constant that the file holds or its shapes tell", what));
  return *at(node).values;
}

Sizes Builder::integers_of(int node, const char* what) const {
  constexpr double kMost = 4e18;
  Sizes found;
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
  if (axis < -rank || axis >= std::max<std::int64_t>(rank, 1))
    fail(fmt::format("axis {} is none of {}", axis, to_text(shape(x))));
  return axis < 0 ? axis + rank : axis;
}

// --- values of constants ---

void Builder::compute(Node& node) const {
  const std::int64_t count = elements_of(node.shape);
  if (count > kMaxValues) return;
  for (const int input : node.inputs)
    if (!at(input).values) return;
  std::vector<const std::vector<double>*> from;
  std::vector<Sizes> strides;
  for (const int input : node.inputs) {
    from.push_back(&*at(input).values);
    strides.push_back(strides_in(at(input).shape, node.shape.size()));
  }
  std::vector<double> made(static_cast<std::size_t>(count));
  const auto each = [&](auto value) {
    for (std::int64_t i = 0; i < count; ++i) made[static_cast<std::size_t>(i)] = value(i);
    node.values = std::move(made);
  };
  const auto operand = [&](std::size_t k, std::int64_t i) { return (*from[k])[index_of(i, node.shape, strides[k])]; };
  if (is_binary(node.kind)) {
    const bool whole = at(node.inputs[0]).integer;
    each([&](std::int64_t i) {
      return binary_value(node.kind, operand(0, i), operand(1, i), node.details.comparison, whole);
    });
  } else if (is_unary(node.kind)) {
    if (unary_value(node.kind, 1.0)) each([&](std::int64_t i) { return *unary_value(node.kind, operand(0, i)); });
  } else if (node.kind == Kind::Select) {
    each([&](std::int64_t i) { return operand(0, i) != 0.0 ? operand(1, i) : operand(2, i); });
  } else if (node.kind == Kind::Broadcast) {
    each([&](std::int64_t i) { return operand(0, i); });
  } else if (node.kind == Kind::Reshape) {
    node.values = *from[0];
  } else if (node.kind == Kind::Transpose) {
    const Sizes of_x = strides_in(at(node.inputs[0]).shape, node.shape.size());
    Sizes moved;
    for (const std::int64_t axis : node.details.axes) moved.push_back(of_x[static_cast<std::size_t>(axis)]);
    each([&](std::int64_t i) { return (*from[0])[index_of(i, node.shape, moved)]; });
  } else if (node.kind == Kind::Slice) {
    const auto axis = static_cast<std::size_t>(node.details.axes[0]);
    const Shape& whole = at(node.inputs[0]).shape;
    std::int64_t inner = 1;
    for (std::size_t d = axis + 1; d < whole.size(); ++d) inner *= whole[d];
    const std::int64_t step = node.details.stride.empty() ? 1 : node.details.stride[0];
    each([&](std::int64_t i) {
      const std::int64_t index = node.details.start[0] + i / inner % node.shape[axis] * step;
      const std::int64_t outer = i / inner / node.shape[axis];
      return (*from[0])[static_cast<std::size_t>((outer * whole[axis] + index) * inner + i % inner)];
    });
  } else if (node.kind == Kind::Concat && node.shape.size() == 1) {
    made.clear();
    for (const auto* piece : from) made.insert(made.end(), piece->begin(), piece->end());
    node.values = std::move(made);
  } else if (node.kind == Kind::Gather) {
    const Shape& table = at(node.inputs[0]).shape;
    const std::int64_t row = table[0] == 0 ? 0 : elements_of(table) / table[0];
    if (row == 0) return;
    each([&](std::int64_t i) {
      double id = (*from[1])[static_cast<std::size_t>(i / row)];
      if (id < 0) id += static_cast<double>(table[0]);
      if (!(id >= 0 && id < static_cast<double>(table[0]))) fail(fmt::format("index {} is beyond its table", id));
      return (*from[0])[static_cast<std::size_t>(static_cast<std::int64_t>(id) * row + i % row)];
    });
  } else if (node.kind == Kind::ReduceSum && node.shape.size() == 1 && count == 1) {
    node.values = std::vector<double>{std::accumulate(from[0]->begin(), from[0]->end(), 0.0)};
  }
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

// What the file repeats for its own batch, repeated for any: as `to` has it.
int Builder::rebatched(int x, const Shape& to) {
  Shape now = shape(x);
  if (module_.batch == 0 || now.size() > to.size()) return x;
  bool changes = false;
  for (std::size_t d = 0; d < now.size(); ++d) {
    const std::int64_t size = to[d + to.size() - now.size()];
    if (!holds_batch(size) || now[d] == size || now[d] != size / kBatchProbe * module_.batch) continue;
    now[d] = size;
    changes = true;
  }
  if (!changes) return x;
  if (module_.batch == 1) return broadcast(x, now);
  return at(x).kind == Kind::Broadcast ? broadcast(at(x).inputs[0], now) : x;
}

int Builder::unary(Kind kind, int x) {
  const Node of = at(x);
  if (kind == Kind::ToFloat && !of.integer) return x;
  if (kind == Kind::ToInteger && of.integer) return x;
  if (kind == Kind::Reciprocal && of.kind == Kind::Sqrt) return unary(Kind::Rsqrt, of.inputs[0]);
  const bool integer = kind == Kind::ToInteger || kind == Kind::Not || (of.integer && kind != Kind::ToFloat);
  return add(kind, {x}, of.shape, integer);
}

// A simpler form of (x kind y), if there is one.
std::optional<int> Builder::simpler(Kind kind, int x, int y) {
  const std::optional<double> b = scalar_of(y);
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
  if (kind == Kind::Add && b == 0.0 && same_shape) return x;
  return std::nullopt;
}

int Builder::binary(Kind kind, int x, int y) {
  const bool symmetric = kind == Kind::Add || kind == Kind::Multiply || kind == Kind::Maximum || kind == Kind::Minimum;
  if (symmetric && scalar_of(x) && !scalar_of(y)) std::swap(x, y);
  if (const std::optional<int> other = simpler(kind, x, y)) return *other;
  const Shape to = broadcast_shape(shape(x), shape(y));
  if (module_.batch > 1) {
    x = rebatched(x, to);
    y = rebatched(y, to);
  }
  return add(kind, {x, y}, to, at(x).integer && at(y).integer);
}

int Builder::compare(Comparison comparison, int x, int y) {
  return add(Kind::Compare, {x, y}, broadcast_shape(shape(x), shape(y)), true, {.comparison = comparison});
}

int Builder::select(int p, int x, int y) {
  const Shape to = broadcast_shape(shape(p), broadcast_shape(shape(x), shape(y)));
  return add(Kind::Select, {p, x, y}, to, at(x).integer);
}

int Builder::dropout(int x, double probability) {
  expect(probability >= 0.0 && probability < 1.0, fmt::format("a dropout of {} is none", probability));
  return probability == 0.0 ? x : add(Kind::Dropout, {x}, shape(x), false, {.number = probability});
}

// --- shapes ---

// `to` for any batch, where the file gave it for its own: the batch is the outer part of one dimension of x, and goes
// to the first dimension that begins where that one does.
Shape Builder::rescaled(const Shape& from, Shape to) const {
  std::int64_t before = 1, met = 1;
  std::size_t d = 0;
  while (d < from.size() && !holds_batch(from[d])) before *= from[d++];
  if (d == from.size()) return to;
  for (std::size_t t = 0; t < to.size(); met *= to[t++])
    if (met == before && to[t] % module_.batch == 0) {
      to[t] = to[t] / module_.batch * kBatchProbe;
      return to;
    }
  fail(
      fmt::format("a reshape of {} to {} mixes the batch with other dimensions; export the model with a batch that is "
                  "left open",
                  to_text(from), to_text(to)));
}

// Puts what is left of x into the size -1, if there is one.
Shape Builder::completed(const Shape& from, Shape to) const {
  const auto open = std::find(to.begin(), to.end(), -1);
  if (open != to.end()) {
    *open = 1;
    const bool one_open = std::all_of(to.begin(), to.end(), [](std::int64_t size) { return size >= 0; });
    const std::int64_t others = one_open ? elements_of(to) : 0, all = elements_of(from);
    expect(others > 0 && all % others == 0, fmt::format("{} does not reshape to {}", to_text(from), to_text(to)));
    *open = all / others;
  }
  expect(std::all_of(to.begin(), to.end(), [](std::int64_t size) { return size >= 0; }) &&
             elements_of(to) == elements_of(from),
         fmt::format("{} does not reshape to {}", to_text(from), to_text(to)));
  return to;
}

// PyTorch's exporter swaps the last two axes of a tensor whose others it has merged before, and parts them again, to
// `to`: the same without the merging.
std::optional<int> Builder::unmerged_transpose(int x, const Shape& to) {
  const Node swapped = at(x);
  if (swapped.kind != Kind::Transpose || swapped.details.axes != Sizes{0, 2, 1} || to.size() < 4) return std::nullopt;
  const Node merged = at(swapped.inputs[0]);
  if (merged.kind != Kind::Reshape) return std::nullopt;
  const Shape& source = shape(merged.inputs[0]);
  const std::size_t last = to.size() - 1;
  if (source.size() < 4 || to[last] != swapped.shape[2] || to[last - 1] != swapped.shape[1] ||
      source.back() != merged.shape[2] || source[source.size() - 2] != merged.shape[1])
    return std::nullopt;
  Shape straight = to;
  std::swap(straight[last], straight[last - 1]);
  return swap(reshape(merged.inputs[0], straight), -1, -2);
}

int Builder::reshape(int x, Shape to) {
  const Shape from = shape(x);
  if (module_.batch > 0 && std::any_of(from.begin(), from.end(), holds_batch)) {
    const auto own = [&](Shape sizes) {
      for (std::int64_t& size : sizes)
        if (holds_batch(size)) size = size / kBatchProbe * module_.batch;
      return sizes;
    };
    to = rescaled(from, completed(own(from), own(to)));
  } else {
    to = completed(from, to);
  }
  if (to == from) return x;
  if (at(x).kind == Kind::Reshape) return reshape(at(x).inputs[0], to);
  if (const std::optional<int> swapped = unmerged_transpose(x, to)) return *swapped;
  return add(Kind::Reshape, {x}, to, at(x).integer);
}

int Builder::transpose(int x, const Sizes& axes) {
  const Node of = at(x);
  expect(axes.size() == of.shape.size(), fmt::format("{} axes do not order {}", axes.size(), to_text(of.shape)));
  Shape to;
  Sizes sorted = axes, whole = axes;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t d = 0; d < axes.size(); ++d) {
    expect(sorted[d] == static_cast<std::int64_t>(d), "its axes are no order of all axes");
    to.push_back(of.shape[static_cast<std::size_t>(axes[d])]);
  }
  if (axes == sorted) return x;
  if (of.kind == Kind::Transpose) {
    for (std::size_t d = 0; d < axes.size(); ++d) whole[d] = of.details.axes[static_cast<std::size_t>(axes[d])];
    return transpose(of.inputs[0], whole);
  }
  return add(Kind::Transpose, {x}, to, of.integer, {.axes = axes});
}

int Builder::swap(int x, std::int64_t a, std::int64_t b) {
  Sizes axes(shape(x).size());
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<std::size_t>(axis_of(x, a))], axes[static_cast<std::size_t>(axis_of(x, b))]);
  return transpose(x, axes);
}

int Builder::broadcast(int x, const Shape& to) {
  const Shape result = broadcast_shape(shape(x), to);
  return result == shape(x) ? x : add(Kind::Broadcast, {x}, result, at(x).integer);
}

int Builder::slice(int x, std::int64_t axis, std::int64_t start, std::int64_t stop, std::int64_t step) {
  axis = axis_of(x, axis);
  Shape to = shape(x);
  std::int64_t& size = to[static_cast<std::size_t>(axis)];
  expect(step != 0, "a step of 0 slices nothing");
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto within = [&](std::int64_t index) { return std::clamp(index < 0 ? index + size : index, low, high); };
  start = within(start);
  stop = step < 0 && stop < -size ? -1 : within(stop);
  const std::int64_t length = step > 0 ? (stop - start + step - 1) / step : (start - stop - step - 1) / -step;
  if (step == 1 && start == 0 && stop == size) return x;
  // The file's own batch stands for all samples.
  if (step == 1 && start == 0 && holds_batch(size) && stop == size / kBatchProbe * module_.batch) return x;
  size = std::max<std::int64_t>(length, 0);
  expect(step == 1 || at(x).constant, fmt::format("a slice of every {}th element has no equal here", step));
  Details details{.axes = {axis}, .start = {start}};
  if (step != 1) details.stride = {step};
  return add(Kind::Slice, {x}, to, at(x).integer, details);
}

int Builder::concat(std::vector<int> xs, std::int64_t axis) {
  expect(!xs.empty(), "nothing to put together");
  axis = axis_of(xs[0], axis);
  const auto d = static_cast<std::size_t>(axis);
  Shape sample = shape(xs[0]);  // of a piece that holds the batch, if there is one
  for (const int x : xs)
    if (std::any_of(shape(x).begin(), shape(x).end(), holds_batch)) sample = shape(x);
  for (int& x : xs) {
    if (shape(x).size() != sample.size()) continue;
    sample[d] = shape(x)[d];
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
  if (pieces.empty()) return xs[0];
  return add(Kind::Concat, pieces, to, at(pieces[0]).integer, {.axes = {axis}});
}

int Builder::squeeze(int x, Sizes axes) {
  for (std::int64_t& axis : axes) axis = axis_of(x, axis);
  Shape to;
  for (std::size_t d = 0; d < shape(x).size(); ++d) {
    const bool named = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(d)) != axes.end();
    expect(!named || shape(x)[d] == 1, fmt::format("axis {} of {} is no single element", d, to_text(shape(x))));
    if (!named && (shape(x)[d] != 1 || !axes.empty())) to.push_back(shape(x)[d]);
  }
  return reshape(x, to);
}

int Builder::unsqueeze(int x, Sizes axes) {
  const auto rank = static_cast<std::int64_t>(shape(x).size() + axes.size());
  Shape to(static_cast<std::size_t>(rank), 0);
  for (const std::int64_t axis : axes) {
    expect(axis >= -rank && axis < rank, fmt::format("axis {} is none of {}", axis, rank));
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

int Builder::repeat(int x, std::int64_t axis, std::int64_t times) {
  axis = axis_of(x, axis);
  Shape wide = shape(x), merged = shape(x);
  wide.insert(wide.begin() + axis + 1, times);
  merged[static_cast<std::size_t>(axis)] *= times;
  return reshape(broadcast(unsqueeze(x, {axis + 1}), wide), merged);
}

// --- reductions, products, tables ---

int Builder::reduce(Kind kind, int x, Sizes axes, bool keep) {
  if (axes.empty())
    for (std::size_t d = 0; d < shape(x).size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
  for (std::int64_t& axis : axes) axis = axis_of(x, axis);
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  Shape to = shape(x);
  for (const std::int64_t axis : axes) to[static_cast<std::size_t>(axis)] = 1;
  const int made = add(kind, {x}, to, at(x).integer, {.axes = axes});
  return keep ? made : squeeze(made, axes);
}

int Builder::matmul(int x, int y) {
  const Shape a = shape(x), b = shape(y);
  expect(!a.empty() && !b.empty(), "a product needs matrices");
  if (a.size() == 1 || b.size() == 1) {
    const int wide = matmul(a.size() == 1 ? unsqueeze(x, {0}) : x, b.size() == 1 ? unsqueeze(y, {1}) : y);
    Sizes gone;
    if (a.size() == 1) gone.push_back(-2);
    if (b.size() == 1) gone.push_back(-1);
    return squeeze(wide, gone);
  }
  expect(a.back() == b[b.size() - 2], fmt::format("{} and {} do not multiply", to_text(a), to_text(b)));
  Shape to = broadcast_shape(Shape(a.begin(), a.end() - 2), Shape(b.begin(), b.end() - 2));
  to.insert(to.end(), {a[a.size() - 2], b.back()});
  return add(Kind::MatMul, {x, y}, to, false);
}

std::int64_t Builder::slid(std::int64_t size, const Windows& windows, std::size_t d) const {
  const std::int64_t room = size + windows.before[d] + windows.after[d] - windows.window[d];
  expect(room >= 0, fmt::format("a window of {} does not fit into {}", windows.window[d], size));
  const std::int64_t stride = windows.stride[d];
  return (windows.round_up ? (room + stride - 1) / stride : room / stride) + 1;
}

int Builder::convolution(int x, int w, const Windows& windows, std::int64_t groups) {
  const Shape &a = shape(x), &b = shape(w);
  expect(a.size() == 4 && b.size() == 4,
         fmt::format("convolutions of {} have no equal here, those of images have", to_text(a)));
  expect(groups >= 1 && a[1] % groups == 0 && b[0] % groups == 0 && b[1] == a[1] / groups,
         fmt::format("a weight of {} does not fit {} in {} groups", to_text(b), to_text(a), groups));
  Windows full = windows;
  full.window = {b[2], b[3]};
  const Shape to = {a[0], b[0], slid(a[2], full, 0), slid(a[3], full, 1)};
  return add(
      Kind::Convolution, {x, w}, to, false,
      {.window = full.window, .stride = full.stride, .before = full.before, .after = full.after, .groups = groups});
}

int Builder::pool(Kind kind, int x, const Windows& given) {
  const Shape a = shape(x);
  expect(a.size() == 4, fmt::format("pooling of {} has no equal here, that of images has", to_text(a)));
  Windows windows = given;
  Shape to = {a[0], a[1], slid(a[2], windows, 0), slid(a[3], windows, 1)};
  for (std::size_t d = 0; d < 2; ++d) {  // rounded up: the last window hangs over
    const std::int64_t needed = (to[d + 2] - 1) * windows.stride[d] + windows.window[d] - a[d + 2] - windows.before[d];
    windows.after[d] = std::max(windows.after[d], needed);
  }
  return add(kind, {x}, to, false,
             {.window = windows.window, .stride = windows.stride, .before = windows.before, .after = windows.after});
}

int Builder::gather(int table, int ids, std::int64_t axis) {
  axis = axis_of(table, axis);
  expect(at(ids).integer, "its indices are no integers");
  const Node chosen = at(ids);
  if (chosen.kind == Kind::Broadcast && axis == 0) {  // rows chosen once, repeated for every sample
    Shape to = chosen.shape;
    const Shape& rows = shape(table);
    to.insert(to.end(), rows.begin() + 1, rows.end());
    const int once = gather(table, chosen.inputs[0], 0);
    Shape wide(to.size() - shape(once).size(), 1);
    wide.insert(wide.end(), shape(once).begin(), shape(once).end());
    return broadcast(reshape(once, wide), to);
  }
  if (chosen.values && !at(table).values) {  // consecutive rows are a slice
    const Sizes rows = integers_of(ids, "indices");
    bool consecutive = !rows.empty();
    for (std::size_t i = 1; i < rows.size(); ++i) consecutive = consecutive && rows[i] == rows[i - 1] + 1;
    if (consecutive && (rows[0] >= 0 || rows.size() == 1)) {
      const std::int64_t start = rows[0] < 0 ? rows[0] + shape(table)[static_cast<std::size_t>(axis)] : rows[0];
      Shape to = shape(table);
      to.erase(to.begin() + axis);
      to.insert(to.begin() + axis, chosen.shape.begin(), chosen.shape.end());
      return reshape(slice(table, axis, start, start + static_cast<std::int64_t>(rows.size())), to);
    }
  }
  expect(axis == 0, fmt::format("indices along axis {} that the file leaves open have no equal here", axis));
  Shape to = chosen.shape;
  to.insert(to.end(), shape(table).begin() + 1, shape(table).end());
  return add(Kind::Gather, {table, ids}, to, at(table).integer);
}

int Builder::pick_label(int x, int labels) {
  const Shape rows(shape(x).begin(), shape(x).end() - (shape(x).empty() ? 0 : 1));
  expect(!shape(x).empty() && at(labels).integer && shape(labels) == rows,
         fmt::format("labels {} are not one for each row of {}", to_text(shape(labels)), to_text(shape(x))));
  return add(Kind::PickLabel, {x, labels}, rows, false);
}

// --- normalisations ---

int Builder::softmax(int x, std::int64_t axis) {
  return add(Kind::Softmax, {x}, shape(x), false, {.axes = {axis_of(x, axis)}});
}

int Builder::layer_norm(int x, int gamma, int beta, double epsilon) {
  expect(!shape(x).empty() && shape(gamma) == Shape{shape(x).back()} && shape(beta) == shape(gamma),
         "its scale and bias must have the last dimension of what is normalised");
  return add(Kind::LayerNorm, {x, gamma, beta}, shape(x), false, {.number = epsilon});
}

int Builder::rms_norm(int x, int gamma, double epsilon) {
  expect(!shape(x).empty() && shape(gamma) == Shape{shape(x).back()},
         "its scale must have the last dimension of what is normalised");
  return add(Kind::RmsNorm, {x, gamma}, shape(x), false, {.number = epsilon});
}

int Builder::batch_norm(int x, int gamma, int beta, double epsilon) {
  expect(shape(x).size() == 4 && shape(gamma) == Shape{shape(x)[1]} && shape(beta) == shape(gamma),
         fmt::format("a batch normalisation of {} has no equal here, that of images has", to_text(shape(x))));
  return add(Kind::BatchNorm, {x, gamma, beta}, shape(x), false, {.number = epsilon});
}

int Builder::attention(int q, int k, int v, double scale, bool causal) {
  const Shape &a = shape(q), &b = shape(k), &c = shape(v);
  const bool fits = a.size() == 4 && b.size() == 4 && c.size() == 4 && a[0] == b[0] && a[0] == c[0] && b[1] == c[1] &&
                    b[1] > 0 && a[1] % b[1] == 0 && b[2] == c[2] && a[3] == b[3];
  expect(fits, fmt::format("queries {}, keys {} and values {} must be (batch, heads, positions, dimensions)",
                           to_text(a), to_text(b), to_text(c)));
  return add(Kind::Attention, {q, k, v}, {a[0], a[1], a[2], c[3]}, false, {.number = scale, .causal = causal});
}

int Builder::cross_entropy(int logits, int labels) {
  const Shape rows(shape(logits).begin(), shape(logits).end() - (shape(logits).empty() ? 0 : 1));
  expect(!shape(logits).empty() && shape(labels) == rows,
         fmt::format("labels {} are not one for each row of {}", to_text(shape(labels)), to_text(shape(logits))));
  return add(Kind::CrossEntropy, {logits, labels}, {}, false);
}

}  // namespace meshwright::primitive
