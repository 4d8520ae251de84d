// SPDX-License-Identifier: Apache-2.0
// Contractions and biases on the device, as ops and as the kernel for any layout, against the processor's in double.
// Sums of small whole numbers are exact in every type and order.
#include "kernels/cuda/products/contract.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <random>
#include <type_traits>

#include "executor/cuda/cuda_kernel_table.h"
#include "kernels/cpu/products/gemm.h"
#include "tests/cuda/device_array.h"

namespace meshwright::kernels::cuda::contract_test {
namespace {

using Values = std::vector<double>;
using Sizes = std::vector<std::int64_t>;

template <class T>
class CudaContract : public testing::Test {};
using Types = testing::Types<float, double, Bf16, F16>;
TYPED_TEST_SUITE(CudaContract, Types);

template <class T>
constexpr DType kType = DType::F32;
template <>
inline constexpr DType kType<double> = DType::F64;
template <>
inline constexpr DType kType<Bf16> = DType::BF16;
template <>
inline constexpr DType kType<F16> = DType::F16;

Values whole_numbers(std::int64_t n, int factor) {
  Values values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(factor * i % 11 - 5));
  return values;
}

Values absolute(Values values) {
  for (double& value : values) value = std::abs(value);
  return values;
}

// Half of T's last place, relative.
template <class T>
constexpr double kHalfPlace = std::is_same_v<T, Bf16>  ? 0x1p-8
                              : std::is_same_v<T, F16> ? 0x1p-11
                                                       : kRounding<T>;

// --- the kernel for any layout ---

struct Nest {
  Sizes sizes, a, b, c;
  std::int64_t elements_a, elements_b, elements_c;
};

template <class T>
Values on_device(const Nest& nest, const Values& a, const Values& b) {
  const DeviceArray<T> on_a(a), on_b(b);
  DeviceArray<T> on_c = DeviceArray<T>::of_size(nest.elements_c);
  contract_strided(kNoStream,
                   {static_cast<int>(nest.sizes.size()), nest.sizes.data(), nest.a.data(), nest.b.data(), nest.c.data(),
                    nest.elements_c},
                   on_a.data(), on_b.data(), on_c.data());
  return on_c.values();
}
Values on_processor(const Nest& nest, const Values& a, const Values& b) {
  Values c(static_cast<std::size_t>(nest.elements_c));
  kernels::contract_strided({static_cast<int>(nest.sizes.size()), nest.sizes.data(), nest.a.data(), nest.b.data(),
                             nest.c.data(), nest.elements_c},
                            a.data(), b.data(), c.data());
  return c;
}

template <class T>
void expect_exact(const Nest& nest) {
  const Values a = whole_numbers(nest.elements_a, 3), b = whole_numbers(nest.elements_b, 7);
  EXPECT_EQ(on_device<T>(nest, a, b), on_processor(nest, a, b));
}

TYPED_TEST(CudaContract, IsExactInAnyLayout) {
  expect_exact<TypeParam>({{1}, {1}, {1}, {1}, 1, 1, 1});
  expect_exact<TypeParam>({{}, {}, {}, {}, 1, 1, 1});
  // A diagonal: c[i] = a[i, i] b[i].
  expect_exact<TypeParam>({{70}, {71}, {1}, {1}, 4900, 70, 70});
  // c[j, i] = sum over k of a[k, i, k'] b[k', k, j], k of 3 and k' of 2.
  expect_exact<TypeParam>({{5, 7, 3, 2}, {2, 0, 10, 1}, {0, 1, 7, 21}, {1, 5, 0, 0}, 30, 42, 35});
  // Loops that are walked like one: 14 of them.
  Nest split{Sizes(14, 2), Sizes(14), Sizes(14), Sizes(14), 1 << 14, 1 << 14, 1 << 14};
  for (std::size_t i = 0; i < 14; ++i) split.a[i] = split.b[i] = split.c[i] = std::int64_t{1} << (13 - i);
  expect_exact<TypeParam>(split);
}

// Rows of a against columns of b: a warp each.
template <class T>
Nest long_sums(std::int64_t length) {
  return {{3, 5, 2, length},
          {2 * length, 0, length, 1},
          {0, 1, 5 * length, 5},
          {5, 1, 0, 0},
          3 * 2 * length,
          10 * length,
          15};
}

TYPED_TEST(CudaContract, KeepsLongSumsInAWiderType) {
  for (const std::int64_t length : {1, 31, 64, 65, 1000}) {
    const Nest nest = long_sums<TypeParam>(length);
    const Values ones_a(static_cast<std::size_t>(nest.elements_a), 1.0),
        ones_b(static_cast<std::size_t>(nest.elements_b), 1.0);
    const double expected = static_cast<double>(TypeParam(static_cast<double>(2 * length)));
    EXPECT_EQ(on_device<TypeParam>(nest, ones_a, ones_b), Values(15, expected)) << length;
  }
}

TYPED_TEST(CudaContract, IsCloseAndTheSameBitsEveryTime) {
  const Nest nest = long_sums<TypeParam>(777);
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  Values a, b;
  for (std::int64_t i = 0; i < nest.elements_a; ++i) a.push_back(normal(random));
  for (std::int64_t i = 0; i < nest.elements_b; ++i) b.push_back(normal(random));
  const Values first = on_device<TypeParam>(nest, a, b), second = on_device<TypeParam>(nest, a, b);
  EXPECT_EQ(std::memcmp(first.data(), second.data(), first.size() * sizeof(double)), 0);
  // What is compared with was added up in double: as good as a sum of doubles, hence twice.
  const Values rounded_a = DeviceArray<TypeParam>(a).values(), rounded_b = DeviceArray<TypeParam>(b).values();
  const Values expected = on_processor(nest, rounded_a, rounded_b);
  const Values magnitudes = on_processor(nest, absolute(rounded_a), absolute(rounded_b));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double summed = 2 * 1554 * kRounding<Wide<TypeParam>> * magnitudes[i];
    EXPECT_NEAR(first[i], expected[i], summed + kHalfPlace<TypeParam> * (std::abs(expected[i]) + summed)) << i;
  }
}

