// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/norms/rms_norm.h"

#include "kernels/cuda/norms/row_norm.h"

namespace meshwright::kernels::cuda {

template <class T>
void rms_norm(Stream stream, const T* x, const T* gamma, T* out, std::int64_t rows, std::int64_t width,
              double epsilon) {
  normalization::row_norm<false, T>("rms_norm", stream, x, gamma, nullptr, out, rows, width, epsilon);
}

template <class T>
void rms_norm_backward(Stream stream, const T* x, const T* gamma, const T* dy, T* dx, std::int64_t rows,
                       std::int64_t width, double epsilon) {
  normalization::row_norm_backward<false>("rms_norm_backward", stream, x, gamma, dy, dx, rows, width, epsilon);
}

template <class T>
std::size_t rms_norm_parameter_backward_workspace(std::int64_t rows, std::int64_t width) {
  return normalization::row_norm_gradients_workspace<false, T>(rows, width);
}

template <class T>
void rms_norm_parameter_backward(Stream stream, const T* x, const T* dy, T* dgamma, std::int64_t rows,
                                 std::int64_t width, double epsilon, void* workspace) {
  normalization::row_norm_gradients<false, T>("rms_norm_parameter_backward", stream, x, dy, dgamma, nullptr, rows,
                                              width, epsilon, workspace);
}

#define MW_INSTANTIATE(T)                                                                                           \
  template void rms_norm<T>(Stream, const T*, const T*, T*, std::int64_t, std::int64_t, double);                    \
  template void rms_norm_backward<T>(Stream, const T*, const T*, const T*, T*, std::int64_t, std::int64_t, double); \
  template std::size_t rms_norm_parameter_backward_workspace<T>(std::int64_t, std::int64_t);                        \
  template void rms_norm_parameter_backward<T>(Stream, const T*, const T*, T*, std::int64_t, std::int64_t, double,  \
                                               void*);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
MW_INSTANTIATE(Bf16)
MW_INSTANTIATE(F16)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
