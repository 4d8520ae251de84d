// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a matrix, column by column, in two passes: blocks sum parts of the rows into a workspace, then
// the parts are added. Internal to the normalisations of this folder.
//
// Which thread sums what, and in what order, follows from the sizes and the width of the packs alone.
#pragma once

#include <cstdint>

#include "kernels/cuda/blocks/row_packs.h"

namespace meshwright::kernels::cuda::normalization {

constexpr int kColumnThreads = 256;
constexpr int kMaxColumns = kWarp * 8;  // of a block: 32 packs of at most 8
constexpr int kRun = 4;                 // rows that a thread loads at once; twice as many where they are of one matrix

// Blocks of kColumnThreads: `across` threads side by side with a pack of columns each, the others in lines below them,
// which take rows in turns. The grid is (blocks across, parts of the rows).
struct ColumnLaunch {
  int across;
  std::int64_t blocks, parts;
};

// Blocks in all: as many as 132 multiprocessors have at once. Those of sums keep their totals in registers, and there
// are fewer.
constexpr std::int64_t kMapBlocks = 8 * 132;
template <class T>
constexpr int kSumsAtOnce = sizeof(T) == 4 ? 3 : 2;
template <class T>
constexpr std::int64_t kSumBlocks = kSumsAtOnce<T> * 132;

// About two runs of rows, or more, for each line of a part, so that a part is worth its write and its addition.
template <int N>
ColumnLaunch column_launch(std::int64_t rows, std::int64_t columns, std::int64_t all_blocks) {
  const std::int64_t packs = columns / N;
  const int across = packs < kWarp ? power_of_two(packs) : kWarp;
  const std::int64_t blocks = ceil_div(packs, across);
  const std::int64_t useful = ceil_div(rows, 2 * kRun * (kColumnThreads / across));
  const std::int64_t maximum = std::max<std::int64_t>(1, all_blocks / blocks);
  return {across, blocks, std::clamp<std::int64_t>(useful, 1, maximum)};
}

// A thread's place in such a grid.
struct ColumnPlace {
  int across, lane, line, lines;
  std::int64_t pack, begin, end;  // its pack; the rows of its part, of which it has begin + line, + lines, ...

