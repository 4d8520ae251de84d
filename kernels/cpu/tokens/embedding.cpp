// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/tokens/embedding.h"

#include <algorithm>

namespace meshwright::kernels {

template <class T>
void embedding(const std::int32_t* ids, const T* table, T* out, std::int64_t rows, std::int64_t vocab,
               std::int64_t width, std::int64_t first) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t id = ids[r] - first;
    if (id >= 0 && id < vocab)
      std::copy_n(table + id * width, width, out + r * width);
    else
      std::fill_n(out + r * width, width, T(0));
  }
}

template <class T>
void embedding_backward(const std::int32_t* ids, const T* dy, T* dtable, std::int64_t rows, std::int64_t vocab,
                        std::int64_t width, std::int64_t first) {
  std::fill_n(dtable, vocab * width, T(0));
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t id = ids[r] - first;
    if (id < 0 || id >= vocab) continue;
    T* row = dtable + id * width;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i) row[i] += dy[r * width + i];
  }
}

#define MW_INSTANTIATE(T)                                                                                          \
  template void embedding<T>(const std::int32_t*, const T*, T*, std::int64_t, std::int64_t, std::int64_t,          \
                             std::int64_t);                                                                        \
  template void embedding_backward<T>(const std::int32_t*, const T*, T*, std::int64_t, std::int64_t, std::int64_t, \
                                      std::int64_t);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
