// SPDX-License-Identifier: Apache-2.0
// Dropout on the device against the processor's.
#include "kernels/cuda/elementwise/dropout.h"

#include <gtest/gtest.h>

#include <numeric>

#include "kernels/cpu/elementwise/random.h"
#include "tests/cuda/flat_ops.h"

namespace meshwright::kernels::cuda::dropout_test {
namespace {

template <class T>
class CudaDropout : public testing::Test {};
using Types = testing::Types<float, double, Bf16, F16>;
TYPED_TEST_SUITE(CudaDropout, Types);

struct Shard {
  std::vector<std::int64_t> local, whole, begin;
  [[nodiscard]] Part part() const { return {static_cast<int>(local.size()), local.data(), whole.data(), begin.data()}; }
  [[nodiscard]] std::int64_t elements() const {
    return std::accumulate(local.begin(), local.end(), std::int64_t{1}, std::multiplies<>());
  }
};
// A scalar; whole tensors; split in the first, in the last, in the middle, in two dimensions, at odd places; one index
// of a split dimension; a place whose number does not fit into 32 bits.
const std::vector<Shard> kShards = {
    {{}, {}, {}},
    {{1}, {1}, {0}},
    {{3, 5, 7}, {3, 5, 7}, {0, 0, 0}},
    {{2, 520}, {2, 520}, {0, 0}},
    {{2, 5, 8}, {6, 5, 8}, {4, 0, 0}},
    {{4, 6, 16}, {4, 6, 64}, {0, 0, 32}},
    {{4, 6, 5}, {4, 6, 15}, {0, 0, 5}},
    {{3, 4, 8}, {3, 8, 8}, {0, 4, 0}},
    {{2, 3, 2, 6}, {4, 3, 10, 6}, {2, 0, 3, 0}},
    {{2, 1, 3, 4}, {2, 5, 9, 4}, {0, 3, 6, 0}},
    {{2, 3, 2}, {6, 3, 4}, {3, 0, 1}},
    {{3, 7}, {1500000000, 7}, {1400000001, 0}},
};

TYPED_TEST(CudaDropout, KeepsTheElementsThatTheProcessorKeeps) {
  using T = TypeParam;
  const DropoutMask mask{0.4, 0x123456789abcdef0ULL, 7, 3};
  for (std::size_t k = 0; k < kShards.size(); ++k) {
    SCOPED_TRACE(k);
    const Shard& shard = kShards[k];
    const std::int64_t n = shard.elements();
    const Values x = numbers<T>(n, 1, 0.5, 1.0);
    Values expected(x.size());
    kernels::dropout(x.data(), expected.data(), shard.part(), mask);
    DeviceArray<T> on_x(x);
    auto out = DeviceArray<T>::of_size(n);
    dropout(kNoStream, on_x.data(), out.data(), shard.part(), mask);
    const Values found = out.values();
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(found[i] == 0.0, expected[i] == 0.0) << i;
    // The factor is rounded, and its product with x.
    expect_rounded<T>(found, expected, 4 * kHalfPlace<Wide<T>>);
    dropout(kNoStream, on_x.data(), on_x.data(), shard.part(), mask);
    EXPECT_EQ(on_x.values(), found);
  }
}

TYPED_TEST(CudaDropout, EveryWordOfTheMaskCounts) {
  using T = TypeParam;
  const Shard shard{{1001}, {1001}, {0}};
  const DeviceArray<T> on_x(Values(1001, 1.0));
  auto out = DeviceArray<T>::of_size(1001);
  const DropoutMask masks[] = {{0.5, 1, 1, 0}, {0.5, 1ULL << 32, 1, 0}, {0.5, 1, 2, 0}, {0.5, 1, 1, 1}};
  std::vector<Values> found;
  for (const DropoutMask& mask : masks) {
    dropout(kNoStream, on_x.data(), out.data(), shard.part(), mask);
    for (const Values& other : found) EXPECT_NE(out.values(), other);
    found.push_back(out.values());
    Values expected(1001);
    kernels::dropout(Values(1001, 1.0).data(), expected.data(), shard.part(), mask);
    EXPECT_EQ(found.back(), expected);
  }
}

TYPED_TEST(CudaDropout, TheNumberOfTheStepMayLieOnTheDevice) {
  using T = TypeParam;
  const Shard shard{{1001}, {1001}, {0}};
  const DeviceArray<T> x(Values(1001, 1.0));
  const DeviceArray<std::int64_t> step(Values{7.0});
  auto out = DeviceArray<T>::of_size(1001), expected = DeviceArray<T>::of_size(1001);
  dropout(kNoStream, x.data(), expected.data(), shard.part(), {0.5, 1, 7, 3});
  dropout(kNoStream, x.data(), out.data(), shard.part(), {0.5, 1, 2, 3}, step.data());
  EXPECT_EQ(out.values(), expected.values());
}

// The word of element 6 is the threshold itself: kept.
TEST(CudaDropout_, KeepsAWordThatIsTheThreshold) {
  std::uint32_t word = 0;
  philox_words(&word, 1, {11, 1, 0}, 6);
  const Shard shard{{9}, {9}, {0}};
  const DropoutMask mask{static_cast<double>(word) * 0x1p-32, 11, 1, 0};
  const DeviceArray<double> x(Values(9, 1.0));
  auto out = DeviceArray<double>::of_size(9);
  dropout(kNoStream, x.data(), out.data(), shard.part(), mask);
  EXPECT_NE(out.values()[6], 0.0);
}

// A thread has several turns.
TEST(CudaDropout_, NothingIsLeftOutBeyondTheGrid) {
  const std::int64_t rows = 4096 + 3;
  const Shard shard{{rows, 1024}, {rows, 4096}, {0, 1024}};
  const Values ones(static_cast<std::size_t>(shard.elements()), 1.0);
  Values expected(ones.size());
  kernels::dropout(ones.data(), expected.data(), shard.part(), {0.5, 1, 1, 0});
  DeviceArray<double> x(ones);
  dropout(kNoStream, x.data(), x.data(), shard.part(), {0.5, 1, 1, 0});
  EXPECT_TRUE(x.values() == expected);
}

TYPED_TEST(CudaDropout, OfProbabilityZeroCopies) {
  using T = TypeParam;
  const Shard shard{{77}, {77}, {0}};
  const Values x = numbers<T>(77, 2);
  const DeviceArray<T> on_x(x);
  auto out = DeviceArray<T>::of_size(77);
  dropout(kNoStream, on_x.data(), out.data(), shard.part(), {0.0, 1, 1, 0});
  EXPECT_EQ(out.values(), x);
}

TEST(CudaDropout_, GradientsAreMaskedAsTheForwardWas) {
  DeviceArray<float> x(Values(300, 1.0));
  auto out = DeviceArray<float>::of_size(300), gradient = DeviceArray<float>::of_size(300);
  const Attributes attributes{.probability = 0.25, .seed = 99};
  const std::vector<std::int64_t> begin = {0};
  const OpMoment moment{begin, 5, 2};
  for (auto& [kind, result] : {std::pair{OpKind::Dropout, &out}, std::pair{OpKind::DropoutBackward, &gradient}})
    run_flat(cuda_elementwise_kernel(kind), kind, attributes, {flat(x)}, {flat(*result)}, moment);
  EXPECT_EQ(out.values(), gradient.values());
  std::vector<float> expected(300), ones(300, 1.0f);
  const Shard shard{{300}, {300}, {0}};
  kernels::dropout(ones.data(), expected.data(), shard.part(), {0.25, 99, 5, 2});
  EXPECT_EQ(out.raw(), expected);
}

}  // namespace
}  // namespace meshwright::kernels::cuda::dropout_test
