// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/elementwise/bias.h"

#include <algorithm>

#include "kernels/cuda/blocks/groups.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kThreads = 256;
// Blocks that keep a GPU's memory busy, and rows that make a slice of their own worth its partial sums.
constexpr std::int64_t kBlocks = 512, kSliceRows = 64;

// Threads of a block side by side over groups of columns, the others below them on further rows.
struct Columns {
  int across;           // threads, a power of two
  std::int64_t blocks;  // side by side
  int down() const { return kThreads / across; }
};
Columns columns_for(std::int64_t groups, int max_across = kWarp) {
  int across = 1;
  while (across < max_across && across < groups) across *= 2;
  return {across, ceil_div(groups, across)};
}

template <class T>
bool rows_lie_well(const T* data, std::int64_t width) {
  constexpr int kGroup = group_of<T>();
  return lies_well<kGroup>(data) && width % kGroup == 0;
}

// Beyond the bias's width -0 is added, which changes nothing, not even 0's sign.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_to_columns(const T* x, const T* bias, T* out, std::int64_t rows, std::int64_t columns, std::int64_t width,
                   std::int64_t bias_width, bool well) {
  constexpr int kGroup = group_of<T>();
  const std::int64_t column = thread_of_grid() * kGroup;
  if (column >= columns) return;
  const int count = columns - column < kGroup ? static_cast<int>(columns - column) : kGroup;
  Wide<T> added[kGroup];
  MW_UNROLL
  for (int i = 0; i < kGroup; ++i)
    added[i] = column + i < bias_width ? static_cast<Wide<T>>(bias[column + i]) : Wide<T>(-0.0);
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y; row < rows; row += stride) {
    T values[kGroup];
    load_group(x + row * width + column, values, count, well);
    MW_UNROLL
    for (int i = 0; i < kGroup; ++i) values[i] = T(static_cast<Wide<T>>(values[i]) + added[i]);
    store_group(out + row * width + column, values, count, well);
  }
}

// A thread sums its columns in registers over every `down`-th row; four rows are loaded before the first is added.
//
// Sums over the rows of slice blockIdx.y. Those of threads one below the other are added up from top to bottom.
template <class T, class Out>
__global__ void __launch_bounds__(kThreads)
    sum_columns(const T* dy, Out* out, std::int64_t rows, std::int64_t slice_rows, std::int64_t width,
                std::int64_t bias_width, bool well) {
  constexpr int kGroup = group_of<T>(), kTurn = 4;
  MW_SHARED Wide<T> sums[kThreads * kGroup];
  const std::int64_t column = thread_of_grid() * kGroup;
  const int across = static_cast<int>(blockDim.x), down = static_cast<int>(blockDim.y);
  const int below = static_cast<int>(threadIdx.y);
  const std::int64_t left = bias_width - column;
  const int count = left < 0 ? 0 : (left < kGroup ? static_cast<int>(left) : kGroup);
  const std::int64_t begin = blockIdx.y * slice_rows;
  const std::int64_t end = begin + slice_rows < rows ? begin + slice_rows : rows;
  Wide<T> sum[kGroup] = {};
  for (std::int64_t turn = begin + below; turn < end; turn += kTurn * down) {
    T values[kTurn][kGroup];
    MW_UNROLL
    for (int k = 0; k < kTurn; ++k) {
      const std::int64_t row = turn + k * down;
      load_group(dy + row * width + column, values[k], row < end ? count : 0, well);
    }
    MW_UNROLL
    for (int k = 0; k < kTurn; ++k) {
      MW_UNROLL
      for (int i = 0; i < kGroup; ++i) sum[i] += static_cast<Wide<T>>(values[k][i]);
    }
  }
  // [i][below][across], so that neighbours write to neighbouring banks.
  const int place = below * across + static_cast<int>(threadIdx.x);
  MW_UNROLL
  for (int i = 0; i < kGroup; ++i) sums[i * kThreads + place] = sum[i];
  __syncthreads();
  for (int done = place; done < across * kGroup; done += kThreads) {
    const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * across * kGroup + done;
    if (at >= bias_width) continue;
    Wide<T> total = 0;
    for (int k = 0; k < down; ++k) total += sums[done % kGroup * kThreads + k * across + done / kGroup];
    out[blockIdx.y * bias_width + at] = Out(total);
  }
}

template <class T>
std::int64_t slices_for(std::int64_t rows, std::int64_t bias_width) {
  const Columns columns = columns_for(ceil_div(bias_width, group_of<T>()));
  const std::int64_t maximum = std::max<std::int64_t>(1, kBlocks / columns.blocks);
  return std::clamp<std::int64_t>(rows / kSliceRows, 1, maximum);
}

}  // namespace

template <class T>
void bias_add(Stream stream, const T* x, const T* bias, T* out, const BiasShape& shape) {
  const auto [rows, width, bias_width] = shape;
  const std::int64_t width_done = x == out ? bias_width : width;
  const Columns columns = columns_for(ceil_div(width_done, group_of<T>()));
  const std::int64_t down = std::clamp<std::int64_t>(8 * kBlocks / columns.blocks, 1, ceil_div(rows, columns.down()));
  launch("bias_add", add_to_columns<T>, {columns.blocks, down, 1}, {columns.across, columns.down(), 1}, 0, stream, x,
         bias, out, rows, width_done, width, bias_width, rows_lie_well(x, width) && rows_lie_well(out, width));
}

template <class T>
std::size_t bias_gradient_workspace(const BiasShape& shape) {
  const std::int64_t slices = slices_for<T>(shape.rows, shape.bias_width);
  return slices == 1 ? 0 : static_cast<std::size_t>(slices * shape.bias_width) * sizeof(Wide<T>);
}

template <class T>
void bias_gradient(Stream stream, const T* dy, T* out, const BiasShape& shape, void* workspace) {
  const auto [rows, width, bias_width] = shape;
  const Columns columns = columns_for(ceil_div(bias_width, group_of<T>()));
  const std::int64_t slices = slices_for<T>(rows, bias_width);
  const Size3 grid{columns.blocks, slices, 1}, block{columns.across, columns.down(), 1};
  const bool well = rows_lie_well(dy, width);
  if (slices == 1) {
    launch("bias_gradient", sum_columns<T, T>, grid, block, 0, stream, dy, out, rows, rows, width, bias_width, well);
    return;
  }
  auto* partial = static_cast<Wide<T>*>(workspace);
  launch("bias_gradient", sum_columns<T, Wide<T>>, grid, block, 0, stream, dy, partial, rows, ceil_div(rows, slices),
         width, bias_width, well);
  // The slices' sums, as rows: few, so that a block has many threads below one another.
  const Columns last = columns_for(ceil_div(bias_width, group_of<Wide<T>>()), 8);
  launch("bias_gradient, slices", sum_columns<Wide<T>, T>, {last.blocks, 1, 1}, {last.across, last.down(), 1}, 0,
         stream, partial, out, slices, slices, bias_width, bias_width, rows_lie_well(partial, bias_width));
}

#define MW_INSTANTIATE(T)                                                      \
  template void bias_add<T>(Stream, const T*, const T*, T*, const BiasShape&); \
  template std::size_t bias_gradient_workspace<T>(const BiasShape&);           \
  template void bias_gradient<T>(Stream, const T*, T*, const BiasShape&, void*);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
