// SPDX-License-Identifier: Apache-2.0
// Matrix products on the device against the sum written out. Small whole numbers have the same sum in any order and in
// every type, so most of it is exact.
#include "kernels/cuda/products/products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <type_traits>

#include "tests/cuda/device_array.h"

namespace meshwright::kernels::cuda::products_test {
namespace {

constexpr double kUntouched = -77;

// Relative rounding of T, the half of its last place, and of what its sums are kept in.
template <class T>
constexpr double kHalfPlace = std::is_same_v<T, Bf16>  ? 0x1p-8
                              : std::is_same_v<T, F16> ? 0x1p-11
                                                       : kRounding<T>;
template <class T>
constexpr double kWideHalfPlace = kRounding<Wide<T>>;

template <class T>
class CudaProducts : public testing::Test {};
using Types = testing::Types<float, double, Bf16, F16>;
TYPED_TEST_SUITE(CudaProducts, Types);

struct Shape {
  std::int64_t m, n, k;
};

// With `gap` elements between rows, and between the matrices of a batch.
Product product_of(const Shape& shape, bool transpose_a, bool transpose_b, std::int64_t gap, std::int64_t batch) {
  Product p{transpose_a, transpose_b, shape.m, shape.n, shape.k};
  p.lda = (transpose_a ? p.m : p.k) + gap;
  p.ldb = (transpose_b ? p.k : p.n) + gap;
  p.ldc = p.n + gap;
  p.batch = batch;
  p.stride_a = p.lda * (transpose_a ? p.k : p.m) + gap;
  p.stride_b = p.ldb * (transpose_b ? p.n : p.k) + gap;
  p.stride_c = p.ldc * p.m + gap;
  return p;
}

std::vector<double> whole_numbers(std::int64_t n, int factor) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(factor * i % 11 - 5));
  return values;
}
std::vector<double> random_numbers(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(uniform(random));
  return values;
}

struct Sums {
  std::vector<double> c, of_magnitudes;
};
Sums written_out(const Product& p, const std::vector<double>& a, const std::vector<double>& b, std::size_t size) {
  Sums sums{std::vector<double>(size, kUntouched), std::vector<double>(size, 0.0)};
  for (std::int64_t batch = 0; batch < p.batch; ++batch)
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) {
        double sum = 0, magnitudes = 0;
        for (std::int64_t k = 0; k < p.k; ++k) {
          const auto at_a = batch * p.stride_a + (p.transpose_a ? k * p.lda + i : i * p.lda + k);
          const auto at_b = batch * p.stride_b + (p.transpose_b ? j * p.ldb + k : k * p.ldb + j);
          const double term = a[static_cast<std::size_t>(at_a)] * b[static_cast<std::size_t>(at_b)];
          sum += term;
          magnitudes += std::abs(term);
        }
        const auto at = static_cast<std::size_t>(batch * p.stride_c + i * p.ldc + j);
        sums.c[at] = sum;
        sums.of_magnitudes[at] = magnitudes;
      }
  return sums;
}

template <class T>
void expect_exact(Products& products, const Product& p) {
  const std::int64_t size_a = p.batch * p.stride_a + p.k * p.m + p.lda,
                     size_b = p.batch * p.stride_b + p.k * p.n + p.ldb;
  const auto size_c = static_cast<std::size_t>(p.batch * p.stride_c + p.ldc);
  const std::vector<double> a = whole_numbers(size_a, 3), b = whole_numbers(size_b, 7);
  const DeviceArray<T> on_a(a), on_b(b);
  DeviceArray<T> on_c(std::vector<double>(size_c, kUntouched));
  products.run(kNoStream, p, on_a.data(), on_b.data(), on_c.data());
  ASSERT_EQ(on_c.values(), written_out(p, a, b, size_c).c)
      << p.m << " x " << p.n << " x " << p.k << (p.transpose_a ? " a'" : "") << (p.transpose_b ? " b'" : "");
}

