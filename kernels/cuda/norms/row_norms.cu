// SPDX-License-Identifier: Apache-2.0
// The gradients of the parameters: threads sum the terms of their packs over the rows that they have in registers one
// after the other, blocks add their threads' sums and write one part each, and columns.h adds the parts. Rows that are
// too wide for that (more than 6144 elements; 3072 of double, or where packs are single elements) are read twice, for
// their moments and for column_sums.
#include "kernels/cuda/norms/row_norms.h"

#include "kernels/cuda/blocks/columns.h"
#include "kernels/cuda/norms/row_moments.h"

namespace meshwright::kernels::cuda {

namespace {

using namespace normalization;

template <bool kCentred, class T, int N, int K>
__global__ void __launch_bounds__(kMaxThreads, kBlocksAtOnce<K>)
    row_norm_kernel(const T* x, const T* gamma, const T* beta, T* out, std::int64_t rows, std::int64_t width,
                    Wide<T> epsilon, int lanes) {
  using W = Wide<T>;
  MW_SHARED W scratch[2 * kWarp];
  each_row<N>(rows, width, lanes, [&](std::int64_t r, const Place& place) {
    const Row<T, N, K> row(x + r * width, place);
    const Moments<W> of = row_moments<kCentred>(row, place, width, epsilon, scratch);
    place.each<K>([&](int k, std::int64_t pack) {
      // All rows share gamma and beta: after the first row they come from the caches.
      const Pack<T, N> value = row.get(k, pack), factor = load<N>(gamma, pack);
      Pack<T, N> term = {}, result;
      if constexpr (kCentred) term = load<N>(beta, pack);
      MW_UNROLL
      for (int i = 0; i < N; ++i) {
        const W scaled = (value[i] - of.mean) * of.inverse_deviation * factor[i];
        result.set(i, kCentred ? scaled + term[i] : scaled);
      }
      store(out + r * width, pack, result);
    });
  });
}

template <bool kCentred, class T, int N, int K>
__global__ void __launch_bounds__(kMaxThreads, kBlocksAtOnce<K>)
    row_norm_backward_kernel(const T* x, const T* gamma, const T* dy, T* dx, std::int64_t rows, std::int64_t width,
                             Wide<T> epsilon, int lanes) {
  using W = Wide<T>;
  MW_SHARED W scratch[2 * kWarp];
  each_row<N>(rows, width, lanes, [&](std::int64_t r, const Place& place) {
    const Row<T, N, K> row(x + r * width, place), gradient(dy + r * width, place);
    const RowGradient<W> of = row_gradient<kCentred>(row, gradient, gamma, place, width, epsilon, scratch);
    place.each<K>([&](int k, std::int64_t pack) {
      const Pack<T, N> value = row.get(k, pack), given = gradient.get(k, pack), factor = load<N>(gamma, pack);
      Pack<T, N> result;
      MW_UNROLL
      for (int i = 0; i < N; ++i) result.set(i, of(value[i], given[i] * factor[i]));
      store(dx + r * width, pack, result);
    });
  });
}

// --- the gradients of the parameters ---

constexpr int kGradientThreads = 256;     // where a row belongs to a group of lanes
constexpr int kMaxGradientThreads = 384;  // where it belongs to a block
// Packs that a thread keeps: of a row that belongs to more than one of lanes, and to a block.
template <class T, int N>
constexpr int kGroupPacks = sizeof(T) * N == 16 && sizeof(T) == 2 ? 2 : 4;
template <class T, int N>
constexpr int kBlockPacks = N == 1 ? 8 : kGroupPacks<T, N>;

// Threads that a multiprocessor has at once: what a thread keeps of two rows, the one that it sums and the next, and
// its sums lie in registers.
constexpr int threads_at_once(int kept, int pack_bytes) {
  return kept == 1 ? 1024 : (kept * pack_bytes <= 32 ? 2 : 1) * kMaxGradientThreads;
}

template <class T, int N, int K>
struct Operands {
  Row<T, N, K> x, dy;
};

// One part for each block, [part][gamma, beta (kCentred)][column].
template <bool kCentred, class T, int N, int K>
__global__ void __launch_bounds__(kMaxGradientThreads, threads_at_once(K, N * sizeof(T)) / kMaxGradientThreads)
    row_norm_gradients_kernel(const T* x, const T* dy, Wide<T>* parts, std::int64_t rows, std::int64_t width,
                              Wide<T> epsilon, int lanes) {
  using W = Wide<T>;
  constexpr int kSums = kCentred ? 2 : 1;
  MW_SHARED W scratch[2 * kWarp];
  MW_DYNAMIC_SHARED(W, tree);  // [column of a pack][thread of the lower half]
  // The sums stay in registers over all rows of the block, which writes one part in the end.
  W sums[kSums][K][N] = {};
  const auto read = [&](std::int64_t r, const Place& place) {
    return Operands<T, N, K>{{x + r * width, place}, {dy + r * width, place}};
  };
  each_row_ahead<N>(rows, width, lanes, read, [&](const Operands<T, N, K>& of_row, std::int64_t, const Place& place) {
    const Moments<W> of = row_moments<kCentred>(of_row.x, place, width, epsilon, scratch);
    place.each<K>([&](int k, std::int64_t pack) {
      const Pack<T, N> value = of_row.x.get(k, pack), given = of_row.dy.get(k, pack);
      MW_UNROLL
      for (int i = 0; i < N; ++i) {
        sums[0][k][i] += given[i] * ((value[i] - of.mean) * of.inverse_deviation);
        if constexpr (kCentred) sums[1][k][i] += given[i];
      }
    });
  });
  // Threads with the same lane have the same columns. The upper half gives its sums to the lower half through shared
  // memory until one group of lanes is left: a fixed tree. One pack's sums go at a time, which keeps the memory small.
  const int half = static_cast<int>(blockDim.x) / 2, thread = static_cast<int>(threadIdx.x);
  for (int left = half; left >= lanes; left /= 2) MW_UNROLL
  for (int c = 0; c < kSums * K; ++c) {
    W* sum = sums[c / K][c % K];
    MW_UNROLL
    for (int i = 0; i < N; ++i)
      if (thread >= left && thread < 2 * left) tree[i * half + thread - left] = sum[i];
    __syncthreads();
    MW_UNROLL
    for (int i = 0; i < N; ++i)
      if (thread < left) sum[i] += tree[i * half + thread];
    __syncthreads();
  }
  if (thread >= lanes) return;
  MW_UNROLL
  for (int s = 0; s < kSums; ++s)
    Place{width / N, thread, lanes}.template each<K>([&](int k, std::int64_t pack) {
      // 16 bytes at a time: the sums of a pack by one instruction each would be as many writes of parts of a sector.
      constexpr int kAtOnce = N < kWidestPack<W> ? N : kWidestPack<W>;
      W* part = parts + (static_cast<std::int64_t>(blockIdx.x) * kSums + s) * width + pack * N;
      MW_UNROLL
      for (int first = 0; first < N; first += kAtOnce) {
        Pack<W, kAtOnce> some;
        MW_UNROLL
        for (int i = 0; i < kAtOnce; ++i) some.elements[i] = sums[s][k][first + i];
        store(part, first / kAtOnce, some);
      }
    });
}

struct GradientLaunch {
  int kept;  // 0: the rows are too wide
  int lanes, threads;
  std::int64_t parts;
};

template <class T, int N>
GradientLaunch gradient_launch(std::int64_t rows, std::int64_t width) {
  constexpr int kGroup = kGroupPacks<T, N>, kBlock = kBlockPacks<T, N>;
  const std::int64_t packs = width / N;
  GradientLaunch plan{0, 1, 1, 0};
  if (packs <= kSinglePacks<N>)
    plan = {1, power_of_two(packs), kGradientThreads, 0};
  else if (packs <= kGroup * kWarp)
    plan = {kGroup, power_of_two(ceil_div(packs, kGroup)), kGradientThreads, 0};
  else if (packs <= kBlock * kMaxGradientThreads)
    plan = {kBlock, whole_warps(ceil_div(packs, kBlock)), whole_warps(ceil_div(packs, kBlock)), 0};
  // As many as 132 multiprocessors have at once, of eight rows or more for each group of threads.
  const std::int64_t maximum = 132 * std::max(1, threads_at_once(plan.kept, N * sizeof(T)) / plan.threads);
  plan.parts = std::clamp<std::int64_t>(ceil_div(rows, 8 * (plan.threads / plan.lanes)), 1, maximum);
  return plan;
}

// mean, 1 / deviation of each row
template <bool kCentred, class T, int N, int K>
__global__ void __launch_bounds__(kMaxThreads, kBlocksAtOnce<K>)
    row_moments_kernel(const T* x, Moments<Wide<T>>* moments, std::int64_t rows, std::int64_t width, Wide<T> epsilon,
                       int lanes) {
  MW_SHARED Wide<T> scratch[2 * kWarp];
  each_row<N>(rows, width, lanes, [&](std::int64_t r, const Place& place) {
    const Row<T, N, K> row(x + r * width, place);
    const Moments<Wide<T>> of = row_moments<kCentred>(row, place, width, epsilon, scratch);
    if (place.packs > 0 && place.lane == 0) moments[r] = of;
  });
}

template <class T>
struct ColumnTerms {
  static constexpr int kOperands = 2;  // x, dy
  const T* operands[kOperands];
  const Moments<Wide<T>>* moments;

