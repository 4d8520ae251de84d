// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/tokens/loss.h"

#include <cmath>
#include <limits>

#include "kernels/cuda/blocks/packs.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kThreads = 256;

// The hardware's exponential is right to about |x| 2^-23 of itself: where the logits have 16 bits, less than a tenth of
// their rounding wherever the result counts, and a full one would take longer than the memory.
template <class T>
MW_DEVICE Wide<T> exp_of(Wide<T> x) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 2) return __expf(x);
#endif
  return std::exp(x);
}

template <class W>
MW_DEVICE double value_of(const LossFactor<W>& factor) {
  double value = factor.scale;
  // A power of two: ldexp multiplies without rounding.
  if (factor.scaling != nullptr)
    value *= std::ldexp(factor.first, static_cast<int>(static_cast<double>(factor.scaling[0])));
  if (factor.total != nullptr) value /= static_cast<double>(*factor.total);
  return value;
}

// --- rows ---

// The threads of a row: a warp, or the block (with_rows says when).
template <bool kBlock>
struct Rows {
  int lane, lanes;
  std::int64_t first, stride;

  MW_DEVICE Rows() {
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    lanes = kBlock ? threads : kWarp;
    lane = kBlock ? thread : thread % kWarp;
    const int rows = kBlock ? 1 : threads / kWarp;
    first = static_cast<std::int64_t>(blockIdx.x) * rows + (kBlock ? 0 : thread / kWarp);
    stride = static_cast<std::int64_t>(gridDim.x) * rows;
  }
};

// A row has `head` elements before the first address that 16 bytes can be loaded from, and `packs` from there; wide odd
// rows, as of GPT-2's 50257 classes, are read as fast as even ones.
template <class T>
struct Parts {
  std::int64_t head, packs;

  MW_DEVICE Parts(const T* row, std::int64_t width) {
    const auto beyond = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(row) % 16 / sizeof(T));
    head = beyond == 0 ? 0 : kAtOnce<T> - beyond;
    head = head < width ? head : width;
    packs = (width - head) / kAtOnce<T>;
  }
};

// visit(chunk) for a pack of elements, or one, in an array. Four packs of a thread are loaded before the first is
// visited. Which thread visits what, and in what order, follows from the width and from where the row begins modulo 16
// bytes.
template <class T, class Visit>
MW_DEVICE void each_chunk_of_row(const T* row, std::int64_t width, int lane, int lanes, Visit visit) {
  constexpr int kTurn = 4;
  const Parts<T> parts(row, width);
  const T* middle = row + parts.head;
  const auto visit_one = [&](T value) {
    const T one[] = {value};
    visit(one);
  };
  // head < 16 / sizeof(T) <= 8, and a row has at least 32 lanes: one element a lane is enough, here and after the
  // packs.
  if (lane < parts.head) visit_one(row[lane]);
  for (std::int64_t pack = lane; pack < parts.packs; pack += kTurn * lanes) {
    T x[kTurn][kAtOnce<T>];
    MW_UNROLL
    for (int k = 0; k < kTurn; ++k)
      if (pack + k * lanes < parts.packs) load(middle + (pack + k * lanes) * kAtOnce<T>, x[k]);
    MW_UNROLL
    for (int k = 0; k < kTurn; ++k)
      if (pack + k * lanes < parts.packs) visit(x[k]);
  }
  const std::int64_t last = parts.head + parts.packs * kAtOnce<T> + lane;
  if (last < width) visit_one(row[last]);
}

template <class T, class Visit>
MW_DEVICE void each_of_row(const T* row, std::int64_t width, int lane, int lanes, Visit visit) {
  each_chunk_of_row(row, width, lane, lanes, [&]<int n>(const T(&chunk)[n]) {
    MW_UNROLL
    for (int i = 0; i < n; ++i) visit(widened(chunk[i]));
  });
}

