// SPDX-License-Identifier: Apache-2.0
// The reductions of kernels/cuda/layout/layout.h.
#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>

#include "kernels/cuda/layout/box.h"
#include "kernels/cuda/layout/layout.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kAtOnce = 4;  // reads of a thread that are on their way at the same time

struct Sum {
  using OfPartial = Sum;
  template <class W>
  MW_DEVICE static W first() {
    return W(0);
  }
  template <class W>
  MW_DEVICE static W term(W x) {
    return x;
  }
  template <class W>
  MW_DEVICE static W of(W a, W b) {
    return a + b;
  }
};
struct SumOfSquares : Sum {
  template <class W>
  MW_DEVICE static W term(W x) {
    return x * x;
  }
};
struct Max {
  using OfPartial = Max;
  template <class W>
  MW_DEVICE static W term(W x) {
    return x;
  }
  template <class W>
  MW_DEVICE static W first() {
    return -std::numeric_limits<W>::infinity();
  }
  template <class W>
  MW_DEVICE static W of(W a, W b) {
    return a < b ? b : a;
  }
};

// x as it is reduced: which elements of x belong to a result (`kept`: offsets a), and where they are from there
// (`reduced`: offsets a). The innermost dimension is apart from the box that it belongs to.
struct Reduced {
  Box kept, reduced;
  Divider inner;                // innermost dimension, in packs
  std::int64_t results, terms;  // of the outer dimensions alone where the innermost is kept; terms in packs
  Divider parts;                // each result is made of so many partial ones
  std::int64_t terms_per_part;
};

// Folds what `lanes` neighbouring lanes of a warp have, and gives all of them the result. In a butterfly both lanes of
// a pair fold the same two values, in either order, which gives the same bits.
template <class Fold, class W>
MW_DEVICE W fold_lanes(W value, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    value = Fold::of(value, __shfl_xor_sync(kAllLanes, value, distance));
  return value;
}

// The same of all threads of a block: every thread folds the warps' results in the order of the warps.
template <class Fold, class W>
MW_DEVICE W fold_block(W value) {
  MW_SHARED W warps[kThreads / kWarp];
  value = fold_lanes<Fold>(value, kWarp);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = warps[0];
  for (int warp = 1; warp < kThreads / kWarp; ++warp) value = Fold::of(value, warps[warp]);
  __syncthreads();
  return value;
}

// The same where x need not lie at a multiple of a pack's size.
template <int n, class T>
MW_DEVICE Pack<T, n> load_anywhere(const T* from, bool aligned) {
  if (aligned) return load<n>(from);
  Pack<T, n> pack;
  MW_UNROLL for (int e = 0; e < n; ++e) pack.of[e] = from[e];
  return pack;
}

