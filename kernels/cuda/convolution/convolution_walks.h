// SPDX-License-Identifier: Apache-2.0
// Which elements meet in a convolution, as its kernels walk them. Internal to the convolutions of this folder.
//
// Forward and backward of the input are one thing: a result (y, dx) gathers from a source (x, dy) through taps of the
// window. Forward, every result meets all taps. Backward, result i meets those taps k that are (i + before) modulo the
// stride, at source (i + before - k) / stride: results with one remainder, a phase, meet the same taps.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/cpu/convolution/convolution.h"
#include "kernels/cuda/blocks/launch.h"
#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda::convolving {

// Windows along one spatial dimension; sizes of one dimension fit into 32 bits.
// x has `from` places and y has `to`. A window has `size` taps and moves by `stride` places; `before` places of padding
// are in front of the first.
struct Side {
  int from = 1, to = 1, size = 1, stride = 1, before = 0;
};
// `in` and `out`: channels of one group.
struct Sizes {
  std::int64_t batch;
  int groups, in, out;
  Side rows, columns;
};

inline int narrowed(std::int64_t size) {
  if (size > std::numeric_limits<int>::max() / 2) throw Failure("a convolution with a dimension of 2^30 or more");
  return static_cast<int>(size);
}
inline Side side_of(const Windows& w) {
  return {narrowed(w.from), narrowed(w.to), narrowed(w.size), narrowed(w.stride), narrowed(w.before)};
}
inline Sizes sizes_of(const ConvolutionShape& s) {
  return {s.batch, narrowed(s.groups), narrowed(s.in), narrowed(s.out), side_of(s.rows), side_of(s.columns)};
}

// Takes the last digit off: of a number that is less than 2^32 as a rule.
MW_DEVICE int last_digit(std::int64_t& number, int radix) {
  if (number < (std::int64_t{1} << 32)) {
    const auto small = static_cast<std::uint32_t>(number), by = static_cast<std::uint32_t>(radix);
    number = small / by;
    return static_cast<int>(small % by);
  }
  const std::int64_t rest = number % radix;
  number /= radix;
  return static_cast<int>(rest);
}

// A number of three digits, that walks on in steps of another.
struct Digits {
  int high = 0, middle = 0, low = 0;

  MW_DEVICE static Digits of(std::int64_t number, int middle_radix, int low_radix) {
    Digits digits;
    digits.low = last_digit(number, low_radix);
    digits.middle = last_digit(number, middle_radix);
    digits.high = static_cast<int>(number);
    return digits;
  }
  // REQUIRES: the middle and low digits of both are less than their radix.
  MW_DEVICE void advance(const Digits& step, int middle_radix, int low_radix) {
    low += step.low;
    int carry = low >= low_radix ? 1 : 0;
    low -= carry * low_radix;
    middle += step.middle + carry;
    carry = middle >= middle_radix ? 1 : 0;
    middle -= carry * middle_radix;
    high += step.high + carry;
  }
  MW_DEVICE void increment(int middle_radix, int low_radix) {
    if (++low < low_radix) return;
    low = 0;
    if (++middle < middle_radix) return;
    middle = 0;
    ++high;
  }
};

// --- results and their taps, along one spatial dimension ---

// Places of the result: y forward, dx backward. Those of the source are the other's.
template <bool backward>
MW_BOTH int results_of(const Side& s) {
  return backward ? s.from : s.to;
}
template <bool backward>
MW_BOTH int sources_of(const Side& s) {
  return backward ? s.to : s.from;
}

// Results of one phase: first, first + step, ...
struct Phase {
  int first, step, count;
};
template <bool backward>
MW_DEVICE Phase phase_of(const Side& s, int phase) {
  if (!backward) return {0, 1, s.to};
  const int shifted = (phase - s.before) % s.stride, first = shifted < 0 ? shifted + s.stride : shifted;
  return {first, s.stride, first < s.from ? (s.from - first + s.stride - 1) / s.stride : 0};
}

// Taps first, first + step, ... of the window: the u-th at source + u forward, at source - u backward.
struct Taps {
  int first, step, count, source;
};
template <bool backward>
MW_DEVICE Taps taps_of(const Side& s, int result) {
  if (!backward) return {0, 1, s.size, result * s.stride - s.before};
  const int first = (result + s.before) % s.stride;
  return {first, s.stride, first < s.size ? (s.size - first + s.stride - 1) / s.stride : 0,
          (result + s.before) / s.stride};
}
template <bool backward>
MW_DEVICE int source_at(int source, int u) {
  return backward ? source - u : source + u;
}
MW_DEVICE bool inside(int place, int count) { return static_cast<unsigned>(place) < static_cast<unsigned>(count); }

// --- groups of few channels: kernels/cuda/convolution/convolution_narrow.cu ---

template <bool backward, class T>
void convolve_narrow(Stream stream, const T* source, const T* w, T* result, const ConvolutionShape& shape);

// Sums of `parts` parts of the places of y: parts one after the other, each as large as a weight.
template <class T>
void narrow_weight_parts(Stream stream, const T* x, const T* dy, Wide<T>* sums, const ConvolutionShape& shape,
                         std::int64_t parts);
[[nodiscard]] std::int64_t narrow_weight_part_count(const ConvolutionShape& shape);

}  // namespace meshwright::kernels::cuda::convolving
