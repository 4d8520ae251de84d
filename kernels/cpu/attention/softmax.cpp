// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/softmax.h"

#include "kernels/cpu/elementwise/vector_math.h"

namespace meshwright::kernels {

template <class T>
void softmax(const T* x, T* y, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = x + r * width;
    T* result = y + r * width;
    const T largest = lane_max(row, width);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i) result[i] = exp_of(row[i] - largest);
    const double sum = lane_sum<double>(width, [=](std::int64_t i) { return static_cast<double>(result[i]); });
    const T share = static_cast<T>(1.0 / sum);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i) result[i] *= share;
  }
}

template <class T>
void softmax_backward(const T* y, const T* dy, T* dx, std::int64_t rows, std::int64_t width) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* row = y + r * width;
    const T* gradient = dy + r * width;
    T* result = dx + r * width;
    const T along = static_cast<T>(lane_sum<double>(
        width, [=](std::int64_t i) { return static_cast<double>(row[i]) * static_cast<double>(gradient[i]); }));
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i) result[i] = row[i] * (gradient[i] - along);
  }
}

#define MW_INSTANTIATE(T)                                             \
  template void softmax<T>(const T*, T*, std::int64_t, std::int64_t); \
  template void softmax_backward<T>(const T*, const T*, T*, std::int64_t, std::int64_t);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
