// SPDX-License-Identifier: Apache-2.0
// Convolution over two spatial dimensions on the device: what kernels/cpu/convolution/convolution.h computes, for any
// sizes.
//
// A convolution is a product of matrices whose operand x is gathered while it is read (S. Chetlur et al., cuDNN, 2014):
// tiles of both go through shared memory, sums are kept in registers; Bf16 and F16 are multiplied on tensor cores. With
// a stride, the backward of the input is one such product for each remainder of a place by the stride, so that no
// product with zero is made.
//
// Sums are kept in Wide<T> and rounded once. Their order depends on sizes only, in y and dx not on the batch either.
// T: float, double, Bf16, F16.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cpu/convolution/convolution.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

// Groups of so few channels that a tile would be mostly empty, while filters of 32 channels fit into shared memory:
// these have kernels of their own, by channels and places.
[[nodiscard]] inline bool has_narrow_groups(const ConvolutionShape& s) {
  const std::int64_t taps = s.rows.size * s.columns.size;
  return s.groups > 1 && s.in * s.out <= 64 && taps * (s.in > s.out ? s.in : s.out) <= 160;
}

// Results of a block: 128 x 128, 64 x 64 or 128 x 32; Best: what is done first. It costs time, never bits. double and
// narrow groups have one of their own.
enum class ConvolutionTile { Best, Large, Middle, Slim };

template <class T>
void convolution(Stream stream,
                 const T* x,  // (batch, rows.from, columns.from, groups, in)
                 const T* w,  // (groups, rows.size, columns.size, in, out)
                 T* y,        // (batch, rows.to, columns.to, groups, out)
                 const ConvolutionShape& shape, ConvolutionTile tile = ConvolutionTile::Best);
template <class T>
void convolution_backward_input(Stream stream, const T* w, const T* dy, T* dx, const ConvolutionShape& shape,
                                ConvolutionTile tile = ConvolutionTile::Best);

// The places of y are cut into parts, each summed into a weight of its own in `workspace`, of
// convolution_backward_weight_workspace's bytes; then the parts are summed, one after the other.
template <class T>
void convolution_backward_weight(Stream stream, const T* x, const T* dy, T* dw, const ConvolutionShape& shape,
                                 void* workspace, ConvolutionTile tile = ConvolutionTile::Best);
template <class T>
[[nodiscard]] std::size_t convolution_backward_weight_workspace(const ConvolutionShape& shape);

// to[b, j, i] = from[b, i, j], of `batch` matrices of rows x columns: filters between the order of this file and that
// of libraries, (groups, out, rows.size, columns.size, in). One read, one write.
template <class T>
void transpose_filters(Stream stream, const T* from, T* to, std::int64_t batch, std::int64_t rows,
                       std::int64_t columns);

}  // namespace meshwright::kernels::cuda