// The innermost dimension is reduced. A block, or 2^log_lanes lanes of a warp, fold one part of one result: each thread
// every so many-th pack, element by element, then the elements of its pack, then the threads. out[result][part].
template <class Fold, class T, class Out, int kElements, bool kBlock>
__global__ void __launch_bounds__(kThreads)
    reduce_rows_kernel(Reduced r, int log_lanes, bool aligned, const T* x, Out* out, Wide<T> scale) {
  using W = Wide<T>;
  const int lanes = kBlock ? kThreads : 1 << log_lanes, groups = kBlock ? 1 : kThreads >> log_lanes;
  const int lane = kBlock ? static_cast<int>(threadIdx.x) : static_cast<int>(threadIdx.x) & (lanes - 1);
  const int group = kBlock ? 0 : static_cast<int>(threadIdx.x) >> log_lanes;
  const std::int64_t items = r.results * r.parts.divisor;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * groups; first < items;
       first += static_cast<std::int64_t>(gridDim.x) * groups) {
    const std::int64_t item = first + group;
    W total = Fold::template first<W>();
    if (item < items) {
      const std::int64_t result = r.parts.quotient(item), begin = (item - result * r.parts.divisor) * r.terms_per_part;
      const std::int64_t end = begin + r.terms_per_part < r.terms ? begin + r.terms_per_part : r.terms;
      const T* from = x + offsets_of(r.kept, result).a;
      W folded[kElements];
      MW_UNROLL for (int e = 0; e < kElements; ++e) folded[e] = total;
      // The terms in one order, however many are read at once.
      const auto fold_terms = [&](auto at_once, auto read_at) {
        constexpr int kTurn = decltype(at_once)::value;
        for (std::int64_t term = begin + lane; term < end; term += kTurn * lanes) {
          Pack<T, kElements> read[kTurn] = {};
          MW_UNROLL for (int k = 0; k < kTurn; ++k) if (term + k * lanes < end) read[k] = read_at(term + k * lanes);
          MW_UNROLL for (int k = 0; k < kTurn; ++k) if (term + k * lanes < end)
              MW_UNROLL for (int e = 0; e < kElements; ++e) folded[e] =
                  Fold::of(folded[e], Fold::term(static_cast<W>(read[k].of[e])));
        }
      };
      if (aligned && r.reduced.rank == 0)
        fold_terms(std::integral_constant<int, 2 * kAtOnce>{},
                   [&](std::int64_t at) { return load<kElements>(from + at * kElements); });
      else
        fold_terms(std::integral_constant<int, kAtOnce>{}, [&](std::int64_t at) {
          const std::int64_t outer = r.inner.quotient(at);
          const std::int64_t offset = offsets_of(r.reduced, outer).a + (at - outer * r.inner.divisor) * kElements;
          return load_anywhere<kElements>(from + offset, aligned);
        });
      MW_UNROLL for (int e = 0; e < kElements; ++e) total = Fold::of(total, folded[e]);
    }
    if constexpr (kBlock)
      total = fold_block<Fold>(total);
    else
      total = fold_lanes<Fold>(total, lanes);
    if (lane == 0 && item < items) out[item] = Out(scale * total);
  }
}

// The innermost dimension is kept. A block has `across` threads side by side, a pack of results each, and
// kThreads / across below each other, which share its terms: each takes every so many-th, then they are folded as a
// tree. out[part][result].
template <class Fold, class T, class Out, int kElements>
__global__ void __launch_bounds__(kThreads)
    reduce_columns_kernel(Reduced r, int across, Divider tiles, const T* x, Out* out, Wide<T> scale) {
  using W = Wide<T>;
  MW_SHARED W shared[kElements][kThreads];
  const int thread = static_cast<int>(threadIdx.x), down = kThreads / across;
  const int row = thread / across, column = thread % across;
  const std::int64_t items = r.results * tiles.divisor * r.parts.divisor;
  for (std::int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const std::int64_t place = r.parts.quotient(item), part = item - place * r.parts.divisor;
    const std::int64_t result = tiles.quotient(place);
    const std::int64_t pack = (place - result * tiles.divisor) * across + column;
    const bool inside = pack < r.inner.divisor;
    W folded[kElements];
    MW_UNROLL for (int e = 0; e < kElements; ++e) folded[e] = Fold::template first<W>();
    if (inside) {
      const T* from = x + offsets_of(r.kept, result).a + pack * kElements;
      const std::int64_t begin = part * r.terms_per_part;
      const std::int64_t end = begin + r.terms_per_part < r.terms ? begin + r.terms_per_part : r.terms;
      for (std::int64_t term = begin + row; term < end; term += kAtOnce * down) {
        Pack<T, kElements> read[kAtOnce] = {};
        MW_UNROLL for (int k = 0; k < kAtOnce; ++k) {
          const std::int64_t at = term + k * down;
          if (at < end) read[k] = load<kElements>(from + offsets_of(r.reduced, at).a);
        }
        MW_UNROLL for (int k = 0; k < kAtOnce; ++k) if (term + k * down < end)
            MW_UNROLL for (int e = 0; e < kElements; ++e) folded[e] =
                Fold::of(folded[e], Fold::term(static_cast<W>(read[k].of[e])));
      }
    }
    for (int half = down / 2; half > 0; half /= 2) {
      if (row >= half && row < 2 * half) MW_UNROLL for (int e = 0; e < kElements; ++e) shared[e][thread] = folded[e];
      __syncthreads();
      if (row < half)
        MW_UNROLL for (int e = 0; e < kElements; ++e) folded[e] =
            Fold::of(folded[e], shared[e][thread + half * across]);
    }
    if (row == 0 && inside) {
      Pack<Out, kElements> written;
      MW_UNROLL for (int e = 0; e < kElements; ++e) written.of[e] = Out(scale * folded[e]);
      store(out + ((part * r.results + result) * r.inner.divisor + pack) * kElements, written);
    }
    __syncthreads();
  }
}

