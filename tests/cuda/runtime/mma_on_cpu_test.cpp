// SPDX-License-Identifier: Apache-2.0
// Products by the fragments of tensor cores against plain ones.
#include <gtest/gtest.h>

#include "kernels/cuda/blocks/mma.h"
#include "tests/cuda/flat_ops.h"

namespace meshwright::kernels::cuda::mma_on_cpu_test {
namespace {

// c (16, 8) += a (16, 16) b, both loaded as matrices of 8 x 8: b lies as (8, 16), or (16, 8 of 16) when it is loaded
// transposed. One warp.
template <class T, bool transposed>
__global__ void multiply(const T* a, const T* b, float* c) {
  MW_DYNAMIC_SHARED(T, left);
  T* const right = left + 16 * 16;
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  begin_copy<16>(left + 8 * lane, a + 8 * lane, true);
  // Half of b is of zeros: the second of the two columns of matrices.
  begin_copy<16>(right + 8 * lane, b + 8 * lane, transposed ? lane % 2 == 0 : lane < 16);
  finish_copies();
  __syncthreads();
  std::uint32_t of_a[4], of_b[4];
  load_matrices<false>(of_a, left + lane % 16 * 16 + lane / 16 * 8);
  load_matrices<transposed>(
      of_b, right + (transposed ? lane % 16 * 16 + lane / 16 * 8 : (lane % 8 + lane / 16 * 8) * 16 + lane / 8 % 2 * 8));
  float own[4], beyond[4] = {};
  for (int i = 0; i < 4; ++i) own[i] = c[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
  multiply_add<T>(own, of_a, of_b[0], of_b[1]);
  multiply_add<T>(beyond, of_a, of_b[2], of_b[3]);
  for (int i = 0; i < 4; ++i) c[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = own[i] + beyond[i];
}

template <class T>
class Mma : public testing::Test {};
using HalfTypes = testing::Types<Bf16, F16>;
TYPED_TEST_SUITE(Mma, HalfTypes);

// Small integers: every sum is exact. `at_b`: where b(k, n) lies.
template <class T, bool transposed, class At>
void expect_product(At at_b) {
  Values a, b, c;
  for (int i = 0; i < 256; ++i) a.push_back((i * 7 + 3) % 11 - 5), b.push_back((i * 5 + 1) % 13 - 6);
  for (int i = 0; i < 128; ++i) c.push_back(100 * i);
  const DeviceArray<T> of_a(a), of_b(b);
  DeviceArray<float> of_c(c);
  launch("multiply", multiply<T, transposed>, {1, 1, 1}, {32, 1, 1}, 512 * sizeof(T), kNoStream, of_a.data(),
         of_b.data(), of_c.data());
  for (std::size_t m = 0; m < 16; ++m)
    for (std::size_t n = 0; n < 8; ++n)
      for (std::size_t k = 0; k < 16; ++k) c[m * 8 + n] += a[m * 16 + k] * b[at_b(k, n)];
  EXPECT_EQ(of_c.values(), c);
}

TYPED_TEST(Mma, MultipliesByRowsOfTheSecondOperandsColumns) {
  expect_product<TypeParam, false>([](std::size_t k, std::size_t n) { return n * 16 + k; });
}
TYPED_TEST(Mma, MultipliesByRowsOfTheSecondOperandWhenTheyAreLoadedTransposed) {
  expect_product<TypeParam, true>([](std::size_t k, std::size_t n) { return k * 16 + n; });
}

TYPED_TEST(Mma, PacksTheFirstNumberIntoTheLowerHalf) {
  const std::uint32_t both = pack<TypeParam>(1.0f, -2.0f);
  EXPECT_EQ(both & 0xffffU, TypeParam(1.0f).bits);
  EXPECT_EQ(both >> 16, TypeParam(-2.0f).bits);
}

}  // namespace
}  // namespace meshwright::kernels::cuda::mma_on_cpu_test
