// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/tokens/embedding.h"

#include "kernels/cuda/blocks/packs.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kThreads = 256;

// --- rows of `width` elements, n at a time, each by `lanes` threads ---

struct RowLaunch {
  int lanes;   // of a row: a power of two
  int groups;  // rows of a block at once
};
RowLaunch row_launch(std::int64_t packs) {
  int lanes = 1;
  while (lanes < packs && lanes < kThreads) lanes *= 2;
  return {lanes, kThreads / lanes};
}

struct OwnRows {
  int lane;
  std::int64_t first, stride;

  MW_DEVICE explicit OwnRows(int lanes) {
    const int thread = static_cast<int>(threadIdx.x), groups = static_cast<int>(blockDim.x) / lanes;
    lane = thread % lanes;
    first = static_cast<std::int64_t>(blockIdx.x) * groups + thread / lanes;
    stride = static_cast<std::int64_t>(gridDim.x) * groups;
  }
};

// Several rows per turn: their ids, and then their packs, are under way at once.
constexpr int kRowsOfTurn = 4;

template <class T, int n>
__global__ void __launch_bounds__(kThreads)
    look_up(const std::int32_t* ids, const T* table, T* out, TableShape shape, int lanes) {
  const std::int64_t rows = shape.rows, width = shape.width;
  const OwnRows own(lanes);
  for (std::int64_t r = own.first; r < rows; r += kRowsOfTurn * own.stride) {
    std::int64_t id[kRowsOfTurn];
    MW_UNROLL
    for (int k = 0; k < kRowsOfTurn; ++k)
      id[k] = r + k * own.stride < rows ? ids[r + k * own.stride] - shape.first : -1;
    for (std::int64_t column = own.lane * n; column < width; column += static_cast<std::int64_t>(lanes) * n) {
      T x[kRowsOfTurn][n] = {};
      MW_UNROLL
      for (int k = 0; k < kRowsOfTurn; ++k)
        if (id[k] >= 0 && id[k] < shape.vocab) load_pack<n>(table + id[k] * width + column, x[k]);
      MW_UNROLL
      for (int k = 0; k < kRowsOfTurn; ++k)
        if (r + k * own.stride < rows) store_pack<n>(out + (r + k * own.stride) * width + column, x[k]);
    }
  }
}

// --- the places of the rows, sorted by number; of equals the first before the next ---
//
// A radix sort from the lowest digit on: each pass must keep the order of equal digits, or it would undo the passes
// before. Where row i of digit d goes is therefore counted, never raced for:
//
//   rows of smaller digits, in all tiles               sum_before of the digits' totals
//   + rows of digit d in earlier tiles                 in_tiles_before
//   + ... in earlier rounds of this tile               `next`, which moves on round by round
//   + ... in earlier warps of this round               of_warp, made a running sum
//   + ... in earlier lanes of this warp                before
//
// Atomic additions only count, in integers: their order does not show. So the sorted places, and with them the order in
// which rows are summed, are the same in every run.

// A block has as many threads as digits: each also keeps a digit's counts. At most 128 tiles, so that a thread can add
// up its digit's counts of all tiles in a short loop, without a kernel between.
constexpr int kDigitBits = 9, kDigits = 1 << kDigitBits, kMaxTiles = 128, kWarps = kDigits / kWarp;

// What is sorted: keys 0 to `vocab`, the latter for numbers that are not in the table.
struct Keys {
  const std::int32_t* numbers;
  std::int64_t first, vocab;

  MW_DEVICE std::int32_t operator()(std::int64_t i) const {
    const std::int64_t key = numbers[i] - first;
    return static_cast<std::int32_t>(key >= 0 && key < vocab ? key : vocab);
  }
};

// A tile is what one block counts and moves, kDigits rows in each of `rounds`.
struct Tiles {
  std::int64_t rows, rounds, count;
};
Tiles tiles_of(std::int64_t rows) {
  const std::int64_t rounds = ceil_div(rows, static_cast<std::int64_t>(kMaxTiles) * kDigits);
  return {rows, rounds, ceil_div(rows, rounds * kDigits)};
}