TYPED_TEST(CudaProducts, AreExactForEveryTranspositionAndTouchNothingElse) {
  Products products(false);
  // k <= 10: a sum of 10 products of up to 25 is below 256, which all the types hold exactly.
  for (const Shape& shape : {Shape{1, 1, 1}, {3, 5, 7}, {17, 1, 9}, {1, 33, 4}, {40, 48, 8}, {8, 16, 10}})
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const std::int64_t gap : {0, 3, 8})
          for (const std::int64_t batch : {1, 3})
            expect_exact<TypeParam>(products, product_of(shape, transpose_a, transpose_b, gap, batch));
}

TYPED_TEST(CudaProducts, OfABatchMayShareAnOperand) {
  Products products(false);
  Product p = product_of({6, 8, 5}, false, true, 0, 4);
  p.stride_a = 0;
  expect_exact<TypeParam>(products, p);
  p.stride_a = 6 * 5, p.stride_b = 0;
  expect_exact<TypeParam>(products, p);
}

// A grid has no more blocks along its third axis.
TYPED_TEST(CudaProducts, MayBeMoreThan65535) {
  Products products(false);
  expect_exact<TypeParam>(products, product_of({2, 1, 3}, false, false, 0, 65535 + 70));
}

TYPED_TEST(CudaProducts, MayBeginAtAnyElement) {
  Products products(false);
  const Product p = product_of({16, 24, 8}, false, false, 0, 1);
  const std::vector<double> a = whole_numbers(16 * 8 + 8, 3), b = whole_numbers(8 * 24 + 8, 7);
  const DeviceArray<TypeParam> on_a(a), on_b(b);
  for (const std::int64_t shift : {0, 1, 2, 4, 8}) {
    DeviceArray<TypeParam> on_c(std::vector<double>(16 * 24 + 8, kUntouched));
    products.run(kNoStream, p, on_a.data() + shift, on_b.data() + shift, on_c.data() + shift);
    const std::vector<double> found = on_c.values();
    const std::vector<double> moved(found.begin() + shift, found.begin() + shift + 16 * 24);
    EXPECT_EQ(moved, written_out(p, {a.begin() + shift, a.end()}, {b.begin() + shift, b.end()}, 16 * 24).c) << shift;
  }
}

// In bf16 itself 256 + 1 is 256.
TYPED_TEST(CudaProducts, KeepSumsInAWiderType) {
  Products products(false);
  const Product p = product_of({4, 8, 2048}, false, true, 0, 1);
  const DeviceArray<TypeParam> ones(std::vector<double>(8 * 2048, 1.0));
  DeviceArray<TypeParam> c(std::vector<double>(4 * 8, kUntouched));
  products.run(kNoStream, p, ones.data(), ones.data(), c.data());
  EXPECT_EQ(c.values(), std::vector<double>(4 * 8, 2048.0));
}

// `lost`: relative, by rounding the operands once more than their type does.
template <class T>
void expect_close(Products& products, const Product& p, double lost) {
  const auto size_c = static_cast<std::size_t>(p.m * p.n);
  const DeviceArray<T> on_a(random_numbers(p.m * p.k, 1)), on_b(random_numbers(p.k * p.n, 2));
  DeviceArray<T> on_c = DeviceArray<T>::of_size(p.m * p.n);
  products.run(kNoStream, p, on_a.data(), on_b.data(), on_c.data());
  const Sums sums = written_out(p, on_a.values(), on_b.values(), size_c);
  const std::vector<double> found = on_c.values();
  for (std::size_t i = 0; i < size_c; ++i) {
    // Twice: what it is compared with was added up in double, no better than a sum of doubles.
    const double summed = (2 * static_cast<double>(p.k) * kWideHalfPlace<T> + lost) * sums.of_magnitudes[i];
    const double of_subnormals = std::is_same_v<T, F16> ? 0x1p-25 : 0.0;
    const double bound = summed + kHalfPlace<T> * (std::abs(sums.c[i]) + summed) + of_subnormals;
    ASSERT_LE(std::abs(found[i] - sums.c[i]), bound) << i;
  }
}

