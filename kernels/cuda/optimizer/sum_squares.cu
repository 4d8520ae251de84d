// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/cuda/blocks/groups.h"
#include "kernels/cuda/optimizer/optimizer.h"
#include "kernels/cuda/optimizer/step_gradients.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxPartial = 1024, kThreadElements = 32;

std::int64_t partial_sums(std::int64_t n) {
  return std::clamp<std::int64_t>(ceil_div(n, kThreads * kThreadElements), 1, kMaxPartial);
}

// The number of parts follows from n alone, and with it which thread adds what: clipping scales every weight by this
// sum, so that one other bit here would be one in all weights.
//
// Squares of 16-bit numbers are exact in float; a group's are added there, for the sake of fewer steps in double. What
// block `part` of `parts` adds up, for its first thread.
template <class T>
MW_DEVICE double squares_of_part(const T* x, std::int64_t n, std::int64_t part, std::int64_t parts) {
  constexpr int kGroup = group_of<T>(), kTurn = 4;
  using Squared = std::conditional_t<sizeof(T) == 2, float, double>;
  MW_SHARED double scratch[kWarp];
  const bool well = lies_well<kGroup>(x);
  const std::int64_t stride = parts * kThreads, groups = n / kGroup;
  double sums[kTurn] = {};
  for (std::int64_t turn = part * kThreads + threadIdx.x; turn < groups; turn += kTurn * stride) {
    T values[kTurn][kGroup];
    MW_UNROLL
    for (int k = 0; k < kTurn; ++k) {
      const std::int64_t g = turn + k * stride;
      // Beyond the last group 0 elements are loaded, and zeros add nothing.
      load_group(x + g * kGroup, values[k], g < groups ? kGroup : 0, well);
    }
    MW_UNROLL
    for (int k = 0; k < kTurn; ++k) {
      Squared sum = 0;
      MW_UNROLL
      for (int i = 0; i < kGroup; ++i) {
        const auto value = static_cast<Squared>(values[k][i]);
        sum += value * value;
      }
      sums[k] += static_cast<double>(sum);
    }
  }
  double sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  // The last n % kGroup elements, fewer than a block has threads, are part 0's.
  if (part == 0 && threadIdx.x < n - groups * kGroup) {
    const auto value = static_cast<double>(x[groups * kGroup + threadIdx.x]);
    sum += value * value;
  }
  return block_sum(sum, scratch);
}

template <class T>
__global__ void __launch_bounds__(kThreads) square_parts(const T* x, double* partial, std::int64_t n) {
  const double sum = squares_of_part(x, n, blockIdx.x, gridDim.x);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
template <class W>
__global__ void __launch_bounds__(kThreads) add_parts(const double* partial, W* out, std::int64_t parts) {
  add_parts_to<kThreads>(partial, out, parts);
}

// --- of several gradients ---

// The gradients of one launch, with which they travel.
constexpr int kGradients = 64, kSteps = 128;
template <class T>
struct Gradients {
  const T* x[kGradients];
  std::int64_t n[kGradients];
  std::int64_t first_part[kGradients + 1];  // blocks: those of gradient i begin there
  int count = 0;
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    square_parts_of_several(const __grid_constant__ Gradients<T> gradients, double* partial) {
  const std::int64_t block = blockIdx.x;
  int low = 0, high = gradients.count;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (gradients.first_part[middle] <= block ? low : high) = middle;
  }
  const std::int64_t first = gradients.first_part[low], parts = gradients.first_part[low + 1] - first;
  const double sum = squares_of_part(gradients.x[low], gradients.n[low], block - first, parts);
  if (threadIdx.x == 0) partial[block] = sum;
}
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_parts_of_several(const __grid_constant__ Gradients<T> gradients, const double* partial, Wide<T>* totals) {
  const std::int64_t first = gradients.first_part[blockIdx.x];
  add_parts_to<kThreads>(partial + first, totals + blockIdx.x, gradients.first_part[blockIdx.x + 1] - first);
}

// out = x, or x + y.
template <class W>
struct Additions {
  const W *x[kSteps], *y[kSteps];
  W* out[kSteps];
  int count = 0;
};
template <class W>
__global__ void add_one_after_the_other(const __grid_constant__ Additions<W> additions) {
  // One thread: a step may read what an earlier one has written.
  if (threadIdx.x != 0) return;
  for (int i = 0; i < additions.count; ++i) {
    const W x = *additions.x[i];
    *additions.out[i] = additions.y[i] == nullptr ? x : x + *additions.y[i];
  }
}

template <class T>
std::int64_t partial_sums(std::span<const SquaresStep<T>> steps) {
  std::int64_t all = 0;
  for (const SquaresStep<T>& step : steps)
    if (step.gradient != nullptr) all += partial_sums(step.n);
  return all;
}

}  // namespace