  MW_DEVICE ColumnPlace(std::int64_t rows, int threads_across) : across(threads_across) {
    line = static_cast<int>(threadIdx.x) / across;
    lane = static_cast<int>(threadIdx.x) - line * across;
    lines = kColumnThreads / across;
    pack = static_cast<std::int64_t>(blockIdx.x) * across + lane;
    begin = rows * blockIdx.y / gridDim.y;
    end = rows * (blockIdx.y + std::int64_t{1}) / gridDim.y;
  }
};

// A thread sums runs of rows in Wide<T> and adds each run's sum to a total in double: the additions in double, which
// are slow, are one in kRun or less. Lines below each other are then added as a tree, by halves.
//
// Terms: what is summed. Its kOperands matrices are `operands`; of_columns<N>(first, count, mine) is called by all
// threads of a block, of whose `count` columns from `first` a thread has N from `mine`, and gives what
// add(loaded, row, that, sums) reads of them: it adds a row's terms to two sums of N columns.
template <class T, int N, class Terms>
__global__ void __launch_bounds__(kColumnThreads, kSumsAtOnce<T>)
    column_sums_kernel(Terms terms, double* parts, std::int64_t rows, std::int64_t columns, int across) {
  using W = Wide<T>;
  constexpr int kRows = 2 * kRun / Terms::kOperands;
  MW_DYNAMIC_SHARED(double, tree);  // [sum][column of a pack][line, lane]
  const ColumnPlace place(rows, across);
  const bool mine = place.pack < columns / N;
  const std::int64_t first = (place.pack - place.lane) * N;
  const auto of_columns = terms.template of_columns<N>(
      first, static_cast<int>(columns - first < across * N ? columns - first : across * N), place.lane * N);
  double totals[2][N] = {};
  for (std::int64_t run = mine ? place.begin + place.line : place.end; run < place.end;
       run += std::int64_t{kRows} * place.lines) {
    Pack<T, N> loaded[kRows][Terms::kOperands];
    W sums[2][N] = {};
    MW_UNROLL
    for (int i = 0; i < kRows; ++i)
      if (const std::int64_t row = run + i * place.lines; row < place.end) MW_UNROLL
    for (int operand = 0; operand < Terms::kOperands; ++operand)
      loaded[i][operand] = load<N>(terms.operands[operand], row * (columns / N) + place.pack);
    MW_UNROLL
    for (int i = 0; i < kRows; ++i)
      if (const std::int64_t row = run + i * place.lines; row < place.end) terms.add(loaded[i], row, of_columns, sums);
    MW_UNROLL
    for (int c = 0; c < N; ++c) {
      totals[0][c] += static_cast<double>(sums[0][c]);
      totals[1][c] += static_cast<double>(sums[1][c]);
    }
  }
  for (int left = place.lines / 2; left > 0; left /= 2) {
    constexpr int kHalf = kColumnThreads / 2;
    if (place.line >= left && place.line < 2 * left)
      for (int c = 0; c < 2 * N; ++c)
        tree[c * kHalf + (place.line - left) * across + place.lane] = totals[c / N][c % N];
    __syncthreads();
    if (place.line < left)
      for (int c = 0; c < 2 * N; ++c) totals[c / N][c % N] += tree[c * kHalf + place.line * across + place.lane];
    __syncthreads();
  }
  if (place.line == 0 && mine)
    for (int c = 0; c < 2 * N; ++c)
      parts[(std::int64_t{2} * blockIdx.y + c / N) * columns + place.pack * N + c % N] = totals[c / N][c % N];
}

constexpr int kPartThreads = 512;

// first[c], second[c] = the sums over `count` parts, `stride` elements apart, of elements c, columns + c. The second is
// left out where it is null. A block has lines of `across` threads, which take parts in turns; lines are added as a
// tree, by halves.
template <class P, class Out>
__global__ void __launch_bounds__(kPartThreads)
    add_parts_kernel(const P* parts, std::int64_t count, std::int64_t stride, Out* first, Out* second,
                     std::int64_t columns, int across) {
  MW_SHARED double sums[kPartThreads / 2];
  const int thread = static_cast<int>(threadIdx.x), line = thread / across, lane = thread - line * across;
  const int lines = static_cast<int>(blockDim.x) / across;
  // Both sums of a part are beside each other: one row of 2 * columns elements.
  const std::int64_t wanted = second == nullptr ? columns : 2 * columns;
  const std::int64_t c = static_cast<std::int64_t>(blockIdx.x) * across + lane;
  double sum = 0.0;
  if (c < wanted) {
#ifdef __CUDACC__
#pragma unroll 8
#endif
    for (std::int64_t part = line; part < count; part += lines) sum += static_cast<double>(parts[part * stride + c]);
  }
  for (int left = lines / 2; left > 0; left /= 2) {
    if (line >= left && line < 2 * left) sums[thread - left * across] = sum;
    __syncthreads();
    if (line < left) sum += sums[thread];
    __syncthreads();
  }
  if (line == 0 && c < wanted) (c < columns ? first[c] : second[c - columns]) = static_cast<Out>(sum);
}

template <class P, class Out>
void add_parts(Stream stream, const P* parts, std::int64_t count, std::int64_t stride, Out* first, Out* second,
               std::int64_t columns) {
  // Of many parts a block adds few columns, a whole sector of memory of each: more blocks, and fewer parts for each of
  // their threads to wait for.
  const int across = count < 64 ? kWarp : 8;
  const int lines = std::min(kPartThreads / across, power_of_two(count));
  launch("add_parts", add_parts_kernel<P, Out>, {ceil_div((second == nullptr ? 1 : 2) * columns, across)},
         {lines * across}, 0, stream, parts, count, stride, first, second, columns, across);
}

// In bytes. The larger of what both pack widths need: which of them runs depends on addresses, unknown here.
template <class T>
std::size_t column_sums_workspace(std::int64_t rows, std::int64_t columns) {
  const std::int64_t single = column_launch<1>(rows, columns, kSumBlocks<T>).parts;
  const std::int64_t packed = columns % kWidestPack<T> == 0
                                  ? column_launch<kWidestPack<T>>(rows, columns, kSumBlocks<T>).parts
                                  : std::int64_t{0};
  return static_cast<std::size_t>(std::max(single, packed) * 2 * columns) * sizeof(double);
}

// first, second: (columns), the sums of `terms` over the rows.
template <class T, class Terms, class Out>
void column_sums(Stream stream, const Terms& terms, std::int64_t rows, std::int64_t columns, Out* first, Out* second,
                 void* workspace) {
  const auto run = [&](auto n) {
    constexpr int N = decltype(n)::value;
    const ColumnLaunch plan = column_launch<N>(rows, columns, kSumBlocks<T>);
    const std::size_t tree = sizeof(double) * 2 * N * kColumnThreads / 2;
    double* parts = static_cast<double*>(workspace);
    launch("column_sums", column_sums_kernel<T, N, Terms>, {plan.blocks, plan.parts}, {kColumnThreads}, tree, stream,
           terms, parts, rows, columns, plan.across);
    add_parts(stream, parts, plan.parts, 2 * columns, first, second, columns);
  };
  if constexpr (Terms::kOperands == 1)
    with_packs<T>(columns, {terms.operands[0]}, run);
  else
    with_packs<T>(columns, {terms.operands[0], terms.operands[1]}, run);
}

}  // namespace meshwright::kernels::cuda::normalization