TYPED_TEST(CudaProducts, RoundSumsOnce) {
  Products products(false);
  expect_close<TypeParam>(products, product_of({33, 40, 257}, false, true, 0, 1), 0);
  expect_close<TypeParam>(products, product_of({8, 8, 5000}, true, false, 0, 1), 0);
}

TEST(CudaProductsOfFloat, MayUseTensorFloatsWhereAllowed) {
  Products products(true);
  // TF32 has 10 bits of mantissa: whole numbers stay exact, others lose up to 2^-10 in each operand.
  expect_exact<float>(products, product_of({40, 48, 8}, false, false, 0, 1));
  expect_close<float>(products, product_of({64, 64, 256}, false, false, 0, 1), 2.1 * 0x1p-10);
}

// --- products with an end ---

double applied(ProductFunction function, double x) {
  if (function == ProductFunction::Relu) return std::max(x, 0.0);
  if (function == ProductFunction::None) return x;
  return 0.5 * x * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

// Whether the library does it; where not, nothing is touched.
template <class T>
bool ends_well(const Product& p, ProductFunction function, bool leaves_before) {
  Products products(false);
  const auto size_c = static_cast<std::size_t>(p.ldc * p.m * p.batch);
  const std::vector<double> untouched(size_c, kUntouched);
  const DeviceArray<T> a(random_numbers(p.m * p.k * p.batch, 1)), b(random_numbers(p.k * p.n * p.batch, 2)),
      bias(random_numbers(p.n, 3));
  DeviceArray<T> c(untouched), before(untouched);
  const ProductEnd<T> end{bias.data(), function, leaves_before ? before.data() : nullptr};
  const bool done = products.run(kNoStream, p, a.data(), b.data(), c.data(), end);
  if (!done) {
    EXPECT_TRUE(c.values() == untouched && before.values() == untouched);
    return false;
  }
  const Sums sums = written_out(p, a.values(), b.values(), size_c);
  const std::vector<double> found = c.values(), left = before.values(), added = bias.values();
  for (std::size_t i = 0; i < size_c; ++i) {
    const auto column = i % static_cast<std::size_t>(p.ldc);
    const bool inside = column < static_cast<std::size_t>(p.n);
    const double x = inside ? sums.c[i] + added[column] : kUntouched, y = inside ? applied(function, x) : kUntouched;
    // As elsewhere, and the function in the wider type, to the 2^-11 of a hardware's tanh where T is of 16 bits.
    const double summed = 2 * static_cast<double>(p.k + 1) * kWideHalfPlace<T> * (sums.of_magnitudes[i] + std::abs(x));
    const double of_function = function == ProductFunction::Gelu ? 0x1p-11 * std::abs(x) : 0;
    const double minimum = std::is_same_v<T, F16> ? 0x1p-25 : 0.0;
    // The library may round a product of 16 bits, and its sum with the bias, before it goes on, as ops one by one do.
    const auto rounded = [](double value) { return sizeof(T) == 2 ? kHalfPlace<T> * std::abs(value) * 1.01 : 0; };
    const double of_sum = summed + rounded(sums.c[i]) + minimum;
    EXPECT_LE(std::abs(found[i] - y),
              inside ? 1.13 * (of_sum + rounded(x)) + of_function + kHalfPlace<T> * std::abs(y) * 1.01 + minimum : 0);
    const double expected = leaves_before ? x : kUntouched;
    EXPECT_LE(std::abs(left[i] - expected),
              inside && leaves_before ? of_sum + kHalfPlace<T> * std::abs(x) * 1.01 + minimum : 0);
  }
  return true;
}

TYPED_TEST(CudaProducts, MayEndWithABiasAndAFunctionAsNearAsOneByOne) {
  constexpr bool kIs16Bits = sizeof(TypeParam) == 2;
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const Shape& shape : {Shape{16, 8, 32}, Shape{24, 40, 17}, Shape{5, 7, 3}, Shape{1, 8, 1}}) {
        Product p = product_of(shape, transpose_a, transpose_b, 0, 1);
        const bool aligned = shape.n % 8 == 0 && shape.k % 8 == 0 && shape.m % 8 == 0;
        for (const auto function : {ProductFunction::None, ProductFunction::Relu, ProductFunction::Gelu}) {
          if (function == ProductFunction::Gelu && !kIs16Bits) continue;
          const bool done = ends_well<TypeParam>(p, function, false);
          EXPECT_TRUE(done || !aligned || !kIs16Bits);
        }
        if (!kIs16Bits) continue;
        const bool left = ends_well<TypeParam>(p, ProductFunction::Gelu, true);
        EXPECT_TRUE(left || !aligned);
        p.ldc += 8;
        (void)ends_well<TypeParam>(p, ProductFunction::Gelu, true);
      }
}