// The innermost dimension is kept, and a result has few terms: a thread folds a pack of results.
template <class Fold, class T, class Out, int kElements>
__global__ void __launch_bounds__(kThreads) reduce_few_kernel(Reduced r, const T* x, Out* out, Wide<T> scale) {
  using W = Wide<T>;
  const std::int64_t items = r.results * r.inner.divisor;
  for (std::int64_t item = thread_of_grid(); item < items; item += threads_of_grid()) {
    const std::int64_t result = r.inner.quotient(item), pack = item - result * r.inner.divisor;
    const T* from = x + offsets_of(r.kept, result).a + pack * kElements;
    W folded[kElements];
    MW_UNROLL for (int e = 0; e < kElements; ++e) folded[e] = Fold::template first<W>();
    for (std::int64_t term = 0; term < r.terms; ++term) {
      const Pack<T, kElements> read = load<kElements>(from + offsets_of(r.reduced, term).a);
      MW_UNROLL for (int e = 0; e < kElements; ++e) folded[e] =
          Fold::of(folded[e], Fold::term(static_cast<W>(read.of[e])));
    }
    Pack<Out, kElements> written;
    MW_UNROLL for (int e = 0; e < kElements; ++e) written.of[e] = Out(scale * folded[e]);
    store(out + item * kElements, written);
  }
}

// How a reduction is done; follows from sizes and T alone, and so does the order of its sums.
//
//   rows      the innermost dimension is reduced: 1, 8, 32 or 256 lanes for a result, as it has up to 4, 64, 2047
//             or more packs of terms; also 256 where results are too few to fill the GPU otherwise
//   few       it is kept, and a result has at most kFewTerms: a thread for each pack of results
//   columns   it is kept, and a result has more: threads below each other share its terms
//
// Where rows by 256 lanes and columns would still run in fewer than kBlocksWanted blocks, a result is made of partial
// ones in a second pass.
constexpr std::int64_t kFewTerms = 16, kBlocksWanted = 1024;
struct Way {
  std::vector<BoxDim> kept, reduced;  // outer dimensions
  BoxDim inner;
  bool columns;           // the innermost dimension is kept
  std::int64_t elements;  // of a pack
  std::int64_t results, terms, parts, terms_per_part;
  int lanes;   // rows: threads per result
  int across;  // columns: threads side by side; 0: one thread per pack of results

  [[nodiscard]] std::int64_t all_results() const { return columns ? results * inner.extent : results; }
};

void split_into_parts(Way& way, std::int64_t blocks, std::int64_t min_terms) {
  const std::int64_t maximum = std::max<std::int64_t>(way.terms / min_terms, 1);
  const std::int64_t wanted = std::clamp<std::int64_t>(kBlocksWanted / blocks, 1, maximum);
  way.terms_per_part = ceil_div(way.terms, wanted);
  way.parts = ceil_div(way.terms, way.terms_per_part);
}

template <class T>
Way way_of(std::span<const BoxDim> merged_dims) {
  Way way{};
  way.inner = merged_dims.back();
  way.columns = way.inner.b != 0;
  for (const BoxDim& dim : merged_dims.first(merged_dims.size() - 1))
    (dim.b != 0 ? way.kept : way.reduced).push_back(dim);
  way.elements = way.inner.extent % kPack<T> == 0 ? kPack<T> : 1;
  const std::int64_t packs = way.inner.extent / way.elements;
  way.results = elements_of(way.kept);
  way.terms = elements_of(way.reduced) * (way.columns ? 1 : packs);
  way.parts = 1;
  way.terms_per_part = way.terms;
  if (!way.columns) {
    way.lanes = way.terms <= 4 ? 1 : (way.terms <= 64 ? 8 : kWarp);
    if (way.terms >= 2048 || (way.terms >= 4 * kWarp && way.results < 4 * kBlocksWanted)) way.lanes = kThreads;
    if (way.lanes == kThreads) split_into_parts(way, way.results, 2 * kAtOnce * kThreads);
  } else if (way.terms > kFewTerms) {
    way.across = 1;
    while (way.across < kWarp && way.across < packs) way.across *= 2;
    split_into_parts(way, way.results * (ceil_div(packs, way.across)), 2 * kAtOnce * (kThreads / way.across));
  }
  return way;
}

