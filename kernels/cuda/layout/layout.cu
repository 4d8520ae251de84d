// SPDX-License-Identifier: Apache-2.0
// Copies; kernels/cuda/layout/reductions.cu has the reductions.
#include "kernels/cuda/layout/layout.h"

#include <algorithm>
#include <cstring>

#include "kernels/cuda/layout/box.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kThreads = 256;

// What is copied without being looked at: numbers of so many bytes.
template <std::size_t size>
struct WordOf;
template <>
struct WordOf<2> {
  using type = std::uint16_t;
};
template <>
struct WordOf<4> {
  using type = std::uint32_t;
};
template <>
struct WordOf<8> {
  using type = std::uint64_t;
};

// --- transposition ---

// out[i out_stride + j] = x[i + j x_stride], for i < rows, j < columns.
struct Plane {
  std::int64_t rows, columns, x_stride, out_stride;
};

template <class Word>
constexpr int kSide = sizeof(Word) == 8 ? 32 : 64;

// One block per square of kSide x kSide elements; a warp reads, and later writes, a row of it at a time, two elements
// per lane where a square is 64 wide: with kPairs as one. The shared square's rows are one element longer, so that its
// columns lie in different banks.
template <class Word, bool kPairs>
__global__ void __launch_bounds__(kThreads, kPairs ? 8 : 6)
    transpose_kernel(Box planes, std::int64_t count, Divider across, Divider down, Plane plane, const Word* x,
                     Word* out) {
  constexpr int kSquare = kSide<Word>, kWarps = kThreads / kWarp;
  constexpr int kAtOnce = kPairs ? 2 : 1, kStep = kAtOnce * kWarp;
  MW_SHARED Word square[kSquare][kSquare + 1];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  for (std::int64_t item = blockIdx.x; item < count; item += gridDim.x) {
    // Neighbouring items are neighbours along i, in which x is dense; then come strips along j, then planes.
    const std::int64_t strip = across.quotient(item), number = down.quotient(strip);
    const std::int64_t i0 = (item - strip * across.divisor) * kSquare, j0 = (strip - number * down.divisor) * kSquare;
    const Offsets begin = offsets_of(planes, number);
    const Word* from = x + begin.a + i0 + j0 * plane.x_stride;
    Word* to = out + begin.b + i0 * plane.out_stride + j0;
    const auto rows = static_cast<int>(plane.rows - i0 < kSquare ? plane.rows - i0 : kSquare);
    const auto columns = static_cast<int>(plane.columns - j0 < kSquare ? plane.columns - j0 : kSquare);
    // All are on their way before the first is waited for.
    Pack<Word, kAtOnce> read[kSquare / kWarps][kSquare / kStep] = {};
    MW_UNROLL for (int k = 0; k < kSquare / kWarps; ++k) {
      MW_UNROLL for (int l = 0; l < kSquare / kStep; ++l) {
        const int j = warp + k * kWarps, i = lane * kAtOnce + l * kStep;
        if (i < rows && j < columns) read[k][l] = load<kAtOnce>(from + j * plane.x_stride + i);
      }
    }
    MW_UNROLL for (int k = 0; k < kSquare / kWarps; ++k) {
      MW_UNROLL for (int l = 0; l < kSquare / kStep; ++l) {
        Word* place = &square[warp + k * kWarps][lane * kAtOnce + l * kStep];
        MW_UNROLL for (int e = 0; e < kAtOnce; ++e) place[e] = read[k][l].of[e];
      }
    }
    __syncthreads();
    MW_UNROLL for (int k = 0; k < kSquare / kWarps; ++k) {
      const int i = warp + k * kWarps;
      if (i >= rows) continue;
      MW_UNROLL for (int j = lane * kAtOnce; j < kSquare; j += kStep) {
        if (j >= columns) continue;
        Word* place = to + i * plane.out_stride + j;
        if constexpr (kPairs) {
          using Pair = typename WordOf<2 * sizeof(Word)>::type;
          // Two neighbours of a row of out as one word: the lower half comes first in memory.
          *at_once<Pair>(place) = square[j][i] | static_cast<Pair>(square[j + 1][i]) << (8 * sizeof(Word));
        } else {
          *place = square[j][i];
        }
      }
    }
    __syncthreads();
  }
}

template <class Word>
void transpose(Stream stream, std::span<const BoxDim> outer, const Plane& plane, const Word* x, Word* out) {
  bool pairs = kSide<Word> == 2 * kWarp && is_aligned(x, 2 * sizeof(Word)) && is_aligned(out, 2 * sizeof(Word));
  for (const std::int64_t elements : {plane.rows, plane.columns, plane.x_stride, plane.out_stride})
    pairs = pairs && elements % 2 == 0;
  for (const BoxDim& dim : outer) pairs = pairs && dim.a % 2 == 0 && dim.b % 2 == 0;
  const std::int64_t across = ceil_div(plane.rows, kSide<Word>);
  const std::int64_t down = ceil_div(plane.columns, kSide<Word>);
  for_each_box(outer, [&](const Box& planes, std::int64_t a, std::int64_t b) {
    const std::int64_t count = across * down * elements_of(outer.last(static_cast<std::size_t>(planes.rank)));
    const auto start = [&](auto kernel) {
      launch("transpose", kernel, {std::min(count, std::int64_t{1} << 16)}, {kThreads}, 0, stream, planes, count,
             Divider(across), Divider(down), plane, x + a, out + b);
    };
    if constexpr (kSide<Word> == 2 * kWarp)
      if (pairs) return start(transpose_kernel<Word, true>);
    start(transpose_kernel<Word, false>);
  });
}

