// SPDX-License-Identifier: Apache-2.0
// Fourier transforms: products with matrices of cosines and sines, which devices for matrices compute them by.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

// (from, to): the cosine or sine of 2 pi j k / period. Large ones are made of their rows and columns in each run.
int Builder::waves(std::int64_t from, std::int64_t to, std::int64_t period, bool sine) {
  const double step = 2.0 * std::numbers::pi / static_cast<double>(period);
  if (from * to > kMaxValues) {
    const int rows = unsqueeze(range(0.0, static_cast<double>(from), 1.0, false), {1});
    const int columns = binary(Kind::Multiply, range(0.0, static_cast<double>(to), 1.0, false), scalar(step));
    return unary(sine ? Kind::Sin : Kind::Cos, binary(Kind::Multiply, rows, columns));
  }
  std::vector<double> values;
  for (std::int64_t j = 0; j < from; ++j)
    for (std::int64_t k = 0; k < to; ++k) {
      const double angle = step * static_cast<double>(j * k % period);
      values.push_back(sine ? std::sin(angle) : std::cos(angle));
    }
  return constant({from, to}, false, std::move(values));
}

int Builder::product_along(int x, std::int64_t axis, int matrix) {
  return swap(matmul(swap(x, axis, -1), matrix), axis, -1);
}

int Builder::fourier(int x, std::int64_t axis, std::int64_t to, bool inverse, double scale) {
  axis = axis_of(x, axis);
  const std::int64_t from = shape(x)[static_cast<std::size_t>(axis)];
  expect(!holds_batch(from) && from > 0 && to > 0 && to <= from && from < kMaxValues,
         "a Fourier transform over the batch, or of so many elements, has no equal here");
  const std::string note = "Fourier transforms are products with matrices of cosines and sines";
  if (std::find(module_.notes.begin(), module_.notes.end(), note) == module_.notes.end()) module_.notes.push_back(note);
  const int c = waves(from, to, from, false), s = waves(from, to, from, true);
  const auto times = [&](int part, int matrix) {
    return is_zero(part) ? part : binary(Kind::Multiply, product_along(part, axis, matrix), scalar(scale));
  };
  const int a = unary(Kind::ToFloat, real_of(x)), b = imaginary_of(x);
  const bool real = is_zero(b);
  // (a + i b) (c - i s), or (c + i s)
  const int ac = times(a, c), as = times(a, s);
  if (real) return complex(ac, inverse ? as : negated(as));
  const int bc = times(b, c), bs = times(b, s);
  return inverse ? complex(difference_of(ac, bs), sum_of(as, bc)) : complex(sum_of(ac, bs), difference_of(bc, as));
}

int Builder::real_fourier_inverse(int x, std::int64_t axis, std::int64_t to, double scale) {
  axis = axis_of(x, axis);
  const std::int64_t from = shape(x)[static_cast<std::size_t>(axis)];
  expect(!holds_batch(from) && to > 0 && from == to / 2 + 1 && from * to <= kMaxValues,
         "an inverse Fourier transform of so many elements to real ones has no equal here");
  // All but the first, and the middle one of an even number, stand for their conjugates, too.
  std::vector<double> cosines, sines;
  for (std::int64_t j = 0; j < from; ++j)
    for (std::int64_t k = 0; k < to; ++k) {
      const double angle = 2.0 * std::numbers::pi * static_cast<double>(j * k % to) / static_cast<double>(to);
      const double times = scale * (j == 0 || 2 * j == to ? 1.0 : 2.0);
      cosines.push_back(times * std::cos(angle));
      sines.push_back(times * std::sin(angle));
    }
  const int c = constant({from, to}, false, std::move(cosines)), s = constant({from, to}, false, std::move(sines));
  const int whole = product_along(real_of(x), axis, c), b = imaginary_of(x);
  return is_zero(b) ? whole : binary(Kind::Subtract, whole, product_along(b, axis, s));
}

}  // namespace meshwright::primitive