template <class Fold, class T, class Out, int kElements>
void reduce_pass(Stream stream, const Way& way, const T* x, Out* out, Wide<T> scale) {
  const std::int64_t packs = way.inner.extent / kElements;
  const Reduced r{Box(way.kept), Box(way.reduced),   Divider(packs),    way.results,
                  way.terms,     Divider(way.parts), way.terms_per_part};
  const auto rows = [&](auto kernel) {
    const std::int64_t threads = way.results * way.parts * way.lanes;
    launch("reduce_rows", kernel, blocks_for(threads, kThreads), {kThreads}, 0, stream, r,
           std::countr_zero(static_cast<unsigned>(way.lanes)), is_aligned(x, sizeof(Pack<T, kElements>)), x, out,
           scale);
  };
  const std::int64_t tiles = way.across == 0 ? 0 : ceil_div(packs, way.across);
  if (way.columns && way.across == 0)
    launch("reduce_few", reduce_few_kernel<Fold, T, Out, kElements>, blocks_for(way.results * packs, kThreads),
           {kThreads}, 0, stream, r, x, out, scale);
  else if (way.columns)
    launch("reduce_columns", reduce_columns_kernel<Fold, T, Out, kElements>,
           {std::min(way.results * tiles * way.parts, std::int64_t{1} << 16)}, {kThreads}, 0, stream, r, way.across,
           Divider(tiles), x, out, scale);
  else if (way.lanes == kThreads)
    rows(reduce_rows_kernel<Fold, T, Out, kElements, true>);
  else
    rows(reduce_rows_kernel<Fold, T, Out, kElements, false>);
}

// A column's terms are added in the same order whether it is read in packs or alone; a row's are not, so that rows are
// always in packs where their length is.
template <class Fold, class T, class Out>
void reduce_pass(Stream stream, const Way& way, const T* x, Out* out, Wide<T> scale) {
  const bool aligned = is_aligned(x, sizeof(Pack<T, kPack<T>>)) && is_aligned(out, sizeof(Pack<Out, kPack<T>>));
  if (way.elements == 1 || (way.columns && !aligned))
    reduce_pass<Fold, T, Out, 1>(stream, way, x, out, scale);
  else
    reduce_pass<Fold, T, Out, kPack<T>>(stream, way, x, out, scale);
}

// Sums of partial results, which are few: made by more threads below each other, so that none waits for many reads.
template <class T>
Way way_of_partial(const Way& way) {
  const std::int64_t results = way.all_results();
  const std::vector<BoxDim> dims = way.columns ? std::vector<BoxDim>{{way.parts, results, 0}, {results, 1, 1}}
                                               : std::vector<BoxDim>{{results, way.parts, 1}, {way.parts, 1, 0}};
  Way partial = way_of<Wide<T>>(merged(dims));
  partial.parts = 1;
  partial.terms_per_part = partial.terms;
  partial.across = std::min(partial.across, 4);
  return partial;
}

template <class Fold, class T, class Out>
void reduce(Stream stream, const T* x, Out* out, const KeptDims& kept_dims, double scale, void* workspace) {
  const Way way = way_of<T>(beside_kept(kept_dims));
  if (way.parts == 1) return reduce_pass<Fold, T, Out>(stream, way, x, out, static_cast<Wide<T>>(scale));
  auto* partial = static_cast<Wide<T>*>(workspace);
  reduce_pass<Fold, T, Wide<T>>(stream, way, x, partial, Wide<T>(1));
  reduce_pass<typename Fold::OfPartial, Wide<T>, Out>(stream, way_of_partial<T>(way), partial, out,
                                                      static_cast<Wide<T>>(scale));
}

// --- the derivative of the maximum ---

