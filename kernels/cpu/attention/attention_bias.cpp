// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/attention/attention_bias.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace meshwright::kernels {

double alibi_slope(std::int64_t head, std::int64_t heads) {
  const auto power = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  const double step = 8.0 / static_cast<double>(power);
  return head < power ? std::exp2(-step * static_cast<double>(head + 1))
                      : std::exp2(-0.5 * step * static_cast<double>(2 * (head - power) + 1));
}

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

std::int64_t relative_bucket(std::int64_t distance, std::int64_t buckets, bool bidirectional) {
  constexpr double kFarthest = 128.0;
  const std::int64_t each = bidirectional ? buckets / 2 : buckets, exact = each / 2;
  const std::int64_t base = bidirectional && distance > 0 ? each : 0;
  const std::int64_t away = bidirectional ? std::abs(distance) : std::max<std::int64_t>(0, -distance);
  if (away < exact) return base + away;
  const double from = static_cast<double>(exact);
  const double part = std::log(static_cast<double>(away) / from) / std::log(kFarthest / from);
  // Distances that begin a bucket exactly (32 and 64 of 16 buckets) must not fall below it by rounding.
  const auto beyond = static_cast<std::int64_t>(part * static_cast<double>(each - exact) + 1e-9);
  return base + std::min(exact + beyond, each - 1);
}

template <class T>
void relative_bias(const T* table, std::int64_t buckets, bool bidirectional, T* bias, const AttentionShape& shape,
                   std::int64_t first_position) {
  const std::int64_t minimum = -(first_position + shape.seq - 1), heads = shape.heads();
  for (std::int64_t i = 0; i < shape.distances(); ++i) {
    const T* row = table + relative_bucket(minimum + i, buckets, bidirectional) * heads;
    for (std::int64_t h = 0; h < heads; ++h) bias[h * shape.distances() + i] = row[h];
  }
}

template <class T>
void relative_bias_gradient(const double* dbias, std::int64_t buckets, bool bidirectional, T* dtable,
                            const AttentionShape& shape, std::int64_t first_position) {
  const std::int64_t minimum = -(first_position + shape.seq - 1), heads = shape.heads();
  std::vector<double> sums(static_cast<std::size_t>(buckets * heads), 0.0);
  for (std::int64_t i = 0; i < shape.distances(); ++i) {
    double* row = sums.data() + relative_bucket(minimum + i, buckets, bidirectional) * heads;
    for (std::int64_t h = 0; h < heads; ++h) row[h] += dbias[h * shape.distances() + i];
  }
  std::transform(sums.begin(), sums.end(), dtable, [](double sum) { return static_cast<T>(sum); });
}

#define MW_INSTANTIATE(T)                                                                                \
  template void alibi_bias<T>(T*, const AttentionShape&, std::int64_t, HeadPart);                        \
  template void relative_bias<T>(const T*, std::int64_t, bool, T*, const AttentionShape&, std::int64_t); \
  template void relative_bias_gradient<T>(const double*, std::int64_t, bool, T*, const AttentionShape&, std::int64_t);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels
