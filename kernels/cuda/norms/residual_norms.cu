// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/norms/residual_norms.h"

#include "kernels/cuda/norms/row_moments.h"

namespace meshwright::kernels::cuda {

namespace {

using namespace normalization;

// A row of the sum, kept and written by the threads that have its packs. All of both operands is asked for first.
template <class T, int N, int K>
class RowOfSum {
 public:
  MW_DEVICE RowOfSum(const T* x, const T* y, T* sum, const Place& place) {
    Pack<T, N> other[K];
    place.template each<K>([&](int k, std::int64_t pack) {
      kept_[k] = load<N>(x, pack);
      other[k] = load<N>(y, pack);
    });
    place.template each<K>([&](int k, std::int64_t pack) {
      Pack<T, N> total;
      MW_UNROLL
      for (int i = 0; i < N; ++i) total.set(i, kept_[k][i] + other[k][i]);
      kept_[k] = total;
      store(sum, pack, total);
    });
  }
  MW_DEVICE Pack<T, N> get(int k, std::int64_t) const { return kept_[k]; }

 private:
  Pack<T, N> kept_[K];
};

template <bool kCentred, class T, int N, int K>
__global__ void __launch_bounds__(kMaxThreads, kBlocksAtOnce<K>)
    norm_of_sum_kernel(const T* x, const T* y, T* sum, const T* gamma, const T* beta, T* out, std::int64_t rows,
                       std::int64_t width, Wide<T> epsilon, int lanes) {
  using W = Wide<T>;
  MW_SHARED W scratch[2 * kWarp];
  each_row<N>(rows, width, lanes, [&](std::int64_t r, const Place& place) {
    const RowOfSum<T, N, K> row(x + r * width, y + r * width, sum + r * width, place);
    const Moments<W> of = row_moments<kCentred>(row, place, width, epsilon, scratch);
    place.template each<K>([&](int k, std::int64_t pack) {
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
    norm_backward_and_sum_kernel(const T* x, const T* gamma, const T* dy, const T* residual, T* out, std::int64_t rows,
                                 std::int64_t width, Wide<T> epsilon, int lanes) {
  using W = Wide<T>;
  MW_SHARED W scratch[2 * kWarp];
  each_row<N>(rows, width, lanes, [&](std::int64_t r, const Place& place) {
    const Row<T, N, K> row(x + r * width, place), gradient(dy + r * width, place);
    const RowGradient<W> of = row_gradient<kCentred>(row, gradient, gamma, place, width, epsilon, scratch);
    place.template each<K>([&](int k, std::int64_t pack) {
      const Pack<T, N> value = row.get(k, pack), given = gradient.get(k, pack), factor = load<N>(gamma, pack),
                       more = load<N>(residual + r * width, pack);
      Pack<T, N> result;
      MW_UNROLL
      for (int i = 0; i < N; ++i)
        // Rounded first, as the derivative by itself is.
        result.set(i, static_cast<W>(T(of(value[i], given[i] * factor[i]))) + more[i]);
      store(out + r * width, pack, result);
    });
  });
}

constexpr const char* kSumNames[] = {"layer_norm_of_sum", "rms_norm_of_sum"};
constexpr const char* kBackwardNames[] = {"layer_norm_backward_and_sum", "rms_norm_backward_and_sum"};

// Calls start(N, K, launch) where rows are kept in whole packs; false: they are not.
template <class T, class Start>
bool with_kept_rows(const NormShape& shape, std::initializer_list<const void*> addresses, Start start) {
  bool done = false;
  with_packs<T>(shape.width, addresses, [&](auto n) {
    constexpr int N = decltype(n)::value;
    if constexpr (N > 1) {
      const RowLaunch plan = row_launch<N>(shape.rows, shape.width);
      done = plan.kept > 0;
      if (plan.kept == 1)
        start(n, std::integral_constant<int, 1>{}, plan);
      else if (plan.kept == 4)
        start(n, std::integral_constant<int, 4>{}, plan);
      else if (plan.kept > 0)
        start(n, std::integral_constant<int, kMaxPacks<N>>{}, plan);
    }
  });
  return done;
}

}  // namespace

template <Norm norm, class T>
bool row_norm_of_sum(Stream stream, const T* x, const T* y, T* sum, const T* gamma, const T* beta, T* out,
                     const NormShape& shape) {
  return with_kept_rows<T>(shape, {x, y, sum, gamma, beta, out}, [&](auto n, auto k, const RowLaunch& plan) {
    launch(kSumNames[static_cast<int>(norm)],
           norm_of_sum_kernel<norm == Norm::Layer, T, decltype(n)::value, decltype(k)::value>, {plan.blocks},
           {plan.threads}, 0, stream, x, y, sum, gamma, beta, out, shape.rows, shape.width, shape.epsilon, plan.lanes);
  });
}

template <Norm norm, class T>
bool row_norm_backward_and_sum(Stream stream, const T* x, const T* gamma, const T* dy, const T* residual, T* out,
                               const NormShape& shape) {
  return with_kept_rows<T>(shape, {x, gamma, dy, residual, out}, [&](auto n, auto k, const RowLaunch& plan) {
    launch(kBackwardNames[static_cast<int>(norm)],
           norm_backward_and_sum_kernel<norm == Norm::Layer, T, decltype(n)::value, decltype(k)::value>, {plan.blocks},
           {plan.threads}, 0, stream, x, gamma, dy, residual, out, shape.rows, shape.width, shape.epsilon, plan.lanes);
  });
}

#define MW_NORM(norm, T)                                                                                            \
  template bool row_norm_of_sum<norm, T>(Stream, const T*, const T*, T*, const T*, const T*, T*, const NormShape&); \
  template bool row_norm_backward_and_sum<norm, T>(Stream, const T*, const T*, const T*, const T*, T*,              \
                                                   const NormShape&);
#define MW_INSTANTIATE(T) \
  MW_NORM(Norm::Layer, T) \
  MW_NORM(Norm::Rms, T)
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE
#undef MW_NORM

}  // namespace meshwright::kernels::cuda
