// SPDX-License-Identifier: Apache-2.0
// Biases of attention by distance on the device against the processor's in double.
#include "kernels/cuda/attention/attention_bias.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/attention/attention_bias.h"
#include "tests/cuda/flat_ops.h"

namespace meshwright::kernels::cuda::attention_bias_test {
namespace {

template <class T>
class CudaAttentionBias : public testing::Test {};
using Types = testing::Types<float, double, Bf16, F16>;
TYPED_TEST_SUITE(CudaAttentionBias, Types);

struct Example {
  std::int64_t seq, kv_seq, kv_heads, group, first_position, buckets;
  bool bidirectional;

  [[nodiscard]] AttentionShape shape() const { return {1, seq, kv_seq, kv_heads, group, 1, 1}; }
  [[nodiscard]] std::size_t biases() const { return static_cast<std::size_t>(shape().heads() * shape().distances()); }
  [[nodiscard]] std::size_t table() const { return static_cast<std::size_t>(buckets * shape().heads()); }
};
// One distance; all 128 of both directions and more, over a block of threads; few and many buckets.
const Example kExamples[] = {{1, 1, 1, 1, 0, 2, false},        {150, 150, 2, 3, 0, 32, true},
                             {10, 300, 1, 2, 290, 32, false},  {300, 300, 1, 1, 0, 510, true},
                             {140, 140, 1, 2, 160, 16, false}, {7, 40, 3, 1, 0, 4, true}};

Values of_thirty_seconds(std::size_t count) {
  Values values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<double>((i * 37 + 11) % 64) / 32 - 1);
  return values;
}

TYPED_TEST(CudaAttentionBias, IsTheBucketsEntryOfEachDistance) {
  using T = TypeParam;
  for (const Example& e : kExamples) {
    const Values table = of_thirty_seconds(e.table());
    Values expected(e.biases());
    kernels::relative_bias(table.data(), {e.buckets, e.bidirectional}, expected.data(), e.shape(), e.first_position);
    const DeviceArray<T> entries(table);
    auto bias = DeviceArray<Wide<T>>::of_size(static_cast<std::int64_t>(e.biases()));
    relative_bias(kNoStream, entries.data(), {e.buckets, e.bidirectional}, bias.data(), e.shape(), e.first_position);
    EXPECT_EQ(bias.values(), expected) << e.seq << " " << e.kv_seq;
  }
}

TYPED_TEST(CudaAttentionBias, GivesEachBucketTheGradientsOfItsDistances) {
  using T = TypeParam;
  for (const Example& e : kExamples) {
    const Values gradients = of_thirty_seconds(e.biases());  // of 1/32: sums are exact
    Values expected(e.table());
    kernels::relative_bias_gradient(gradients.data(), {e.buckets, e.bidirectional}, expected.data(), e.shape(),
                                    e.first_position);
    const DeviceArray<Wide<T>> dbias(gradients);
    auto dtable = DeviceArray<T>::of_size(static_cast<std::int64_t>(e.table()));
    relative_bias_gradient(kNoStream, dbias.data(), {e.buckets, e.bidirectional}, dtable.data(), e.shape(),
                           e.first_position);
    const Values found = dtable.values();
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], kHalfPlace<T> * std::abs(expected[i])) << e.seq << " " << e.kv_seq << " " << i;
  }
}

TYPED_TEST(CudaAttentionBias, FallsWithTheDistanceByTheSlopeOfTheHead) {
  using W = Wide<TypeParam>;
  for (const Example& e : kExamples) {
    // Heads 1.. of twice as many and one, which is no power of two.
    const std::int64_t whole = 2 * e.kv_heads + 1;
    Values expected(e.biases());
    kernels::alibi_bias(expected.data(), e.shape(), e.first_position, {1, 0, whole, e.group});
    auto bias = DeviceArray<W>::of_size(static_cast<std::int64_t>(e.biases()));
    alibi_bias(kNoStream, bias.data(), e.shape(), e.first_position, {1, 0, whole, e.group});
    const Values found = bias.values();
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_NEAR(found[i], expected[i], 4 * kHalfPlace<W> * std::abs(expected[i])) << e.seq << " " << i;
  }
}

}  // namespace
}  // namespace meshwright::kernels::cuda::attention_bias_test