template <class T, bool kBlock>
__global__ void __launch_bounds__(kThreads)
    row_max_kernel(const T* x, Wide<T>* out, std::int64_t rows, std::int64_t width) {
  using W = Wide<T>;
  MW_SHARED W scratch[kWarp];
  const Rows<kBlock> own;
  for (std::int64_t r = own.first; r < rows; r += own.stride) {
    W largest = -std::numeric_limits<W>::infinity();
    each_of_row(x + r * width, width, own.lane, own.lanes,
                [&](W value) { largest = value > largest ? value : largest; });
    largest = kBlock ? block_max(largest, scratch) : warp_max(largest);
    if (own.lane == 0) out[r] = largest;
  }
}

template <class T, bool kBlock>
__global__ void __launch_bounds__(kThreads)
    sum_exp_kernel(const T* x, const Wide<T>* largest, Wide<T>* out, std::int64_t rows, std::int64_t width) {
  using W = Wide<T>;
  MW_SHARED W scratch[kWarp];
  const Rows<kBlock> own;
  for (std::int64_t r = own.first; r < rows; r += own.stride) {
    // The maximum may be over all parts of the classes, on several devices: the caller has combined them.
    const W shift = largest[r];
    W sum = W(0);
    each_of_row(x + r * width, width, own.lane, own.lanes, [&](W value) { sum += exp_of<T>(value - shift); });
    sum = kBlock ? block_sum(sum, scratch) : warp_sum(sum);
    if (own.lane == 0) out[r] = sum;
  }
}

// The maximum of what a thread has seen of a row, and the sum of exponentials of the differences from it. A chunk with
// a larger one scales the sum down to it.
template <class T>
struct RunningSum {
  using W = Wide<T>;
  W largest = -std::numeric_limits<W>::infinity(), sum = W(0);

  template <int n>
  MW_DEVICE void take(const T (&chunk)[n]) {
    W highest = largest;
    MW_UNROLL
    for (int i = 0; i < n; ++i) highest = widened(chunk[i]) > highest ? widened(chunk[i]) : highest;
    if (highest > largest) {
      sum *= std::exp(largest - highest);  // by 0 where there was none
      largest = highest;
    }
    // Classes that are left out add 0 while no other was seen. A NaN, which no maximum shows, makes the sum one.
    const W shift = largest == -std::numeric_limits<W>::infinity() ? W(0) : largest;
    MW_UNROLL
    for (int i = 0; i < n; ++i) sum += exp_of<T>(widened(chunk[i]) - shift);
  }
};

template <class T, bool kBlock>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_rows_kernel(const T* x, const std::int32_t* labels, RowTerms<Wide<T>> out, ClassShape shape) {
  using W = Wide<T>;
  MW_SHARED W scratch[kWarp];
  const std::int64_t rows = shape.rows, width = shape.width;
  const Rows<kBlock> own;
  for (std::int64_t r = own.first; r < rows; r += own.stride) {
    const T* row = x + r * width;
    RunningSum<T> running;
    each_chunk_of_row(row, width, own.lane, own.lanes, [&](const auto& chunk) { running.take(chunk); });
    const W largest = kBlock ? block_max(running.largest, scratch) : warp_max(running.largest);
    const W part = running.sum * std::exp(running.largest - largest);
    const W sum = kBlock ? block_sum(part, scratch) : warp_sum(part);
    if (own.lane != 0) continue;
    out.largest[r] = largest;
    out.sum[r] = sum;
    if (labels == nullptr) continue;
    const std::int64_t label = labels[r] - shape.first;
    out.picked[r] = label >= 0 && label < width ? widened(row[label]) : W(0);
  }
}

// A thread a row: one element of each is read.
template <class T>
__global__ void __launch_bounds__(kThreads)
    pick_label_kernel(const T* x, const std::int32_t* labels, Wide<T>* out, std::int64_t rows, std::int64_t width,
                      std::int64_t first) {
  for (std::int64_t r = thread_of_grid(); r < rows; r += threads_of_grid()) {
    const std::int64_t label = labels[r] - first;
    out[r] = label >= 0 && label < width ? widened(x[r * width + label]) : Wide<T>(0);
  }
}

