// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/kernel_table.h"

namespace meshwright {

template <class T>
OpKernel<T> layout_kernel(OpKind) {
  return nullptr;
}
template OpKernel<float> layout_kernel<float>(OpKind);
template OpKernel<double> layout_kernel<double>(OpKind);

}  // namespace meshwright