// counts (tile, digit). Thread t counts and, in the end, has digit t.
__global__ void __launch_bounds__(kDigits) count_digits(Keys keys, Tiles tiles, int shift, std::int32_t* counts) {
  MW_SHARED std::int32_t count[kDigits];
  const int thread = static_cast<int>(threadIdx.x);
  count[thread] = 0;
  __syncthreads();
  for (std::int64_t round = 0; round < tiles.rounds; ++round) {
    const std::int64_t i = (blockIdx.x * tiles.rounds + round) * kDigits + thread;
    if (i < tiles.rows) atomicAdd(&count[(keys(i) >> shift) % kDigits], 1);
  }
  __syncthreads();
  counts[static_cast<std::int64_t>(blockIdx.x) * kDigits + thread] = count[thread];
}

// For thread t the sum of `value` over the threads before it; of a block of kDigits. `scratch`: of kWarps.
MW_DEVICE std::int32_t sum_before(std::int32_t value, std::int32_t* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  std::int32_t sum = value;
  for (int distance = 1; distance < kWarp; distance *= 2) {
    const std::int32_t before = __shfl_up_sync(kAllLanes, sum, distance);
    if (lane >= distance) sum += before;
  }
  if (lane == kWarp - 1) scratch[warp] = sum;
  __syncthreads();
  for (int w = 0; w < warp; ++w) sum += scratch[w];
  __syncthreads();
  return sum - value;
}

// `places` of the keys; null: key i is of row i.
__global__ void __launch_bounds__(kDigits)
    move_by_digit(Keys keys, const std::int32_t* places, Tiles tiles, int shift, const std::int32_t* counts,
                  std::int32_t* keys_out, std::int32_t* places_out) {
  MW_SHARED std::int32_t of_warp[kWarps][kDigits], digits[kDigits], scratch[kWarps];
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  std::int32_t total = 0, in_tiles_before = 0;
#pragma unroll 8
  for (std::int64_t tile = 0; tile < tiles.count; ++tile) {
    const std::int32_t count = counts[tile * kDigits + thread];
    total += count;
    in_tiles_before += tile < blockIdx.x ? count : 0;
  }
  std::int32_t next = sum_before(total, scratch) + in_tiles_before;  // where the next of digit `thread` goes
  for (std::int64_t round = 0; round < tiles.rounds; ++round) {
    const std::int64_t i = (blockIdx.x * tiles.rounds + round) * kDigits + thread;
    const bool is_row = i < tiles.rows;
    const std::int32_t key = is_row ? keys(i) : 0, digit = is_row ? (key >> shift) % kDigits : -1;
    MW_UNROLL
    for (int w = 0; w < kWarps; ++w) of_warp[w][thread] = 0;
    digits[thread] = digit;
    __syncthreads();
    if (is_row) atomicAdd(&of_warp[warp][digit], 1);
    int before = 0;
    for (int other = 0; other < lane; ++other) before += digits[warp * kWarp + other] == digit ? 1 : 0;
    __syncthreads();
    // Thread t turns the counts of digit t into the places where each warp's rows of it begin.
    MW_UNROLL
    for (int w = 0; w < kWarps; ++w) {
      const std::int32_t count = of_warp[w][thread];
      of_warp[w][thread] = next;
      next += count;
    }
    __syncthreads();
    if (is_row) {
      const std::int32_t to = of_warp[warp][digit] + before;
      keys_out[to] = key;
      places_out[to] = places == nullptr ? static_cast<std::int32_t>(i) : places[i];
    }
    __syncthreads();
  }
}

// begins[v]: how many sorted keys are below v; v from 0 to vocab.
__global__ void __launch_bounds__(kThreads)
    find_begins(const std::int32_t* keys, std::int64_t rows, std::int64_t vocab, std::int32_t* begins) {
  for (std::int64_t v = thread_of_grid(); v <= vocab; v += threads_of_grid()) {
    std::int64_t low = 0, high = rows;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (keys[middle] < v)
        low = middle + 1;
      else
        high = middle;
    }
    begins[v] = static_cast<std::int32_t>(low);
  }
}

// --- sums of the rows of a number ---