// weight (exp(x - largest) / sum - onehot), with weight / sum computed once a row. dx may be x: a thread reads a pack
// before it writes it, and nobody else reads that. Rows of dx that do not lie as those of x do modulo 16 bytes are
// written element by element.
template <class T, bool kBlock>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_backward_kernel(const T* x, LossRows<Wide<T>> of_rows, T* dx, ClassShape shape,
                                  LossFactor<Wide<T>> factor) {
  using W = Wide<T>;
  const std::int64_t rows = shape.rows, width = shape.width;
  constexpr int kTurn = 2;
  const Rows<kBlock> own;
  const W scale = static_cast<W>(value_of(factor));
  for (std::int64_t r = own.first; r < rows; r += own.stride) {
    const T* row = x + r * width;
    T* result = dx + r * width;
    const W shift = of_rows.largest[r], weight = of_rows.weights == nullptr ? scale : scale * of_rows.weights[r];
    const W share = weight / of_rows.sum[r];
    // Below 0, or width and more, where the label is in another part: then no i equals it.
    const std::int64_t label = of_rows.labels[r] - shape.first;
    const auto gradient = [&](T value, std::int64_t i) {
      const W probability = share * exp_of<T>(widened(value) - shift);
      return T(i == label ? probability - weight : probability);
    };
    Parts<T> parts(row, width);
    if (reinterpret_cast<std::uintptr_t>(row) % 16 != reinterpret_cast<std::uintptr_t>(result) % 16) parts.packs = 0;
    if (own.lane < parts.head) result[own.lane] = gradient(row[own.lane], own.lane);
    for (std::int64_t pack = own.lane; pack < parts.packs; pack += kTurn * own.lanes) {
      T value[kTurn][kAtOnce<T>];
      MW_UNROLL
      for (int k = 0; k < kTurn; ++k)
        if (pack + k * own.lanes < parts.packs) load(row + parts.head + (pack + k * own.lanes) * kAtOnce<T>, value[k]);
      MW_UNROLL
      for (int k = 0; k < kTurn; ++k) {
        if (pack + k * own.lanes >= parts.packs) continue;
        const std::int64_t begin = parts.head + (pack + k * own.lanes) * kAtOnce<T>;
        MW_UNROLL
        for (int i = 0; i < kAtOnce<T>; ++i) value[k][i] = gradient(value[k][i], begin + i);
        store(result + begin, value[k]);
      }
    }
    for (std::int64_t i = parts.head + parts.packs * kAtOnce<T> + own.lane; i < width; i += own.lanes)
      result[i] = gradient(row[i], i);
  }
}

// Calls action(std::bool_constant<kBlock>, blocks).
template <class Action>
void with_rows(std::int64_t rows, std::int64_t width, Action action) {
  // In classes. A block's barriers pay only for wider rows.
  constexpr std::int64_t kWidestOfWarp = 1024;
  if (width <= kWidestOfWarp)
    action(std::false_type{}, blocks_for(rows, kThreads / kWarp));
  else
    action(std::true_type{}, blocks_for(rows, 1));
}

// --- sums of everything ---

constexpr int kPartials = 1024;  // at most

template <class T>
struct CrossEntropyTerm {
  LossRows<T> rows;

  MW_DEVICE double operator()(std::int64_t r) const {
    const double loss = static_cast<double>(widened(rows.largest[r])) +
                        std::log(static_cast<double>(widened(rows.sum[r]))) -
                        static_cast<double>(widened(rows.picked[r]));
    return rows.weights == nullptr ? loss : static_cast<double>(widened(rows.weights[r])) * loss;
  }
};

// Over a group of kAtOnce elements.
template <class T>
struct SquaredErrorTerm {
  const T *x, *y;
  std::int64_t n;
  bool well;  // they lie

