// SPDX-License-Identifier: Apache-2.0
// What a row's normalisation and its derivative sum over the row. Internal to the normalisations of this folder.
//
// kCentred: Layer, whose mean is subtracted. Rms is the same with a mean of 0 and no beta.
#pragma once

#include "kernels/cuda/blocks/row_packs.h"

namespace meshwright::kernels::cuda::normalization {

template <class W>
struct Moments {
  W mean, inverse_deviation;
};

// Statistics of the row that all its threads have together. The variance is made of deviations.
// RowOf: Row, or what has its get().
template <bool kCentred, template <class, int, int> class RowOf, class T, int N, int K>
MW_DEVICE Moments<Wide<T>> row_moments(const RowOf<T, N, K>& row, const Place& place, std::int64_t width,
                                       Wide<T> epsilon, Wide<T>* scratch) {
  using W = Wide<T>;
  W mean = W(0);
  if constexpr (kCentred) {
    place.template each<K>([&](int k, std::int64_t pack) {
      const Pack<T, N> value = row.get(k, pack);
      MW_UNROLL
      for (int i = 0; i < N; ++i) mean += value[i];
    });
    mean = sum_of_row(mean, place.lanes, scratch) / static_cast<W>(width);
  }
  W squares = W(0);
  place.template each<K>([&](int k, std::int64_t pack) {
    const Pack<T, N> value = row.get(k, pack);
    MW_UNROLL
    for (int i = 0; i < N; ++i) squares += (value[i] - mean) * (value[i] - mean);
  });
  squares = sum_of_row(squares, place.lanes, scratch);
  return {mean, inverse_root(squares / static_cast<W>(width) + epsilon)};
}

// With h = (x - mean) scale and g = dy gamma: dx = scale (g - avg(g) - h avg(g h)); with a mean of 0, no avg(g).
template <class W>
struct RowGradient {
  Two<W> average;  // of x, of g
  W scale, along;  // h avg(g h) = (x - mean) scale^2 avg(g (x - mean)): what the deviation is multiplied by

  MW_DEVICE W operator()(W x, W g) const { return scale * (g - average.second - (x - average.first) * along); }
};

// The same for all threads of the row.
template <bool kCentred, class T, int N, int K>
MW_DEVICE RowGradient<Wide<T>> row_gradient(const Row<T, N, K>& row, const Row<T, N, K>& gradient, const T* gamma,
                                            const Place& place, std::int64_t width, Wide<T> epsilon, Wide<T>* scratch) {
  using W = Wide<T>;
  const W count = static_cast<W>(width);
  Two<W> average = {W(0), W(0)};
  if constexpr (kCentred) {
    place.template each<K>([&](int k, std::int64_t pack) {
      const Pack<T, N> value = row.get(k, pack), given = gradient.get(k, pack), factor = load<N>(gamma, pack);
      MW_UNROLL
      for (int i = 0; i < N; ++i) {
        average.first += value[i];
        average.second += given[i] * factor[i];
      }
    });
    average = sums_of_row(average, place.lanes, scratch);
    average = {average.first / count, average.second / count};
  }
  Two<W> sum = {W(0), W(0)};  // of (x - mean)^2, of g (x - mean)
  place.template each<K>([&](int k, std::int64_t pack) {
    const Pack<T, N> value = row.get(k, pack), given = gradient.get(k, pack), factor = load<N>(gamma, pack);
    MW_UNROLL
    for (int i = 0; i < N; ++i) {
      const W deviation = value[i] - average.first;
      sum.first += deviation * deviation;
      sum.second += given[i] * factor[i] * deviation;
    }
  });
  sum = sums_of_row(sum, place.lanes, scratch);
  const W scale = inverse_root(sum.first / count + epsilon);
  return {average, scale, scale * scale * (sum.second / count)};
}

}  // namespace meshwright::kernels::cuda::normalization
