// SPDX-License-Identifier: Apache-2.0
// Functions of one number that several formats have as ops, of the primitive ones.
#include "core/base/errors.h"
#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

int Builder::clamp(int x, std::optional<double> low, std::optional<double> high) {
  if (low) x = binary(Kind::Maximum, x, constant({}, at(x).integer, std::vector<double>{*low}));
  if (high) x = binary(Kind::Minimum, x, constant({}, at(x).integer, std::vector<double>{*high}));
  return x;
}

int Builder::clamped_line(int x, double slope, double offset) {
  const int line = binary(Kind::Add, binary(Kind::Multiply, x, scalar(slope)), scalar(offset));
  return clamp(line, 0.0, 1.0);
}

int Builder::hard_swish(int x) { return binary(Kind::Multiply, x, clamped_line(x, 1.0 / 6.0, 0.5)); }

// x for x > 0, slope x below: what is kept of both halves.
int Builder::leaky_relu(int x, double slope) {
  const int below = binary(Kind::Multiply, clamp(x, {}, 0.0), scalar(slope));
  return binary(Kind::Add, unary(Kind::Relu, x), below);
}

int Builder::elu(int x, double alpha) {
  const int below = unary(Kind::Exp, clamp(x, {}, 0.0));
  const int bent = binary(Kind::Multiply, binary(Kind::Add, below, scalar(-1.0)), scalar(alpha));
  return binary(Kind::Add, unary(Kind::Relu, x), bent);
}

// log(1 + e^x), by e^-|x| so that no exponential grows.
int Builder::softplus(int x) {
  const int small = unary(Kind::Exp, negated(unary(Kind::Abs, x)));
  const int rest = unary(Kind::Log, binary(Kind::Add, small, scalar(1.0)));
  return binary(Kind::Add, unary(Kind::Relu, x), rest);
}

int Builder::multiplied(int x, std::int64_t axis, bool keep) {
  constexpr std::int64_t kMost = 64;
  axis = axis_of(x, axis);
  const std::int64_t size = shape(x)[static_cast<std::size_t>(axis)];
  expect(size >= 1 && size <= kMost, fmt::format("a product of {} elements has no equal here", size));
  int product = slice(x, axis, 0, 1);
  for (std::int64_t i = 1; i < size; ++i) product = binary(Kind::Multiply, product, slice(x, axis, i, i + 1));
  return keep ? product : squeeze(product, {axis});
}

}  // namespace meshwright::primitive