// A number with more rows has those from a multiple of kPiece (in the sorted order) to the next added up apart.
constexpr std::int64_t kPiece = 64;

// Adds the rows at places begin .. end - 1 one after the other. Four are loaded before the first is added: the loads
// wait for memory, the order of the additions stays.
template <class T, int n>
MW_DEVICE void add_rows(const T* dy, const std::int32_t* places, std::int64_t begin, std::int64_t end,
                        std::int64_t width, std::int64_t column, Wide<T> (&sum)[n]) {
  constexpr int kTurn = 4;
  for (std::int64_t j = begin; j < end; j += kTurn) {
    std::int64_t row[kTurn];
    T x[kTurn][n];
    MW_UNROLL
    for (int k = 0; k < kTurn; ++k) row[k] = places[j + k < end ? j + k : j];
    MW_UNROLL
    for (int k = 0; k < kTurn; ++k)
      if (j + k < end) load_pack<n>(dy + row[k] * width + column, x[k]);
    MW_UNROLL
    for (int k = 0; k < kTurn; ++k) {
      if (j + k >= end) continue;
      MW_UNROLL
      for (int i = 0; i < n; ++i) sum[i] += widened(x[k][i]);
    }
  }
}

// pieces (piece, width): of the number that the piece begins with, where that has more than kPiece rows.
template <class T, int n>
__global__ void __launch_bounds__(kThreads)
    add_pieces(const T* dy, const std::int32_t* keys, const std::int32_t* places, const std::int32_t* begins,
               std::int64_t rows, std::int64_t vocab, std::int64_t width, Wide<T>* pieces, int lanes) {
  const OwnRows own(lanes);
  for (std::int64_t piece = own.first; piece * kPiece < rows; piece += own.stride) {
    const std::int64_t begin = piece * kPiece, key = keys[begin];
    if (key >= vocab || begins[key + 1] - begins[key] <= kPiece) continue;
    const std::int64_t end = begins[key + 1] < begin + kPiece ? begins[key + 1] : begin + kPiece;
    for (std::int64_t column = own.lane * n; column < width; column += static_cast<std::int64_t>(lanes) * n) {
      Wide<T> sum[n] = {};
      add_rows<T, n>(dy, places, begin, end, width, column, sum);
      store_pack<n>(pieces + piece * width + column, sum);
    }
  }
}

// A row of dtable for each number: its rows before the first whole piece, one by one, then the pieces. A number without
// rows gets zeros, so that dtable needs no clearing.
template <class T, int n>
__global__ void __launch_bounds__(kThreads)
    add_numbers(const T* dy, const std::int32_t* places, const std::int32_t* begins, const Wide<T>* pieces, T* dtable,
                std::int64_t vocab, std::int64_t width, int lanes) {
  const OwnRows own(lanes);
  std::int32_t next_begin = own.first < vocab ? begins[own.first] : 0;
  std::int32_t next_end = own.first < vocab ? begins[own.first + 1] : 0;
  for (std::int64_t v = own.first; v < vocab; v += own.stride) {
    const std::int64_t begin = next_begin, end = next_end;
    if (v + own.stride < vocab) {  // before they are waited for
      next_begin = begins[v + own.stride];
      next_end = begins[v + own.stride + 1];
    }
    const std::int64_t first_piece = end - begin > kPiece ? ceil_div(begin, kPiece) : end;
    const std::int64_t alone = end - begin > kPiece ? first_piece * kPiece : end;
    for (std::int64_t column = own.lane * n; column < width; column += static_cast<std::int64_t>(lanes) * n) {
      Wide<T> sum[n] = {};
      add_rows<T, n>(dy, places, begin, alone, width, column, sum);
#pragma unroll 2
      for (std::int64_t piece = first_piece; piece * kPiece < end; ++piece) {
        Wide<T> part[n];
        load_pack<n>(pieces + piece * width + column, part);
        MW_UNROLL
        for (int i = 0; i < n; ++i) sum[i] += part[i];
      }
      T rounded[n];
      MW_UNROLL
      for (int i = 0; i < n; ++i) rounded[i] = T(sum[i]);
      store_pack<n>(dtable + v * width + column, rounded);
    }
  }
}

