// SPDX-License-Identifier: Apache-2.0
// Convolution over two spatial dimensions on one core, channels last:
//   y[b, i, j, g, o] = sum over (k, l, c) of x[b, i * stride - before + k, j * stride - before + l, g, c] w[g, k, l, c,
//   o]
// where x is zero outside.
//
// float goes to oneDNN, which keeps the layout of x and y and gets the weights in the layout it asks for; double, and
// float of no more windows than `out`, to products of gathered windows (gathered_convolution.h).
#pragma once

#include <cstdint>

#include "kernels/cpu/convolution/window.h"

namespace meshwright::kernels {

struct ConvolutionShape {
  std::int64_t batch, groups, in, out;  // channels of one group
  Windows rows, columns;

  auto operator<=>(const ConvolutionShape&) const = default;
};

template <class T>
void convolution(const T* x,  // (batch, rows.from, columns.from, groups, in)
                 const T* w,  // (groups, rows.size, columns.size, in, out)
                 T* y,        // (batch, rows.to, columns.to, groups, out)
                 const ConvolutionShape& shape);
template <class T>
void convolution_backward_input(const T* w, const T* dy, T* dx, const ConvolutionShape& shape);
template <class T>
void convolution_backward_weight(const T* x, const T* dy, T* dw, const ConvolutionShape& shape);

}  // namespace meshwright::kernels
