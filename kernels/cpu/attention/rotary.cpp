// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/rotary.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace meshwright::kernels {

namespace {

// Pair j is the elements j * step and j * step + apart.
template <class T>
inline void turn(const T* from, T* to, const T* cosine, const T* sine, std::int64_t pairs, std::int64_t step,
                 std::int64_t apart) {
#pragma GCC ivdep
  for (std::int64_t j = 0; j < pairs; ++j) {
    const T left = from[j * step], right = from[j * step + apart];
    to[j * step] = left * cosine[j] - right * sine[j];
    to[j * step + apart] = right * cosine[j] + left * sine[j];
  }
}

}  // namespace

template <class T>
void rotary(const T* x, T* out, RotaryShape shape, bool back) {
  const std::int64_t half = shape.rotary_dims / 2, row = shape.heads * shape.head_dim;
  std::vector<double> frequency;
  for (std::int64_t j = 0; j < half; ++j) frequency.push_back(shape.frequency(j));
  std::vector<T> cosine(frequency.size()), sine(frequency.size());
  for (std::int64_t s = 0; s < shape.seq; ++s) {
    const double position = static_cast<double>(shape.first + s) * (back ? -1.0 : 1.0);
    for (std::size_t j = 0; j < frequency.size(); ++j) {
      cosine[j] = static_cast<T>(shape.amplitude * std::cos(position * frequency[j]));
      sine[j] = static_cast<T>(shape.amplitude * std::sin(position * frequency[j]));
    }
    const T *c = cosine.data(), *n = sine.data();
    for (std::int64_t b = 0; b < shape.batch; ++b)
      for (std::int64_t h = 0; h < shape.heads; ++h) {
        const std::int64_t at = (b * shape.seq + s) * row + h * shape.head_dim;
        const T* from = x + at;
        T* to = out + at;
        if (shape.interleaved)
          turn(from, to, c, n, half, 2, 1);
        else
          turn(from, to, c, n, half, 1, half);
        if (to != from) std::copy(from + shape.rotary_dims, from + shape.head_dim, to + shape.rotary_dims);
      }
  }
}

template void rotary<float>(const float*, float*, RotaryShape, bool);
template void rotary<double>(const double*, double*, RotaryShape, bool);

}  // namespace meshwright::kernels