  MW_DEVICE double operator()(std::int64_t group) const {
    const std::int64_t begin = group * kAtOnce<T>;
    T a[kAtOnce<T>] = {}, b[kAtOnce<T>] = {};
    if (well && begin + kAtOnce<T> <= n) {
      load(x + begin, a);
      load(y + begin, b);
    } else {
      MW_UNROLL
      for (int i = 0; i < kAtOnce<T>; ++i) {
        if (begin + i >= n) continue;
        a[i] = x[begin + i];
        b[i] = y[begin + i];
      }
    }
    // Some squares are added in Wide<T>, then all groups in double.
    Wide<T> sum = 0;
    MW_UNROLL
    for (int i = 0; i < kAtOnce<T>; ++i) sum += (widened(a[i]) - widened(b[i])) * (widened(a[i]) - widened(b[i]));
    return static_cast<double>(sum);
  }
};

// Two passes: at most kPartials blocks leave a sum each, and one block adds those. Which thread has which terms follows
// from their number.
template <class Term>
__global__ void __launch_bounds__(kThreads) add_terms(Term term, std::int64_t terms, double* partials) {
  MW_SHARED double scratch[kWarp];
  double sum = 0.0;
  for (std::int64_t i = thread_of_grid(); i < terms; i += threads_of_grid()) sum += term(i);
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

template <class Out, class W>
__global__ void __launch_bounds__(kThreads)
    add_partials(const double* partials, int count, LossFactor<W> factor, Out* out) {
  MW_SHARED double scratch[kWarp];
  double sum = 0.0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) sum += partials[i];
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) *out = Out(value_of(factor) * sum);
}

template <class Term, class Out, class W>
void add_up(const char* name, Stream stream, Term term, std::int64_t terms, LossFactor<W> factor, Out* out,
            void* workspace) {
  const std::int64_t wanted = blocks_for(terms, kThreads).x, blocks = wanted < kPartials ? wanted : kPartials;
  auto* partials = static_cast<double*>(workspace);
  launch(name, add_terms<Term>, {blocks}, {kThreads}, 0, stream, term, terms, partials);
  launch(name, add_partials<Out, W>, {1}, {kThreads}, 0, stream, partials, blocks, factor, out);
}

template <class T>
__global__ void __launch_bounds__(kThreads) squared_error_backward_kernel(const T* x, const T* y, T* dx, std::int64_t n,
                                                                          bool well, LossFactor<Wide<T>> factor) {
  const Wide<T> twice = static_cast<Wide<T>>(2.0 * value_of(factor));
  const std::int64_t stride = threads_of_grid();
  const std::int64_t first = thread_of_grid();
  const std::int64_t groups = well ? n / kAtOnce<T> : 0;
  for (std::int64_t group = first; group < groups; group += stride) {
    T a[kAtOnce<T>], b[kAtOnce<T>];
    load(x + group * kAtOnce<T>, a);
    load(y + group * kAtOnce<T>, b);
    MW_UNROLL
    for (int i = 0; i < kAtOnce<T>; ++i) a[i] = T(twice * (widened(a[i]) - widened(b[i])));
    store(dx + group * kAtOnce<T>, a);
  }
  // What follows the last whole group, or everything where an array is not aligned.
  for (std::int64_t i = groups * kAtOnce<T> + first; i < n; i += stride)
    dx[i] = T(twice * (widened(x[i]) - widened(y[i])));
}

}  // namespace

template <class T>
void row_max(Stream stream, const T* x, Wide<T>* out, std::int64_t rows, std::int64_t width) {
  with_rows(rows, width, [&](auto block, Size3 blocks) {
    launch("row_max", row_max_kernel<T, decltype(block)::value>, blocks, {kThreads}, 0, stream, x, out, rows, width);
  });
}

template <class T>
void sum_exp(Stream stream, const T* x, const Wide<T>* largest, Wide<T>* out, std::int64_t rows, std::int64_t width) {
  with_rows(rows, width, [&](auto block, Size3 blocks) {
    launch("sum_exp", sum_exp_kernel<T, decltype(block)::value>, blocks, {kThreads}, 0, stream, x, largest, out, rows,
           width);
  });
}