// 4096 blocks of 256 threads at most: some threads have a second element.
TEST(CudaContractStrided, ReachesElementsBeyondTheGrid) {
  const std::int64_t n = 4096 * 256 + 77;
  expect_exact<float>({{n}, {1}, {1}, {1}, n, n, n});
}

TEST(CudaContractStrided, RefusesMoreLoopsThanItHasRoomFor) {
  // No two can be merged: a walks them in the opposite order.
  Nest nest{Sizes(14, 2), Sizes(14), Sizes(14), Sizes(14), 1 << 14, 1 << 14, 1 << 14};
  for (std::size_t i = 0; i < 14; ++i) nest.b[i] = nest.c[i] = std::int64_t{1} << (13 - i), nest.a[i] = 1 << i;
  const Values zeros(1 << 14, 0.0);
  EXPECT_THROW((void)on_device<float>(nest, zeros, zeros), Failure);
}

// --- the ops ---

class Workspace final : public CudaWorkspace {
 public:
  ~Workspace() override {
    for (void* data : taken_) release(data);
  }
  void* take(std::size_t size) override { return taken_.emplace_back(allocate(size)); }
  const void* put(const void* host, std::size_t size) override {
    void* const data = take(size);
    copy_to_device(data, host, size, kNoStream);
    synchronize(kNoStream);
    return data;
  }

 private:
  std::deque<void*> taken_;
};

template <class T>
Values run(const OpCallPlan& call, const std::vector<Values>& inputs) {
  std::vector<DeviceArray<T>> arrays;
  std::vector<void*> in;
  for (const Values& values : inputs) in.push_back(arrays.emplace_back(values).data());
  DeviceArray<T> out = DeviceArray<T>::of_size(call.output_elements(0));
  std::vector<void*> outs{out.data()};
  const std::vector<DType> types(inputs.size(), kType<T>), out_type{kType<T>};
  const OpMoment moment;
  Workspace workspace;
  Products products(false);
  const CudaOperands operands{{call, in, outs, moment}, types, out_type, kNoStream, workspace, products};
  cuda_contraction_kernel(call.kind)(operands);
  return out.values();
}

std::int64_t elements(const std::vector<int>& dims, const Sizes& sizes) {
  std::int64_t product = 1;
  for (const int axis : dims) product *= sizes[static_cast<std::size_t>(axis)];
  return product;
}

OpCallPlan call_of(OpKind kind, const std::vector<std::vector<int>>& inputs, const std::vector<int>& output,
                   const Sizes& sizes) {
  OpCallPlan call{};
  call.kind = kind;
  call.sizes = sizes;
  for (const std::int64_t size : sizes) call.space.axes.push_back({"", size, false, true});
  call.space.inputs = inputs;
  call.space.outputs = {output};
  const auto shape_of = [&](const std::vector<int>& dims) {
    Sizes shape;
    for (const int axis : dims) shape.push_back(sizes[static_cast<std::size_t>(axis)]);
    return shape;
  };
  for (const std::vector<int>& dims : inputs) call.input_shapes.push_back(shape_of(dims));
  call.output_shapes = {shape_of(output)};
  if (kind == OpKind::Contract) call.contraction = plan_contraction(call.space, sizes);
  return call;
}

struct Seen {
  int products = 0, several = 0, exchanged = 0, by_element = 0;
};

