// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/layout/layout.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/cpu/elementwise/vector_math.h"
#include "kernels/cpu/layout/box_dims.h"

namespace meshwright::kernels {

namespace {

// Offsets of the elements of a box in two arrays, row by row. The box without dimensions has one element.
class BoxWalk {
 public:
  explicit BoxWalk(std::vector<BoxDim> dims) : dims_(std::move(dims)), index_(dims_.size(), 0) {}
  std::int64_t a = 0, b = 0;

  // To the next element; after the last, back to the first, and false.
  bool next() {
    for (std::size_t d = dims_.size(); d > 0; --d) {
      const BoxDim& dim = dims_[d - 1];
      a += dim.a, b += dim.b;
      if (++index_[d - 1] < dim.extent) return true;
      a -= dim.extent * dim.a, b -= dim.extent * dim.b;
      index_[d - 1] = 0;
    }
    return false;
  }

 private:
  std::vector<BoxDim> dims_;
  std::vector<std::int64_t> index_;
};

// out[i out_stride + j] = x[i + j x_stride], in squares that stay in cache.
template <class T>
void transpose_plane(const T* x, std::int64_t x_stride, T* out, std::int64_t out_stride, std::int64_t rows,
                     std::int64_t columns) {
  constexpr std::int64_t kSquare = 16;
  for (std::int64_t row = 0; row < rows; row += kSquare)
    for (std::int64_t column = 0; column < columns; column += kSquare) {
      const std::int64_t last_row = std::min(row + kSquare, rows), last_column = std::min(column + kSquare, columns);
      for (std::int64_t i = row; i < last_row; ++i)
        for (std::int64_t j = column; j < last_column; ++j) out[i * out_stride + j] = x[i + j * x_stride];
    }
}

template <class T>
struct Sum {
  static constexpr double kFirst = 0.0;
  static double of(double total, double value) { return total + value; }
  static double row(const T* x, std::int64_t n) {
    return lane_sum<double>(n, [x](std::int64_t i) { return static_cast<double>(x[i]); });
  }
};

template <class T>
struct Max {
  static constexpr double kFirst = -std::numeric_limits<double>::infinity();
  static double of(double largest, double value) { return largest < value ? value : largest; }
  static double row(const T* x, std::int64_t n) { return static_cast<double>(lane_max(x, n)); }
};

// Every element of the result is folded in double in an order that the sizes decide, such that memory is read along its
// rows.
//
// Blocks of the result stay in cache while the reduced rows pass by; a reduced innermost dimension makes rows of one
// result each.
template <class Fold, class T>
void reduce(const T* x, T* out, const KeptDims& kept_dims, double scale) {
  std::vector<BoxDim> dims = beside_kept(kept_dims), over_kept, over_reduced;
  const BoxDim inner = dims.back();
  dims.pop_back();
  for (const BoxDim& dim : dims) (dim.b != 0 ? over_kept : over_reduced).push_back(dim);
  BoxWalk results(over_kept), reduced(over_reduced);
  constexpr std::int64_t kBlock = 512;
  double block[kBlock];
  const std::int64_t width = inner.b != 0 ? inner.extent : 1;
  do {
    for (std::int64_t begin = 0; begin < width; begin += kBlock) {
      const std::int64_t n = std::min(kBlock, width - begin);
      std::fill_n(block, n, Fold::kFirst);
      do {
        const T* row = x + results.a + reduced.a + begin;
        if (inner.b == 0)
          block[0] = Fold::of(block[0], Fold::row(row, inner.extent));
        else
          for (std::int64_t i = 0; i < n; ++i) block[i] = Fold::of(block[i], static_cast<double>(row[i]));
      } while (reduced.next());
      T* result = out + results.b + begin;
      for (std::int64_t i = 0; i < n; ++i) result[i] = static_cast<T>(scale * block[i]);
    }
  } while (results.next());
}

}  // namespace

template <class T>
void copy_rows(const T* from, T* to, const RowCopy& copy) {
  for (std::int64_t row = 0; row < copy.rows; ++row)
    std::copy_n(from + row * copy.from_stride, copy.length, to + row * copy.to_stride);
}

template <class T>
void pad_rows(const T* x, T* out, const RowPadding& p, T value) {
  for (std::int64_t row = 0; row < p.rows; ++row, x += p.length, out += p.width) {
    std::fill_n(out, p.start, value);
    std::copy_n(x, p.length, out + p.start);
    std::fill(out + p.start + p.length, out + p.width, value);
  }
}

template <class T>
void copy_strided(const T* x, std::span<const std::int64_t> strides, T* out, std::span<const std::int64_t> sizes) {
  std::vector<BoxDim> dims = merged(beside_dense(sizes, strides));
  const BoxDim inner = dims.back();
  dims.pop_back();
  const auto other = std::find_if(dims.begin(), dims.end(), [](const BoxDim& dim) { return dim.a == 1; });
  if (inner.a > 1 && other != dims.end()) {
    const BoxDim rows = *other;
    dims.erase(other);
    BoxWalk planes(dims);
    do transpose_plane(x + planes.a, inner.a, out + planes.b, rows.b, rows.extent, inner.extent);
    while (planes.next());
    return;
  }
  BoxWalk rows(dims);
  do {
    if (inner.a == 0)
      std::fill_n(out + rows.b, inner.extent, x[rows.a]);
    else if (inner.a == 1)
      std::copy_n(x + rows.a, inner.extent, out + rows.b);
    else
      for (std::int64_t i = 0; i < inner.extent; ++i) out[rows.b + i] = x[rows.a + i * inner.a];
  } while (rows.next());
}

template <class T>
void reduce_sum(const T* x, T* out, const KeptDims& kept_dims, double scale) {
  reduce<Sum<T>>(x, out, kept_dims, scale);
}

template <class T>
void reduce_max(const T* x, T* out, const KeptDims& kept_dims) {
  reduce<Max<T>>(x, out, kept_dims, 1.0);
}

template <class T>
void reduce_max_backward(const T* x, const T* y, const T* dy, T* dx, const KeptDims& kept_dims) {
  std::vector<BoxDim> dims = beside_kept(kept_dims);
  const BoxDim inner = dims.back();
  dims.pop_back();
  BoxWalk rows(dims);
  do {
    const T *row = x + rows.a, *largest = y + rows.b, *gradient = dy + rows.b;
    T* result = dx + rows.a;
    if (inner.b == 0)
      for (std::int64_t i = 0; i < inner.extent; ++i) result[i] = row[i] == largest[0] ? gradient[0] : T(0);
    else
      for (std::int64_t i = 0; i < inner.extent; ++i) result[i] = row[i] == largest[i] ? gradient[i] : T(0);
  } while (rows.next());
}

#define MW_INSTANTIATE(T)                                        \
  template void copy_rows<T>(const T*, T*, const RowCopy&);      \
  template void pad_rows<T>(const T*, T*, const RowPadding&, T); \
  template void copy_strided<T>(const T*, std::span<const std::int64_t>, T*, std::span<const std::int64_t>);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
MW_INSTANTIATE(std::int32_t)
#undef MW_INSTANTIATE
#define MW_INSTANTIATE(T)                                             \
  template void reduce_sum<T>(const T*, T*, const KeptDims&, double); \
  template void reduce_max<T>(const T*, T*, const KeptDims&);         \
  template void reduce_max_backward<T>(const T*, const T*, const T*, T*, const KeptDims&);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