// Where the parts of the workspace lie, in bytes.
struct Layout {
  std::size_t keys[2] = {}, places[2] = {}, counts = 0, begins = 0, pieces = 0, size = 0;

  Layout(const TableShape& shape, std::size_t wide) {
    for (const int k : {0, 1}) {
      keys[k] = take(shape.rows, sizeof(std::int32_t));
      places[k] = take(shape.rows, sizeof(std::int32_t));
    }
    counts = take(tiles_of(shape.rows).count * kDigits, sizeof(std::int32_t));
    begins = take(shape.vocab + 1, sizeof(std::int32_t));
    pieces = take(ceil_div(shape.rows, kPiece) * shape.width, wide);
  }

 private:
  std::size_t take(std::int64_t elements, std::size_t each) {
    const std::size_t at = size;
    size += (static_cast<std::size_t>(elements) * each + 255) / 256 * 256;
    return at;
  }
};

}  // namespace

template <class T>
void embedding(Stream stream, const std::int32_t* ids, const T* table, T* out, const TableShape& shape) {
  with_packs<T>(shape.width, table, out, [&](auto n) {
    const RowLaunch plan = row_launch(shape.width / n);
    launch("embedding", look_up<T, decltype(n)::value>, blocks_for(shape.rows, kRowsOfTurn * plan.groups), {kThreads},
           0, stream, ids, table, out, shape, plan.lanes);
  });
}

template <class T>
std::size_t embedding_backward_workspace(const TableShape& shape) {
  return Layout(shape, sizeof(Wide<T>)).size;
}

template <class T>
void embedding_backward(Stream stream, const std::int32_t* ids, const T* dy, T* dtable, const TableShape& shape,
                        void* workspace) {
  const std::int64_t rows = shape.rows, vocab = shape.vocab, width = shape.width;
  const Layout layout(shape, sizeof(Wide<T>));
  const auto integers = [&](std::size_t offset) {
    return reinterpret_cast<std::int32_t*>(static_cast<std::byte*>(workspace) + offset);
  };
  const Tiles tiles = tiles_of(rows);
  const std::int32_t *numbers = ids, *from = nullptr;
  std::int64_t subtracted = shape.first;
  int pass = 0;
  for (int shift = 0; vocab >> shift > 0; shift += kDigitBits, pass ^= 1) {
    const Keys keys{numbers, subtracted, vocab};
    launch("count_digits", count_digits, {tiles.count}, {kDigits}, 0, stream, keys, tiles, shift,
           integers(layout.counts));
    launch("move_by_digit", move_by_digit, {tiles.count}, {kDigits}, 0, stream, keys, from, tiles, shift,
           integers(layout.counts), integers(layout.keys[pass]), integers(layout.places[pass]));
    numbers = integers(layout.keys[pass]);
    from = integers(layout.places[pass]);
    subtracted = 0;
  }
  const std::int32_t* begins = integers(layout.begins);
  launch("find_begins", find_begins, blocks_for(vocab + 1, kThreads), {kThreads}, 0, stream, numbers, rows, vocab,
         integers(layout.begins));
  auto* pieces = reinterpret_cast<Wide<T>*>(integers(layout.pieces));
  with_packs<T>(width, dy, dtable, [&](auto n) {
    constexpr int kN = decltype(n)::value;
    const RowLaunch plan = row_launch(width / kN);
    launch("add_pieces", add_pieces<T, kN>, blocks_for(ceil_div(rows, kPiece), plan.groups), {kThreads}, 0, stream, dy,
           numbers, from, begins, rows, vocab, width, pieces, plan.lanes);
    launch("add_numbers", add_numbers<T, kN>, blocks_for(vocab, plan.groups), {kThreads}, 0, stream, dy, from, begins,
           pieces, dtable, vocab, width, plan.lanes);
  });
}

#define MW_INSTANTIATE(T)                                                                                   \
  template void embedding<T>(Stream, const std::int32_t*, const T*, T*, const TableShape&);                 \
  template void embedding_backward<T>(Stream, const std::int32_t*, const T*, T*, const TableShape&, void*); \
  template std::size_t embedding_backward_workspace<T>(const TableShape&);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
