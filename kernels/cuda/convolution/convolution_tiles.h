// SPDX-License-Identifier: Apache-2.0
// How a tile of a convolution's operands comes from memory: each thread fetches its elements as they are stored into
// registers, while the tile before is multiplied, and keeps them in shared memory. Internal
// to kernels/cuda/convolution/convolution.cu.
#pragma once

#include <type_traits>

#include "kernels/cuda/blocks/groups.h"
#include "kernels/cuda/convolution/convolution_walks.h"

namespace meshwright::kernels::cuda::convolving {

constexpr int kThreads = 256;

// Tensor cores multiply 16-bit numbers; the others are widened and multiplied by the threads.
template <class T>
constexpr bool kTensor = sizeof(T) == 2;
template <class T>
constexpr int kDepth = kTensor<T> ? 32 : 16;  // of the products, between two barriers
template <class T>
constexpr int kVector = kTensor<T> ? 8 : 4;  // elements fetched at once where they lie well
// Elements behind each line in shared memory, so that lines begin in different banks.
template <class T>
constexpr int kPad = kVector<T>;
template <class T>
using Shared = std::conditional_t<kTensor<T>, T, Wide<T>>;

// A tile of an operand has `lines` lines (results or columns of them) by kDepth of the summed dimension. Threads fetch
// it in vectors of kVector elements, along the depth or across it, as the operand lies in memory:
//
//   AlongDepth    neighbouring threads take neighbouring vectors of one line, then of the next lines
//   AcrossDepth   neighbouring threads take neighbouring lines at one depth, then at the next depths
//
// Where a vector may not be loaded at once, its elements are.
//
// m x n results of a block: blocks of thread_m x thread_n per thread, in fours that lie together, or, on tensor cores,
// shared among warps_m x (8 / warps_m) warps.
template <int m_, int n_, int thread_m_, int thread_n_, int warps_m_>
struct Tile {
  static constexpr int m = m_, n = n_, thread_m = thread_m_, thread_n = thread_n_, warps_m = warps_m_;
  static constexpr int threads_m = m / thread_m, threads_n = n / thread_n, warps_n = kThreads / kWarp / warps_m;
  static_assert(threads_m * threads_n == kThreads);
  static_assert(m % (16 * warps_m) == 0 && n % (16 * warps_n) == 0);
};

template <int turns, int vector, class T>
MW_DEVICE void clear(T (&fetched)[turns][vector]) {
  MW_UNROLL
  for (int t = 0; t < turns; ++t) {
    MW_UNROLL
    for (int e = 0; e < vector; ++e) fetched[t][e] = T(0.0f);
  }
}

// `lines` lines, each thread fetching vectors along the depth. For tensor cores they are kept as they come.
template <class T, int lines>
struct AlongDepth {
  static constexpr bool kAlong = true;
  static constexpr int kVectors = kDepth<T> / kVector<T>, kAtOnce = kThreads / kVectors;
  static constexpr int kTurns = lines > kAtOnce ? lines / kAtOnce : 1;
  static constexpr int kShared = kTensor<T> ? lines * (kDepth<T> + kPad<T>) : kDepth<T> * (lines + kPad<T>);
  using Fetched = T[kTurns][kVector<T>];

  MW_DEVICE static int depth() { return static_cast<int>(threadIdx.x) % kVectors * kVector<T>; }
  MW_DEVICE static int line(int turn) { return static_cast<int>(threadIdx.x) / kVectors + turn * kAtOnce; }
  // The thread's vectors from place `k` of the depth on, whose lower digits have the radices; then k moves by `step`.
  // all.element(turn, place) is where an element lies, null where it is 0. An element's address costs more than its
  // load: with vectors it is found once for all of a vector, which lies within one tap.
  template <class Lines>
  MW_DEVICE static void fetch_along(Lines& all, Fetched& to, int middle_radix, int low_radix) {
    clear(to);
    Digits each = all.k;
    if (all.vectors) {
      MW_UNROLL
      for (int t = 0; t < kTurns; ++t)
        if (const T* from = all.element(t, each)) load(from, to[t]);
    } else {
      MW_UNROLL
      for (int e = 0; e < kVector<T>; ++e) {
        MW_UNROLL
        for (int t = 0; t < kTurns; ++t)
          if (const T* from = all.element(t, each)) to[t][e] = *from;
        each.increment(middle_radix, low_radix);
      }
    }
    all.k.advance(all.step, middle_radix, low_radix);
  }
  MW_DEVICE static void keep(const Fetched& fetched, Shared<T>* shared) {
    MW_UNROLL
    for (int t = 0; t < kTurns; ++t) {
      if (line(t) >= lines) break;
      if constexpr (kTensor<T>) {
        store(shared + line(t) * (kDepth<T> + kPad<T>)+depth(), fetched[t]);
      } else {
        MW_UNROLL
        for (int e = 0; e < kVector<T>; ++e)
          shared[(depth() + e) * (lines + kPad<T>)+line(t)] = static_cast<Wide<T>>(fetched[t][e]);
      }
    }
  }
};

// The same with vectors across lines.
template <class T, int lines>
struct AcrossDepth {
  static constexpr bool kAlong = false;
  static constexpr int kVectors = lines / kVector<T>, kAtOnce = kThreads / kVectors;
  static constexpr int kTurns = kDepth<T> > kAtOnce ? kDepth<T> / kAtOnce : 1;
  static constexpr int kStep = kDepth<T> / kTurns;  // of the depth, from one turn to the next
  static constexpr int kShared = kDepth<T> * (lines + kPad<T>);
  using Fetched = T[kTurns][kVector<T>];

