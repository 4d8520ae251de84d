// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/elementwise/dropout.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/elementwise/random.h"

namespace meshwright::kernels {

namespace {

// Elements `first`.. of the whole tensor, `n` of them in a row.
template <class T>
void mask_run(const T* x, T* out, std::int64_t n, std::int64_t first, PhiloxStream stream, std::uint32_t threshold,
              T factor) {
  constexpr std::int64_t kBlock = 256;
  std::uint32_t words[kBlock];
  for (std::int64_t done = 0; done < n; done += kBlock) {
    const std::int64_t count = std::min(kBlock, n - done);
    philox_words(words, count, stream, first + done);
#pragma GCC ivdep
    for (std::int64_t i = 0; i < count; ++i) {
      const T kept = factor * x[done + i];
      out[done + i] = words[i] >= threshold ? kept : T(0);
    }
  }
}

}  // namespace

template <class T>
void dropout(const T* x, T* out, Part part, DropoutMask mask) {
  std::int64_t elements = 1;
  for (int d = 0; d < part.rank; ++d) elements *= part.local[d];
  if (mask.probability == 0.0) {
    if (x != out) std::copy_n(x, elements, out);
    return;
  }
  const PhiloxStream stream{mask.seed, static_cast<std::uint32_t>(mask.step),
                            static_cast<std::uint32_t>(mask.microbatch)};
  const auto threshold = static_cast<std::uint32_t>(std::min(std::floor(mask.probability * 0x1p32), 0x1p32 - 1));
  const T factor = static_cast<T>(1.0 / (1.0 - mask.probability));
  // Dimensions from `outer` on that are whole, and the one before them, lie in one piece.
  int outer = part.rank;
  std::int64_t run = 1;
  while (outer > 0 && part.local[outer - 1] == part.whole[outer - 1]) run *= part.local[--outer];
  if (outer > 0) run *= part.local[--outer];
  for (std::int64_t start = 0; start < elements; start += run) {
    std::int64_t first = 0, stride = 1, rest = start;
    for (int d = part.rank - 1; d >= 0; --d) {
      first += stride * (part.begin[d] + rest % part.local[d]);
      rest /= part.local[d], stride *= part.whole[d];
    }
    mask_run(x + start, out + start, run, first, stream, threshold, factor);
  }
}

template void dropout<float>(const float*, float*, Part, DropoutMask);
template void dropout<double>(const double*, double*, Part, DropoutMask);

}  // namespace meshwright::kernels