template <class T>
void pick_label(Stream stream, const T* x, const std::int32_t* labels, Wide<T>* out, const ClassShape& shape) {
  launch("pick_label", pick_label_kernel<T>, blocks_for(shape.rows, kThreads), {kThreads}, 0, stream, x, labels, out,
         shape.rows, shape.width, shape.first);
}

template <class T>
void cross_entropy_rows(Stream stream, const T* x, const std::int32_t* labels, const RowTerms<Wide<T>>& out,
                        const ClassShape& shape) {
  with_rows(shape.rows, shape.width, [&](auto block, Size3 blocks) {
    launch("cross_entropy_rows", cross_entropy_rows_kernel<T, decltype(block)::value>, blocks, {kThreads}, 0, stream, x,
           labels, out, shape);
  });
}

std::size_t loss_workspace() { return kPartials * sizeof(double); }

template <class T>
void cross_entropy(Stream stream, const LossRows<T>& of_rows, T* out, std::int64_t rows, const LossFactor<T>& factor,
                   void* workspace) {
  add_up("cross_entropy", stream, CrossEntropyTerm<T>{of_rows}, rows, factor, out, workspace);
}

template <class T>
void cross_entropy_backward(Stream stream, const T* x, const LossRows<Wide<T>>& of_rows, T* dx, const ClassShape& shape,
                            const LossFactor<Wide<T>>& factor) {
  with_rows(shape.rows, shape.width, [&](auto block, Size3 blocks) {
    launch("cross_entropy_backward", cross_entropy_backward_kernel<T, decltype(block)::value>, blocks, {kThreads}, 0,
           stream, x, of_rows, dx, shape, factor);
  });
}

template <class T>
void squared_error(Stream stream, const T* x, const T* y, Wide<T>* out, std::int64_t n, double scale, void* workspace) {
  const bool well = lies_well<kAtOnce<T>>(x) && lies_well<kAtOnce<T>>(y);
  add_up("squared_error", stream, SquaredErrorTerm<T>{x, y, n, well}, ceil_div(n, kAtOnce<T>),
         LossFactor<Wide<T>>{.scale = scale}, out, workspace);
}

template <class T>
void squared_error_backward(Stream stream, const T* x, const T* y, T* dx, std::int64_t n, LossFactor<Wide<T>> factor) {
  const bool well = lies_well<kAtOnce<T>>(x) && lies_well<kAtOnce<T>>(y) && lies_well<kAtOnce<T>>(dx);
  launch("squared_error_backward", squared_error_backward_kernel<T>,
         blocks_for(well ? n / kAtOnce<T> + n % kAtOnce<T> : n, kThreads), {kThreads}, 0, stream, x, y, dx, n, well,
         factor);
}

#define MW_INSTANTIATE(T)                                                                                    \
  template void row_max<T>(Stream, const T*, Wide<T>*, std::int64_t, std::int64_t);                          \
  template void sum_exp<T>(Stream, const T*, const Wide<T>*, Wide<T>*, std::int64_t, std::int64_t);          \
  template void pick_label<T>(Stream, const T*, const std::int32_t*, Wide<T>*, const ClassShape&);           \
  template void cross_entropy_rows<T>(Stream, const T*, const std::int32_t*, const RowTerms<Wide<T>>&,       \
                                      const ClassShape&);                                                    \
  template void cross_entropy<T>(Stream, const LossRows<T>&, T*, std::int64_t, const LossFactor<T>&, void*); \
  template void cross_entropy_backward<T>(Stream, const T*, const LossRows<Wide<T>>&, T*, const ClassShape&, \
                                          const LossFactor<Wide<T>>&);                                       \
  template void squared_error<T>(Stream, const T*, const T*, Wide<T>*, std::int64_t, double, void*);         \
  template void squared_error_backward<T>(Stream, const T*, const T*, T*, std::int64_t, LossFactor<Wide<T>>);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
