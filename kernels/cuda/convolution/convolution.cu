// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/convolution/convolution.h"

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/convolution/convolution_sums.h"

namespace meshwright::kernels::cuda {

namespace {

using namespace convolving;

// A convolution as products of matrices (m, k) (k, n), one for each group, whose gathered operand is never stored:
//
//                     m: lines                     n: columns   k: depth, summed             products of a group
//   forward           places of y                  out          (row tap, column tap, in)    1
//   backward, input   places of dx                 in           (row tap, column tap, out)   row * column stride
//   backward, weight  (row tap, column tap, in)    out          places of y                  parts of the places
//
// Places are (image, row, column). Lines and depths are numbers of three digits (Digits), which are divided once, where
// a block begins, and then advance by additions with carries: divisions would take longer than the products.
//
// --- y from x and w, dx from dy and w ---

template <class T_, bool backward>
struct Gathering {
  using T = T_;
  using Out = T;
  template <class Tile>
  using Left = GatheredLines<T, Tile::m, backward>;
  template <class Tile>
  using Right = std::conditional_t<backward, FilterLines<T, Tile::n>, PlainColumns<T, Tile::n>>;

  Sizes s;
  const T *source, *w;
  T* result;
  bool source_vectors, filter_vectors, result_vectors;
  std::int64_t row_tiles, column_tiles;

  MW_DEVICE int result_channels() const { return backward ? s.in : s.out; }
  MW_DEVICE int source_channels() const { return backward ? s.out : s.in; }

  // Which results are meant: those of one group and one phase. With the digits of
  //   blockIdx.x = (((group * row phases + row phase) * column phases + column phase) * row_tiles + row tile)
  //                * column_tiles + column tile
  // neighbouring blocks share the gathered lines, which the second cache then has.
  struct Part {
    int group;
    Phase rows, columns;
    std::int64_t first;
  };
  MW_DEVICE Part part(int tile_m) const {
    std::int64_t rest = blockIdx.x / column_tiles;
    const std::int64_t row_tile = rest % row_tiles;
    rest /= row_tiles;
    const int column_phase = backward ? last_digit(rest, s.columns.stride) : 0;
    const int row_phase = backward ? last_digit(rest, s.rows.stride) : 0;
    return {static_cast<int>(rest), phase_of<backward>(s.rows, row_phase), phase_of<backward>(s.columns, column_phase),
            row_tile * tile_m};
  }
  // (image, row, column) of a result of the part; no image: beyond the last.
  MW_DEVICE Digits place(const Part& p, std::int64_t line) const {
    if (p.rows.count == 0 || p.columns.count == 0) return {-1, 0, 0};
    Digits at = Digits::of(p.first + line, p.rows.count, p.columns.count);
    if (at.high >= s.batch) return {-1, 0, 0};
    at.middle = p.rows.first + at.middle * p.rows.step;
    at.low = p.columns.first + at.low * p.columns.step;
    return at;
  }
  // Where line `line` of the block goes, from `out` on; less than 0: nowhere.
  template <class Tile>
  MW_DEVICE std::int64_t offset(int line) const {
    const Digits at = place(part(Tile::m), line);
    if (at.high < 0) return -1;
    const std::int64_t row = static_cast<std::int64_t>(at.high) * results_of<backward>(s.rows) + at.middle;
    return (row * results_of<backward>(s.columns) + at.low) * s.groups * result_channels();
  }

