// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/tokens/embedding.h"

#include <algorithm>

namespace meshwright::kernels {

template <class T>
void embedding(const std::int32_t* ids, const T* table, T* out, const TableShape& shape) {
  const std::int64_t width = shape.width;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const std::int64_t id = ids[r] - shape.first;
    if (id >= 0 && id < shape.vocab)
      std::copy_n(table + id * width, width, out + r * width);
    else
      std::fill_n(out + r * width, width, T(0));
  }
}

template <class T>
void embedding_backward(const std::int32_t* ids, const T* dy, T* dtable, const TableShape& shape) {
  const std::int64_t width = shape.width;
  std::fill_n(dtable, shape.vocab * width, T(0));
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const std::int64_t id = ids[r] - shape.first;
    if (id < 0 || id >= shape.vocab) continue;
    T* row = dtable + id * width;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i) row[i] += dy[r * width + i];
  }
}

#define MW_INSTANTIATE(T)                                                           \
  template void embedding<T>(const std::int32_t*, const T*, T*, const TableShape&); \
  template void embedding_backward<T>(const std::int32_t*, const T*, T*, const TableShape&);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