  struct Nothing {};
  template <int N>
  MW_DEVICE Nothing of_columns(std::int64_t, int, int) const {
    return {};
  }
  template <int N>
  MW_DEVICE void add(const Pack<T, N> (&loaded)[2], std::int64_t row, const Nothing&, Wide<T> (&sums)[2][N]) const {
    const Moments<Wide<T>> of = moments[row];
    MW_UNROLL
    for (int i = 0; i < N; ++i) {
      sums[0][i] += loaded[1][i] * ((loaded[0][i] - of.mean) * of.inverse_deviation);
      sums[1][i] += loaded[1][i];
    }
  }
};

// Names of launches, in the order of Norm.
constexpr const char* kNames[] = {"layer_norm", "rms_norm"};
constexpr const char* kBackwardNames[] = {"layer_norm_backward", "rms_norm_backward"};
constexpr const char* kGradientNames[] = {"layer_norm_parameter_backward", "rms_norm_parameter_backward"};

}  // namespace

template <Norm norm, class T>
void row_norm(Stream stream, const T* x, const T* gamma, const T* beta, T* out, const NormShape& shape) {
  with_row_launch<T>(shape.rows, shape.width, {x, gamma, beta, out}, [&](auto n, auto k, const RowLaunch& plan) {
    launch(kNames[static_cast<int>(norm)],
           row_norm_kernel<norm == Norm::Layer, T, decltype(n)::value, decltype(k)::value>, {plan.blocks},
           {plan.threads}, 0, stream, x, gamma, beta, out, shape.rows, shape.width, shape.epsilon, plan.lanes);
  });
}

template <Norm norm, class T>
void row_norm_backward(Stream stream, const T* x, const T* gamma, const T* dy, T* dx, const NormShape& shape) {
  with_row_launch<T>(shape.rows, shape.width, {x, gamma, dy, dx}, [&](auto n, auto k, const RowLaunch& plan) {
    launch(kBackwardNames[static_cast<int>(norm)],
           row_norm_backward_kernel<norm == Norm::Layer, T, decltype(n)::value, decltype(k)::value>, {plan.blocks},
           {plan.threads}, 0, stream, x, gamma, dy, dx, shape.rows, shape.width, shape.epsilon, plan.lanes);
  });
}

template <class T>
std::size_t row_norm_parameter_backward_workspace(const NormShape& shape) {
  const std::int64_t rows = shape.rows, width = shape.width;
  constexpr int N = kWidestPack<T>;
  const auto size = [&](const GradientLaunch& plan) {
    if (plan.kept > 0) return static_cast<std::size_t>(plan.parts * 2 * width) * sizeof(Wide<T>);
    // For column_sums its own parts, then the moments of each row.
    return column_sums_workspace<T>(rows, width) + static_cast<std::size_t>(rows) * sizeof(Moments<Wide<T>>);
  };
  // Which pack width runs depends on addresses, unknown here: the larger workspace fits both.
  const std::size_t single = size(gradient_launch<T, 1>(rows, width));
  return width % N == 0 ? std::max(single, size(gradient_launch<T, N>(rows, width))) : single;
}

template <Norm norm, class T>
void row_norm_parameter_backward(Stream stream, const T* x, const T* dy, T* dgamma, T* dbeta, const NormShape& shape,
                                 void* workspace) {
  constexpr bool kCentred = norm == Norm::Layer;
  const std::int64_t rows = shape.rows, width = shape.width;
  const double epsilon = shape.epsilon;
  const auto in_registers = [&](auto n, auto k, const GradientLaunch& plan) {
    constexpr int N = decltype(n)::value, K = decltype(k)::value, kSums = kCentred ? 2 : 1;
    Wide<T>* parts = static_cast<Wide<T>*>(workspace);
    const std::size_t tree =
        plan.lanes == plan.threads ? 0 : sizeof(Wide<T>) * N * static_cast<std::size_t>(plan.threads / 2);
    launch(kGradientNames[static_cast<int>(norm)], row_norm_gradients_kernel<kCentred, T, N, K>, {plan.parts},
           {plan.threads}, tree, stream, x, dy, parts, rows, width, epsilon, plan.lanes);
    add_parts(stream, parts, plan.parts, kSums * width, dgamma, dbeta, width);
  };
  const auto by_columns = [&] {
    auto* moments =
        reinterpret_cast<Moments<Wide<T>>*>(static_cast<char*>(workspace) + column_sums_workspace<T>(rows, width));
    with_row_launch<T>(rows, width, {x}, [&](auto n, auto k, const RowLaunch& plan) {
      launch(kGradientNames[static_cast<int>(norm)],
             row_moments_kernel<kCentred, T, decltype(n)::value, decltype(k)::value>, {plan.blocks}, {plan.threads}, 0,
             stream, x, moments, rows, width, epsilon, plan.lanes);
    });
    column_sums<T>(stream, ColumnTerms<T>{{x, dy}, moments}, rows, width, dgamma, dbeta, workspace);
  };
  with_packs<T>(width, {x, dy}, [&](auto n) {
    constexpr int N = decltype(n)::value;
    const GradientLaunch plan = gradient_launch<T, N>(rows, width);
    if (plan.kept == 1)
      in_registers(n, std::integral_constant<int, 1>{}, plan);
    else if (plan.kept == kGroupPacks<T, N>)
      in_registers(n, std::integral_constant<int, kGroupPacks<T, N>>{}, plan);
    else if (plan.kept == kBlockPacks<T, N>)
      in_registers(n, std::integral_constant<int, kBlockPacks<T, N>>{}, plan);
    else
      by_columns();
  });
}

#define MW_NORM(norm, T)                                                                                \
  template void row_norm<norm, T>(Stream, const T*, const T*, const T*, T*, const NormShape&);          \
  template void row_norm_backward<norm, T>(Stream, const T*, const T*, const T*, T*, const NormShape&); \
  template void row_norm_parameter_backward<norm, T>(Stream, const T*, const T*, T*, T*, const NormShape&, void*);
#define MW_INSTANTIATE(T) \
  MW_NORM(Norm::Layer, T) \
  MW_NORM(Norm::Rms, T)   \
  template std::size_t row_norm_parameter_backward_workspace<T>(const NormShape&);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE
#undef MW_NORM

}  // namespace meshwright::kernels::cuda