  template <class Tile>
  MW_DEVICE Task<T> begin(Left<Tile>& left, Right<Tile>& right) const {
    const Part p = part(Tile::m);
    if (p.first >= s.batch * p.rows.count * p.columns.count) return {};
    const int first_column = static_cast<int>(blockIdx.x % column_tiles) * Tile::n;
    const Taps row_taps = taps_of<backward>(s.rows, p.rows.first);
    const Taps column_taps = taps_of<backward>(s.columns, p.columns.first);
    const int channels = source_channels();
    left.rows = sources_of<backward>(s.rows);
    left.columns = sources_of<backward>(s.columns);
    left.channels = channels;
    left.stride = s.groups * channels;
    left.row_taps = row_taps.count;
    left.column_taps = column_taps.count;
    left.vectors = source_vectors;
    MW_UNROLL
    for (int t = 0; t < Left<Tile>::kTurns; ++t) {
      const Digits at = place(p, Left<Tile>::line(t));
      left.image[t] = at.high < 0
                          ? nullptr
                          : source + static_cast<std::int64_t>(at.high) * left.rows * left.columns * left.stride +
                                static_cast<std::int64_t>(p.group) * channels;
      left.row[t] = taps_of<backward>(s.rows, at.middle).source;
      left.column[t] = taps_of<backward>(s.columns, at.low).source;
    }
    const std::int64_t depth = static_cast<std::int64_t>(row_taps.count) * column_taps.count * channels;
    if (depth > 0) {
      left.k = Digits::of(Left<Tile>::depth(), column_taps.count, channels);
      left.step = Digits::of(kDepth<T>, column_taps.count, channels);
    }
    const T* filter = w + static_cast<std::int64_t>(p.group) * s.rows.size * s.columns.size * s.in * s.out;
    right.vectors = filter_vectors;
    right.first = first_column;
    if constexpr (backward) {
      right.filter = filter;
      right.in = s.in;
      right.out = s.out;
      right.width = s.columns.size;
      right.row_taps = row_taps;
      right.column_taps = column_taps;
      right.k = left.k;
      right.step = left.step;
    } else {
      right.matrix = filter;
      right.stride = s.out;
      right.k = 0;
      right.end = depth;
      right.columns = s.out;
    }
    return {true, ceil_div(depth, kDepth<T>),
            result + static_cast<std::int64_t>(p.group) * result_channels() + first_column,
            result_channels() - first_column};
  }
};

// --- parts of dw from x and dy ---

// The places of y are cut into parts, each with sums of its own, which add_parts adds in their order: enough blocks
// without atomics, and the same bits in every run.
template <class T_>
struct Weighing {
  using T = T_;
  using Out = Wide<T>;
  template <class Tile>
  using Left = GatheredColumns<T, Tile::m>;
  template <class Tile>
  using Right = PlainColumns<T, Tile::n>;

  Sizes s;
  const T *x, *dy;
  Wide<T>* sums;  // (parts, groups, rows.size, columns.size, in, out)
  bool source_vectors, filter_vectors, result_vectors;
  std::int64_t row_tiles, column_tiles, parts;

  MW_DEVICE std::int64_t lines() const { return static_cast<std::int64_t>(s.rows.size) * s.columns.size * s.in; }
  MW_DEVICE std::int64_t first_line(int tile_m) const { return blockIdx.x / column_tiles % row_tiles * tile_m; }
  template <class Tile>
  MW_DEVICE std::int64_t offset(int line) const {
    const std::int64_t at = first_line(Tile::m) + line;
    return at < lines() ? at * s.out : -1;
  }

