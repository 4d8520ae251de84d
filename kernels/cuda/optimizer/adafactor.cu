// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/optimizer/adafactor.h"

#include <algorithm>

#include "kernels/cuda/blocks/launch.h"
#include "kernels/cuda/optimizer/step_gradients.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kMaxDims = 8;
constexpr std::int64_t kMaxParts = 1024, kChunk = 1024;

// The gradient as rows (its last dimension) cut into chunks, a warp's work each: the place of a row in the moments
// costs divisions, which a chunk shares.
template <class W>
struct Rows {
  int rank;  // of the outer dimensions
  MomentDim outer[kMaxDims];
  MomentDim inner;
  std::int64_t chunks;  // of a row
  std::int64_t items;   // chunks of all rows
  const W *r, *c, *mean;
};

bool is_one_with(const MomentDim& outer, const MomentDim& inner) {
  for (int m = 0; m < 3; ++m)
    if (outer.strides[m] != inner.strides[m] * inner.extent) return false;
  return true;
}

template <class W>
Rows<W> rows_of(const Moments<W>& moments) {
  std::vector<MomentDim> dims;
  for (const MomentDim& dim : moments.dims) {
    if (dim.extent == 1) continue;
    if (!dims.empty() && is_one_with(dims.back(), dim)) {
      const std::int64_t extent = dims.back().extent * dim.extent;
      dims.back() = dim;
      dims.back().extent = extent;
    } else {
      dims.push_back(dim);
    }
  }
  if (dims.empty()) dims.push_back({1, {0, 0, 0}});
  if (dims.size() > kMaxDims + 1) throw Failure("second moments whose dimensions form more than nine groups");
  Rows<W> rows{};
  rows.rank = static_cast<int>(dims.size()) - 1;
  rows.inner = dims.back();
  rows.chunks = ceil_div(rows.inner.extent, kChunk);
  rows.items = rows.chunks;
  for (int d = 0; d < rows.rank; ++d) {
    rows.outer[d] = dims[static_cast<std::size_t>(d)];
    rows.items *= rows.outer[d].extent;
  }
  rows.r = moments.r, rows.c = moments.c, rows.mean = moments.mean;
  return rows;
}

// Calls visit(element, its move) for the elements of every `stride`-th item from `item` on, by the lanes of a warp.
template <class W, class G, class Visit>
MW_DEVICE void for_each_move(const Rows<W>& rows, const G* gradient, W factor, std::int64_t item, std::int64_t stride,
                             Visit visit) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (; item < rows.items; item += stride) {
    const std::int64_t row = item / rows.chunks, begin = (item - row * rows.chunks) * kChunk;
    const std::int64_t end = begin + kChunk < rows.inner.extent ? begin + kChunk : rows.inner.extent;
    std::int64_t offsets[3] = {}, rest = row;
    for (int d = rows.rank - 1; d >= 0; --d) {
      const std::int64_t left = rest / rows.outer[d].extent, at = rest - left * rows.outer[d].extent;
      for (int m = 0; m < 3; ++m) offsets[m] += at * rows.outer[d].strides[m];
      rest = left;
    }
    for (std::int64_t i = begin + lane; i < end; i += kWarp) {
      const std::int64_t element = row * rows.inner.extent + i;
      const W g = factor * static_cast<W>(gradient[element]);
      const W r = rows.r[offsets[0] + i * rows.inner.strides[0]];
      visit(element, rows.c == nullptr ? move_of(g, r)
                                       : move_of(g, r, rows.c[offsets[1] + i * rows.inner.strides[1]],
                                                 rows.mean[offsets[2] + i * rows.inner.strides[2]]));
    }
  }
}

template <class W>
__global__ void __launch_bounds__(kThreads)
    decay_means(W* mean, const W* now, std::int64_t n, DecayedMeanSettings settings, StepGradients<W> step) {
  MW_SHARED double kept, factor;
  if (threadIdx.x == 0) {
    kept = kept_share(counted_step(step, settings.step), settings.exponent);
    factor = factor_of(step);
  }
  __syncthreads();
  if (is_left_out(step)) return;
  for (std::int64_t i = thread_of_grid(); i < n; i += threads_of_grid())
    mean[i] = static_cast<W>(kept * static_cast<double>(mean[i]) +
                             (1 - kept) * (factor * factor * static_cast<double>(now[i]) + settings.epsilon));
}

