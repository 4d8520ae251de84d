// SPDX-License-Identifier: Apache-2.0
// A thread has a place of the result and as many channels as 16 bytes hold, or one channel where they do not lie well.
#include "kernels/cuda/convolution/pooling.h"

#include <type_traits>

#include "kernels/cuda/blocks/groups.h"
#include "kernels/cuda/convolution/convolution_walks.h"
#include "kernels/cuda/layout/box.h"

namespace meshwright::kernels::cuda {

namespace {

using convolving::Side;

constexpr int kThreads = 256;
template <class T>
constexpr int kChannels = 16 / static_cast<int>(sizeof(T));

struct Pools {
  std::int64_t batch, channels;
  Side rows, columns;
  Divider item_groups, item_columns, item_rows;  // threads of a place; places of an image, one for each
};

// A place of x or y, or a tile, and the first channel of a thread there.
struct Place {
  std::int64_t image, channel;
  int row, column;
};
template <int n>
MW_DEVICE Place place_of(const Pools& s, std::int64_t item) {
  const std::int64_t place = s.item_groups.quotient(item), row = s.item_columns.quotient(place);
  const std::int64_t image = s.item_rows.quotient(row);
  return {image, (item - place * s.item_groups.divisor) * n, static_cast<int>(row - image * s.item_rows.divisor),
          static_cast<int>(place - row * s.item_columns.divisor)};
}
MW_DEVICE std::int64_t element_of(const Pools& s, const Place& at, int row, int column, int rows, int columns) {
  return ((at.image * rows + row) * columns + column) * s.channels + at.channel;
}

// What of window i lies in x, along one dimension: elements first..last-1.
struct Range {
  int first, last;
};
MW_DEVICE Range window_of(const Side& s, int i) {
  const int begin = i * s.stride - s.before, end = begin + s.size;
  return {begin > 0 ? begin : 0, end < s.from ? end : s.from};
}
// The windows that element i lies in: first..last-1.
MW_DEVICE Range windows_with(const Side& s, int i) {
  // Window j covers the elements j stride - before and the size - 1 after it, padding included. The first with element
  // i is ceil((behind + 1) / stride) = floor(behind / stride) + 1 for behind >= 0.
  const int behind = i + s.before - s.size, last = (i + s.before) / s.stride + 1;
  return {behind < 0 ? 0 : behind / s.stride + 1, last < s.to ? last : s.to};
}

// At once where that is worth it: not the few bytes of one channel.
template <int n, class T>
constexpr bool kAtOnce = n * sizeof(T) >= 4;
template <int n, class T>
MW_DEVICE void read(const T* from, T (&to)[n]) {
  if constexpr (kAtOnce<n, T>) {
    load(from, to);
  } else {
    for (int c = 0; c < n; ++c) to[c] = from[c];
  }
}
template <int n, class T>
MW_DEVICE void write(T* to, const T (&from)[n]) {
  if constexpr (kAtOnce<n, T>) {
    store_global(to, from);
  } else {
    for (int c = 0; c < n; ++c) to[c] = from[c];
  }
}
template <int n, class T>
MW_DEVICE void read_wide(const T* from, Wide<T> (&to)[n]) {
  T elements[n];
  read(from, elements);
  MW_UNROLL
  for (int c = 0; c < n; ++c) to[c] = static_cast<Wide<T>>(elements[c]);
}
template <int n, class T>
MW_DEVICE void write_rounded(T* to, const Wide<T> (&from)[n]) {
  T elements[n];
  MW_UNROLL
  for (int c = 0; c < n; ++c) elements[c] = T(from[c]);
  write(to, elements);
}

// Elements of a window that a thread has under way at once: all of one of 3 x 3.
constexpr int kBatch = 9;

// Calls visit(values, number) for what of a window lies in x, numbered row by row.
template <int n, class T, class Visit>
MW_DEVICE void for_each_in_window(const Pools& s, const Place& at, const T* x, Visit visit) {
  const Range rows = window_of(s.rows, at.row), columns = window_of(s.columns, at.column);
  const int width = columns.last - columns.first, count = (rows.last - rows.first) * width;
  const std::int64_t to_next_row = (s.columns.from - width + 1) * s.channels;
  const T* next = x + element_of(s, at, rows.first, columns.first, s.rows.from, s.columns.from);
  int left_of_row = width;
  for (int begin = 0; begin < count; begin += kBatch) {
    T values[kBatch][n];
    MW_UNROLL
    for (int k = 0; k < kBatch; ++k) {
      if (begin + k < count) read(next, values[k]);
      const bool ends_row = --left_of_row == 0;
      next += ends_row ? to_next_row : s.channels;
      left_of_row = ends_row ? width : left_of_row;
    }
    MW_UNROLL
    for (int k = 0; k < kBatch; ++k) {
      if (begin + k >= count) continue;
      Wide<T> wide[n];
      MW_UNROLL
      for (int c = 0; c < n; ++c) wide[c] = static_cast<Wide<T>>(values[k][c]);
      visit(wide, begin + k);
    }
  }
}
MW_DEVICE std::int64_t first_in_window(const Pools& s, const Place& at) {
  return element_of(s, at, window_of(s.rows, at.row).first, window_of(s.columns, at.column).first, s.rows.from,
                    s.columns.from);
}

// The maximum of each window to y, or its number in the window to `where`.
// Out: T for the maxima, an integer for their numbers. The comparison is strict, so that the first of equal maxima
// wins.
template <class T, int n, class Out>
__global__ void __launch_bounds__(kThreads) find_maxima(Pools s, std::int64_t items, const T* x, Out* out) {
  for (std::int64_t item = thread_of_grid(); item < items; item += threads_of_grid()) {
    const Place at = place_of<n>(s, item);
    Wide<T> best[n];
    Out found[n];
    std::int32_t where[n] = {};
    read_wide(x + first_in_window(s, at), best);
    for_each_in_window<n>(s, at, x, [&](const Wide<T>(&value)[n], int number) {
      MW_UNROLL
      for (int c = 0; c < n; ++c) {
        where[c] = best[c] < value[c] ? number : where[c];
        best[c] = best[c] < value[c] ? value[c] : best[c];
      }
    });
    MW_UNROLL
    for (int c = 0; c < n; ++c) {
      if constexpr (std::is_same_v<T, Out>)
        found[c] = T(best[c]);
      else
        found[c] = static_cast<Out>(where[c]);
    }
    write(out + element_of(s, at, at.row, at.column, s.rows.to, s.columns.to), found);
  }
}

template <class T, int n, class Number>
__global__ void __launch_bounds__(kThreads)
    gather_maxima(Pools s, std::int64_t items, const Number* where, const T* dy, T* dx) {
  for (std::int64_t item = thread_of_grid(); item < items; item += threads_of_grid()) {
    const Place at = place_of<n>(s, item);
    // dx gathers instead of dy scattering: an element has one writer, which adds its windows row by row, without
    // atomics.
    const Range rows = windows_with(s.rows, at.row), columns = windows_with(s.columns, at.column);
    Wide<T> sums[n] = {}, gradient[n];
    Number best[n];
    for (int i = rows.first; i < rows.last; ++i)
      for (int j = columns.first; j < columns.last; ++j) {
        const Range down = window_of(s.rows, i), across = window_of(s.columns, j);
        // The element's number in window (i, j), as for_each_in_window counts.
        const int number = (at.row - down.first) * (across.last - across.first) + at.column - across.first;
        const std::int64_t element = element_of(s, at, i, j, s.rows.to, s.columns.to);
        read(where + element, best);
        read_wide(dy + element, gradient);
        MW_UNROLL
        for (int c = 0; c < n; ++c) sums[c] += static_cast<int>(best[c]) == number ? gradient[c] : Wide<T>(0);
      }
    write_rounded(dx + element_of(s, at, at.row, at.column, s.rows.from, s.columns.from), sums);
  }
}

// The same by tiles of 2 x 2 elements, where windows that move by 2 places have 3 or fewer along each dimension: all
// that lie on a tile are two along each, and are read once for it, all at once.
constexpr int kTile = 2;
bool has_tiles(const Windows& w) { return w.stride == kTile && w.size <= kTile + 1; }

template <class T, int n, class Number>
__global__ void __launch_bounds__(kThreads)
    gather_maxima_of_tiles(Pools s, std::int64_t items, const Number* where, const T* dy, T* dx) {
  s.rows.stride = s.columns.stride = kTile;  // as has_tiles says: divisions by it become shifts
  for (std::int64_t item = thread_of_grid(); item < items; item += threads_of_grid()) {
    const Place at = place_of<n>(s, item);
    const int top = at.row * kTile, left = at.column * kTile;
    const int first_row = windows_with(s.rows, top).first, last_row = windows_with(s.rows, top + kTile - 1).last;
    const int first_column = windows_with(s.columns, left).first;
    const int last_column = windows_with(s.columns, left + kTile - 1).last;
    T gradient[kTile][kTile][n];
    Number best[kTile][kTile][n];
    Range down[kTile] = {}, across[kTile] = {};
    MW_UNROLL
    for (int i = 0; i < kTile; ++i) {
      if (first_row + i < last_row) down[i] = window_of(s.rows, first_row + i);
      if (first_column + i < last_column) across[i] = window_of(s.columns, first_column + i);
    }
    MW_UNROLL
    for (int i = 0; i < kTile; ++i) MW_UNROLL
    for (int j = 0; j < kTile; ++j) {
      if (first_row + i >= last_row || first_column + j >= last_column) continue;
      const std::int64_t element = element_of(s, at, first_row + i, first_column + j, s.rows.to, s.columns.to);
      read(where + element, best[i][j]);
      read(dy + element, gradient[i][j]);
    }
    MW_UNROLL
    for (int a = 0; a < kTile; ++a) MW_UNROLL
    for (int b = 0; b < kTile; ++b) {
      const int row = top + a, column = left + b;
      if (row >= s.rows.from || column >= s.columns.from) continue;
      Wide<T> sums[n] = {};
      MW_UNROLL
      for (int i = 0; i < kTile; ++i) MW_UNROLL
      for (int j = 0; j < kTile; ++j) {
        // A window that there is not has no elements.
        if (row < down[i].first || row >= down[i].last || column < across[j].first || column >= across[j].last)
          continue;
        const int number = (row - down[i].first) * (across[j].last - across[j].first) + column - across[j].first;
        MW_UNROLL
        for (int c = 0; c < n; ++c)
          if (static_cast<int>(best[i][j][c]) == number) sums[c] += static_cast<Wide<T>>(gradient[i][j][c]);
      }
      write_rounded(dx + element_of(s, at, row, column, s.rows.from, s.columns.from), sums);
    }
  }
}

template <class T, int n>
__global__ void __launch_bounds__(kThreads) average_windows(Pools s, std::int64_t items, const T* x, T* y) {
  for (std::int64_t item = thread_of_grid(); item < items; item += threads_of_grid()) {
    const Place at = place_of<n>(s, item);
    Wide<T> sums[n] = {};
    int count = 0;
    for_each_in_window<n>(s, at, x, [&](const Wide<T>(&value)[n], int) {
      ++count;
      MW_UNROLL
      for (int c = 0; c < n; ++c) sums[c] += value[c];
    });
    MW_UNROLL
    for (int c = 0; c < n; ++c) sums[c] = sums[c] / static_cast<Wide<T>>(count);
    write_rounded(y + element_of(s, at, at.row, at.column, s.rows.to, s.columns.to), sums);
  }
}

template <class T, int n>
__global__ void __launch_bounds__(kThreads) gather_averages(Pools s, std::int64_t items, const T* dy, T* dx) {
  for (std::int64_t item = thread_of_grid(); item < items; item += threads_of_grid()) {
    const Place at = place_of<n>(s, item);
    const Range rows = windows_with(s.rows, at.row), columns = windows_with(s.columns, at.column);
    Wide<T> sums[n] = {}, gradient[n];
    for (int i = rows.first; i < rows.last; ++i)
      for (int j = columns.first; j < columns.last; ++j) {
        const Range down = window_of(s.rows, i), across = window_of(s.columns, j);
        // A window at the border has fewer elements, and divides by those.
        const auto size = static_cast<Wide<T>>((down.last - down.first) * (across.last - across.first));
        read_wide(dy + element_of(s, at, i, j, s.rows.to, s.columns.to), gradient);
        MW_UNROLL
        for (int c = 0; c < n; ++c) sums[c] += gradient[c] / size;
      }
    write_rounded(dx + element_of(s, at, at.row, at.column, s.rows.from, s.columns.from), sums);
  }
}

// The same where windows lie side by side: each hands its gradient to its own elements.
bool lie_side_by_side(const Windows& w) { return w.stride == w.size && w.before == 0 && w.to * w.size >= w.from; }

template <class T, int n>
__global__ void __launch_bounds__(kThreads) spread_averages(Pools s, std::int64_t items, const T* dy, T* dx) {
  for (std::int64_t item = thread_of_grid(); item < items; item += threads_of_grid()) {
    const Place at = place_of<n>(s, item);
    const Range rows = window_of(s.rows, at.row), columns = window_of(s.columns, at.column);
    const auto size = static_cast<Wide<T>>((rows.last - rows.first) * (columns.last - columns.first));
    Wide<T> gradient[n];
    read_wide(dy + element_of(s, at, at.row, at.column, s.rows.to, s.columns.to), gradient);
    T shares[n];
    MW_UNROLL
    for (int c = 0; c < n; ++c) shares[c] = T(gradient[c] / size);
    for (int i = rows.first; i < rows.last; ++i) {
      T* next = dx + element_of(s, at, i, columns.first, s.rows.from, s.columns.from);
      for (int j = columns.first; j < columns.last; ++j, next += s.channels) write(next, shares);
    }
  }
}

// What the threads of a launch are for, of each image.
struct Places {
  std::int64_t rows, columns;
};
Places of_x(const PoolShape& s) { return {s.rows.from, s.columns.from}; }
Places tiles_of_x(const PoolShape& s) { return {ceil_div(s.rows.from, kTile), ceil_div(s.columns.from, kTile)}; }
Places of_y(const PoolShape& s) { return {s.rows.to, s.columns.to}; }

// Calls start(n) with how many channels a thread has, a constant, where all arrays lie well.
template <class T, class Start, class... Arrays>
void with_channels(std::int64_t channels, Start start, const Arrays*... arrays) {
  if (channels % kChannels<T> == 0 && (lies_well<kChannels<T>>(arrays) && ...))
    start(std::integral_constant<int, kChannels<T>>{});
  else
    start(std::integral_constant<int, 1>{});
}

// As many threads as items. A place has `channels` / n of them.
template <class... Parameters, class... Arguments>
void launch_items(const char* name, void (*kernel)(Pools, std::int64_t, Parameters...), Places places, int n,
                  const PoolShape& shape, Stream stream, Arguments... arguments) {
  const std::int64_t groups = shape.channels / n, items = shape.batch * places.rows * places.columns * groups;
  const Pools pools{shape.batch,
                    shape.channels,
                    convolving::side_of(shape.rows),
                    convolving::side_of(shape.columns),
                    Divider(groups),
                    Divider(places.columns),
                    Divider(places.rows)};
  launch(name, kernel, blocks_for(items, kThreads), {kThreads, 1, 1}, 0, stream, pools, items, arguments...);
}

// Numbers 0 .. 254 fit into one byte.
bool has_small_windows(const PoolShape& s) { return s.rows.size * s.columns.size <= 255; }

template <class Number, class T>
void max_pool_backward_by(Stream stream, const T* x, const T* dy, T* dx, const PoolShape& shape, Number* where) {
  with_channels<T>(
      shape.channels,
      [&](auto n) {
        launch_items("max_pool_backward: maxima", find_maxima<T, n(), Number>, of_y(shape), n, shape, stream, x, where);
        if (has_tiles(shape.rows) && has_tiles(shape.columns))
          launch_items("max_pool_backward", gather_maxima_of_tiles<T, n(), Number>, tiles_of_x(shape), n, shape, stream,
                       where, dy, dx);
        else
          launch_items("max_pool_backward", gather_maxima<T, n(), Number>, of_x(shape), n, shape, stream, where, dy,
                       dx);
      },
      x, dy, dx, where);
}

}  // namespace

template <class T>
void max_pool(Stream stream, const T* x, T* y, const PoolShape& shape) {
  with_channels<T>(
      shape.channels,
      [&](auto n) { launch_items("max_pool", find_maxima<T, n(), T>, of_y(shape), n, shape, stream, x, y); }, x, y);
}

std::size_t max_pool_backward_workspace(const PoolShape& shape) {
  const std::size_t number = has_small_windows(shape) ? sizeof(std::uint8_t) : sizeof(std::int32_t);
  return static_cast<std::size_t>(shape.batch * shape.rows.to * shape.columns.to * shape.channels) * number;
}
template <class T>
void max_pool_backward(Stream stream, const T* x, const T* dy, T* dx, const PoolShape& shape, void* workspace) {
  if (has_small_windows(shape))
    max_pool_backward_by(stream, x, dy, dx, shape, static_cast<std::uint8_t*>(workspace));
  else
    max_pool_backward_by(stream, x, dy, dx, shape, static_cast<std::int32_t*>(workspace));
}

template <class T>
void average_pool(Stream stream, const T* x, T* y, const PoolShape& shape) {
  with_channels<T>(
      shape.channels,
      [&](auto n) { launch_items("average_pool", average_windows<T, n()>, of_y(shape), n, shape, stream, x, y); }, x,
      y);
}
template <class T>
void average_pool_backward(Stream stream, const T* dy, T* dx, const PoolShape& shape) {
  with_channels<T>(
      shape.channels,
      [&](auto n) {
        if (lie_side_by_side(shape.rows) && lie_side_by_side(shape.columns))
          launch_items("average_pool_backward", spread_averages<T, n()>, of_y(shape), n, shape, stream, dy, dx);
        else
          launch_items("average_pool_backward", gather_averages<T, n()>, of_x(shape), n, shape, stream, dy, dx);
      },
      dy, dx);
}

#define MW_INSTANTIATE(T)                                                                      \
  template void max_pool<T>(Stream, const T*, T*, const PoolShape&);                           \
  template void max_pool_backward<T>(Stream, const T*, const T*, T*, const PoolShape&, void*); \
  template void average_pool<T>(Stream, const T*, T*, const PoolShape&);                       \
  template void average_pool_backward<T>(Stream, const T*, T*, const PoolShape&);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
