// SPDX-License-Identifier: Apache-2.0
// Convolutions against the sum that defines them, over small integers: floats hold every sum exactly, so equal is
// equal.
#include "kernels/cpu/convolution/convolution.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/cpu/convolution/gathered_convolution.h"

namespace meshwright::kernels::convolution_test {
namespace {

Windows windows(std::int64_t from, std::int64_t size, std::int64_t stride, std::int64_t padding) {
  return {from, (from + 2 * padding - size) / stride + 1, size, stride, padding};
}

template <class T>
std::vector<T> integers(std::int64_t n, std::int64_t seed) {
  std::vector<T> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<T>((i * 7 + i / 5 + seed) % 5 - 2));
  return values;
}

template <class T>
struct Results {
  std::vector<T> y, dx, dw;
  bool operator==(const Results&) const = default;
};

template <class T>
struct Example {
  explicit Example(const ConvolutionShape& s)
      : shape(s),
        x(integers<T>(s.batch * s.rows.from * s.columns.from * s.groups * s.in, 1)),
        w(integers<T>(s.groups * s.rows.size * s.columns.size * s.in * s.out, 2)),
        dy(integers<T>(s.batch * s.rows.to * s.columns.to * s.groups * s.out, 3)) {}

  // Element by element, as kernels/cpu/convolution/convolution.h says.
  [[nodiscard]] Results<T> expected() const {
    const ConvolutionShape& s = shape;
    Results<T> r{std::vector<T>(dy.size()), std::vector<T>(x.size()), std::vector<T>(w.size())};
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t i = 0; i < s.rows.to; ++i)
        for (std::int64_t j = 0; j < s.columns.to; ++j)
          for (std::int64_t row = s.rows.first(i); row < s.rows.last(i); ++row)
            for (std::int64_t column = s.columns.first(j); column < s.columns.last(j); ++column)
              for (std::int64_t g = 0; g < s.groups; ++g)
                for (std::int64_t c = 0; c < s.in; ++c)
                  for (std::int64_t o = 0; o < s.out; ++o) {
                    const std::int64_t k = row - s.rows.begin(i), l = column - s.columns.begin(j);
                    const auto at_x = static_cast<std::size_t>(
                        (((b * s.rows.from + row) * s.columns.from + column) * s.groups + g) * s.in + c);
                    const auto at_w =
                        static_cast<std::size_t>((((g * s.rows.size + k) * s.columns.size + l) * s.in + c) * s.out + o);
                    const auto at_y =
                        static_cast<std::size_t>((((b * s.rows.to + i) * s.columns.to + j) * s.groups + g) * s.out + o);
                    r.y[at_y] += x[at_x] * w[at_w];
                    r.dx[at_x] += dy[at_y] * w[at_w];
                    r.dw[at_w] += x[at_x] * dy[at_y];
                  }
    return r;
  }

  // What was there before is overwritten.
  [[nodiscard]] Results<T> empty() const {
    return {std::vector<T>(dy.size(), T(9)), std::vector<T>(x.size(), T(9)), std::vector<T>(w.size(), T(9))};
  }
  [[nodiscard]] Results<T> chosen() const {
    Results<T> r = empty();
    convolution(x.data(), w.data(), r.y.data(), shape);
    convolution_backward_input(w.data(), dy.data(), r.dx.data(), shape);
    convolution_backward_weight(x.data(), dy.data(), r.dw.data(), shape);
    return r;
  }
  [[nodiscard]] Results<T> gathered() const {
    Results<T> r = empty();
    gathered_convolution(x.data(), w.data(), r.y.data(), shape);
    gathered_convolution_backward_input(w.data(), dy.data(), r.dx.data(), shape);
    gathered_convolution_backward_weight(x.data(), dy.data(), r.dw.data(), shape);
    return r;
  }

  ConvolutionShape shape;
  std::vector<T> x, w, dy;
};

void expect_right(const char* name, const ConvolutionShape& shape) {
  SCOPED_TRACE(name);
  const Example<float> in_float(shape);
  const Results<float> expected = in_float.expected();
  EXPECT_TRUE(in_float.chosen() == expected);
  EXPECT_TRUE(in_float.gathered() == expected);
  const Example<double> in_double(shape);
  EXPECT_TRUE(in_double.chosen() == in_double.expected());
}

TEST(Convolution, IsTheSumOverWindowsWhicheverWayItIsComputed) {
  expect_right("more windows than channels", {2, 1, 3, 8, windows(9, 3, 1, 1), windows(7, 3, 1, 1)});
  expect_right("fewer windows than channels", {2, 1, 16, 24, windows(3, 3, 1, 1), windows(2, 3, 1, 1)});
  expect_right("stride 2", {2, 1, 16, 32, windows(4, 3, 2, 1), windows(5, 3, 2, 1)});
  expect_right("7 x 7, stride 2", {1, 1, 3, 64, windows(14, 7, 2, 3), windows(14, 7, 2, 3)});
  expect_right("windows of one element", {3, 1, 8, 16, windows(2, 1, 1, 0), windows(2, 1, 1, 0)});
  expect_right("every second element", {2, 1, 8, 16, windows(4, 1, 2, 0), windows(4, 1, 2, 0)});
  expect_right("groups", {2, 3, 4, 16, windows(3, 3, 1, 1), windows(3, 3, 1, 1)});
  expect_right("groups of windows of one element", {2, 3, 4, 16, windows(2, 1, 1, 0), windows(2, 1, 1, 0)});
}

// 1,024 lines of 576 elements are more than are gathered at once.
TEST(Convolution, AddsUpTheWeightGradientsOfBlocks) {
  const Example<float> example({4, 1, 64, 4, windows(16, 3, 1, 1), windows(16, 3, 1, 1)});
  EXPECT_TRUE(example.gathered() == example.expected());
}

}  // namespace
}  // namespace meshwright::kernels::convolution_test
