// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/softmax.h"

#include <limits>

#include "kernels/cuda/blocks/row_packs.h"

namespace meshwright::kernels::cuda {

namespace {

using namespace normalization;

MW_DEVICE float exp_of(float value) { return expf(value); }
MW_DEVICE double exp_of(double value) { return exp(value); }

// Three walks over what a thread has of a row: the maximum, the sum of the powers, the results. Where the row is kept
// in registers (K > 0) memory is read once.
template <class T, int N, int K>
__global__ void __launch_bounds__(kMaxThreads, kBlocksAtOnce<K>)
    softmax_kernel(const T* x, T* y, std::int64_t rows, std::int64_t width, int lanes) {
  using W = Wide<T>;
  constexpr bool kKeep = K > 0 && K * N <= 32;  // the powers; where they are too many they are computed again
  MW_SHARED W scratch[2 * kWarp];
  each_row<N>(rows, width, lanes, [&](std::int64_t r, const Place& place) {
    const Row<T, N, K> row(x + r * width, place);
    W largest = -std::numeric_limits<W>::infinity();
    place.each<K>([&](int k, std::int64_t pack) {
      const Pack<T, N> value = row.get(k, pack);
      MW_UNROLL
      for (int i = 0; i < N; ++i) largest = value[i] > largest ? value[i] : largest;
    });
    largest = max_of_row(largest, lanes, scratch);
    W power[kKeep ? K : 1][N] = {};
    W sum = W(0);
    place.each<K>([&](int k, std::int64_t pack) {
      const Pack<T, N> value = row.get(k, pack);
      MW_UNROLL
      for (int i = 0; i < N; ++i) {
        W& kept = power[kKeep ? k : 0][i];
        // The largest element has the power 1, so that the sum of a finite row is between 1 and the width.
        kept = exp_of(value[i] - largest);
        sum += kept;
      }
    });
    // One division per row. Threads without a row have a sum of 0 here, and store nothing.
    const W share = W(1) / sum_of_row(sum, lanes, scratch);
    place.each<K>([&](int k, std::int64_t pack) {
      const Pack<T, N> value = row.get(k, pack);
      Pack<T, N> result;
      MW_UNROLL
      for (int i = 0; i < N; ++i) {
        if constexpr (kKeep)
          result.set(i, power[k][i] * share);
        else
          result.set(i, exp_of(value[i] - largest) * share);
      }
      store(y + r * width, pack, result);
    });
  });
}

// dx = y (dy - sum(y dy)).
template <class T, int N, int K>
__global__ void __launch_bounds__(kMaxThreads, kBlocksAtOnce<K>)
    softmax_backward_kernel(const T* y, const T* dy, T* dx, std::int64_t rows, std::int64_t width, int lanes) {
  using W = Wide<T>;
  MW_SHARED W scratch[2 * kWarp];
  each_row<N>(rows, width, lanes, [&](std::int64_t r, const Place& place) {
    const Row<T, N, K> row(y + r * width, place), gradient(dy + r * width, place);
    // The Jacobian is diag(y) - y y^T: a row needs one sum, y dy.
    W along = W(0);
    place.each<K>([&](int k, std::int64_t pack) {
      const Pack<T, N> value = row.get(k, pack), given = gradient.get(k, pack);
      MW_UNROLL
      for (int i = 0; i < N; ++i) along += value[i] * given[i];
    });
    along = sum_of_row(along, lanes, scratch);
    place.each<K>([&](int k, std::int64_t pack) {
      const Pack<T, N> value = row.get(k, pack), given = gradient.get(k, pack);
      Pack<T, N> result;
      MW_UNROLL
      for (int i = 0; i < N; ++i) result.set(i, value[i] * (given[i] - along));
      store(dx + r * width, pack, result);
    });
  });
}

}  // namespace

template <class T>
void softmax(Stream stream, const T* x, T* y, std::int64_t rows, std::int64_t width) {
  with_row_launch<T>(rows, width, {x, y}, [&](auto n, auto k, const RowLaunch& plan) {
    launch("softmax", softmax_kernel<T, decltype(n)::value, decltype(k)::value>, {plan.blocks}, {plan.threads}, 0,
           stream, x, y, rows, width, plan.lanes);
  });
}

template <class T>
void softmax_backward(Stream stream, const T* y, const T* dy, T* dx, std::int64_t rows, std::int64_t width) {
  with_row_launch<T>(rows, width, {y, dy, dx}, [&](auto n, auto k, const RowLaunch& plan) {
    launch("softmax_backward", softmax_backward_kernel<T, decltype(n)::value, decltype(k)::value>, {plan.blocks},
           {plan.threads}, 0, stream, y, dy, dx, rows, width, plan.lanes);
  });
}

#define MW_INSTANTIATE(T)                                                     \
  template void softmax<T>(Stream, const T*, T*, std::int64_t, std::int64_t); \
  template void softmax_backward<T>(Stream, const T*, const T*, T*, std::int64_t, std::int64_t);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
