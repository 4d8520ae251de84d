// SPDX-License-Identifier: Apache-2.0
// Parameter updates, in place, and the accumulation of gradients that precedes them.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

template <class T>
void accumulate(T* total, const T* gradient, std::int64_t n);  // total += gradient

// Sum of the squares, added up in double.
template <class T>
double sum_squares(const T* gradient, std::int64_t n);

// What an update does besides following the gradient: the weight decays by `weight_decay`.
//
// w -= rate (g + decay w).
struct SgdSettings {
  double learning_rate;
  double weight_decay = 0.0;
};
// v = momentum v + g + decay w;  w -= rate v.
struct MomentumSettings {
  double learning_rate, momentum;
  double weight_decay = 0.0;
};
// w -= rate decay w (I. Loshchilov, F. Hutter, "Decoupled weight decay regularization", arXiv:1711.05101), then
// D. Kingma, J. Ba, "Adam" (arXiv:1412.6980), algorithm 1.
struct AdamSettings {
  double learning_rate, beta1, beta2, epsilon;
  std::int64_t step;  // 1 for the first update: the bias corrections are 1 - beta^step
  double weight_decay = 0.0;
};

// A parameter with what an update reads and writes of it: arrays of n elements.
template <class T>
struct UpdatedWeight {
  T* weight;
  T* copy = nullptr;                                    // a second copy of the weight, which gets the new value too
  T *first_moment = nullptr, *second_moment = nullptr;  // momentum: its velocity comes first
  const T* gradient = nullptr;
  std::int64_t n = 0;
};

// Settings: one of the three above. The gradient is read as `factor` g.
template <class T, class Settings>
void update(const UpdatedWeight<T>& updated, const Settings& settings, double factor = 1.0);

}  // namespace meshwright::kernels
