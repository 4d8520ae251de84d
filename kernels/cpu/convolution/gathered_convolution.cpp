// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/convolution/gathered_convolution.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/products/gemm.h"

namespace meshwright::kernels {

namespace {

// Some rows of windows in one group. Rows of all images count on, as they lie in y.
struct Block {
  const ConvolutionShape& s;
  std::int64_t group, first, rows;

  [[nodiscard]] std::int64_t windows() const { return rows * s.columns.to; }
  [[nodiscard]] std::int64_t line() const { return s.rows.size * s.columns.size * s.in; }
  [[nodiscard]] std::int64_t x_stride() const { return s.groups * s.in; }
  [[nodiscard]] std::int64_t y_stride() const { return s.groups * s.out; }
  [[nodiscard]] std::int64_t y_offset() const { return first * s.columns.to * y_stride() + group * s.out; }
  [[nodiscard]] std::int64_t w_offset() const { return group * line() * s.out; }
  // Elements `in` of x at a place.
  [[nodiscard]] std::int64_t x_offset(std::int64_t image, std::int64_t row, std::int64_t column) const {
    return ((image * s.rows.from + row) * s.columns.from + column) * x_stride() + group * s.in;
  }
  // Where each window is one element: the first one's.
  [[nodiscard]] std::int64_t x_offset() const { return first * s.columns.to * x_stride() + group * s.in; }
};

bool is_one_element(const Windows& w) { return w.size == 1 && w.stride == 1 && w.before == 0 && w.from == w.to; }
bool has_lines_in_x(const ConvolutionShape& s) { return is_one_element(s.rows) && is_one_element(s.columns); }

template <class Visit>
void for_each_block(const ConvolutionShape& s, Visit visit) {
  // Elements gathered at once: few enough for the caches, enough windows that reading the weights once more costs
  // little.
  constexpr std::int64_t kGathered = 1 << 19;
  const std::int64_t row = s.columns.to * s.rows.size * s.columns.size * s.in, rows = s.batch * s.rows.to;
  const std::int64_t step = has_lines_in_x(s) ? rows : std::clamp<std::int64_t>(kGathered / row, 1, rows);
  for (std::int64_t group = 0; group < s.groups; ++group)
    for (std::int64_t first = 0; first < rows; first += step)
      visit(Block{s, group, first, std::min(step, rows - first)});
}

// Calls visit(line element, x element) for every run of `in` elements inside x that a window of the block covers.
template <class Visit>
void for_each_run(const Block& block, Visit visit) {
  const Windows &rows = block.s.rows, &columns = block.s.columns;
  std::int64_t line = 0;
  for (std::int64_t r = block.first; r < block.first + block.rows; ++r) {
    const std::int64_t image = r / rows.to, i = r % rows.to;
    for (std::int64_t j = 0; j < columns.to; ++j, line += block.line())
      for (std::int64_t row = rows.first(i); row < rows.last(i); ++row)
        for (std::int64_t column = columns.first(j); column < columns.last(j); ++column) {
          const std::int64_t tap = (row - rows.begin(i)) * columns.size + column - columns.begin(j);
          visit(line + tap * block.s.in, block.x_offset(image, row, column));
        }
  }
}

// One thread's lines, kept for the next call.
template <class T>
T* lines_of(const Block& block) {
  thread_local std::vector<T> lines;
  lines.resize(std::max(lines.size(), static_cast<std::size_t>(block.windows() * block.line())));
  return lines.data();
}

template <class T>
struct Lines {
  const T* data;
  std::int64_t stride;
};

template <class T>
Lines<T> gather(const Block& block, const T* x) {
  if (has_lines_in_x(block.s)) return {x + block.x_offset(), block.x_stride()};
  T* lines = lines_of<T>(block);
  std::fill_n(lines, block.windows() * block.line(), T(0));
  for_each_run(block, [&](std::int64_t to, std::int64_t from) { std::copy_n(x + from, block.s.in, lines + to); });
  return {lines, block.line()};
}

}  // namespace

template <class T>
void gathered_convolution(const T* x, const T* w, T* y, const ConvolutionShape& shape) {
  for_each_block(shape, [&](const Block& block) {
    const Lines<T> lines = gather(block, x);
    gemm<T>({false, false, block.windows(), shape.out, block.line(), lines.stride, shape.out, block.y_stride()},
            lines.data, w + block.w_offset(), y + block.y_offset());
  });
}

template <class T>
void gathered_convolution_backward_input(const T* w, const T* dy, T* dx, const ConvolutionShape& shape) {
  const bool in_place = has_lines_in_x(shape);
  if (!in_place) std::fill_n(dx, shape.batch * shape.rows.from * shape.columns.from * shape.groups * shape.in, T(0));
  for_each_block(shape, [&](const Block& block) {
    T* const lines = in_place ? dx + block.x_offset() : lines_of<T>(block);
    const std::int64_t stride = in_place ? block.x_stride() : block.line();
    gemm<T>({false, true, block.windows(), block.line(), shape.out, block.y_stride(), shape.out, stride},
            dy + block.y_offset(), w + block.w_offset(), lines);
    if (in_place) return;
    for_each_run(block, [&](std::int64_t from, std::int64_t to) {
      T* sum = dx + to;
      const T* part = lines + from;
#pragma GCC ivdep
      for (std::int64_t c = 0; c < shape.in; ++c) sum[c] += part[c];
    });
  });
}

template <class T>
void gathered_convolution_backward_weight(const T* x, const T* dy, T* dw, const ConvolutionShape& shape) {
  for_each_block(shape, [&](const Block& block) {
    const Lines<T> lines = gather(block, x);
    gemm<T>({.transpose_a = true,
             .m = block.line(),
             .n = shape.out,
             .k = block.windows(),
             .lda = lines.stride,
             .ldb = block.y_stride(),
             .ldc = shape.out,
             .accumulates = block.first > 0},
            lines.data, dy + block.y_offset(), dw + block.w_offset());
  });
}

#define MW_INSTANTIATE(T)                                                                                \
  template void gathered_convolution<T>(const T*, const T*, T*, const ConvolutionShape&);                \
  template void gathered_convolution_backward_input<T>(const T*, const T*, T*, const ConvolutionShape&); \
  template void gathered_convolution_backward_weight<T>(const T*, const T*, T*, const ConvolutionShape&);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
