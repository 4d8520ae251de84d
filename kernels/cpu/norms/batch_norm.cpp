// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/norms/batch_norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace meshwright::kernels {

namespace {

// Channels run fastest, so that the inner loops are over channels, with an array of sums in place of one sum: vector
// code without changing the order of any channel's additions.
//
// Mean and 1 / sqrt(variance + epsilon), channel by channel.
struct BatchMoments {
  std::vector<double> mean, inverse_deviation;
};

template <class T>
BatchMoments batch_moments(const T* sums, const BatchNormShape& shape) {
  BatchMoments of;
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    const double mean = shape.share * static_cast<double>(sums[c]);
    const double square = shape.share * static_cast<double>(sums[shape.channels + c]);
    of.mean.push_back(mean);
    of.inverse_deviation.push_back(1.0 / std::sqrt(std::max(0.0, square - mean * mean) + shape.epsilon));
  }
  return of;
}

}  // namespace

template <class T>
void batch_sums(const T* x, T* sums, std::int64_t rows, std::int64_t channels) {
  std::vector<double> totals(static_cast<std::size_t>(2 * channels), 0.0);
  double *first = totals.data(), *second = totals.data() + channels;
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * channels;
#pragma GCC ivdep
    for (std::int64_t c = 0; c < channels; ++c) {
      const double value = static_cast<double>(row[c]);
      first[c] += value;
      second[c] += value * value;
    }
  }
  std::transform(totals.begin(), totals.end(), sums, [](double total) { return static_cast<T>(total); });
}

template <class T>
void batch_norm(const Batch<T>& batch, const T* gamma, const T* beta, T* out, const BatchNormShape& shape) {
  const BatchMoments of = batch_moments(batch.sums, shape);
  std::vector<T> means, scales;
  for (std::size_t c = 0; c < of.mean.size(); ++c) {
    means.push_back(static_cast<T>(of.mean[c]));
    scales.push_back(static_cast<T>(of.inverse_deviation[c] * static_cast<double>(gamma[c])));
  }
  const T *mean = means.data(), *scale = scales.data();
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const T* row = batch.x + r * shape.channels;
    T* result = out + r * shape.channels;
#pragma GCC ivdep
    for (std::int64_t c = 0; c < shape.channels; ++c) result[c] = (row[c] - mean[c]) * scale[c] + beta[c];
  }
}

template <class T>
void batch_norm_parameter_backward(const Batch<T>& batch, const T* dy, T* dgamma, T* dbeta,
                                   const BatchNormShape& shape) {
  const BatchMoments of = batch_moments(batch.sums, shape);
  std::vector<double> gradients(static_cast<std::size_t>(2 * shape.channels), 0.0);
  double *along = gradients.data(), *total = gradients.data() + shape.channels;
  const double* mean = of.mean.data();
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const T* row = batch.x + r * shape.channels;
    const T* gradient = dy + r * shape.channels;
#pragma GCC ivdep
    for (std::int64_t c = 0; c < shape.channels; ++c) {
      const double given = static_cast<double>(gradient[c]);
      along[c] += given * (static_cast<double>(row[c]) - mean[c]);
      total[c] += given;
    }
  }
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    dgamma[c] = static_cast<T>(along[c] * of.inverse_deviation[static_cast<std::size_t>(c)]);
    dbeta[c] = static_cast<T>(total[c]);
  }
}

template <class T>
void batch_norm_backward(const Batch<T>& batch, const BatchNormParameters<T>& parameters, const T* dy, T* dx,
                         const BatchNormShape& shape) {
  const BatchMoments of = batch_moments(batch.sums, shape);
  // dx = scale (dy - level - (x - mean) slope)
  std::vector<T> means, scales, levels, slopes;
  for (std::size_t c = 0; c < of.mean.size(); ++c) {
    const double inverse = of.inverse_deviation[c];
    means.push_back(static_cast<T>(of.mean[c]));
    scales.push_back(static_cast<T>(inverse * static_cast<double>(parameters.gamma[c])));
    levels.push_back(static_cast<T>(shape.share * static_cast<double>(parameters.dbeta[c])));
    slopes.push_back(static_cast<T>(shape.share * inverse * static_cast<double>(parameters.dgamma[c])));
  }
  const T *mean = means.data(), *scale = scales.data(), *level = levels.data(), *slope = slopes.data();
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const T* row = batch.x + r * shape.channels;
    const T* gradient = dy + r * shape.channels;
    T* result = dx + r * shape.channels;
#pragma GCC ivdep
    for (std::int64_t c = 0; c < shape.channels; ++c)
      result[c] = scale[c] * (gradient[c] - level[c] - (row[c] - mean[c]) * slope[c]);
  }
}

#define MW_INSTANTIATE(T)                                                                                   \
  template void batch_sums<T>(const T*, T*, std::int64_t, std::int64_t);                                    \
  template void batch_norm<T>(const Batch<T>&, const T*, const T*, T*, const BatchNormShape&);              \
  template void batch_norm_parameter_backward<T>(const Batch<T>&, const T*, T*, T*, const BatchNormShape&); \
  template void batch_norm_backward<T>(const Batch<T>&, const BatchNormParameters<T>&, const T*, T*,        \
                                       const BatchNormShape&);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