  template <class Tile>
  MW_DEVICE Task<Wide<T>> begin(Left<Tile>& left, Right<Tile>& right) const {
    const int first_column = static_cast<int>(blockIdx.x % column_tiles) * Tile::n;
    const std::int64_t rest = blockIdx.x / column_tiles / row_tiles, part = rest % parts, group = rest / parts;
    const std::int64_t places = s.batch * s.rows.to * s.columns.to;
    const std::int64_t begin = places * part / parts, end = places * (part + 1) / parts;
    left.x = x + group * s.in;
    left.rows = s.rows;
    left.columns = s.columns;
    left.stride = static_cast<std::int64_t>(s.groups) * s.in;
    left.channels = s.in;
    left.first = Digits::of(first_line(Tile::m) + Left<Tile>::line(), s.columns.size, s.in);
    left.k = begin + Left<Tile>::depth(0);
    left.end = end;
    left.place = Digits::of(left.k, s.rows.to, s.columns.to);
    left.step = Digits::of(Left<Tile>::kStep, s.rows.to, s.columns.to);
    left.vectors = source_vectors;
    right.matrix = dy + group * s.out;
    right.stride = static_cast<std::int64_t>(s.groups) * s.out;
    right.k = begin;
    right.end = end;
    right.first = first_column;
    right.columns = s.out;
    right.vectors = filter_vectors;
    return {true, ceil_div(end - begin, kDepth<T>), sums + (part * s.groups + group) * lines() * s.out + first_column,
            s.out - first_column};
  }
};

// --- the product ---

// Tensor cores are done with a tile before the next has come from memory, so that two blocks must share them: worth the
// few registers that the large tile then keeps in memory.
template <class T>
constexpr int kBlocksAtOnce = kTensor<T> ? 2 : 1;

template <class Problem, class Tile>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce<typename Problem::T>) multiply_tiles(Problem problem) {
  using T = typename Problem::T;
  using Left = typename Problem::template Left<Tile>;
  using Right = typename Problem::template Right<Tile>;
  MW_DYNAMIC_SHARED(Shared<T>, shared);
  MW_SHARED std::int64_t offsets[Tile::m];
  Left left;
  Right right;
  const auto task = problem.template begin<Tile>(left, right);
  if (!task.exists) return;  // all threads of the block
  if (static_cast<int>(threadIdx.x) < Tile::m)
    offsets[threadIdx.x] = problem.template offset<Tile>(static_cast<int>(threadIdx.x));
  typename Left::Fetched a;
  typename Right::Fetched b;
  Sums<T, Tile, Left::kAlong, Right::kAlong> sums;
  // Two tiles of each operand: one is multiplied while the other is filled.
  Shared<T>* const lefts = shared;
  Shared<T>* const rights = shared + 2 * Left::kShared;
  if (task.steps > 0) {
    left.fetch(a);
    right.fetch(b);
    Left::keep(a, lefts);
    Right::keep(b, rights);
  }
  __syncthreads();
  // One barrier a step: after it all threads have kept the next tile and are done with this one, which the next
  // step overwrites. Fetches are begun before the product, and kept after it: the product hides their wait.
  for (std::int64_t step = 0; step < task.steps; ++step) {
    const int now = static_cast<int>(step % 2), next = 1 - now;
    const bool more = step + 1 < task.steps;
    if (more) {
      left.fetch(a);
      right.fetch(b);
    }
    sums.multiply(lefts + now * Left::kShared, rights + now * Right::kShared);
    if (more) {
      Left::keep(a, lefts + next * Left::kShared);
      Right::keep(b, rights + next * Right::kShared);
    }
    __syncthreads();
  }
  sums.write(offsets, task, problem.result_vectors);
}

using Large = Tile<128, 128, 8, 8, 4>;
using Middle = Tile<64, 64, 4, 4, 2>;
using Slim = Tile<128, 32, 4, 4, 4>;

// Multiprocessors that blocks are spread over: those of an H100 or H200. Another number costs time, never bits.
constexpr std::int64_t kMultiprocessors = 132;

// Calls action(Tile{}) with the tile that is asked for, or with the one that is done first, by area and by how much of
// its time a tile multiplies.
template <class T, class Action>
void with_tile(ConvolutionTile asked, std::int64_t m, std::int64_t n, std::int64_t products, Action action) {
  if constexpr (std::is_same_v<T, double>) {
    action(Middle{});
  } else {
    // Tiles are done in rounds, as many at once as there are multiprocessors; a round takes as long as a tile.
    const auto time = [&](std::int64_t tile_m, std::int64_t tile_n, double efficiency) {
      const std::int64_t rounds = ceil_div(ceil_div(m, tile_m) * ceil_div(n, tile_n) * products, kMultiprocessors);
      return static_cast<double>(rounds * tile_m * tile_n) / efficiency;
    };
    const double large = time(128, 128, 1.0), middle = time(64, 64, 0.7), slim = time(128, 32, 0.65);
    if (asked == ConvolutionTile::Best) {
      const bool all_slower = large <= middle && large <= slim;
      asked = all_slower ? ConvolutionTile::Large : middle <= slim ? ConvolutionTile::Middle : ConvolutionTile::Slim;
    }
    if (asked == ConvolutionTile::Large)
      action(Large{});
    else if (asked == ConvolutionTile::Middle)
      action(Middle{});
    else
      action(Slim{});
  }
}

template <class Tile, class Problem>
void launch_tiles(const char* name, Stream stream, Problem problem, std::int64_t m, std::int64_t n,
                  std::int64_t products) {
  problem.row_tiles = ceil_div(m, Tile::m);
  problem.column_tiles = ceil_div(n, Tile::n);
  const std::int64_t blocks = problem.row_tiles * problem.column_tiles * products;
  if (blocks > std::numeric_limits<int>::max()) throw Failure("a convolution of more than 2^31 tiles");
  using Left = typename Problem::template Left<Tile>;
  using Right = typename Problem::template Right<Tile>;
  constexpr std::size_t kShared = 2 * (Left::kShared + Right::kShared) * sizeof(Shared<typename Problem::T>);
  launch(name, multiply_tiles<Problem, Tile>, {blocks, 1, 1}, {kThreads, 1, 1}, kShared, stream, problem);
}

template <class T>
bool vectors_fit(const T* data, std::int64_t channels) {
  return channels % kVector<T> == 0 && lies_well<kVector<T>>(data);
}

template <bool backward, class T>
void gather_and_multiply(const char* name, Stream stream, const T* source, const T* w, T* result,
                         const ConvolutionShape& shape, ConvolutionTile tile) {
  if (has_narrow_groups(shape)) return convolve_narrow<backward>(stream, source, w, result, shape);
  const Sizes s = sizes_of(shape);
  const std::int64_t n = backward ? shape.in : shape.out, depth = backward ? shape.out : shape.in;
  const std::int64_t row_phases = backward ? s.rows.stride : 1, column_phases = backward ? s.columns.stride : 1;
  const std::int64_t m = s.batch * ceil_div(results_of<backward>(s.rows), row_phases) *
                         ceil_div(results_of<backward>(s.columns), column_phases);
  const std::int64_t products = shape.groups * row_phases * column_phases;
  const Gathering<T, backward> problem{
      s, source, w, result, vectors_fit(source, depth), vectors_fit(w, shape.out), vectors_fit(result, n), 1, 1};
  with_tile<T>(tile, m, n, products,
               [&](auto chosen) { launch_tiles<decltype(chosen)>(name, stream, problem, m, n, products); });
}

// --- dw ---

std::int64_t filter_size(const ConvolutionShape& s) { return s.rows.size * s.columns.size * s.in * s.out; }

// So many that all multiprocessors have two blocks, of a length that is worth a start.
std::int64_t weight_parts(const ConvolutionShape& s) {
  if (has_narrow_groups(s)) return narrow_weight_part_count(s);
  constexpr std::int64_t kMin = 256;
  const std::int64_t places = s.batch * s.rows.to * s.columns.to;
  const std::int64_t tiles = ceil_div(filter_size(s) / s.out, Middle::m) * ceil_div(s.out, Middle::n) * s.groups;
  return std::max<std::int64_t>(1, std::min(ceil_div(4 * kMultiprocessors, tiles), places / kMin));
}

template <class T>
__global__ void __launch_bounds__(kThreads) add_parts(const Wide<T>* sums, T* out, std::int64_t n, std::int64_t parts) {
  for (std::int64_t i = thread_of_grid(); i < n; i += threads_of_grid()) {
    Wide<T> total = 0;
    for (std::int64_t part = 0; part < parts; ++part) total += sums[part * n + i];
    out[i] = T(total);
  }
}

}  // namespace

