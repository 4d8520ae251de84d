// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/norms/sinkhorn.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace meshwright::kernels {

namespace {

// One matrix, row by row.
struct Matrix {
  std::int64_t rows, columns;
  std::vector<double> at;

  [[nodiscard]] double& operator()(std::int64_t row, std::int64_t column) {
    return at[static_cast<std::size_t>(row * columns + column)];
  }
};

enum class Along { Row, Column };

// Calls visit(line, of_line) for the line of each element.
template <class Visit>
void for_each_line(Matrix& y, Along along, Visit visit) {
  const std::int64_t lines = along == Along::Row ? y.rows : y.columns,
                     length = along == Along::Row ? y.columns : y.rows;
  for (std::int64_t line = 0; line < lines; ++line)
    visit(line, length,
          [&y, along, line](std::int64_t i) -> double& { return along == Along::Row ? y(line, i) : y(i, line); });
}

void divide_by_sums(Matrix& y, Along along, double epsilon) {
  for_each_line(y, along, [epsilon](std::int64_t, std::int64_t length, const auto& element) {
    double sum = epsilon;
    for (std::int64_t i = 0; i < length; ++i) sum += element(i);
    for (std::int64_t i = 0; i < length; ++i) element(i) /= sum;
  });
}

// `g` is the gradient of z = y / (sums of y + epsilon) and becomes that of y.
void back_through_sums(Matrix& g, Matrix& y, Along along, double epsilon) {
  for_each_line(y, along, [&](std::int64_t line, std::int64_t length, const auto& element) {
    const auto given = [&](std::int64_t i) -> double& { return along == Along::Row ? g(line, i) : g(i, line); };
    double sum = epsilon, along_line = 0.0;
    for (std::int64_t i = 0; i < length; ++i) {
      sum += element(i);
      along_line += given(i) * element(i);
    }
    for (std::int64_t i = 0; i < length; ++i) given(i) = (given(i) - along_line / sum) / sum;
  });
}

template <class T>
Matrix softmax_of(const T* x, const SinkhornShape& shape) {
  Matrix y{shape.rows, shape.columns, std::vector<double>(x, x + shape.rows * shape.columns)};
  for_each_line(y, Along::Row, [](std::int64_t, std::int64_t length, const auto& element) {
    double largest = element(0), sum = 0.0;
    for (std::int64_t i = 1; i < length; ++i) largest = std::max(largest, element(i));
    for (std::int64_t i = 0; i < length; ++i) sum += element(i) = std::exp(element(i) - largest);
    for (std::int64_t i = 0; i < length; ++i) element(i) /= sum;
  });
  return y;
}

// Which sums the steps divide by, in order.
std::vector<Along> steps_of(const SinkhornShape& shape) {
  std::vector<Along> steps = {Along::Column};
  for (std::int64_t turn = 1; turn < shape.turns; ++turn) steps.insert(steps.end(), {Along::Row, Along::Column});
  return steps;
}

}  // namespace

template <class T>
void sinkhorn(const T* x, T* out, const SinkhornShape& shape) {
  const std::int64_t size = shape.rows * shape.columns;
  const std::vector<Along> steps = steps_of(shape);
  for (std::int64_t m = 0; m < shape.matrices; ++m) {
    Matrix y = softmax_of(x + m * size, shape);
    for (double& number : y.at) number += shape.epsilon;
    for (const Along along : steps) divide_by_sums(y, along, shape.epsilon);
    std::transform(y.at.begin(), y.at.end(), out + m * size, [](double number) { return static_cast<T>(number); });
  }
}

template <class T>
void sinkhorn_backward(const T* x, const T* dy, T* dx, const SinkhornShape& shape) {
  const std::int64_t size = shape.rows * shape.columns;
  const std::vector<Along> steps = steps_of(shape);
  for (std::int64_t m = 0; m < shape.matrices; ++m) {
    Matrix p = softmax_of(x + m * size, shape), y = p;
    for (double& number : y.at) number += shape.epsilon;
    std::vector<Matrix> before;  // each step
    for (const Along along : steps) {
      before.push_back(y);
      divide_by_sums(y, along, shape.epsilon);
    }
    Matrix g{shape.rows, shape.columns, std::vector<double>(dy + m * size, dy + (m + 1) * size)};
    for (std::size_t step = steps.size(); step-- > 0;) back_through_sums(g, before[step], steps[step], shape.epsilon);
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      double along = 0.0;
      for (std::int64_t i = 0; i < shape.columns; ++i) along += g(row, i) * p(row, i);
      for (std::int64_t i = 0; i < shape.columns; ++i)
        dx[m * size + row * shape.columns + i] = static_cast<T>(p(row, i) * (g(row, i) - along));
    }
  }
}

#define MW_INSTANTIATE(T)                                        \
  template void sinkhorn<T>(const T*, T*, const SinkhornShape&); \
  template void sinkhorn_backward<T>(const T*, const T*, T*, const SinkhornShape&);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