std::size_t sum_squares_workspace(std::int64_t n) { return static_cast<std::size_t>(partial_sums(n)) * sizeof(double); }

template <class T>
void sum_squares(Stream stream, const T* gradient, Wide<T>* out, std::int64_t n, void* workspace) {
  auto* partial = static_cast<double*>(workspace);
  const std::int64_t parts = partial_sums(n);
  launch("sum_squares", square_parts<T>, {parts, 1, 1}, {kThreads, 1, 1}, 0, stream, gradient, partial, n);
  launch("sum_squares, parts", add_parts<Wide<T>>, {1, 1, 1}, {kThreads, 1, 1}, 0, stream, partial, out, parts);
}

// The parts, and the totals behind them.
template <class T>
std::size_t sum_squares_workspace(std::span<const SquaresStep<T>> steps) {
  return static_cast<std::size_t>(partial_sums(steps)) * sizeof(double) + kGradients * sizeof(Wide<T>);
}

template <class T>
void sum_squares(Stream stream, std::span<const SquaresStep<T>> steps, void* workspace) {
  auto* const partial = static_cast<double*>(workspace);
  auto* const totals = reinterpret_cast<Wide<T>*>(partial + partial_sums(steps));
  // A launch takes at most kGradients gradients and kSteps steps. The next launches reuse `totals`, as the stream keeps
  // their order; `partial` as well.
  while (!steps.empty()) {
    Gradients<T> gradients;
    Additions<Wide<T>> additions;
    gradients.first_part[0] = 0;
    for (const SquaresStep<T>& step : steps) {
      const int i = gradients.count, k = additions.count;
      if (k == kSteps || (step.gradient != nullptr && i == kGradients)) break;
      additions.out[k] = step.out;
      additions.x[k] = step.gradient == nullptr ? step.x : totals + i;
      additions.y[k] = step.gradient == nullptr ? step.y : nullptr;
      ++additions.count;
      if (step.gradient == nullptr) continue;
      gradients.x[i] = step.gradient;
      gradients.n[i] = step.n;
      gradients.first_part[i + 1] = gradients.first_part[i] + partial_sums(step.n);
      ++gradients.count;
    }
    if (gradients.count > 0) {
      launch("sum_squares, several", square_parts_of_several<T>, {gradients.first_part[gradients.count], 1, 1},
             {kThreads, 1, 1}, 0, stream, gradients, partial);
      launch("sum_squares, parts of several", add_parts_of_several<T>, {gradients.count, 1, 1}, {kThreads, 1, 1}, 0,
             stream, gradients, partial, totals);
    }
    launch("sum_squares, additions", add_one_after_the_other<Wide<T>>, {1, 1, 1}, {kWarp, 1, 1}, 0, stream, additions);
    steps = steps.subspan(static_cast<std::size_t>(additions.count));
  }
}

#define MW_INSTANTIATE(T)                                                         \
  template void sum_squares<T>(Stream, const T*, Wide<T>*, std::int64_t, void*);  \
  template std::size_t sum_squares_workspace<T>(std::span<const SquaresStep<T>>); \
  template void sum_squares<T>(Stream, std::span<const SquaresStep<T>>, void*);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
