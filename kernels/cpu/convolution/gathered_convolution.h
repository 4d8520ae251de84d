// SPDX-License-Identifier: Apache-2.0
// Convolutions as products (kernels/cpu/products/gemm.h): the windows of many places are gathered, one window to a line
// of (kh, kw, in) elements, and multiplied by the weights where they lie. Windows that are one element of x each are
// read where they lie as well. Operands are those of kernels/cpu/convolution/convolution.h.
#pragma once

#include "kernels/cpu/convolution/convolution.h"

namespace meshwright::kernels {

template <class T>
void gathered_convolution(const T* x, const T* w, T* y, const ConvolutionShape& shape);
template <class T>
void gathered_convolution_backward_input(const T* w, const T* dy, T* dx, const ConvolutionShape& shape);
template <class T>
void gathered_convolution_backward_weight(const T* x, const T* dy, T* dw, const ConvolutionShape& shape);

}  // namespace meshwright::kernels
