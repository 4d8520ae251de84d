// SPDX-License-Identifier: Apache-2.0
// Squares of filters are turned in shared memory, so that they are read and written along their lines.
#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/convolution/convolution_walks.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kSquare = 32, kLinesAtOnce = 8;

template <class T>
__global__ void __launch_bounds__(kSquare* kLinesAtOnce)
    transpose(const T* from, T* to, std::int64_t rows, std::int64_t columns) {
  // One more column than a square has: the elements of a column are then in different banks.
  MW_SHARED Wide<T> square[kSquare][kSquare + 1];
  const std::int64_t down = ceil_div(rows, kSquare), across = ceil_div(columns, kSquare);
  // The batch shares x with the squares: y and z end at 65535 blocks.
  const std::int64_t batch = blockIdx.x / across / down;
  const std::int64_t row = blockIdx.x / across % down * kSquare, column = blockIdx.x % across * kSquare;
  from += batch * rows * columns;
  to += batch * rows * columns;
  for (unsigned line = threadIdx.y; line < kSquare; line += kLinesAtOnce)
    if (row + line < rows && column + threadIdx.x < columns)
      square[line][threadIdx.x] = static_cast<Wide<T>>(from[(row + line) * columns + column + threadIdx.x]);
  __syncthreads();
  for (unsigned line = threadIdx.y; line < kSquare; line += kLinesAtOnce)
    if (column + line < columns && row + threadIdx.x < rows)
      to[(column + line) * rows + row + threadIdx.x] = T(square[threadIdx.x][line]);
}

}  // namespace

template <class T>
void transpose_filters(Stream stream, const T* from, T* to, std::int64_t batch, std::int64_t rows,
                       std::int64_t columns) {
  launch("transpose_filters", transpose<T>, {batch * ceil_div(rows, kSquare) * ceil_div(columns, kSquare), 1, 1},
         {kSquare, kLinesAtOnce, 1}, 0, stream, from, to, rows, columns);
}

#define MW_INSTANTIATE(T) \
  template void transpose_filters<T>(Stream, const T*, T*, std::int64_t, std::int64_t, std::int64_t);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
