// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/rotary.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/attention/rotary.h"
#include "kernels/cuda/blocks/packs.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kPairs = 256;  // of a head that a launch turns

// The pairs begin..end, with the angles of a position on from another.
struct Frequencies {
  std::int64_t begin, end;
  double of[kPairs];
};

template <class W>
struct alignas(16) Angles {
  W cosine[kPairs], sine[kPairs];
};

// By all threads of the block.
template <class W>
MW_DEVICE void find_angles(const Frequencies& frequencies, double position, double amplitude, Angles<W>& angles) {
  // Angles are computed in double: near position 10^5, float would round an angle by up to 0.004.
  const auto pairs = static_cast<int>(frequencies.end - frequencies.begin);
  for (int j = static_cast<int>(threadIdx.x); j < pairs; j += static_cast<int>(blockDim.x)) {
    angles.cosine[j] = static_cast<W>(amplitude * std::cos(position * frequencies.of[j]));
    angles.sine[j] = static_cast<W>(amplitude * std::sin(position * frequencies.of[j]));
  }
}

template <class T, class W>
MW_DEVICE void turn(T& left, T& right, W cosine, W sine) {
  const W a = widened(left), b = widened(right);
  left = T(a * cosine - b * sine);
  right = T(b * cosine + a * sine);
}

// Pair i is the elements i of both.
template <int n, class T, class W>
MW_DEVICE void turn_halves(T (&left)[n], T (&right)[n], const W (&cosine)[n], const W (&sine)[n]) {
  MW_UNROLL
  for (int i = 0; i < n; ++i) turn(left[i], right[i], cosine[i], sine[i]);
}

// Pair i is the elements 2 i and 2 i + 1 of the one behind the other.
template <int n, class T, class W>
MW_DEVICE void turn_neighbours(T (&left)[n], T (&right)[n], const W (&cosine)[n], const W (&sine)[n]) {
  const auto at = [&](int i) -> T& { return i < n ? left[i] : right[i - n]; };
  MW_UNROLL
  for (int i = 0; i < n; ++i) turn(at(2 * i), at(2 * i + 1), cosine[i], sine[i]);
}

constexpr int kTurn = 4;  // heads that a thread has under way at once

// Block (x, y) has positions x, x + gridDim.x, ... of the heads that are y-th of gridDim.y parts of (batch, heads); a
// head is `lanes` threads', each of which has n of the pairs or none.
template <class T, int n>
__global__ void __launch_bounds__(kThreads, 3)
    rotary_kernel(const T* x, T* out, RotaryShape shape, Frequencies frequencies, bool back, int lanes) {
  using W = Wide<T>;
  MW_SHARED Angles<W> angles;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const unsigned groups = blockDim.x / static_cast<unsigned>(lanes), heads = static_cast<unsigned>(shape.heads);
  const unsigned all = static_cast<unsigned>(shape.batch) * heads, part = (all + gridDim.y - 1) / gridDim.y;
  const unsigned last = part * (blockIdx.y + 1) < all ? part * (blockIdx.y + 1) : all;
  const std::int64_t half = shape.rotary_dims / 2, begin = frequencies.begin, j = begin + lane * n;
  const bool turns = j < frequencies.end;
  // The heads are the inner loop: the angles of a position are computed once for all heads of the block.
  for (std::int64_t s = blockIdx.x; s < shape.seq; s += gridDim.x) {
    const auto place = [&](unsigned head) {
      return ((head / heads * shape.seq + s) * shape.heads + head % heads) * shape.head_dim;
    };
    // n pairs are n elements of each half or, interleaved, 2 n neighbours.
    const std::int64_t at_left = shape.interleaved ? 2 * j : j, at_right = shape.interleaved ? 2 * j + n : j + half;
    T left[kTurn][n], right[kTurn][n];
    const auto read = [&](unsigned first) {
      MW_UNROLL
      for (unsigned k = 0; k < kTurn; ++k) {
        const unsigned head = first + k * groups;
        if (head >= last || !turns) continue;
        load_pack<n>(x + place(head) + at_left, left[k]);
        load_pack<n>(x + place(head) + at_right, right[k]);
      }
    };
    unsigned first = part * blockIdx.y + threadIdx.x / static_cast<unsigned>(lanes);
    read(first);  // on its way while the angles are computed
    find_angles(frequencies, static_cast<double>(shape.first + s) * (back ? -1.0 : 1.0), shape.amplitude, angles);
    __syncthreads();
    for (; first < last; first += kTurn * groups, read(first)) {
      W cosine[n], sine[n];
      if (turns) {
        load_pack<n>(angles.cosine + lane * n, cosine);
        load_pack<n>(angles.sine + lane * n, sine);
      }
      MW_UNROLL
      for (unsigned k = 0; k < kTurn; ++k) {
        const unsigned head = first + k * groups;
        if (head >= last) continue;
        const std::int64_t at = place(head);
        if (turns) {
          if (shape.interleaved)
            turn_neighbours<n>(left[k], right[k], cosine, sine);
          else
            turn_halves<n>(left[k], right[k], cosine, sine);
          store_pack<n>(out + at + at_left, left[k]);
          store_pack<n>(out + at + at_right, right[k]);
        }
        // The first launch also copies what is not rotated; in place nothing is to be copied.
        if (begin > 0 || x == out) continue;
        for (std::int64_t rest = shape.rotary_dims + lane * n; rest < shape.head_dim;
             rest += static_cast<std::int64_t>(lanes) * n) {
          T same[n];
          load_pack<n>(x + at + rest, same);
          store_pack<n>(out + at + rest, same);
        }
      }
    }
    // The next position overwrites the angles.
    __syncthreads();
  }
}

