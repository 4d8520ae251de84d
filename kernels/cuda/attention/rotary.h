// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding on the device: the twin of kernels/cpu/attention/rotary.h, which says what is turned by
// which angle.
#pragma once

#include <cstdint>

#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda {

struct RotaryShape {
  std::int64_t batch, seq, heads, head_dim;  // batch * heads < 2^31
  std::int64_t rotary_dims;                  // even, at most head_dim
  std::int64_t first;                        // position of index 0 of seq
  double base;
  const double* divisors = nullptr;  // on the host, (rotary_dims / 2); nullptr: all are 1
  double amplitude = 1.0;
  bool interleaved = false;
};

// x, out (batch, seq, heads, head_dim); out may be x. `back` turns by the negative angles. x is read and out written
// once. Frequencies are computed on the host, and so given with the launch. Angles are computed in double and their
// cosines and sines rounded to Wide<T>: once for each pair of a position where seq is long enough to fill a GPU, and
// never more than once for each pair of a token.
template <class T>
void rotary(Stream stream, const T* x, T* out, RotaryShape shape, bool back);

}  // namespace meshwright::kernels::cuda