template <class T>
void expect_exact_contraction(const std::vector<int>& a_dims, const std::vector<int>& b_dims,
                              const std::vector<int>& c_dims, const Sizes& sizes, Seen& seen) {
  const OpCallPlan call = call_of(OpKind::Contract, {a_dims, b_dims}, c_dims, sizes);
  const Values a = whole_numbers(elements(a_dims, sizes), 3), b = whole_numbers(elements(b_dims, sizes), 7);
  Values expected(static_cast<std::size_t>(elements(c_dims, sizes)));
  run_contraction(call.contraction, a.data(), b.data(), expected.data());
  ASSERT_EQ(run<T>(call, {a, b}), expected);
  const auto& [loops, product, count] = call.contraction;
  ++(!product ? seen.by_element : loops.size() > 1 ? seen.several : seen.products);
  if (product && product->exchanged) ++seen.exchanged;
}

// Axes by their place: 0 batch (a, b, c), 1 2 M (a, c), 3 4 N (b, c), 5 6 K (a, b).
TYPED_TEST(CudaContract, AsAnOpIsExactForEveryOrderOfDimensions) {
  std::mt19937 random(11);
  Seen seen;
  for (int round = 0; round < 400; ++round) {
    std::vector<int> a = {0, 1, 2, 5, 6}, b = {0, 3, 4, 5, 6}, c = {0, 1, 2, 3, 4};
    for (std::vector<int>* dims : {&a, &b, &c}) std::shuffle(dims->begin(), dims->end(), random);
    Sizes sizes;
    for (int axis = 0; axis < 7; ++axis) sizes.push_back(std::uniform_int_distribution<int>(1, 3)(random));
    expect_exact_contraction<TypeParam>(a, b, c, sizes, seen);
    if (this->HasFatalFailure()) return;
  }
  EXPECT_GT(seen.products, 20);
  EXPECT_GT(seen.several, 20);
  EXPECT_GT(seen.exchanged, 20);
  EXPECT_GT(seen.by_element, 20);
}

// Scores of attention, q (batch, seq, heads, dim) k (batch, kv, heads, dim): two loops around a product. With 40
// batches of 30 heads the calls are many and small: one kernel does them all.
TYPED_TEST(CudaContract, OfManySmallProductsIsExactToo) {
  Seen seen;
  for (const std::int64_t batch : {2, 40})
    expect_exact_contraction<TypeParam>({0, 2, 1, 4}, {0, 3, 1, 4}, {0, 1, 2, 3}, {batch, 30, 3, 4, 5}, seen);
  EXPECT_EQ(seen.several, 2);
}

// Loops over (batch, heads) that every operand walks like one, and both of them as one batch of products.
TYPED_TEST(CudaContract, TakesLoopsThatAreWalkedLikeOneAsOneBatch) {
  Seen seen;
  expect_exact_contraction<TypeParam>({0, 1, 2, 4}, {0, 1, 3, 4}, {0, 1, 2, 3}, {7, 11, 3, 4, 5}, seen);
  EXPECT_EQ(seen.several, 1);
}

TYPED_TEST(CudaContract, AddsABiasToTheTrailingDimensions) {
  const Values x = whole_numbers(2 * 3 * 4 * 5, 3), bias = whole_numbers(4 * 5, 7);
  Values expected = x;
  for (std::size_t i = 0; i < x.size(); ++i) expected[i] += bias[i % 20];
  EXPECT_EQ((run<TypeParam>(call_of(OpKind::BiasAdd, {{0, 1, 2, 3}, {2, 3}}, {0, 1, 2, 3}, {2, 3, 4, 5}), {x, bias})),
            expected);
}

TYPED_TEST(CudaContract, AddsASelectingBiasToTheFirstIndexOnly) {
  OpCallPlan call = call_of(OpKind::BiasAdd, {{0, 1, 2}, {2}}, {0, 1, 2}, {3, 4, 5});
  call.attributes.bias_select = true;
  const Values x = whole_numbers(3 * 4 * 5, 3), bias = whole_numbers(5, 7);
  Values expected = x;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (i / 5 % 4 == 0) expected[i] += bias[i % 5];
  EXPECT_EQ((run<TypeParam>(call, {x, bias})), expected);
}

TYPED_TEST(CudaContract, SumsTheGradientOfABias) {
  for (const bool select : {false, true}) {
    OpCallPlan call = call_of(OpKind::BiasGradient, {{0, 1, 2}}, {2}, {300, 2, 5});
    call.attributes.bias_select = select;
    const Values dy = whole_numbers(300 * 2 * 5, 3);
    Values expected(5, 0.0);
    for (std::size_t i = 0; i < dy.size(); ++i)
      if (!select || i / 5 % 2 == 0) expected[i % 5] += dy[i];
    EXPECT_EQ((run<TypeParam>(call, {dy})), expected);
  }
}

TEST(CudaContractionKernels, AreOfTheirFamilyOnly) {
  EXPECT_NE(cuda_contraction_kernel(OpKind::Contract), nullptr);
  EXPECT_EQ(cuda_contraction_kernel(OpKind::Gelu), nullptr);
}

}  // namespace
}  // namespace meshwright::kernels::cuda::contract_test