// A square in shared memory is worth its barriers where most of it is used.
constexpr std::int64_t kMinSide = 16;

template <class Word>
void copy_strided_words(Stream stream, const Word* x, std::span<const BoxDim> unmerged, Word* out) {
  std::vector<BoxDim> dims = merged(unmerged);
  const BoxDim inner = dims.back();
  const auto other = std::find_if(dims.begin(), dims.end() - 1, [](const BoxDim& dim) { return dim.a == 1; });
  // x is dense in another dimension than out: a plain copy would read or write single elements, far apart.
  if (inner.a > 1 && inner.extent >= kMinSide && other != dims.end() - 1 && other->extent >= kMinSide) {
    const Plane plane{other->extent, inner.extent, inner.a, other->b};
    dims.erase(other);
    dims.pop_back();
    return transpose(stream, dims, plane, x, out);
  }
  copy_box(stream, dims, x, out, sizeof(Word));
}

// --- padding ---

template <class Word>
__global__ void __launch_bounds__(kThreads) pad_kernel(const Word* x, Word* out, std::int64_t count, Divider width,
                                                       std::int64_t length, std::int64_t start, Word value) {
  constexpr int kAtOnce = 4;
  const std::int64_t threads = threads_of_grid();
  const std::int64_t thread = thread_of_grid();
  // Four words of a thread are read before the first is written; the threads of a warp stay side by side.
  for (std::int64_t first = thread; first < count; first += kAtOnce * threads) {
    Word words[kAtOnce];
    MW_UNROLL for (int k = 0; k < kAtOnce; ++k) {
      const std::int64_t i = first + k * threads;
      if (i >= count) continue;
      const std::int64_t row = width.quotient(i), column = i - row * width.divisor - start;
      words[k] = column >= 0 && column < length ? x[row * length + column] : value;
    }
    MW_UNROLL for (int k = 0; k < kAtOnce; ++k) if (first + k * threads < count) out[first + k * threads] = words[k];
  }
}

// The same where only the rows of out are whole packs: these are made of single elements.
template <class T>
__global__ void __launch_bounds__(kThreads) pad_narrow_kernel(const T* x, T* out, std::int64_t count, Divider packs,
                                                              std::int64_t length, std::int64_t start, T value) {
  for (std::int64_t i = thread_of_grid(); i < count; i += threads_of_grid()) {
    const std::int64_t row = packs.quotient(i), first = (i - row * packs.divisor) * kPack<T> - start;
    Pack<T, kPack<T>> pack;
    MW_UNROLL for (int e = 0; e < kPack<T>; ++e) pack.of[e] =
        first + e >= 0 && first + e < length ? x[row * length + first + e] : value;
    store(out + i * kPack<T>, pack);
  }
}

template <class Word, class T>
void pad_words(Stream stream, const T* x, T* out, const RowPadding& p, T value) {
  // All elements of a word get the same value: it does not matter where in a row a word begins.
  constexpr auto kElements = static_cast<std::int64_t>(sizeof(Word) / sizeof(T));
  T values[kElements];
  std::fill(std::begin(values), std::end(values), value);
  Word word;
  std::memcpy(&word, values, sizeof(Word));
  const std::int64_t count = p.rows * p.width / kElements;
  launch("pad", pad_kernel<Word>, blocks_for((count + 3) / 4, kThreads), {kThreads}, 0, stream,
         reinterpret_cast<const Word*>(x), reinterpret_cast<Word*>(out), count, Divider(p.width / kElements),
         p.length / kElements, p.start / kElements, word);
}

}  // namespace

template <class T>
void copy_rows(Stream stream, const T* from, T* to, const RowCopy& copy) {
  const BoxDim dims[] = {{copy.rows, copy.from_stride, copy.to_stride}, {copy.length, 1, 1}};
  copy_box(stream, dims, from, to, sizeof(T));
}

template <class T>
void pad_rows(Stream stream, const T* x, T* out, const RowPadding& p, T value) {
  const auto is_whole = [](std::int64_t elements) { return elements % kPack<T> == 0; };
  const std::int64_t packs = p.rows * p.width / kPack<T>;
  if (!is_whole(p.width) || !is_aligned(out, 16))
    pad_words<typename WordOf<sizeof(T)>::type>(stream, x, out, p, value);
  else if (is_whole(p.length) && is_whole(p.start) && is_aligned(x, 16))
    pad_words<Pack<std::uint32_t, 4>>(stream, x, out, p, value);
  else
    launch("pad", pad_narrow_kernel<T>, blocks_for(packs, kThreads), {kThreads}, 0, stream, x, out, packs,
           Divider(p.width / kPack<T>), p.length, p.start, value);
}

template <class T>
void copy_strided(Stream stream, const T* x, std::span<const std::int64_t> strides, T* out,
                  std::span<const std::int64_t> sizes) {
  using Word = typename WordOf<sizeof(T)>::type;
  copy_strided_words(stream, reinterpret_cast<const Word*>(x), beside_dense(sizes, strides),
                     reinterpret_cast<Word*>(out));
}

#define MW_INSTANTIATE(T)                                                \
  template void copy_rows<T>(Stream, const T*, T*, const RowCopy&);      \
  template void pad_rows<T>(Stream, const T*, T*, const RowPadding&, T); \
  template void copy_strided<T>(Stream, const T*, std::span<const std::int64_t>, T*, std::span<const std::int64_t>);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
MW_INSTANTIATE(std::int32_t)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
