// SPDX-License-Identifier: Apache-2.0
// The values of small constants.
#include "core/graph/import/primitive/builder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/base/errors.h"

namespace meshwright::primitive {

namespace {

// Row-major strides of `shape` as one of `rank` dimensions; 0 where it repeats.
Shape strides_in(const Shape& shape, std::size_t rank) {
  Shape strides(rank, 0);
  if (shape.size() > rank) return strides;  // of an op that is not elementwise
  std::int64_t step = 1;
  for (std::size_t d = shape.size(); d-- > 0; step *= shape[d])
    strides[d + rank - shape.size()] = shape[d] == 1 ? 0 : step;
  return strides;
}

// The index into a tensor of these strides of element `at` of `shape`.
std::size_t index_of(std::int64_t at, const Shape& shape, const Shape& strides) {
  std::int64_t index = 0;
  for (std::size_t d = shape.size(); d-- > 0; at /= shape[d]) index += at % shape[d] * strides[d];
  return static_cast<std::size_t>(index);
}

// Whether shapes or masks are made with the function; of others no values are kept.
bool makes_shapes(Kind kind) {
  constexpr std::array kMade = {Kind::Exp, Kind::Log, Kind::Sqrt, Kind::Rsqrt, Kind::Reciprocal, Kind::Square,
                                Kind::Abs, Kind::Sin, Kind::Cos,  Kind::Not,   Kind::ToFloat,    Kind::ToInteger};
  return std::find(kMade.begin(), kMade.end(), kind) != kMade.end();
}

}  // namespace

double unary_value(Kind kind, double x) {
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
    case Kind::Erf:
      return std::erf(x);
    case Kind::Tanh:
      return std::tanh(x);
    case Kind::Sigmoid:
      return 1.0 / (1.0 + std::exp(-x));
    case Kind::Relu:
      return std::max(x, 0.0);
    case Kind::Gelu:
      return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    case Kind::GeluErf:
      return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)));
    case Kind::Silu:
      return x / (1.0 + std::exp(-x));
    case Kind::Not:
      return x == 0.0 ? 1.0 : 0.0;
    case Kind::ToFloat:
      return x;
    case Kind::ToInteger:
      return std::trunc(x);
    default:
      return std::nan("");
  }
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

void Builder::compute(Node& node) {
  const std::int64_t count = elements_of(node.shape);
  const bool row =
      std::count_if(node.shape.begin(), node.shape.end(), [](std::int64_t size) { return size != 1; }) <= 1;
  if (count > (row ? kMaxRow : kMaxValues) || (count > 16 && kept_ + count > kMaxKept)) return;
  for (const int input : node.inputs)
    if (!at(input).values) return;
  // What the file made for its own batch has no values for any other.
  const bool repeats = is_binary(node.kind) || node.kind == Kind::Select || node.kind == Kind::Broadcast;
  for (const int input : node.inputs) {
    const Shape& shape = at(input).shape;
    for (std::size_t d = 0; repeats && d < shape.size(); ++d)
      if (shape[d] != 1 && shape[d] != node.shape[d + node.shape.size() - shape.size()]) return;
  }
  std::vector<const std::vector<double>*> from;
  std::vector<Shape> strides;
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
    each([&](std::int64_t i) {
      return binary_value(node.kind, operand(0, i), operand(1, i), node.details.comparison, node.integer);
    });
  } else if (is_unary(node.kind)) {
    if (makes_shapes(node.kind)) each([&](std::int64_t i) { return unary_value(node.kind, operand(0, i)); });
  } else if (node.kind == Kind::Select) {
    each([&](std::int64_t i) { return operand(0, i) != 0.0 ? operand(1, i) : operand(2, i); });
  } else if (node.kind == Kind::Broadcast) {
    each([&](std::int64_t i) { return operand(0, i); });
  } else if (node.kind == Kind::Reshape) {
    node.values = *from[0];
  } else if (node.kind == Kind::Transpose) {
    const Shape of_x = strides_in(at(node.inputs[0]).shape, node.shape.size());
    Shape moved;
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
  } else if (node.kind == Kind::Concat) {
    const auto axis = static_cast<std::size_t>(node.details.axes[0]);
    std::size_t inner = 1, outer = 1;
    for (std::size_t d = axis + 1; d < node.shape.size(); ++d) inner *= static_cast<std::size_t>(node.shape[d]);
    for (std::size_t d = 0; d < axis; ++d) outer *= static_cast<std::size_t>(node.shape[d]);
    made.clear();
    for (std::size_t o = 0; o < outer; ++o)
      for (std::size_t k = 0; k < from.size(); ++k) {
        const std::size_t width = inner * static_cast<std::size_t>(at(node.inputs[k]).shape[axis]);
        const auto begin = from[k]->begin() + static_cast<std::ptrdiff_t>(o * width);
        made.insert(made.end(), begin, begin + static_cast<std::ptrdiff_t>(width));
      }
    node.values = std::move(made);
  } else if (node.kind == Kind::CumSum) {
    const auto axis = static_cast<std::size_t>(node.details.axes[0]);
    std::int64_t inner = 1;
    for (std::size_t d = axis + 1; d < node.shape.size(); ++d) inner *= node.shape[d];
    made = *from[0];
    for (std::int64_t i = 0; i < count; ++i)
      if (i / inner % node.shape[axis] > 0)
        made[static_cast<std::size_t>(i)] += made[static_cast<std::size_t>(i - inner)];
    node.values = std::move(made);
  } else if (node.kind == Kind::Gather) {
    const Shape& table = at(node.inputs[0]).shape;
    const std::int64_t width = table[0] == 0 ? 0 : elements_of(table) / table[0];
    if (width == 0) return;
    each([&](std::int64_t i) {
      double id = (*from[1])[static_cast<std::size_t>(i / width)];
      if (id < 0) id += static_cast<double>(table[0]);
      if (!(id >= 0 && id < static_cast<double>(table[0]))) fail(fmt::format("index {} is beyond its table", id));
      return (*from[0])[static_cast<std::size_t>(static_cast<std::int64_t>(id) * width + i % width)];
    });
  } else if (node.kind == Kind::ReduceSum && node.shape.size() == 1 && count == 1) {
    node.values = std::vector<double>{std::accumulate(from[0]->begin(), from[0]->end(), 0.0)};
  }
}

}  // namespace meshwright::primitive
