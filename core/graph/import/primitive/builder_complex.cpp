// SPDX-License-Identifier: Apache-2.0
// Complex numbers: two tensors, taken through the ops that keep them apart. No op of a graph has them: programs turn
// pairs of features with them (rotary embedding) and take the parts out again.
#include <algorithm>
#include <utility>

#include "core/base/errors.h"
#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

int Builder::complex(int real_part, int imaginary_part) {
  const Shape to = broadcast_shape(shape(real_part), shape(imaginary_part));
  for (int* part : {&real_part, &imaginary_part}) {
    expect(!is_complex(*part), "its parts are complex themselves");
    *part = broadcast(rebatched_operand(unary(Kind::ToFloat, *part), to), to);
  }
  return add(Kind::Complex, {real_part, imaginary_part}, to, false);
}

int Builder::complex_constant(const Shape& of, const std::optional<std::vector<double>>& parts) {
  const bool same = parts && parts->size() == 2;
  const auto part = [&](std::size_t which) {
    if (!parts) return constant(of, false, std::nullopt);
    std::vector<double> values;
    for (std::size_t i = which; i < parts->size(); i += 2) values.push_back((*parts)[i]);
    return constant(same ? Shape() : of, false, std::move(values));
  };
  const int first = part(0);
  return complex(first, part(1));
}

int Builder::real_of(int x) const { return is_complex(x) ? at(x).inputs[0] : x; }

int Builder::imaginary_of(int x) {
  if (is_complex(x)) return at(x).inputs[1];
  return broadcast(scalar(0.0), shape(x));
}

// x y, of which either may be nothing but zeros.
int Builder::product_of(int x, int y) {
  const Shape to = broadcast_shape(shape(x), shape(y));
  return is_zero(x) || is_zero(y) ? broadcast(scalar(0.0), to) : binary(Kind::Multiply, x, y);
}

int Builder::sum_of(int x, int y) {
  const Shape to = broadcast_shape(shape(x), shape(y));
  if (is_zero(x)) return broadcast(y, to);
  return is_zero(y) ? broadcast(x, to) : binary(Kind::Add, x, y);
}

int Builder::difference_of(int x, int y) {
  const Shape to = broadcast_shape(shape(x), shape(y));
  if (is_zero(x)) return broadcast(negated(y), to);
  return is_zero(y) ? broadcast(x, to) : binary(Kind::Subtract, x, y);
}

std::optional<int> Builder::complex_unary(Kind kind, int x) {
  if (!is_complex(x)) return std::nullopt;
  const int a = real_of(x), b = imaginary_of(x);
  switch (kind) {
    case Kind::ToFloat:
      return x;
    case Kind::Square:
      return binary(Kind::Multiply, x, x);
    case Kind::Exp: {
      const int c = unary(Kind::Cos, b), s = unary(Kind::Sin, b);
      if (is_zero(a)) return complex(c, s);
      const int length = unary(Kind::Exp, a);
      return complex(product_of(length, c), product_of(length, s));
    }
    case Kind::Abs:
      return unary(Kind::Sqrt, sum_of(product_of(a, a), product_of(b, b)));
    default:
      return std::nullopt;
  }
}

std::optional<int> Builder::complex_binary(Kind kind, int x, int y) {
  if (!is_complex(x) && !is_complex(y)) return std::nullopt;
  const int a = real_of(x), b = imaginary_of(x), c = real_of(y), d = imaginary_of(y);
  switch (kind) {
    case Kind::Add:
      return complex(sum_of(a, c), sum_of(b, d));
    case Kind::Subtract:
      return complex(difference_of(a, c), difference_of(b, d));
    case Kind::Multiply:
      return complex(difference_of(product_of(a, c), product_of(b, d)), sum_of(product_of(a, d), product_of(b, c)));
    case Kind::Divide:
      if (!is_complex(y)) return complex(binary(kind, a, y), binary(kind, b, y));
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace meshwright::primitive
