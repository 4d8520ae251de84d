// SPDX-License-Identifier: Apache-2.0
// Parameter updates, in place, and the accumulation of gradients that precedes them.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

template <class T>
void accumulate(T* total, const T* gradient, std::int64_t n);  // total += gradient

// `copy` (here and below; may be null) is a second copy of the weight, which gets the new value as well.
template <class T>
void sgd_update(T* weight, T* copy, const T* gradient, std::int64_t n, double learning_rate);

struct AdamSettings {
  double learning_rate, beta1, beta2, epsilon;
  std::int64_t step;  // 1 for the first update: the bias corrections are 1 - beta^step
};
// D. Kingma, J. Ba, "Adam" (arXiv:1412.6980), algorithm 1.
template <class T>
void adam_update(T* weight, T* copy, T* first_moment, T* second_moment, const T* gradient, std::int64_t n,
                 AdamSettings settings);

}  // namespace meshwright::kernels
