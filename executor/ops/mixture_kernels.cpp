// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/kernel_table.h"

namespace meshwright {

template <class T>
OpKernel<T> mixture_kernel(OpKind) {
  return nullptr;
}
template OpKernel<float> mixture_kernel<float>(OpKind);
template OpKernel<double> mixture_kernel<double>(OpKind);

}  // namespace meshwright