Frequencies frequencies_of(const RotaryShape& shape, std::int64_t begin) {
  Frequencies made{begin, std::min(begin + kPairs, shape.rotary_dims / 2), {}};
  const kernels::RotaryShape same{shape.batch, shape.seq,  shape.heads,    shape.head_dim,  shape.rotary_dims,
                                  shape.first, shape.base, shape.divisors, shape.amplitude, shape.interleaved};
  for (std::int64_t j = begin; j < made.end; ++j) made.of[j - begin] = same.frequency(j);
  return made;
}

template <class T, int n>
void start(Stream stream, const T* x, T* out, const RotaryShape& shape, bool back) {
  // As many parts as fill a GPU, each with something for every thread.
  constexpr std::int64_t kBlocks = 2048;
  int lanes = 1;
  while (lanes * n < std::min<std::int64_t>(shape.rotary_dims / 2, kPairs) && lanes < kThreads) lanes *= 2;
  const std::int64_t positions = std::min<std::int64_t>(shape.seq, 1 << 20), heads = shape.batch * shape.heads;
  const std::int64_t wanted = std::max<std::int64_t>(1, kBlocks / positions);
  const std::int64_t parts =
      std::clamp<std::int64_t>(heads * lanes / kThreads, 1, std::min<std::int64_t>(wanted, shape.batch));
  // `begin == 0`: with no rotated elements, one launch still copies the others.
  for (std::int64_t begin = 0; begin < shape.rotary_dims / 2 || begin == 0; begin += kPairs)
    launch("rotary", rotary_kernel<T, n>, {positions, parts}, {kThreads}, 0, stream, x, out, shape,
           frequencies_of(shape, begin), back, lanes);
}

}  // namespace

template <class T>
void rotary(Stream stream, const T* x, T* out, RotaryShape shape, bool back) {
  constexpr int kN = kAtOnce<T>;
  if (shape.rotary_dims / 2 % kN == 0 && shape.head_dim % kN == 0 && lies_well<kN>(x) && lies_well<kN>(out))
    start<T, kN>(stream, x, out, shape, back);
  else
    start<T, 1>(stream, x, out, shape, back);
}

template void rotary<float>(Stream, const float*, float*, RotaryShape, bool);
template void rotary<double>(Stream, const double*, double*, RotaryShape, bool);
template void rotary<Bf16>(Stream, const Bf16*, Bf16*, RotaryShape, bool);
template void rotary<F16>(Stream, const F16*, F16*, RotaryShape, bool);

}  // namespace meshwright::kernels::cuda
