// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/elementwise/vector_math.h"

namespace meshwright::kernels {

namespace {

// What sqrt may assume decides whether the loop is a vector loop: no errno, so the instruction alone.
inline float root(float x) { return __builtin_sqrtf(x); }
inline double root(double x) { return __builtin_sqrt(x); }

template <class T>
void apply(const UpdatedWeight<T>& u, const SgdSettings& settings, T factor) {
  const T rate = static_cast<T>(settings.learning_rate), decay = static_cast<T>(settings.weight_decay);
  T* weight = u.weight;
  const T* gradient = u.gradient;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < u.n; ++i) weight[i] -= rate * (factor * gradient[i] + decay * weight[i]);
}

template <class T>
void apply(const UpdatedWeight<T>& u, const MomentumSettings& settings, T factor) {
  const T rate = static_cast<T>(settings.learning_rate), decay = static_cast<T>(settings.weight_decay);
  const T keep = static_cast<T>(settings.momentum);
  T *weight = u.weight, *velocity = u.first_moment;
  const T* gradient = u.gradient;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < u.n; ++i) {
    const T v = keep * velocity[i] + (factor * gradient[i] + decay * weight[i]);
    velocity[i] = v;
    weight[i] -= rate * v;
  }
}

template <class T>
void apply(const UpdatedWeight<T>& u, const AdamSettings& settings, T factor) {
  const double step = static_cast<double>(settings.step);
  const T beta1 = static_cast<T>(settings.beta1), beta2 = static_cast<T>(settings.beta2);
  const T rest1 = static_cast<T>(1 - settings.beta1), rest2 = static_cast<T>(1 - settings.beta2);
  const T rate = static_cast<T>(settings.learning_rate / (1 - std::pow(settings.beta1, step)));
  const T correction2 = static_cast<T>(1 / (1 - std::pow(settings.beta2, step)));
  const T epsilon = static_cast<T>(settings.epsilon);
  const T rest = static_cast<T>(1 - settings.learning_rate * settings.weight_decay);
  T *weight = u.weight, *first_moment = u.first_moment, *second_moment = u.second_moment;
  const T* gradient = u.gradient;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < u.n; ++i) {
    const T g = factor * gradient[i];
    const T m = beta1 * first_moment[i] + rest1 * g;
    const T v = beta2 * second_moment[i] + rest2 * g * g;
    first_moment[i] = m;
    second_moment[i] = v;
    weight[i] = rest * weight[i] - rate * m / (root(correction2 * v) + epsilon);
  }
}

}  // namespace

template <class T>
void accumulate(T* total, const T* gradient, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) total[i] += gradient[i];
}

template <class T>
double sum_squares(const T* gradient, std::int64_t n) {
  return lane_sum<double>(n, [=](std::int64_t i) {
    const double g = static_cast<double>(gradient[i]);
    return g * g;
  });
}

template <class T, class Settings>
void update(const UpdatedWeight<T>& updated, const Settings& settings, double factor) {
  apply(updated, settings, static_cast<T>(factor));
  if (updated.copy != nullptr) std::copy_n(updated.weight, updated.n, updated.copy);
}

#define MW_INSTANTIATE(T)                                                            \
  template void accumulate<T>(T*, const T*, std::int64_t);                           \
  template double sum_squares<T>(const T*, std::int64_t);                            \
  template void update<T>(const UpdatedWeight<T>&, const SgdSettings&, double);      \
  template void update<T>(const UpdatedWeight<T>&, const MomentumSettings&, double); \
  template void update<T>(const UpdatedWeight<T>&, const AdamSettings&, double);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
