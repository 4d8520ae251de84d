// SPDX-License-Identifier: Apache-2.0
// Rotary embedding on the device against the processor's in double.
#include "kernels/cuda/attention/rotary.h"

#include "kernels/cpu/attention/rotary.h"
#include "tests/cuda/flat_ops.h"

namespace meshwright::kernels::cuda::rotary_test {
namespace {

template <class Number>
class CudaRotary : public testing::Test {};
using Numbers = testing::Types<float, double, Bf16, F16>;
TYPED_TEST_SUITE(CudaRotary, Numbers);

// {batch, seq, heads, head_dim, rotary_dims, first, base}: packs and single elements, heads that are turned in part or
// not at all, more pairs than a block's table has, more heads than a block has at once, several parts of the batch.
const std::vector<RotaryShape> kShapes = {{1, 1, 1, 2, 2, 3, 10000.0},     {2, 5, 3, 64, 64, 0, 10000.0},
                                          {2, 3, 2, 80, 32, 7, 500000.0},  {1, 4, 2, 20, 6, 1, 10000.0},
                                          {1, 2, 3, 8, 0, 1, 10000.0},     {2, 2, 1, 640, 624, 5, 10000.0},
                                          {1, 2, 2, 1029, 1026, 2, 100.0}, {6, 2, 50, 16, 16, 100000, 1e6}};

template <class T>
void expect_turned(const Values& x, const DeviceArray<T>& out, const RotaryShape& s, bool back) {
  Values expected(x.size());
  kernels::rotary(
      x.data(), expected.data(),
      {s.batch, s.seq, s.heads, s.head_dim, s.rotary_dims, s.first, s.base, s.divisors, s.amplitude, s.interleaved},
      back);
  // Sums of two products of numbers up to 2 with rounded cosines and sines, of angles that take over the roundings of a
  // frequency as often as the position says.
  const double angle = 8.0 * static_cast<double>(s.first + s.seq) * kHalfPlace<double>;
  expect_rounded<T>(out.values(), expected, 4 * kHalfPlace<Wide<T>> + angle, Values(x.size(), 4.0 * s.amplitude));
}

TYPED_TEST(CudaRotary, TurnsPairsByTheirPosition) {
  for (RotaryShape shape : kShapes)
    for (const bool interleaved : {false, true})
      for (const bool back : {false, true}) {
        shape.interleaved = interleaved;
        const Values x = numbers<TypeParam>(shape.batch * shape.seq * shape.heads * shape.head_dim, 1);
        const DeviceArray<TypeParam> on_x(x);
        DeviceArray<TypeParam> out(Values(x.size(), 7.0));
        rotary(kNoStream, on_x.data(), out.data(), shape, back);
        expect_turned(x, out, shape, back);
      }
}

TYPED_TEST(CudaRotary, MayOverwriteWhatItReads) {
  for (RotaryShape shape : kShapes)
    for (const bool interleaved : {false, true}) {
      shape.interleaved = interleaved;
      const Values x = numbers<TypeParam>(shape.batch * shape.seq * shape.heads * shape.head_dim, 2);
      DeviceArray<TypeParam> both(x);
      rotary(kNoStream, both.data(), both.data(), shape, false);
      expect_turned(x, both, shape, false);
    }
}

// Pairs of two launches.
TYPED_TEST(CudaRotary, ScalesFrequenciesAndLengths) {
  Values divisors;
  for (int j = 0; j < 300; ++j) divisors.push_back(1.0 + 0.25 * j);
  const RotaryShape shape{2, 3, 2, 600, 600, 5, 10000.0, divisors.data(), 1.5};
  const Values x = numbers<TypeParam>(2 * 3 * 2 * 600, 4);
  const DeviceArray<TypeParam> on_x(x);
  DeviceArray<TypeParam> out(Values(x.size(), 7.0));
  rotary(kNoStream, on_x.data(), out.data(), shape, true);
  expect_turned(x, out, shape, true);
}

// One element further, where 16 bytes cannot be loaded at once.
TYPED_TEST(CudaRotary, BeginsAnywhere) {
  const RotaryShape shape{2, 3, 2, 16, 16, 4, 10000.0};
  Values x = numbers<TypeParam>(2 * 3 * 2 * 16 + 1, 3);
  const DeviceArray<TypeParam> on_x(x);
  auto out = DeviceArray<TypeParam>::of_size(2 * 3 * 2 * 16);
  rotary(kNoStream, on_x.data() + 1, out.data(), shape, false);
  x.erase(x.begin());
  expect_turned(x, out, shape, false);
}

}  // namespace
}  // namespace meshwright::kernels::cuda::rotary_test