// `rows`: offsets b of x's rows in y and dy; `inner`: packs of a row.
template <class T, int kElements, bool kInnerKept>
__global__ void __launch_bounds__(kThreads) reduce_max_backward_kernel(Box rows, Divider inner, std::int64_t count,
                                                                       const T* x, const T* y, const T* dy, T* dx) {
  for (std::int64_t item = thread_of_grid(); item < count; item += threads_of_grid()) {
    const std::int64_t row = inner.quotient(item);
    const std::int64_t at = offsets_of(rows, row).b;
    const Pack<T, kElements> mine = load<kElements>(x + item * kElements);
    Pack<T, kElements> result;
    if constexpr (kInnerKept) {
      const std::int64_t column = (item - row * inner.divisor) * kElements;
      const Pack<T, kElements> largest = load<kElements>(y + at + column);
      const Pack<T, kElements> gradient = load<kElements>(dy + at + column);
      MW_UNROLL for (int e = 0; e < kElements; ++e) result.of[e] =
          static_cast<Wide<T>>(mine.of[e]) == static_cast<Wide<T>>(largest.of[e]) ? gradient.of[e] : T(Wide<T>(0));
    } else {
      const auto largest = static_cast<Wide<T>>(y[at]);
      const T gradient = dy[at];
      MW_UNROLL for (int e = 0; e < kElements; ++e) result.of[e] =
          static_cast<Wide<T>>(mine.of[e]) == largest ? gradient : T(Wide<T>(0));
    }
    store(dx + item * kElements, result);
  }
}

template <class T, int kElements>
void reduce_max_backward_pass(Stream stream, std::span<const BoxDim> dims, const T* x, const T* y, const T* dy, T* dx) {
  const BoxDim inner = dims.back();
  const std::span<const BoxDim> outer = dims.first(dims.size() - 1);
  const std::int64_t packs = inner.extent / kElements;
  for_each_box(outer, [&](const Box& rows, std::int64_t a, std::int64_t b) {
    const std::int64_t count = packs * elements_of(outer.last(static_cast<std::size_t>(rows.rank)));
    const auto start = [&](auto kernel) {
      launch("reduce_max_backward", kernel, blocks_for(count, kThreads), {kThreads}, 0, stream, rows, Divider(packs),
             count, x + a, y + b, dy + b, dx + a);
    };
    if (inner.b != 0)
      start(reduce_max_backward_kernel<T, kElements, true>);
    else
      start(reduce_max_backward_kernel<T, kElements, false>);
  });
}

}  // namespace

template <class T>
void reduce_sum(Stream stream, const T* x, T* out, const KeptDims& kept_dims, double scale, void* workspace) {
  reduce<Sum>(stream, x, out, kept_dims, scale, workspace);
}

template <class T>
void reduce_max(Stream stream, const T* x, T* out, const KeptDims& kept_dims, void* workspace) {
  reduce<Max>(stream, x, out, kept_dims, 1.0, workspace);
}

template <class T>
void mean_squares(Stream stream, const T* x, Wide<T>* out, const KeptDims& kept_dims, double scale, void* workspace) {
  reduce<SumOfSquares>(stream, x, out, kept_dims, scale, workspace);
}

template <class T>
std::size_t reduce_workspace(const KeptDims& kept_dims) {
  const Way way = way_of<T>(beside_kept(kept_dims));
  return way.parts == 1 ? 0 : static_cast<std::size_t>(way.parts * way.all_results()) * sizeof(Wide<T>);
}

template <class T>
void reduce_max_backward(Stream stream, const T* x, const T* y, const T* dy, T* dx, const KeptDims& kept_dims) {
  const std::vector<BoxDim> dims = beside_kept(kept_dims);
  bool packs = dims.back().extent % kPack<T> == 0;
  for (const T* operand : {x, y, dy, static_cast<const T*>(dx)}) packs = packs && is_aligned(operand, 16);
  if (packs)
    reduce_max_backward_pass<T, kPack<T>>(stream, dims, x, y, dy, dx);
  else
    reduce_max_backward_pass<T, 1>(stream, dims, x, y, dy, dx);
}

#define MW_INSTANTIATE(T)                                                                    \
  template void reduce_sum<T>(Stream, const T*, T*, const KeptDims&, double, void*);         \
  template void reduce_max<T>(Stream, const T*, T*, const KeptDims&, void*);                 \
  template void mean_squares<T>(Stream, const T*, Wide<T>*, const KeptDims&, double, void*); \
  template std::size_t reduce_workspace<T>(const KeptDims&);                                 \
  template void reduce_max_backward<T>(Stream, const T*, const T*, const T*, T*, const KeptDims&);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
