// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/layout/box.h"

#include <type_traits>

namespace meshwright::kernels::cuda {

namespace {

constexpr int kThreads = 256;

using Word16 = Pack<std::uint32_t, 4>;

// Rows of `extent` words. A warp, or fewer lanes where a row is shorter, copies `kColumns` words per lane of one row,
// or one word per lane of each of `kRows` rows: what it reads is on its way at the same time.
struct Rows {
  Box box;
  std::int64_t count, extent, a, b;  // strides within a row
  Divider chunks;                    // per row
  int lanes;
};

// What is read as it is written: the word itself, or a word full of the element.
template <class Word, class Read>
MW_DEVICE Word as_word(Read read) {
  if constexpr (std::is_same_v<Read, Word>) {
    return read;
  } else {
    Word word;
    for (Read& element : word.of) element = read;
    return word;
  }
}

template <class Read, class Word, int kColumns, int kRows>
__global__ void __launch_bounds__(kThreads) copy_box_kernel(Rows rows, const Read* from, Word* to) {
  const std::int64_t groups = static_cast<std::int64_t>(gridDim.x) * (kThreads / rows.lanes);
  const std::int64_t items = rows.count * rows.chunks.divisor;
  const int lane = static_cast<int>(threadIdx.x) & (rows.lanes - 1);
  const auto group = static_cast<std::int64_t>(blockIdx.x) * (kThreads / rows.lanes) +
                     (static_cast<int>(threadIdx.x) - lane) / rows.lanes;
  // All of a turn's reads are begun before its first write.
  for (std::int64_t first = group; first < items; first += kRows * groups) {
    Read words[kRows][kColumns] = {};
    std::int64_t places[kRows], columns[kRows];
    MW_UNROLL for (int r = 0; r < kRows; ++r) {
      const std::int64_t item = first + r * groups;
      columns[r] = rows.extent;
      places[r] = 0;
      if (item >= items) continue;
      const std::int64_t row = rows.chunks.quotient(item);
      const Offsets at = offsets_of(rows.box, row);
      columns[r] = (item - row * rows.chunks.divisor) * (rows.lanes * kColumns) + lane;
      places[r] = at.b;
      MW_UNROLL for (int c = 0; c < kColumns; ++c) {
        const std::int64_t column = columns[r] + c * rows.lanes;
        if (column < rows.extent) words[r][c] = from[at.a + column * rows.a];
      }
    }
    MW_UNROLL for (int r = 0; r < kRows; ++r) MW_UNROLL for (int c = 0; c < kColumns; ++c) {
      const std::int64_t column = columns[r] + c * rows.lanes;
      if (column < rows.extent) to[places[r] + column * rows.b] = as_word<Word>(words[r][c]);
    }
  }
}

template <class Read, class Word>
void copy_words(Stream stream, std::span<const BoxDim> dims, const Read* from, Word* to) {
  constexpr int kColumns = sizeof(Word) >= 8 ? 4 : 8, kRows = 4;
  const BoxDim inner = dims.back();
  const std::span<const BoxDim> outer = dims.first(dims.size() - 1);
  const bool long_rows = inner.extent > kWarp;
  int lanes = 1;
  // A power of two, as the kernel takes a thread's lane by a mask.
  while (lanes < kWarp && lanes < inner.extent) lanes *= 2;
  const std::int64_t chunk = lanes * (long_rows ? kColumns : 1);
  const std::int64_t chunks = ceil_div(inner.extent, chunk);
  for_each_box(outer, [&](const Box& box, std::int64_t a, std::int64_t b) {
    const std::int64_t count = elements_of(outer.last(static_cast<std::size_t>(box.rank)));
    const Rows rows{box, count, inner.extent, inner.a, inner.b, Divider(chunks), lanes};
    const std::int64_t threads = count * chunks * lanes;
    if (long_rows)
      launch("copy_box", copy_box_kernel<Read, Word, kColumns, 1>, blocks_for(threads, kThreads), {kThreads}, 0, stream,
             rows, from + a, to + b);
    else
      launch("copy_box", copy_box_kernel<Read, Word, 1, kRows>, blocks_for(ceil_div(threads, kRows), kThreads),
             {kThreads}, 0, stream, rows, from + a, to + b);
  });
}

// Only rows that lie in one piece in `b` can be written in words, and read so where they do in `a` as well; a row that
// repeats one element (stride 0) is written in words full of it.
//
// The most bytes of which rows, strides and addresses are multiples; `a` counts where rows are read in words, too.
std::int64_t widest_word(std::span<const BoxDim> dims, const void* a, const void* b, std::int64_t size) {
  const bool reads_words = dims.back().a == 1;
  if (dims.back().b != 1 || (!reads_words && dims.back().a != 0)) return size;
  std::int64_t word = 16;
  const auto narrow = [&word, size](std::int64_t bytes) {
    while (word > size && bytes % word != 0) word /= 2;
  };
  narrow(dims.back().extent * size);
  for (const BoxDim& dim : dims.first(dims.size() - 1)) narrow(dim.b * size), narrow(reads_words ? dim.a * size : 0);
  narrow(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(b) % 16));
  narrow(reads_words ? static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(a) % 16) : 0);
  return word;
}

// The box in words of `elements` elements, which `b` and, as `reads_words` says, `a` are walked in.
std::vector<BoxDim> in_words(std::vector<BoxDim> dims, std::int64_t elements, bool reads_words) {
  dims.back().extent /= elements;
  for (std::size_t d = 0; d + 1 < dims.size(); ++d) {
    dims[d].b /= elements;
    if (reads_words) dims[d].a /= elements;
  }
  return dims;
}

template <class Element>
void copy_elements(Stream stream, const std::vector<BoxDim>& dims, const void* from, void* to) {
  constexpr auto size = static_cast<std::int64_t>(sizeof(Element));
  const std::int64_t word = widest_word(dims, from, to, size);
  const bool reads_words = dims.back().a == 1;
  const auto move = [&]<class Read, class Word>(Read, Word) {
    copy_words(stream, in_words(dims, static_cast<std::int64_t>(sizeof(Word)) / size, reads_words),
               static_cast<const Read*>(from), static_cast<Word*>(to));
  };
  // An element that is repeated is read alone and written 16 bytes at a time; narrower words have no kernel for it.
  if (word == 16 && !reads_words) return move(Element{}, Pack<Element, kPack<Element>>{});
  if (word == 16) return move(Word16{}, Word16{});
  if (word == 8 && reads_words) return move(std::uint64_t{}, std::uint64_t{});
  if (word == 4 && reads_words) return move(std::uint32_t{}, std::uint32_t{});
  move(Element{}, Element{});
}

}  // namespace

void copy_box(Stream stream, std::span<const BoxDim> unmerged, const void* a, void* b, std::int64_t size) {
  const std::vector<BoxDim> dims = merged(unmerged);
  if (dims.size() == 1 && dims[0].a == 1 && dims[0].b == 1)
    copy(b, a, static_cast<std::size_t>(dims[0].extent * size), stream);
  else if (size == 8)
    copy_elements<std::uint64_t>(stream, dims, a, b);
  else if (size == 4)
    copy_elements<std::uint32_t>(stream, dims, a, b);
  else
    copy_elements<std::uint16_t>(stream, dims, a, b);
}

}  // namespace meshwright::kernels::cuda
