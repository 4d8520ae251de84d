// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/kernel_table.h"

namespace meshwright {

template <class T>
OpKernel<T> convolution_kernel(OpKind) {
  return nullptr;
}
template OpKernel<float> convolution_kernel<float>(OpKind);
template OpKernel<double> convolution_kernel<double>(OpKind);

}  // namespace meshwright
