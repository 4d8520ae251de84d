// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>
#include <tuple>
#include <utility>

#include "core/graph/import/primitive/emit/emitter.h"

namespace meshwright::primitive {

namespace {

std::optional<OpKind> unary_kind(Kind kind) {
  switch (kind) {
    case Kind::Relu:
      return OpKind::Relu;
    case Kind::Gelu:
      return OpKind::Gelu;
    case Kind::GeluErf:
      return OpKind::GeluErf;
    case Kind::Silu:
      return OpKind::Silu;
    case Kind::Tanh:
      return OpKind::Tanh;
    case Kind::Sigmoid:
      return OpKind::Sigmoid;
    case Kind::Exp:
      return OpKind::Exp;
    case Kind::Log:
      return OpKind::Log;
    case Kind::Sqrt:
      return OpKind::Sqrt;
    case Kind::Rsqrt:
      return OpKind::Rsqrt;
    case Kind::Reciprocal:
      return OpKind::Reciprocal;
    case Kind::Abs:
      return OpKind::Abs;
    case Kind::Sin:
      return OpKind::Sin;
    case Kind::Cos:
      return OpKind::Cos;
    case Kind::Erf:
      return OpKind::Erf;
    default:
      return std::nullopt;
  }
}

// The exponents that powers are products for.
constexpr double kMaxPower = 16.0;
bool is_whole_power(double exponent) { return exponent == std::floor(exponent) && std::abs(exponent) <= kMaxPower; }

}  // namespace

// The number that n holds another within, where it does.
std::optional<double> Emitter::bound_of(int n) const {
  const Node& of = node(n);
  if (of.kind == Kind::Relu) return 0.0;
  if (of.kind != Kind::Maximum && of.kind != Kind::Minimum) return std::nullopt;
  const std::optional<double> first = scalar(of.inputs[0]);
  return first ? first : scalar(of.inputs[1]);
}

// What n, a bound, holds.
int Emitter::held_by(int n) const {
  const Node& of = node(n);
  return of.inputs[of.kind != Kind::Relu && scalar(of.inputs[0]) ? 1 : 0];
}

// What a bound, and one that it holds next, hold x within.
Attributes Emitter::bounds_of(int n) const {
  Attributes bounds;
  const auto hold = [&](int bound) {
    (node(bound).kind == Kind::Minimum ? bounds.high : bounds.low) = *bound_of(bound);
  };
  hold(n);
  if (is_held_next(held_by(n))) hold(held_by(n));
  return bounds;
}

// Whether n is a bound, of no other bound, that only a bound on the other side reads: that one holds x within both.
bool Emitter::is_held_next(int n) const {
  const auto readers = readers_of_.find(n);
  if (!bound_of(n) || bound_of(held_by(n)) || n == module_.result || readers == readers_of_.end() ||
      readers->second.size() != 1)
    return false;
  const int reader = readers->second.front();
  if (node(reader).kind == Kind::Relu || !bound_of(reader) || node(reader).shape != node(n).shape) return false;
  const bool above = node(n).kind == Kind::Minimum;
  if (above == (node(reader).kind == Kind::Minimum)) return false;
  return above ? *bound_of(reader) <= *bound_of(n) : *bound_of(n) <= *bound_of(reader);
}

// One input is a number.
Value Emitter::with_number(int n) {
  const Node& of = node(n);
  const bool first = scalar(of.inputs[0]).has_value();
  const double number = *scalar(of.inputs[first ? 0 : 1]);
  const Value given = operand(n, first ? 1 : 0), x{as_float(given.tensor), given.order};
  const auto scale = [&](TensorId y, double by) { return by == 1.0 ? y : add(OpKind::Scale, "", {y}, {.scale = by}); };
  const auto shift = [&](TensorId y, double by) { return by == 0.0 ? y : add(OpKind::Shift, "", {y}, {.value = by}); };
  const auto made = [&]() -> TensorId {
    switch (of.kind) {
      case Kind::Add:
        return shift(x.tensor, number);
      case Kind::Subtract:
        return first ? shift(scale(x.tensor, -1.0), number) : shift(x.tensor, -number);
      case Kind::Multiply:
        return add(OpKind::Scale, "", {x.tensor}, {.scale = number});
      case Kind::Divide:
        return first ? scale(add(OpKind::Reciprocal, "", {x.tensor}), number) : scale(x.tensor, 1.0 / number);
      case Kind::Maximum:
      case Kind::Minimum:
        return is_held_next(n) ? x.tensor : add(OpKind::Clamp, "", {x.tensor}, bounds_of(n));
      default:
        return first ? add(OpKind::Exp, "", {scale(x.tensor, std::log(number))}) : power(x.tensor, number);
    }
  };
  const Value value{made(), x.order};
  const AxisList all = joined(axes_.of(n));
  return value.order.size() == all.size() ? value : widened(value, all);
}

// Whole powers by squaring; others as exp(c log x), which like them are no numbers for x below 0.
TensorId Emitter::power(TensorId x, double exponent) {
  if (!is_whole_power(exponent))
    return add(OpKind::Exp, "", {add(OpKind::Scale, "", {add(OpKind::Log, "", {x})}, {.scale = exponent})});
  auto left = static_cast<int>(std::abs(exponent));
  std::optional<TensorId> made;
  for (TensorId square = x; left > 0; left /= 2) {
    if (left % 2 == 1) made = made ? add(OpKind::Multiply, "", {*made, square}) : square;
    if (left > 1) square = add(OpKind::Multiply, "", {square, square});
  }
  if (!made) return add(OpKind::Shift, "", {add(OpKind::Scale, "", {x}, {.scale = 0.0})}, {.value = 1.0});
  return exponent < 0 ? add(OpKind::Reciprocal, "", {*made}) : *made;
}

// Whole numbers are computed and compared as floating-point ones of 32 bits.
TensorId Emitter::as_float(TensorId x) {
  return graph_.tensor(x).dtype == DType::I32 ? add(OpKind::Cast, ".float", {x}, {.dtype = DType::F32}) : x;
}

// A whole number beside a floating-point one has its type.
std::pair<TensorId, TensorId> Emitter::of_one_type(TensorId x, TensorId y) {
  const DType of_x = graph_.tensor(x).dtype, of_y = graph_.tensor(y).dtype;
  if (of_x == of_y) return {as_float(x), as_float(y)};
  const bool first = of_x == DType::I32 || of_y == graph_.dtype;  // is made a number of the other's type
  return first ? std::pair(add(OpKind::Cast, ".float", {x}, {.dtype = of_y}), y)
               : std::pair(x, add(OpKind::Cast, ".float", {y}, {.dtype = of_x}));
}

// 1 where x is 0 (`zero`), or where it is not.
TensorId Emitter::truth(TensorId x, bool zero) {
  const TensorId number = as_float(x), none = add(OpKind::Scale, ".zero", {number}, {.scale = 0.0});
  return add(OpKind::Compare, zero ? "" : ".truth", {number, none},
             {.comparison = zero ? Comparison::Equal : Comparison::NotEqual});
}

// With a single number by a tensor of it, made of the other operand.
Value Emitter::compare(int n) {
  const Node& of = node(n);
  const auto made = [&](TensorId x, TensorId y) {
    return add(OpKind::Compare, "", {x, y}, {.comparison = of.details.comparison});
  };
  const AxisList all = joined(axes_.of(n));
  const bool first = scalar(of.inputs[0]).has_value();
  if (first || scalar(of.inputs[1])) {
    const double number = *scalar(of.inputs[first ? 0 : 1]);
    const Value value = operand(n, first ? 1 : 0);
    const TensorId x = as_float(value.tensor);
    const TensorId zero = add(OpKind::Scale, ".zero", {x}, {.scale = 0.0});
    const TensorId y = number == 0.0 ? zero : add(OpKind::Shift, ".number", {zero}, {.value = number});
    const Value compared{first ? made(y, x) : made(x, y), value.order};
    return value.order.size() == all.size() ? compared : widened(compared, all);
  }
  const Value x = operand(n, 0), y = operand(n, 1);
  AxisList order = y.order.size() > x.order.size() ? y.order : x.order;
  if (order.size() != all.size()) order = all;
  const auto [left, right] = of_one_type(widened(x, order).tensor, widened(y, order).tensor);
  return {made(left, right), order};
}

Value Emitter::binary(int n) {
  const Node& of = node(n);
  if (of.kind == Kind::Compare) return compare(n);
  if (scalar(of.inputs[0]) || scalar(of.inputs[1])) return with_number(n);
  Value x = operand(n, 0), y = operand(n, 1);
  std::tie(x.tensor, y.tensor) = of_one_type(x.tensor, y.tensor);
  const AxisList all = joined(axes_.of(n));
  const bool y_larger = y.order.size() > x.order.size();
  AxisList order = y_larger ? y.order : x.order;
  if (order.size() != all.size()) order = all;
  if (of.kind == Kind::Add) {  // a bias over the trailing dimensions
    const Value &small = y_larger ? x : y, &large = y_larger ? y : x;
    const bool trailing = small.order.size() < large.order.size() && !small.order.empty() && order == large.order &&
                          std::equal(small.order.rbegin(), small.order.rend(), large.order.rbegin());
    if (trailing) return {add(OpKind::BiasAdd, "", {large.tensor, small.tensor}), order};
  }
  x = widened(x, order);
  y = widened(y, order);
  const auto both = [&](OpKind kind, TensorId a, TensorId b) { return add(kind, "", {a, b}); };
  switch (of.kind) {
    case Kind::Maximum:  // y + relu(x - y)
    case Kind::Minimum: {
      const bool larger = of.kind == Kind::Maximum;
      const TensorId more =
          add(OpKind::Relu, "", {both(OpKind::Subtract, larger ? x.tensor : y.tensor, larger ? y.tensor : x.tensor)});
      return {both(larger ? OpKind::Add : OpKind::Subtract, y.tensor, more), order};
    }
    case Kind::Add:
      return {both(OpKind::Add, x.tensor, y.tensor), order};
    case Kind::Subtract:
      return {both(OpKind::Subtract, x.tensor, y.tensor), order};
    case Kind::Multiply:
      return {both(OpKind::Multiply, x.tensor, y.tensor), order};
    default:
      return {both(OpKind::Divide, x.tensor, y.tensor), order};
  }
}

Value Emitter::select(int n) {
  const AxisList order = joined(axes_.of(n));
  std::vector<TensorId> inputs;
  for (const std::size_t k : {0, 1, 2}) {
    Value x = operand(n, k);
    if (k == 0 && graph_.tensor(x.tensor).dtype != DType::I32) x.tensor = truth(x.tensor, false);
    inputs.push_back(widened(x, order).tensor);
  }
  std::tie(inputs[1], inputs[2]) = of_one_type(inputs[1], inputs[2]);
  return {add(OpKind::Select, "", inputs), order};
}

Value Emitter::unary(int n) {
  const Node& of = node(n);
  const Value x = operand(n, 0);
  if (of.kind == Kind::Square) return {add(OpKind::Multiply, "", {x.tensor, x.tensor}), x.order};
  if (of.kind == Kind::Not) return {truth(x.tensor, true), x.order};
  if (of.kind == Kind::ToFloat) return {add(OpKind::Cast, "", {x.tensor}, {.dtype = graph_.dtype}), x.order};
  if (of.kind == Kind::Dropout)
    return {add(OpKind::Dropout, "", {x.tensor},
                {.probability = of.details.number, .seed = static_cast<std::uint64_t>(n) + 1}),
            x.order};
  if (is_held_next(n)) return x;
  return {add(*unary_kind(of.kind), "", {x.tensor}), x.order};
}

}  // namespace meshwright::primitive
