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

template <class T>
double loss_scale(double first, const T* state) {
  return std::ldexp(first, static_cast<int>(state[0]));
}

template <class T>
void update_scaling(T* state, bool good, std::int64_t growth_interval) {
  if (!good) {
    state[0] -= 1;
    state[1] = 0;
    state[2] += 1;
    return;
  }
  state[1] += 1;
  if (static_cast<std::int64_t>(state[1]) < growth_interval) return;
  state[0] += 1;
  state[1] = 0;
}

template <class T>
void sgd_update(T* weight, T* copy, const T* gradient, std::int64_t n, UpdateSettings settings) {
  const T rate = static_cast<T>(settings.learning_rate), decay = static_cast<T>(settings.weight_decay);
  const T factor = static_cast<T>(settings.factor);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) weight[i] -= rate * (factor * gradient[i] + decay * weight[i]);
  if (copy != nullptr) std::copy_n(weight, n, copy);
}

template <class T>
void momentum_update(T* weight, T* copy, T* velocity, const T* gradient, std::int64_t n, double momentum,
                     UpdateSettings settings) {
  const T rate = static_cast<T>(settings.learning_rate), decay = static_cast<T>(settings.weight_decay);
  const T factor = static_cast<T>(settings.factor), keep = static_cast<T>(momentum);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const T v = keep * velocity[i] + (factor * gradient[i] + decay * weight[i]);
    velocity[i] = v;
    weight[i] -= rate * v;
  }
  if (copy != nullptr) std::copy_n(weight, n, copy);
}

template <class T>
void adam_update(T* weight, T* copy, T* first_moment, T* second_moment, const T* gradient, std::int64_t n,
                 AdamSettings settings) {
  const double step = static_cast<double>(settings.step);
  const T beta1 = static_cast<T>(settings.beta1), beta2 = static_cast<T>(settings.beta2);
  const T rest1 = static_cast<T>(1 - settings.beta1), rest2 = static_cast<T>(1 - settings.beta2);
  const T rate = static_cast<T>(settings.learning_rate / (1 - std::pow(settings.beta1, step)));
  const T correction2 = static_cast<T>(1 / (1 - std::pow(settings.beta2, step)));
  const T epsilon = static_cast<T>(settings.epsilon), factor = static_cast<T>(settings.factor);
  const T rest = static_cast<T>(1 - settings.learning_rate * settings.weight_decay);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const T g = factor * gradient[i];
    const T m = beta1 * first_moment[i] + rest1 * g;
    const T v = beta2 * second_moment[i] + rest2 * g * g;
    first_moment[i] = m;
    second_moment[i] = v;
    weight[i] = rest * weight[i] - rate * m / (root(correction2 * v) + epsilon);
  }
  if (copy != nullptr) std::copy_n(weight, n, copy);
}

#define MW_INSTANTIATE(T)                                                                       \
  template void accumulate<T>(T*, const T*, std::int64_t);                                      \
  template double sum_squares<T>(const T*, std::int64_t);                                       \
  template double loss_scale<T>(double, const T*);                                              \
  template void update_scaling<T>(T*, bool, std::int64_t);                                      \
  template void sgd_update<T>(T*, T*, const T*, std::int64_t, UpdateSettings);                  \
  template void momentum_update<T>(T*, T*, T*, const T*, std::int64_t, double, UpdateSettings); \
  template void adam_update<T>(T*, T*, T*, T*, const T*, std::int64_t, AdamSettings);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
