// SPDX-License-Identifier: Apache-2.0
// Convolutions of groups of few channels (depthwise ones have one): a lane has a channel of the result, a warp walks
// along a row, and what is read again lies in the caches.
#include <algorithm>

#include "kernels/cuda/convolution/convolution_walks.h"

namespace meshwright::kernels::cuda::convolving {

namespace {

constexpr int kWarps = 8;
constexpr int kPlaces =
    4;  // results, or column taps, that a lane sums at once: one read of a weight, or of dy, for all

// Lanes have neighbouring channels, so that a warp reads and writes whole lines of memory. A weight that a lane has
// read serves kPlaces neighbouring results of its row; the elements of the source that these share come from the first
// cache.
//
// blockIdx.x is a tile of 32 channels of the result and a share of its rows' pieces. Filters lie in shared memory as
// (tap, channel of the source, channel of the result).
template <class T, bool backward>
__global__ void __launch_bounds__(kWarp* kWarps)
    convolve(Sizes s, const T* source, const T* w, T* result, std::int64_t shares) {
  using W = Wide<T>;
  MW_DYNAMIC_SHARED(W, filters);
  const int deep = backward ? s.out : s.in, wide = backward ? s.in : s.out;
  const int rows = sources_of<backward>(s.rows), columns = sources_of<backward>(s.columns);
  const std::int64_t channels = static_cast<std::int64_t>(s.groups) * wide;
  const std::int64_t source_stride = static_cast<std::int64_t>(s.groups) * deep;
  const int lane = static_cast<int>(threadIdx.x);
  const std::int64_t channel = blockIdx.x / shares * kWarp + lane;
  const bool exists = channel < channels;
  const int group = exists ? static_cast<int>(channel / wide) : 0, own = exists ? static_cast<int>(channel % wide) : 0;
  const int taps = s.rows.size * s.columns.size;
  for (int i = static_cast<int>(threadIdx.y); i < taps * deep; i += kWarps) {
    const std::int64_t tap = static_cast<std::int64_t>(group) * taps + i / deep;
    const std::int64_t at = backward ? (tap * s.in + own) * s.out + i % deep : (tap * s.in + i % deep) * s.out + own;
    filters[i * kWarp + lane] = static_cast<W>(w[at]);
  }
  __syncthreads();
  if (!exists) return;
  const int phases = backward ? s.columns.stride : 1, source_step = backward ? 1 : s.columns.stride;
  const int pieces = (phase_of<backward>(s.columns, 0).count + kPlaces) / kPlaces;  // of a phase: one is longer by 1
  const std::int64_t items = s.batch * results_of<backward>(s.rows) * phases * pieces;
  for (std::int64_t item = blockIdx.x % shares * kWarps + threadIdx.y; item < items; item += shares * kWarps) {
    std::int64_t rest = item;
    const int piece = last_digit(rest, pieces) * kPlaces;
    const Phase phase = phase_of<backward>(s.columns, last_digit(rest, phases));
    if (piece >= phase.count) continue;
    const int row = last_digit(rest, results_of<backward>(s.rows));
    const Taps row_taps = taps_of<backward>(s.rows, row);
    const Taps column_taps = taps_of<backward>(s.columns, phase.first + piece * phase.step);
    W sums[kPlaces] = {};
    for (int u = 0; u < row_taps.count; ++u) {
      const int i = source_at<backward>(row_taps.source, u);
      if (!inside(i, rows)) continue;
      const T* line = source + (rest * rows + i) * columns * source_stride + static_cast<std::int64_t>(group) * deep;
      for (int v = 0; v < column_taps.count; ++v) {
        const int first = source_at<backward>(column_taps.source, v);
        const int tap =
            (row_taps.first + u * row_taps.step) * s.columns.size + column_taps.first + v * column_taps.step;
        for (int c = 0; c < deep; ++c) {
          const W filter = filters[(tap * deep + c) * kWarp + lane];
          MW_UNROLL
          for (int q = 0; q < kPlaces; ++q) {
            const int j = first + q * source_step;
            if (inside(j, columns)) sums[q] += filter * static_cast<W>(line[j * source_stride + c]);
          }
        }
      }
    }
    const std::int64_t out_row = (rest * results_of<backward>(s.rows) + row) * results_of<backward>(s.columns);
    MW_UNROLL
    for (int q = 0; q < kPlaces; ++q)
      if (piece + q < phase.count)
        result[(out_row + phase.first + (piece + q) * phase.step) * channels + channel] = T(sums[q]);
  }
}

// A gradient that a lane has read serves kPlaces column taps. The warps of a block take rows in turns; their sums are
// added in the order of the warps, and the parts' by add_parts.
//
// blockIdx.x is a part of the rows of y, a row tap with kPlaces column taps, a channel of x in its group, and a tile of
// 32 channels of y, from the highest digit to the lowest.
template <class T>
__global__ void __launch_bounds__(kWarp* kWarps)
    weigh(Sizes s, const T* x, const T* dy, Wide<T>* sums, std::int64_t parts) {
  using W = Wide<T>;
  MW_SHARED W of_warps[kWarps][kPlaces][kWarp];
  const std::int64_t channels = static_cast<std::int64_t>(s.groups) * s.out;
  const std::int64_t x_stride = static_cast<std::int64_t>(s.groups) * s.in;
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  std::int64_t rest = blockIdx.x;
  const std::int64_t tiles = (channels + kWarp - 1) / kWarp, channel = rest % tiles * kWarp + lane;
  rest /= tiles;
  const int c = last_digit(rest, s.in);
  const int first_tap = last_digit(rest, (s.columns.size + kPlaces - 1) / kPlaces) * kPlaces;
  const int row_tap = last_digit(rest, s.rows.size);
  const bool exists = channel < channels;
  const std::int64_t group = exists ? channel / s.out : 0, own = exists ? channel % s.out : 0;
  W total[kPlaces] = {};
  const std::int64_t rows = s.batch * s.rows.to, end = rows * (rest + 1) / parts;
  for (std::int64_t row = rows * rest / parts + warp; exists && row < end; row += kWarps) {
    std::int64_t image = row;
    const int i = last_digit(image, s.rows.to) * s.rows.stride - s.rows.before + row_tap;
    if (!inside(i, s.rows.from)) continue;
    const T* line = x + (image * s.rows.from + i) * s.columns.from * x_stride + group * s.in + c;
    const T* gradients = dy + row * s.columns.to * channels + channel;
    for (int j = 0; j < s.columns.to; ++j) {
      const W gradient = static_cast<W>(gradients[j * channels]);
      const int first = j * s.columns.stride - s.columns.before + first_tap;
      MW_UNROLL
      for (int q = 0; q < kPlaces; ++q)
        if (first_tap + q < s.columns.size && inside(first + q, s.columns.from))
          total[q] += gradient * static_cast<W>(line[(first + q) * x_stride]);
    }
  }
  MW_UNROLL
  for (int q = 0; q < kPlaces; ++q) of_warps[warp][q][lane] = total[q];
  __syncthreads();
  if (!exists || warp >= kPlaces || first_tap + warp >= s.columns.size) return;
  W sum = 0;
  for (int other = 0; other < kWarps; ++other) sum += of_warps[other][warp][lane];
  const std::int64_t tap = ((rest * s.groups + group) * s.rows.size + row_tap) * s.columns.size + first_tap + warp;
  sums[(tap * s.in + c) * s.out + own] = sum;
}

constexpr std::int64_t kBlocks = 2048;  // that fill any GPU

}  // namespace

template <bool backward, class T>
void convolve_narrow(Stream stream, const T* source, const T* w, T* result, const ConvolutionShape& shape) {
  const Sizes s = sizes_of(shape);
  const std::int64_t tiles = ceil_div(shape.groups * (backward ? shape.in : shape.out), kWarp);
  const std::int64_t items =
      s.batch * results_of<backward>(s.rows) * ceil_div(results_of<backward>(s.columns), kPlaces);
  const std::int64_t shares =
      std::max<std::int64_t>(1, std::min(ceil_div(items, 2 * kWarps), ceil_div(kBlocks, tiles)));
  const auto shared =
      static_cast<std::size_t>(shape.rows.size * shape.columns.size * (backward ? shape.out : shape.in));
  launch("convolution of narrow groups", convolve<T, backward>, {tiles * shares, 1, 1}, {kWarp, kWarps, 1},
         shared * kWarp * sizeof(Wide<T>), stream, s, source, w, result, shares);
}

std::int64_t narrow_weight_part_count(const ConvolutionShape& s) {
  const std::int64_t blocks =
      ceil_div(s.groups * s.out, kWarp) * s.in * ceil_div(s.columns.size, kPlaces) * s.rows.size;
  return std::max<std::int64_t>(1, std::min(ceil_div(kBlocks, blocks), s.batch * s.rows.to / kWarps));
}

template <class T>
void narrow_weight_parts(Stream stream, const T* x, const T* dy, Wide<T>* sums, const ConvolutionShape& shape,
                         std::int64_t parts) {
  const std::int64_t blocks = ceil_div(shape.groups * shape.out, kWarp) * shape.in *
                              ceil_div(shape.columns.size, kPlaces) * shape.rows.size * parts;
  launch("weights of narrow groups", weigh<T>, {blocks, 1, 1}, {kWarp, kWarps, 1}, 0, stream, sizes_of(shape), x, dy,
         sums, parts);
}

#define MW_INSTANTIATE(T)                                                                           \
  template void convolve_narrow<false, T>(Stream, const T*, const T*, T*, const ConvolutionShape&); \
  template void convolve_narrow<true, T>(Stream, const T*, const T*, T*, const ConvolutionShape&);  \
  template void narrow_weight_parts<T>(Stream, const T*, const T*, Wide<T>*, const ConvolutionShape&, std::int64_t);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda::convolving
