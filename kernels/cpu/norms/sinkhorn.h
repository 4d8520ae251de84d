// SPDX-License-Identifier: Apache-2.0
// Matrices that are nearly doubly stochastic (R. Sinkhorn, P. Knopp, 1967): from x,
//
//   y = softmax(x) + epsilon over the columns of each row; y = y / (sums of columns + epsilon); then, turns - 1
//   times, y = y / (sums of rows + epsilon), y = y / (sums of columns + epsilon),
//
// as residual streams are mixed by (Z. Xie et al., Manifold-Constrained Hyper-Connections, arXiv:2512.24880). Sums are
// kept in double. The backward pass computes the steps again and goes back through them.
#pragma once

#include <cstdint>

namespace meshwright::kernels {

struct SinkhornShape {
  std::int64_t matrices, rows, columns, turns;
  double epsilon;
};

// x, dy, out and dx: (matrices, rows, columns).
template <class T>
void sinkhorn(const T* x, T* out, const SinkhornShape& shape);
template <class T>
void sinkhorn_backward(const T* x, const T* dy, T* dx, const SinkhornShape& shape);

}  // namespace meshwright::kernels
