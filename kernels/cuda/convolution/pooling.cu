// SPDX-License-Identifier: Apache-2.0
// A thread has a place of the result and as many channels as 16 bytes hold, or one channel where they do not lie well.
#include "kernels/cuda/convolution/pooling.h"

#include <type_traits>

#include "kernels/cuda/blocks/groups.h"
#include "kernels/cuda/convolution/convolution_walks.h"

namespace meshwright::kernels::cuda {

namespace {

using convolving::last_digit;
using convolving::Side;

constexpr int kThreads = 256;
template <class T>
constexpr int kChannels = 16 / static_cast<int>(sizeof(T));

struct Pools {
  std::int64_t batch, channels;
  Side rows, columns;
};

// A place of x or y, which have `rows` x `columns` of them, and the first channel of a thread there.
struct Place {
  std::int64_t image, channel;
  int row, column;
};
template <int n>
MW_DEVICE Place place_of(const Pools& s, std::int64_t item, int rows, int columns) {
  const std::int64_t groups = s.channels / n;
  Place at{};
  // last_digit divides in 32 bits where the number allows, which takes a fraction of a 64-bit division.
  if (groups < (std::int64_t{1} << 31)) {
    at.channel = static_cast<std::int64_t>(last_digit(item, static_cast<int>(groups))) * n;
  } else {
    at.channel = item % groups * n;
    item /= groups;
  }
  at.column = last_digit(item, columns);
  at.row = last_digit(item, rows);
  at.image = item;
  return at;
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
    store(to, from);
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

// Calls visit(element, number) for what of a window lies in x, numbered row by row.
template <class Visit>
MW_DEVICE void for_each_in_window(const Pools& s, const Place& at, Visit visit) {
  const Range rows = window_of(s.rows, at.row), columns = window_of(s.columns, at.column);
  for (int i = rows.first; i < rows.last; ++i)
    for (int j = columns.first; j < columns.last; ++j)
      visit(element_of(s, at, i, j, s.rows.from, s.columns.from),
            (i - rows.first) * (columns.last - columns.first) + j - columns.first);
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
    const Place at = place_of<n>(s, item, s.rows.to, s.columns.to);
    Wide<T> best[n], value[n];
    Out found[n];
    std::int32_t where[n] = {};
    read_wide(x + first_in_window(s, at), best);
    for_each_in_window(s, at, [&](std::int64_t element, int number) {
      read_wide(x + element, value);
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
    const Place at = place_of<n>(s, item, s.rows.from, s.columns.from);
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

template <class T, int n>
__global__ void __launch_bounds__(kThreads) average_windows(Pools s, std::int64_t items, const T* x, T* y) {
  for (std::int64_t item = thread_of_grid(); item < items; item += threads_of_grid()) {
    const Place at = place_of<n>(s, item, s.rows.to, s.columns.to);
    Wide<T> sums[n] = {}, value[n];
    int count = 0;
    for_each_in_window(s, at, [&](std::int64_t element, int) {
      ++count;
      read_wide(x + element, value);
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
    const Place at = place_of<n>(s, item, s.rows.from, s.columns.from);
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

Pools pools_of(const PoolShape& s) {
  return {s.batch, s.channels, convolving::side_of(s.rows), convolving::side_of(s.columns)};
}
std::int64_t x_places(const PoolShape& s) { return s.batch * s.rows.from * s.columns.from; }
std::int64_t y_places(const PoolShape& s) { return s.batch * s.rows.to * s.columns.to; }

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
void launch_items(const char* name, void (*kernel)(Pools, std::int64_t, Parameters...), std::int64_t places, int n,
                  const PoolShape& shape, Stream stream, Arguments... arguments) {
  const std::int64_t items = places * (shape.channels / n);
  launch(name, kernel, blocks_for(items, kThreads), {kThreads, 1, 1}, 0, stream, pools_of(shape), items, arguments...);
}

// Numbers 0 .. 254 fit into one byte.
bool has_small_windows(const PoolShape& s) { return s.rows.size * s.columns.size <= 255; }

template <class Number, class T>
void max_pool_backward_by(Stream stream, const T* x, const T* dy, T* dx, const PoolShape& shape, Number* where) {
  with_channels<T>(
      shape.channels,
      [&](auto n) {
        launch_items("max_pool_backward: maxima", find_maxima<T, n(), Number>, y_places(shape), n, shape, stream, x,
                     where);
        launch_items("max_pool_backward", gather_maxima<T, n(), Number>, x_places(shape), n, shape, stream, where, dy,
                     dx);
      },
      x, dy, dx, where);
}

}  // namespace

template <class T>
void max_pool(Stream stream, const T* x, T* y, const PoolShape& shape) {
  with_channels<T>(
      shape.channels,
      [&](auto n) { launch_items("max_pool", find_maxima<T, n(), T>, y_places(shape), n, shape, stream, x, y); }, x, y);
}

std::size_t max_pool_backward_workspace(const PoolShape& shape) {
  const std::size_t number = has_small_windows(shape) ? sizeof(std::uint8_t) : sizeof(std::int32_t);
  return static_cast<std::size_t>(y_places(shape) * shape.channels) * number;
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
      [&](auto n) { launch_items("average_pool", average_windows<T, n()>, y_places(shape), n, shape, stream, x, y); },
      x, y);
}
template <class T>
void average_pool_backward(Stream stream, const T* dy, T* dx, const PoolShape& shape) {
  with_channels<T>(
      shape.channels,
      [&](auto n) {
        launch_items("average_pool_backward", gather_averages<T, n()>, x_places(shape), n, shape, stream, dy, dx);
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
