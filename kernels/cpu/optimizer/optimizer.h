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

// Dynamic loss scaling: `state` holds n, the good steps since n changed, and the steps left out; the scale is
// first * 2^n.
template <class T>
double loss_scale(double first, const T* state);
// After a step: a good one, or one that was left out.
template <class T>
void update_scaling(T* state, bool good, std::int64_t growth_interval);

// What every update does to a gradient besides following it: g is read as `factor` g, and the weight decays.
struct UpdateSettings {
  double learning_rate;
  double weight_decay = 0.0;
  double factor = 1.0;
};

// `copy` (here and below; may be null) is a second copy of the weight, which gets the new value as well.
// w -= rate (g + decay w).
template <class T>
void sgd_update(T* weight, T* copy, const T* gradient, std::int64_t n, UpdateSettings settings);

// v = momentum v + g + decay w;  w -= rate v.
template <class T>
void momentum_update(T* weight, T* copy, T* velocity, const T* gradient, std::int64_t n, double momentum,
                     UpdateSettings settings);

struct AdamSettings {
  double learning_rate, beta1, beta2, epsilon;
  std::int64_t step;  // 1 for the first update: the bias corrections are 1 - beta^step
  double weight_decay = 0.0;
  double factor = 1.0;
};
// w -= rate decay w (I. Loshchilov, F. Hutter, "Decoupled weight decay regularization", arXiv:1711.05101), then
// D. Kingma, J. Ba, "Adam" (arXiv:1412.6980), algorithm 1.
template <class T>
void adam_update(T* weight, T* copy, T* first_moment, T* second_moment, const T* gradient, std::int64_t n,
                 AdamSettings settings);

}  // namespace meshwright::kernels
