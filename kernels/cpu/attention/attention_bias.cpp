// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/attention_bias.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace meshwright::kernels {

template <class T>
void alibi_bias(T* bias, const AttentionShape& shape, std::int64_t first_position, HeadPart part) {
  const std::int64_t minimum = -(first_position + shape.seq - 1), heads = part.whole_kv_heads * part.whole_group;
  for (std::int64_t h = 0; h < shape.kv_heads; ++h)
    for (std::int64_t g = 0; g < shape.group; ++g) {
      const double slope = alibi_slope((part.first_kv_head + h) * part.whole_group + part.first_group + g, heads);
      T* row = bias + (h * shape.group + g) * shape.distances();
      for (std::int64_t i = 0; i < shape.distances(); ++i)
        row[i] = static_cast<T>(-slope * static_cast<double>(std::abs(minimum + i)));
    }
}

template <class T>
void relative_bias(const T* table, const RelativeBuckets& by, T* bias, const AttentionShape& shape,
                   std::int64_t first_position) {
  const std::int64_t minimum = -(first_position + shape.seq - 1), heads = shape.heads();
  for (std::int64_t i = 0; i < shape.distances(); ++i) {
    const T* row = table + relative_bucket(minimum + i, by) * heads;
    for (std::int64_t h = 0; h < heads; ++h) bias[h * shape.distances() + i] = row[h];
  }
}

template <class T>
void relative_bias_gradient(const double* dbias, const RelativeBuckets& by, T* dtable, const AttentionShape& shape,
                            std::int64_t first_position) {
  const std::int64_t minimum = -(first_position + shape.seq - 1), heads = shape.heads();
  std::vector<double> sums(static_cast<std::size_t>(by.buckets * heads), 0.0);
  for (std::int64_t i = 0; i < shape.distances(); ++i) {
    double* row = sums.data() + relative_bucket(minimum + i, by) * heads;
    for (std::int64_t h = 0; h < heads; ++h) row[h] += dbias[h * shape.distances() + i];
  }
  std::transform(sums.begin(), sums.end(), dtable, [](double sum) { return static_cast<T>(sum); });
}

#define MW_INSTANTIATE(T)                                                                                    \
  template void alibi_bias<T>(T*, const AttentionShape&, std::int64_t, HeadPart);                            \
  template void relative_bias<T>(const T*, const RelativeBuckets&, T*, const AttentionShape&, std::int64_t); \
  template void relative_bias_gradient<T>(const double*, const RelativeBuckets&, T*, const AttentionShape&,  \
                                          std::int64_t);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