  MW_DEVICE static int depth(int turn) { return static_cast<int>(threadIdx.x) / kVectors + turn * kAtOnce; }
  MW_DEVICE static int line() { return static_cast<int>(threadIdx.x) % kVectors * kVector<T>; }
  MW_DEVICE static void keep(const Fetched& fetched, Shared<T>* shared) {
    MW_UNROLL
    for (int t = 0; t < kTurns; ++t) {
      if (depth(t) >= kDepth<T>) break;
      Shared<T> kept[kVector<T>];
      MW_UNROLL
      for (int e = 0; e < kVector<T>; ++e) kept[e] = static_cast<Shared<T>>(fetched[t][e]);
      store(shared + depth(t) * (lines + kPad<T>)+line(), kept);
    }
  }
};

// Results as lines, (tap, channel of the source) as depth: x forward, dy backward. A thread finds the places of its
// lines once; of each tap it then needs only whether source place + tap lies inside.
template <class T, int lines, bool backward>
struct GatheredLines : AlongDepth<T, lines> {
  using Base = AlongDepth<T, lines>;
  const T* image[Base::kTurns];  // null: a line beyond the last result
  int row[Base::kTurns], column[Base::kTurns];
  int rows, columns, channels, stride;  // of the source; elements from place to place
  int row_taps, column_taps;
  Digits k, step;  // (row tap, column tap, channel)
  bool vectors;

  MW_DEVICE void fetch(typename Base::Fetched& to) { Base::fetch_along(*this, to, column_taps, channels); }
  MW_DEVICE const T* element(int turn, const Digits& at) const {
    const int i = source_at<backward>(row[turn], at.high), j = source_at<backward>(column[turn], at.middle);
    const bool exists = image[turn] != nullptr && at.high < row_taps && inside(i, rows) && inside(j, columns);
    if (!exists) return nullptr;
    return image[turn] + (static_cast<std::int64_t>(i) * columns + j) * stride + at.low;
  }
};

// Backward: channels of dx as lines, (tap, channel of dy) as depth.
template <class T, int lines>
struct FilterLines : AlongDepth<T, lines> {
  using Base = AlongDepth<T, lines>;
  const T* filter;  // (rows.size, columns.size, in, out)
  int first, in, out, width;
  Taps row_taps, column_taps;
  Digits k, step;
  bool vectors;

  MW_DEVICE void fetch(typename Base::Fetched& to) { Base::fetch_along(*this, to, column_taps.count, out); }
  MW_DEVICE const T* element(int turn, const Digits& at) const {
    const int channel = first + Base::line(turn);
    if (channel >= in || at.high >= row_taps.count) return nullptr;
    const std::int64_t tap = static_cast<std::int64_t>(row_taps.first + at.high * row_taps.step) * width +
                             (column_taps.first + at.middle * column_taps.step);
    return filter + (tap * in + channel) * out + at.low;
  }
};

// A matrix as it lies: w forward, dy backward.
template <class T, int lines>
struct PlainColumns : AcrossDepth<T, lines> {
  using Base = AcrossDepth<T, lines>;
  const T* matrix;
  std::int64_t stride, k, end;  // elements from depth to depth; where the next fetch begins, where the last ends
  int first, columns;
  bool vectors;

  MW_DEVICE void fetch(typename Base::Fetched& to) {
    clear(to);
    const int line = first + Base::line();
    MW_UNROLL
    for (int t = 0; t < Base::kTurns; ++t) {
      const std::int64_t at = k + Base::depth(t);
      if (at >= end || line >= columns || Base::depth(t) >= kDepth<T>) continue;
      const T* from = matrix + at * stride + line;
      if (vectors) {
        load(from, to[t]);
        continue;
      }
      MW_UNROLL
      for (int e = 0; e < kVector<T>; ++e) {
        if (line + e < columns) to[t][e] = from[e];
      }
    }
    k += kDepth<T>;
  }
};

// Backward of the weight: (tap, channel) of x as lines, places of y as depth. A thread's lines stay, and its place
// walks through y; the element of x is at place * stride - before + tap, or in the padding.
template <class T, int lines>
struct GatheredColumns : AcrossDepth<T, lines> {
  using Base = AcrossDepth<T, lines>;
  const T* x;
  Side rows, columns;
  std::int64_t stride;  // elements from place to place
  int channels;
  Digits first;        // (row tap, column tap, channel): the first of the vector
  Digits place, step;  // (image, row, column) of y
  std::int64_t k, end;
  bool vectors;

  MW_DEVICE void fetch(typename Base::Fetched& to) {
    clear(to);
    MW_UNROLL
    for (int t = 0; t < Base::kTurns; ++t) {
      if (k < end && Base::depth(t) < kDepth<T>) {
        if (vectors) {
          if (const T* from = element(first)) load(from, to[t]);
        } else {
          Digits each = first;
          MW_UNROLL
          for (int e = 0; e < kVector<T>; ++e) {
            if (const T* from = element(each)) to[t][e] = *from;
            each.increment(columns.size, channels);
          }
        }
      }
      k += Base::kStep;
      place.advance(step, rows.to, columns.to);
    }
  }
  MW_DEVICE const T* element(const Digits& at) const {
    const int i = place.middle * rows.stride - rows.before + at.high;
    const int j = place.low * columns.stride - columns.before + at.middle;
    if (at.high >= rows.size || !inside(i, rows.from) || !inside(j, columns.from)) return nullptr;
    return x + ((static_cast<std::int64_t>(place.high) * rows.from + i) * columns.from + j) * stride + at.low;
  }
};

}  // namespace meshwright::kernels::cuda::convolving