TYPED_TEST(CudaProducts, HaveNoOtherEnds) {
  EXPECT_FALSE(ends_well<TypeParam>(product_of({8, 8, 8}, false, false, 0, 2), ProductFunction::None, false));
  EXPECT_FALSE(ends_well<TypeParam>(product_of({8, 8, 8}, false, false, 0, 1), ProductFunction::Relu, true));
  EXPECT_FALSE(ends_well<TypeParam>(product_of({8, 8, 8}, false, false, 0, 1), ProductFunction::None, true));
  EXPECT_FALSE(ends_well<TypeParam>(product_of({8, 9, 8}, false, false, 0, 1), ProductFunction::Gelu, true));
}

TYPED_TEST(CudaProducts, GiveTheSameBitsEveryTimeAndInEveryInstance) {
  const Product p = product_of({24, 40, 3000}, false, false, 0, 1);
  const DeviceArray<TypeParam> a(random_numbers(24 * 3000, 3)), b(random_numbers(40 * 3000, 4));
  std::vector<std::vector<TypeParam>> results;
  for (int instance = 0; instance < 2; ++instance) {
    Products products(false);
    for (int round = 0; round < 2; ++round) {
      DeviceArray<TypeParam> c = DeviceArray<TypeParam>::of_size(24 * 40);
      products.run(kNoStream, p, a.data(), b.data(), c.data());
      results.push_back(c.raw());
    }
  }
  for (const std::vector<TypeParam>& other : results)
    EXPECT_EQ(std::memcmp(other.data(), results[0].data(), other.size() * sizeof(TypeParam)), 0);
}

TYPED_TEST(CudaProducts, OfSeveralStreamsDoNotMeet) {
  Products products(false);
  const Product p = product_of({16, 16, 2048}, false, true, 0, 1);
  const DeviceArray<TypeParam> ones(std::vector<double>(16 * 2048, 1.0)), twos(std::vector<double>(16 * 2048, 2.0));
  const Stream first = make_stream(), second = make_stream();
  DeviceArray<TypeParam> of_first = DeviceArray<TypeParam>::of_size(256),
                         of_second = DeviceArray<TypeParam>::of_size(256);
  for (int round = 0; round < 5; ++round) {
    products.run(first, p, ones.data(), ones.data(), of_first.data());
    products.run(second, p, twos.data(), twos.data(), of_second.data());
  }
  synchronize(first);
  synchronize(second);
  EXPECT_EQ(of_first.values(), std::vector<double>(256, 2048.0));
  EXPECT_EQ(of_second.values(), std::vector<double>(256, 8192.0));
  destroy(first);
  destroy(second);
}

}  // namespace
}  // namespace meshwright::kernels::cuda::products_test
