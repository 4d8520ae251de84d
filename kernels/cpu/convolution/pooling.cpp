// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/convolution/pooling.h"

#include <algorithm>

namespace meshwright::kernels {

namespace {

constexpr std::int64_t kChannels = 256;  // walked at once: what is kept of them beside x stays in the first cache

// One window over a run of channels.
struct Window {
  std::int64_t y;      // its element of y
  std::int64_t first;  // its first element of x, and how it goes on from there
  std::int64_t row, column;
  std::int64_t rows, columns;
  std::int64_t channels;

  [[nodiscard]] std::int64_t size() const { return rows * columns; }
  // Calls visit(offset in x, number in the window) element by element.
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) visit(first + i * row + j * column, i * columns + j);
  }
};

template <class Visit>
void for_each_window(const PoolShape& s, Visit visit) {
  std::int64_t y = 0;
  const std::int64_t row = s.columns.from * s.channels;
  for (std::int64_t image = 0; image < s.batch; ++image)
    for (std::int64_t i = 0; i < s.rows.to; ++i)
      for (std::int64_t j = 0; j < s.columns.to; ++j, y += s.channels) {
        const std::int64_t top = s.rows.first(i), left = s.columns.first(j);
        const std::int64_t first = (image * s.rows.from + top) * row + left * s.channels;
        for (std::int64_t c = 0; c < s.channels; c += kChannels)
          visit(Window{y + c, first + c, row, s.channels, s.rows.last(i) - top, s.columns.last(j) - left,
                       std::min(kChannels, s.channels - c)});
      }
}

template <class T>
void clear(T* dx, const PoolShape& s) {
  std::fill_n(dx, s.batch * s.rows.from * s.columns.from * s.channels, T(0));
}

}  // namespace

template <class T>
void max_pool(const T* x, T* y, const PoolShape& shape) {
  for_each_window(shape, [=](const Window& window) {
    T* best = y + window.y;
    std::copy_n(x + window.first, window.channels, best);
    window.for_each([&](std::int64_t at, std::int64_t) {
      const T* value = x + at;
#pragma GCC ivdep
      for (std::int64_t c = 0; c < window.channels; ++c) best[c] = best[c] < value[c] ? value[c] : best[c];
    });
  });
}

template <class T>
void max_pool_backward(const T* x, const T* dy, T* dx, const PoolShape& shape) {
  clear(dx, shape);
  for_each_window(shape, [=](const Window& window) {
    T best[kChannels];
    std::int32_t where[kChannels];
    std::copy_n(x + window.first, window.channels, best);
    std::fill_n(where, window.channels, 0);
    window.for_each([&](std::int64_t at, std::int64_t number) {
      const T* value = x + at;
#pragma GCC ivdep
      for (std::int64_t c = 0; c < window.channels; ++c) {
        where[c] = best[c] < value[c] ? static_cast<std::int32_t>(number) : where[c];
        best[c] = best[c] < value[c] ? value[c] : best[c];
      }
    });
    const T* gradient = dy + window.y;
    window.for_each([&](std::int64_t at, std::int64_t number) {
      T* result = dx + at;
#pragma GCC ivdep
      for (std::int64_t c = 0; c < window.channels; ++c)
        result[c] += where[c] == static_cast<std::int32_t>(number) ? gradient[c] : T(0);
    });
  });
}

template <class T>
void average_pool(const T* x, T* y, const PoolShape& shape) {
  for_each_window(shape, [=](const Window& window) {
    double sums[kChannels] = {};
    window.for_each([&](std::int64_t at, std::int64_t) {
      const T* value = x + at;
#pragma GCC ivdep
      for (std::int64_t c = 0; c < window.channels; ++c) sums[c] += static_cast<double>(value[c]);
    });
    const double share = 1.0 / static_cast<double>(window.size());
    T* result = y + window.y;
#pragma GCC ivdep
    for (std::int64_t c = 0; c < window.channels; ++c) result[c] = static_cast<T>(share * sums[c]);
  });
}

template <class T>
void average_pool_backward(const T* dy, T* dx, const PoolShape& shape) {
  clear(dx, shape);
  for_each_window(shape, [=](const Window& window) {
    const T share = T(1) / static_cast<T>(window.size());
    const T* gradient = dy + window.y;
    window.for_each([&](std::int64_t at, std::int64_t) {
      T* result = dx + at;
#pragma GCC ivdep
      for (std::int64_t c = 0; c < window.channels; ++c) result[c] += share * gradient[c];
    });
  });
}

#define MW_INSTANTIATE(T)                                                       \
  template void max_pool<T>(const T*, T*, const PoolShape&);                    \
  template void max_pool_backward<T>(const T*, const T*, T*, const PoolShape&); \
  template void average_pool<T>(const T*, T*, const PoolShape&);                \
  template void average_pool_backward<T>(const T*, T*, const PoolShape&);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