template <class T>
void convolution(Stream stream, const T* x, const T* w, T* y, const ConvolutionShape& shape, ConvolutionTile tile) {
  gather_and_multiply<false>("convolution", stream, x, w, y, shape, tile);
}
template <class T>
void convolution_backward_input(Stream stream, const T* w, const T* dy, T* dx, const ConvolutionShape& shape,
                                ConvolutionTile tile) {
  gather_and_multiply<true>("convolution_backward_input", stream, dy, w, dx, shape, tile);
}

template <class T>
std::size_t convolution_backward_weight_workspace(const ConvolutionShape& shape) {
  return static_cast<std::size_t>(weight_parts(shape) * shape.groups * filter_size(shape)) * sizeof(Wide<T>);
}

template <class T>
void convolution_backward_weight(Stream stream, const T* x, const T* dy, T* dw, const ConvolutionShape& shape,
                                 void* workspace, ConvolutionTile tile) {
  const auto sums = static_cast<Wide<T>*>(workspace);
  const std::int64_t parts = weight_parts(shape), weights = shape.groups * filter_size(shape);
  if (has_narrow_groups(shape)) {
    narrow_weight_parts(stream, x, dy, sums, shape, parts);
  } else {
    const std::int64_t m = filter_size(shape) / shape.out, products = shape.groups * parts;
    const Weighing<T> problem{sizes_of(shape),
                              x,
                              dy,
                              sums,
                              vectors_fit(x, shape.in),
                              vectors_fit(dy, shape.out),
                              vectors_fit(sums, shape.out),
                              1,
                              1,
                              parts};
    with_tile<T>(tile, m, shape.out, products, [&](auto chosen) {
      launch_tiles<decltype(chosen)>("convolution_backward_weight", stream, problem, m, shape.out, products);
    });
  }
  launch("add_parts", add_parts<T>, blocks_for(weights, kThreads), {kThreads, 1, 1}, 0, stream, sums, dw, weights,
         parts);
}

#define MW_INSTANTIATE(T)                                                                                      \
  template void convolution<T>(Stream, const T*, const T*, T*, const ConvolutionShape&, ConvolutionTile);      \
  template void convolution_backward_input<T>(Stream, const T*, const T*, T*, const ConvolutionShape&,         \
                                              ConvolutionTile);                                                \
  template void convolution_backward_weight<T>(Stream, const T*, const T*, T*, const ConvolutionShape&, void*, \
                                               ConvolutionTile);                                               \
  template std::size_t convolution_backward_weight_workspace<T>(const ConvolutionShape&);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
