// SPDX-License-Identifier: Apache-2.0
// The sums of products that a block of a convolution makes of tiles in shared memory, in registers. Internal to
// kernels/cuda/convolution/convolution.cu.
#pragma once

#include "kernels/cuda/blocks/mma.h"
#include "kernels/cuda/convolution/convolution_tiles.h"

namespace meshwright::kernels::cuda::convolving {

// What a block does: `steps` of kDepth each, into rows of `out` at offsets that the problem tells, of `columns`
// columns.
template <class Out>
struct Task {
  bool exists = false;
  std::int64_t steps = 0;
  Out* out = nullptr;
  int columns = 0;
};

// `from` lies together, from column n on; of them those before the last column.
template <int count, class Out, class W>
MW_DEVICE void write_rounded(const Task<Out>& task, std::int64_t offset, int n, const W (&from)[count], bool vectors) {
  if (n >= task.columns) return;
  Out rounded[count];
  MW_UNROLL
  for (int e = 0; e < count; ++e) rounded[e] = static_cast<Out>(from[e]);
  Out* to = task.out + offset + n;
  if (vectors) return store(to, rounded);
  MW_UNROLL
  for (int e = 0; e < count; ++e)
    if (n + e < task.columns) to[e] = rounded[e];
}

// Both operands lie depth by depth. A thread has fours of lines and columns, which are as many fours apart as there are
// threads along that side: neighbouring threads read neighbouring 16 bytes, without bank conflicts.
template <class T, class Tile>
struct PlainSums {
  using W = Wide<T>;
  const int thread = static_cast<int>(threadIdx.x);
  W sums[Tile::thread_m][Tile::thread_n / 4][4] = {};

  MW_DEVICE int own_m() const { return thread / Tile::threads_n * 4; }
  MW_DEVICE int own_n() const { return thread % Tile::threads_n * 4; }
  MW_DEVICE void multiply(const W* left, const W* right) {
    MW_UNROLL
    for (int k = 0; k < kDepth<T>; ++k) {
      W a[Tile::thread_m / 4][4], b[Tile::thread_n / 4][4];
      MW_UNROLL
      for (int g = 0; g < Tile::thread_m / 4; ++g)
        load(left + k * (Tile::m + kPad<T>)+g * Tile::threads_m * 4 + own_m(), a[g]);
      MW_UNROLL
      for (int g = 0; g < Tile::thread_n / 4; ++g)
        load(right + k * (Tile::n + kPad<T>)+g * Tile::threads_n * 4 + own_n(), b[g]);
      MW_UNROLL
      for (int i = 0; i < Tile::thread_m; ++i) {
        MW_UNROLL
        for (int j = 0; j < Tile::thread_n; ++j) sums[i][j / 4][j % 4] += a[i / 4][i % 4] * b[j / 4][j % 4];
      }
    }
  }
  template <class Out>
  MW_DEVICE void write(const std::int64_t* offsets, const Task<Out>& task, bool vectors) const {
    MW_UNROLL
    for (int i = 0; i < Tile::thread_m; ++i) {
      const std::int64_t offset = offsets[i / 4 * Tile::threads_m * 4 + own_m() + i % 4];
      if (offset < 0) continue;
      MW_UNROLL
      for (int g = 0; g < Tile::thread_n / 4; ++g)
        write_rounded(task, offset, g * Tile::threads_n * 4 + own_n(), sums[i][g], vectors);
    }
  }
};

// On tensor cores. Each operand lies line by line (`along` its depth) or depth by depth.
template <class T, class Tile, bool left_along, bool right_along>
struct TensorSums {
  static constexpr int kDown = Tile::m / Tile::warps_m / 16, kAcross = Tile::n / Tile::warps_n / 8;
  const int thread = static_cast<int>(threadIdx.x);
  float sums[kDown][kAcross][4] = {};

  MW_DEVICE int lane() const { return thread % kWarp; }
  MW_DEVICE int own_m() const { return thread / kWarp / Tile::warps_n * (Tile::m / Tile::warps_m); }
  MW_DEVICE int own_n() const { return thread / kWarp % Tile::warps_n * (Tile::n / Tile::warps_n); }
  // Row lane % 8 of a matrix (8, 8) whose first element is (line, k).
  template <bool along, int lines>
  MW_DEVICE const T* row(const T* tile, int line, int k) const {
    const int within = lane() % 8;
    return along ? tile + (line + within) * (kDepth<T> + kPad<T>)+k : tile + (k + within) * (lines + kPad<T>)+line;
  }
  // The four matrices of a load are a[0] .. a[3] of mma.h: lanes 8..15 name the second eight lines, lanes 16..31 the
  // second eight of the depth. Of the right operand they are b[0] and b[1] of two fragments: there lanes 8..15 name the
  // second eight of the depth, and lanes 16..31 the next fragment's columns. mma.h wants the depth along a row of a
  // matrix; an operand that lies depth by depth is transposed by the load.
  MW_DEVICE void multiply(const T* left, const T* right) {
    const int second = lane() / 8 % 2 * 8, third = lane() / 16 * 8;
    MW_UNROLL
    for (int k = 0; k < kDepth<T>; k += 16) {
      std::uint32_t a[kDown][4];
      MW_UNROLL
      for (int i = 0; i < kDown; ++i)
        load_matrices<!left_along>(a[i], row<left_along, Tile::m>(left, own_m() + 16 * i + second, k + third));
      MW_UNROLL
      for (int j = 0; j < kAcross; j += 2) {
        std::uint32_t b[4];
        load_matrices<!right_along>(b, row<right_along, Tile::n>(right, own_n() + 8 * j + third, k + second));
        MW_UNROLL
        for (int i = 0; i < kDown; ++i) {
          multiply_add<T>(sums[i][j], a[i], b[0], b[1]);
          multiply_add<T>(sums[i][j + 1], a[i], b[2], b[3]);
        }
      }
    }
  }
  template <class Out>
  MW_DEVICE void write(const std::int64_t* offsets, const Task<Out>& task, bool vectors) const {
    MW_UNROLL
    for (int i = 0; i < 2 * kDown; ++i) {
      const std::int64_t offset = offsets[own_m() + 8 * i + lane() / 4];
      if (offset < 0) continue;
      MW_UNROLL
      for (int j = 0; j < kAcross; ++j) {
        const float pair[2] = {sums[i / 2][j][i % 2 * 2], sums[i / 2][j][i % 2 * 2 + 1]};
        write_rounded(task, offset, own_n() + 8 * j + lane() % 4 * 2, pair, vectors);
      }
    }
  }
};

template <class T, class Tile, bool left_along, bool right_along>
using Sums = std::conditional_t<kTensor<T>, TensorSums<T, Tile, left_along, right_along>, PlainSums<T, Tile>>;

}  // namespace meshwright::kernels::cuda::convolving
