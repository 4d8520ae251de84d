// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/layout/tiles.h"

#include "kernels/cuda/layout/box.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kThreads = 256;

std::vector<BoxDim> tile(std::span<const std::int64_t> extent, std::span<const std::int64_t> source_strides,
                         std::span<const std::int64_t> destination_strides) {
  std::vector<BoxDim> dims;
  for (std::size_t d = 0; d < extent.size(); ++d)
    dims.push_back({extent[d], source_strides[d], destination_strides[d]});
  return dims;
}

// Rows of `row` packs; strides a and b within a row are of packs.
template <class T, int kElements>
__global__ void __launch_bounds__(kThreads) add_tile_kernel(Box rows, Divider row, std::int64_t count, std::int64_t a,
                                                            std::int64_t b, const T* source, T* destination) {
  using W = Wide<T>;
  for (std::int64_t item = thread_of_grid(); item < count; item += threads_of_grid()) {
    const std::int64_t number = row.quotient(item), column = item - number * row.divisor;
    const Offsets at = offsets_of(rows, number);
    T* to = destination + at.b + column * b;
    const Pack<T, kElements> added = load<kElements>(source + at.a + column * a);
    // No two items have the same place in the destination: a plain read and write is enough.
    Pack<T, kElements> sum = load<kElements>(to);
    MW_UNROLL for (int e = 0; e < kElements; ++e) sum.of[e] =
        T(static_cast<W>(sum.of[e]) + static_cast<W>(added.of[e]));
    store(to, sum);
  }
}

template <class T, int kElements>
void add_packs(Stream stream, std::span<const BoxDim> dims, const T* source, T* destination) {
  const BoxDim inner = dims.back();
  const std::span<const BoxDim> outer = dims.first(dims.size() - 1);
  const std::int64_t packs = inner.extent / kElements;
  for_each_box(outer, [&](const Box& rows, std::int64_t a, std::int64_t b) {
    const std::int64_t count = packs * elements_of(outer.last(static_cast<std::size_t>(rows.rank)));
    launch("add_tile", add_tile_kernel<T, kElements>, blocks_for(count, kThreads), {kThreads}, 0, stream, rows,
           Divider(packs), count, inner.a * kElements, inner.b * kElements, source + a, destination + b);
  });
}

template <class T>
MW_DEVICE Wide<T> combined(Wide<T> a, Wide<T> b, bool sum) {
  return sum ? a + b : (a < b ? b : a);
}

// A thread makes `kElements` neighbours of the result.
template <class T, int kElements>
MW_DEVICE void reduce_at(const T* const* parts, int count, T* out, std::int64_t at, bool sum) {
  using W = Wide<T>;
  // Every part's element is read before the result is written, by one thread: `out` may be any of the parts.
  W total[kElements];
  const Pack<T, kElements> first = load<kElements>(parts[0] + at);
  MW_UNROLL for (int e = 0; e < kElements; ++e) total[e] = static_cast<W>(first.of[e]);
#pragma unroll 4
  for (int p = 1; p < count; ++p) {
    const Pack<T, kElements> next = load<kElements>(parts[p] + at);
    MW_UNROLL for (int e = 0; e < kElements; ++e) total[e] = combined<T>(total[e], static_cast<W>(next.of[e]), sum);
  }
  Pack<T, kElements> result;
  MW_UNROLL for (int e = 0; e < kElements; ++e) result.of[e] = T(total[e]);
  store(out + at, result);
}

// In packs where all arrays begin at a multiple of their size, with what is left of the last one element by element.
template <class T>
__global__ void __launch_bounds__(kThreads)
    reduce_kernel(const T* const* parts, int count, T* out, std::int64_t n, bool sum) {
  auto addresses = reinterpret_cast<std::uintptr_t>(out);
  // The `or` of all addresses is a multiple of a power of two if and only if each address is.
  for (int p = 0; p < count; ++p) addresses |= reinterpret_cast<std::uintptr_t>(parts[p]);
  const std::int64_t packs = addresses % sizeof(Pack<T, kPack<T>>) == 0 ? n / kPack<T> : 0;
  const std::int64_t threads = threads_of_grid();
  const std::int64_t thread = thread_of_grid();
  // Packs or not, an element's sum has the order of the parts: the same bits.
  for (std::int64_t pack = thread; pack < packs; pack += threads)
    reduce_at<T, kPack<T>>(parts, count, out, pack * kPack<T>, sum);
  for (std::int64_t i = packs * kPack<T> + thread; i < n; i += threads) reduce_at<T, 1>(parts, count, out, i, sum);
}

}  // namespace

template <class T>
void copy_tile(Stream stream, std::span<const std::int64_t> extent, const T* source,
               std::span<const std::int64_t> source_strides, T* destination,
               std::span<const std::int64_t> destination_strides) {
  copy_box(stream, tile(extent, source_strides, destination_strides), source, destination, sizeof(T));
}

template <class T>
void add_tile(Stream stream, std::span<const std::int64_t> extent, const T* source,
              std::span<const std::int64_t> source_strides, T* destination,
              std::span<const std::int64_t> destination_strides) {
  const std::vector<BoxDim> dims = merged(tile(extent, source_strides, destination_strides));
  bool packs = dims.back().a == 1 && dims.back().b == 1 && dims.back().extent % kPack<T> == 0 &&
               is_aligned(source, 16) && is_aligned(destination, 16);
  for (std::size_t d = 0; d + 1 < dims.size(); ++d)
    packs = packs && dims[d].a % kPack<T> == 0 && dims[d].b % kPack<T> == 0;
  if (packs)
    add_packs<T, kPack<T>>(stream, dims, source, destination);
  else
    add_packs<T, 1>(stream, dims, source, destination);
}

template <class T>
void reduce(Stream stream, const T* const* parts, int parts_count, T* out, std::int64_t n, Reduction reduction) {
  const std::int64_t packs = ceil_div(n, kPack<T>);
  launch("reduce", reduce_kernel<T>, blocks_for(packs, kThreads), {kThreads}, 0, stream, parts, parts_count, out, n,
         reduction == Reduction::Sum);
}

#define MW_INSTANTIATE(T)                                                                                        \
  template void copy_tile<T>(Stream, std::span<const std::int64_t>, const T*, std::span<const std::int64_t>, T*, \
                             std::span<const std::int64_t>);                                                     \
  template void add_tile<T>(Stream, std::span<const std::int64_t>, const T*, std::span<const std::int64_t>, T*,  \
                            std::span<const std::int64_t>);                                                      \
  template void reduce<T>(Stream, const T* const*, int, T*, std::int64_t, Reduction);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
MW_INSTANTIATE(std::int32_t)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
