// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/norms/row_norm.h"
#include "kernels/cuda/norms/row_norms.h"

namespace meshwright::kernels::cuda {

template <class T>
void rms_norm(Stream stream, const T* x, const T* gamma, T* out, const NormShape& shape) {
  normalization::row_norm<false, T>("rms_norm", stream, x, gamma, nullptr, out, shape);
}

template <class T>
void rms_norm_backward(Stream stream, const T* x, const T* gamma, const T* dy, T* dx, const NormShape& shape) {
  normalization::row_norm_backward<false>("rms_norm_backward", stream, x, gamma, dy, dx, shape);
}

template <class T>
void rms_norm_parameter_backward(Stream stream, const T* x, const T* dy, T* dgamma, const NormShape& shape,
                                 void* workspace) {
  normalization::row_norm_gradients<false, T>("rms_norm_parameter_backward", stream, x, dy, dgamma, nullptr, shape,
                                              workspace);
}
template <class T>
std::size_t rms_norm_parameter_backward_workspace(const NormShape& shape) {
  return normalization::row_norm_gradients_workspace<false, T>(shape.rows, shape.width);
}

#define MW_INSTANTIATE(T)                                                                                \
  template void rms_norm<T>(Stream, const T*, const T*, T*, const NormShape&);                           \
  template void rms_norm_backward<T>(Stream, const T*, const T*, const T*, T*, const NormShape&);        \
  template void rms_norm_parameter_backward<T>(Stream, const T*, const T*, T*, const NormShape&, void*); \
  template std::size_t rms_norm_parameter_backward_workspace<T>(const NormShape&);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
MW_INSTANTIATE(Bf16)
MW_INSTANTIATE(F16)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