template <class W, class G>
__global__ void __launch_bounds__(kThreads)
    square_moves(Rows<W> rows, const G* gradient, double* partial, StepGradients<W> step) {
  MW_SHARED double scratch[kWarp];
  constexpr std::int64_t kWarps = kThreads / kWarp;
  double sum = 0.0;
  for_each_move(rows, gradient, static_cast<W>(factor_of(step)),
                static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp, gridDim.x * kWarps,
                [&](std::int64_t, W move) {
                  const auto u = static_cast<double>(move);
                  sum += u * u;
                });
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class W>
__global__ void __launch_bounds__(kThreads) add_squares(const double* partial, W* out, std::int64_t parts) {
  add_parts_to<kThreads>(partial, out, parts);
}

template <class T, class G>
__global__ void __launch_bounds__(kThreads)
    follow_moves(T* weight, Wide<T>* master, const G* gradient, Rows<Wide<T>> rows, const Wide<T>* squares,
                 AdafactorSettings settings, StepGradients<Wide<T>> step) {
  using W = Wide<T>;
  MW_SHARED W factor, rate;
  if (threadIdx.x == 0) {
    factor = static_cast<W>(factor_of(step));
    rate = static_cast<W>(
        limited_rate(settings.learning_rate, static_cast<double>(*squares), settings.elements, settings.limit));
  }
  __syncthreads();
  if (is_left_out(step)) return;
  constexpr std::int64_t kWarps = kThreads / kWarp;
  const auto rest = static_cast<W>(1 - settings.learning_rate * settings.weight_decay);
  for_each_move(rows, gradient, factor, static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp,
                gridDim.x * kWarps, [&](std::int64_t i, W move) {
                  const W old = master != nullptr ? master[i] : static_cast<W>(weight[i]);
                  const W next = std::fma(rest, old, -(rate * move));
                  if (master != nullptr) master[i] = next;
                  weight[i] = T(next);
                });
}

// Blocks for the items of `rows`, of a warp each: as many as the partial sums have room for at most.
template <class W>
std::int64_t blocks_of(const Rows<W>& rows) {
  return std::clamp<std::int64_t>(ceil_div(rows.items, kThreads / kWarp), 1, kMaxParts);
}

}  // namespace

template <class W>
void decay_mean(Stream stream, W* mean, const W* now, std::int64_t n, const DecayedMeanSettings& settings,
                const StepGradients<W>& step_gradients) {
  launch("decay_mean", decay_means<W>, blocks_for(n, kThreads), {kThreads, 1, 1}, 0, stream, mean, now, n, settings,
         step_gradients);
}

std::size_t move_squares_workspace() { return static_cast<std::size_t>(kMaxParts) * sizeof(double); }

template <class G>
void move_squares(Stream stream, const G* gradient, const Moments<Wide<G>>& moments, Wide<G>* out, void* workspace,
                  const StepGradients<Wide<G>>& step_gradients) {
  using W = Wide<G>;
  const Rows<W> rows = rows_of(moments);
  const std::int64_t blocks = blocks_of(rows);
  auto* partial = static_cast<double*>(workspace);
  launch("move_squares", square_moves<W, G>, {blocks, 1, 1}, {kThreads, 1, 1}, 0, stream, rows, gradient, partial,
         step_gradients);
  launch("move_squares, parts", add_squares<W>, {1, 1, 1}, {kThreads, 1, 1}, 0, stream,
         static_cast<const double*>(partial), out, blocks);
}

template <class T, class G>
void follow_move(Stream stream, T* weight, Wide<T>* master, const G* gradient, const Moments<Wide<T>>& moments,
                 const Wide<T>* squares, const AdafactorSettings& settings,
                 const StepGradients<Wide<T>>& step_gradients) {
  const Rows<Wide<T>> rows = rows_of(moments);
  launch("adafactor_update", follow_moves<T, G>, {blocks_of(rows), 1, 1}, {kThreads, 1, 1}, 0, stream, weight, master,
         gradient, rows, squares, settings, step_gradients);
}

#define MW_INSTANTIATE(W) \
  template void decay_mean<W>(Stream, W*, const W*, std::int64_t, const DecayedMeanSettings&, const StepGradients<W>&);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

#define MW_INSTANTIATE(G)                                                                   \
  template void move_squares<G>(Stream, const G*, const Moments<Wide<G>>&, Wide<G>*, void*, \
                                const StepGradients<Wide<G>>&);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

#define MW_INSTANTIATE(T, G)                                                                               \
  template void follow_move<T, G>(Stream, T*, Wide<T>*, const G*, const Moments<Wide<T>>&, const Wide<T>*, \
                                  const AdafactorSettings&, const StepGradients<Wide<T>>&);
MW_INSTANTIATE(float, float)
MW_INSTANTIATE(double, double)
MW_INSTANTIATE(Bf16, Bf16)
MW_INSTANTIATE(Bf16, float)
MW_INSTANTIATE(F16, F16)
MW_INSTANTIATE(F16, float)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
