// SPDX-License-Identifier: Apache-2.0
// Copies, transpositions and reductions on the device against the processor's in double, on sizes that meet every path
// through them; and the layout ops.
#include "kernels/cuda/layout/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "executor/cuda/cuda_kernel_table.h"
#include "kernels/cpu/layout/layout.h"
#include "kernels/cpu/layout/tiles.h"
#include "kernels/cpu/optimizer/adafactor.h"
#include "tests/cuda/device_array.h"
#include "tests/op_case.h"

namespace meshwright::kernels::cuda::layout_test {
namespace {

using Sizes = std::vector<std::int64_t>;

std::int64_t product(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

// Whole numbers in -120..120, which every type has; some of them equal.
Values whole_numbers(std::int64_t n) {
  std::mt19937 random(static_cast<unsigned>(n));
  Values values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(static_cast<int>(random() % 241) - 120));
  return values;
}

template <class T>
class CudaCopies : public testing::Test {};
using CopiedTypes = testing::Types<float, double, Bf16, F16, std::int32_t>;
TYPED_TEST_SUITE(CudaCopies, CopiedTypes);
template <class T>
class CudaReductions : public testing::Test {};
using ReducedTypes = testing::Types<float, double, Bf16, F16>;
TYPED_TEST_SUITE(CudaReductions, ReducedTypes);

// --- copies ---

template <class T>
void expect_copied_like_the_processor(const Values& x, const Sizes& strides, const Sizes& sizes) {
  const DeviceArray<T> on_device(x);
  DeviceArray<T> out = DeviceArray<T>::of_size(product(sizes));
  copy_strided<T>(kNoStream, on_device.data(), strides, out.data(), sizes);
  Values expected(static_cast<std::size_t>(product(sizes)));
  kernels::copy_strided<double>(x.data(), strides, expected.data(), sizes);
  EXPECT_EQ(out.values(), expected);
}

template <class T>
void expect_every_permutation(const Sizes& sizes) {
  const Values x = whole_numbers(product(sizes));
  const Sizes row_major = row_major_strides(sizes);
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  do {
    SCOPED_TRACE(testing::PrintToString(order));
    Sizes out, strides;
    for (const std::size_t d : order) out.push_back(sizes[d]), strides.push_back(row_major[d]);
    expect_copied_like_the_processor<T>(x, strides, out);
  } while (std::next_permutation(order.begin(), order.end()));
}

// Squares that are whole and cut, in pairs and one by one, in planes; dimensions too short for squares.
TYPED_TEST(CudaCopies, PermuteExactly) {
  expect_every_permutation<TypeParam>({65, 130});
  expect_every_permutation<TypeParam>({3, 64, 96});
  expect_every_permutation<TypeParam>({2, 17, 3, 20});
  expect_every_permutation<TypeParam>({3, 1, 18, 5});
}

TYPED_TEST(CudaCopies, PermuteMoreDimensionsThanOneLaunchTakes) {
  const Sizes sizes(9, 2), row_major = row_major_strides(sizes);
  expect_copied_like_the_processor<TypeParam>(whole_numbers(512), {row_major.rbegin(), row_major.rend()}, sizes);
}

TYPED_TEST(CudaCopies, SkipAndRepeat) {
  const Values x = whole_numbers(160);
  expect_copied_like_the_processor<TypeParam>(x, {2}, {80});          // every second
  expect_copied_like_the_processor<TypeParam>(x, {0, 1}, {3, 160});   // rows
  expect_copied_like_the_processor<TypeParam>(x, {1, 0}, {160, 64});  // along rows, in words of 16 bytes
  expect_copied_like_the_processor<TypeParam>(x, {1, 0}, {160, 3});   // in elements
  expect_copied_like_the_processor<TypeParam>(x, {8, 0, 1}, {20, 5, 8});
  expect_copied_like_the_processor<TypeParam>(x, {}, {});  // one element
}

// Rows of 1 to 1000 elements, which no, some or all words divide, from and to any place.
TYPED_TEST(CudaCopies, CopyRowsOfAnyAlignment) {
  constexpr std::int64_t kRows = 5;
  for (const std::int64_t length : {1, 2, 3, 4, 8, 31, 40, 64, 257, 1000})
    for (const std::int64_t start : {0, 1, 2, 4, 8}) {
      SCOPED_TRACE(testing::Message() << length << " from " << start);
      const std::int64_t from_stride = length + 8, to_stride = length + 16;
      const Values x = whole_numbers(start + kRows * from_stride),
                   around(static_cast<std::size_t>(kRows * to_stride), 7);
      const DeviceArray<TypeParam> on_device(x);
      DeviceArray<TypeParam> out(around);
      copy_rows<TypeParam>(kNoStream, on_device.data() + start, out.data(), {kRows, length, from_stride, to_stride});
      Values expected = around;
      kernels::copy_rows<double>(x.data() + start, expected.data(), {kRows, length, from_stride, to_stride});
      EXPECT_EQ(out.values(), expected);
    }
}

// More rows than the threads of a launch take at once: of few elements, and of more than a warp has lanes.
TEST(CudaLongCopies, GoRoundTheGridMoreThanOnce) {
  for (const auto& [rows, length] : {std::pair<std::int64_t, std::int64_t>{1'050'000, 2}, {40'000, 33}}) {
    const DeviceArray<std::int32_t> x(whole_numbers(rows * length));
    DeviceArray<std::int32_t> out = DeviceArray<std::int32_t>::of_size(rows * (length + 1));
    clear(out.data(), static_cast<std::size_t>(rows * (length + 1)) * 4, kNoStream);
    copy_rows<std::int32_t>(kNoStream, x.data(), out.data(), {rows, length, length, length + 1});
    const std::vector<std::int32_t> from = x.raw(), to = out.raw();
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto begin = from.begin() + row * length, copied = to.begin() + row * (length + 1);
      if (!std::equal(begin, begin + length, copied) || copied[length] != 0) ++wrong;
    }
    EXPECT_EQ(wrong, 0);
  }
}

TYPED_TEST(CudaCopies, PadWithAValue) {
  struct Case {
    std::int64_t rows, length, width, start;
  };
  for (const Case c : {Case{3, 5, 9, 2},
                       {1, 1, 1, 0},
                       {7, 16, 64, 8},
                       {4, 8, 8, 0},
                       {2, 1000, 3000, 2000},
                       {700, 3, 8, 0},
                       {5, 9, 16, 5}}) {
    const Values x = whole_numbers(c.rows * c.length);
    const DeviceArray<TypeParam> on_device(x);
    DeviceArray<TypeParam> out = DeviceArray<TypeParam>::of_size(c.rows * c.width);
    pad_rows<TypeParam>(kNoStream, on_device.data(), out.data(), {c.rows, c.length, c.width, c.start},
                        static_cast<TypeParam>(-3.0));
    Values expected(static_cast<std::size_t>(c.rows * c.width));
    kernels::pad_rows<double>(x.data(), expected.data(), {c.rows, c.length, c.width, c.start}, -3.0);
    EXPECT_EQ(out.values(), expected);
  }
}

// --- reductions ---

// In -1..1, rounded to T.
template <class T>
Values fractions(std::int64_t n) {
  std::mt19937 random(static_cast<unsigned>(n));
  Values values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(static_cast<double>(static_cast<T>(static_cast<double>(random()) * 0x1p-31 - 1.0)));
  return values;
}

// Half of T's last place.
template <class T>
constexpr double kHalf = sizeof(T) == 8 ? 0x1p-53 : 0x1p-24;
template <>
inline constexpr double kHalf<Bf16> = 0x1p-8;
template <>
inline constexpr double kHalf<F16> = 0x1p-11;

template <class T>
struct Results {
  std::vector<T> sum, largest;
};
template <class T>
Results<T> reduced(const T* x, const Sizes& sizes, const std::vector<char>& kept, double scale) {
  std::int64_t results = 1;
  for (std::size_t d = 0; d < sizes.size(); ++d) results *= kept[d] != 0 ? sizes[d] : 1;
  const auto bytes = static_cast<std::int64_t>(reduce_workspace<T>({sizes, kept}));
  DeviceArray<std::int32_t> workspace = DeviceArray<std::int32_t>::of_size(bytes / 4 + 1);
  DeviceArray<T> sum = DeviceArray<T>::of_size(results), largest = DeviceArray<T>::of_size(results);
  reduce_sum<T>(kNoStream, x, sum.data(), {sizes, kept}, scale, workspace.data());
  reduce_max<T>(kNoStream, x, largest.data(), {sizes, kept}, workspace.data());
  return {sum.raw(), largest.raw()};
}

template <class T>
Values squares_of(const T* x, const Sizes& sizes, const std::vector<char>& kept, std::int64_t results) {
  const auto bytes = static_cast<std::int64_t>(reduce_workspace<T>({sizes, kept}));
  DeviceArray<std::int32_t> workspace = DeviceArray<std::int32_t>::of_size(bytes / 4 + 1);
  DeviceArray<Wide<T>> out = DeviceArray<Wide<T>>::of_size(results);
  mean_squares<T>(kNoStream, x, out.data(), {sizes, kept}, 0.75, workspace.data());
  return out.values();
}

// Sums within T's rounding and 100 roundings of what they are computed in, of the sum of the terms' sizes; maxima
// exactly, and their derivatives too.
template <class T>
void expect_every_reduction(const Sizes& sizes) {
  const Values x = fractions<T>(product(sizes));
  Values magnitudes;
  for (const double value : x) magnitudes.push_back(std::abs(value));
  const DeviceArray<T> on_device(x);
  for (unsigned mask = 0; mask < 1u << sizes.size(); ++mask) {
    SCOPED_TRACE(testing::Message() << testing::PrintToString(sizes) << " keeping " << mask);
    std::vector<char> kept;
    for (std::size_t d = 0; d < sizes.size(); ++d) kept.push_back(static_cast<char>(mask >> d & 1u));
    const Results<T> found = reduced<T>(on_device.data(), sizes, kept, 0.75);
    const std::size_t results = found.sum.size();
    Values sum(results), magnitude(results), largest(results), dx(x.size());
    kernels::reduce_sum<double>(x.data(), sum.data(), {sizes, kept}, 0.75);
    kernels::reduce_sum<double>(magnitudes.data(), magnitude.data(), {sizes, kept}, 1.0);
    kernels::reduce_max<double>(x.data(), largest.data(), {sizes, kept});
    for (std::size_t r = 0; r < results; ++r) {
      ASSERT_NEAR(static_cast<double>(found.sum[r]), sum[r],
                  1.01 * kHalf<T> * std::abs(sum[r]) + 100 * kHalf<Wide<T>> * magnitude[r] + 0x1p-25)
          << r;
      ASSERT_EQ(static_cast<double>(found.largest[r]), largest[r]) << r;
    }
    // Squares are not rounded to T.
    Values squares(results);
    kernels::mean_squares<double>(x.data(), squares.data(), {sizes, kept}, 0.75);
    const Values found_squares = squares_of<T>(on_device.data(), sizes, kept, static_cast<std::int64_t>(results));
    for (std::size_t r = 0; r < results; ++r)
      ASSERT_NEAR(found_squares[r], squares[r], 100 * kHalf<Wide<T>> * squares[r]) << r;
    const Values gradients = whole_numbers(static_cast<std::int64_t>(results));
    const DeviceArray<T> y(largest), dy(gradients);
    DeviceArray<T> gradient = DeviceArray<T>::of_size(static_cast<std::int64_t>(x.size()));
    reduce_max_backward<T>(kNoStream, on_device.data(), y.data(), dy.data(), gradient.data(), {sizes, kept});
    kernels::reduce_max_backward<double>(x.data(), largest.data(), gradients.data(), dx.data(), {sizes, kept});
    ASSERT_EQ(gradient.values(), dx);
  }
}

// Rows for a lane, for 8, for a warp, for a block, in parts; columns in few terms, in trees, in parts.
TYPED_TEST(CudaReductions, AgreeOverEverySetOfDimensions) {
  expect_every_reduction<TypeParam>({});
  expect_every_reduction<TypeParam>({1, 1});
  expect_every_reduction<TypeParam>({3, 1, 5, 7});
  expect_every_reduction<TypeParam>({2, 1100});
  expect_every_reduction<TypeParam>({130, 4, 16});
  expect_every_reduction<TypeParam>({3, 70, 264});
  expect_every_reduction<TypeParam>({33000});
  expect_every_reduction<TypeParam>({8, 4500});
}

// The results of one column or row of many elements are made in parts.
TYPED_TEST(CudaReductions, AgreeWhereManyElementsMakeFewResults) {
  for (const Sizes& sizes : {Sizes{9001, 3}, {3, 9001}, {2048, 40}}) {
    ASSERT_GT(reduce_workspace<TypeParam>({sizes, std::vector<char>{0, 0}}), 0u);
    expect_every_reduction<TypeParam>(sizes);
  }
}

// The same bits in two runs, and where x begins where packs of elements cannot be read at once.
TYPED_TEST(CudaReductions, AddInAnOrderThatFollowsFromSizesAlone) {
  for (const auto& [sizes, kept] : {std::pair<Sizes, std::vector<char>>{{40000}, {0}},
                                    {{600, 64}, {0, 1}},
                                    {{20, 640}, {1, 0}},
                                    {{6, 50, 16}, {0, 1, 0}},
                                    {{9, 64}, {0, 1}}}) {
    Values x = fractions<TypeParam>(product(sizes));
    const DeviceArray<TypeParam> aligned(x);
    x.insert(x.begin(), 0.0);
    const DeviceArray<TypeParam> shifted(x);
    const std::vector<TypeParam> first = reduced<TypeParam>(aligned.data(), sizes, kept, 1.0).sum;
    const std::vector<TypeParam> again = reduced<TypeParam>(aligned.data(), sizes, kept, 1.0).sum;
    const std::vector<TypeParam> elsewhere = reduced<TypeParam>(shifted.data() + 1, sizes, kept, 1.0).sum;
    EXPECT_EQ(std::memcmp(first.data(), again.data(), first.size() * sizeof(TypeParam)), 0);
    EXPECT_EQ(std::memcmp(first.data(), elsewhere.data(), first.size() * sizeof(TypeParam)), 0);
  }
}

// Ones added in Bf16 stay at 256.
TEST(CudaSums, SumSixteenBitsInFloat) {
  const DeviceArray<Bf16> x(Values(1000, 1.0));
  EXPECT_EQ(static_cast<float>(reduced<Bf16>(x.data(), {1000}, {0}, 1.0).sum[0]), 1000.0f);
  EXPECT_EQ(static_cast<float>(reduced<Bf16>(x.data(), {1000, 1}, {0, 1}, 0.5).sum[0]), 500.0f);
}

// --- the ops ---

class Workspace : public CudaWorkspace {
 public:
  void* take(std::size_t size) override {
    taken_.push_back(DeviceArray<double>::of_size(static_cast<std::int64_t>(size / 8 + 1)));
    return taken_.back().data();
  }
  const void* put(const void* host, std::size_t size) override {
    void* data = take(size);
    copy_to_device(data, host, size, kNoStream);
    return data;
  }

 private:
  std::vector<DeviceArray<double>> taken_;
};

// The case's last op on a device, its numbers stored as T, is what it is on the processor in double.
template <class T>
void expect_like_the_processor(const OpCase& c) {
  const Op& op = c.graph.ops().back();
  Sizes sizes;
  for (const IterationAxis& axis : iteration_space(c.graph, op).axes) sizes.push_back(axis.size);
  const OpCallPlan call = plan_op(c.graph, op, sizes);
  const bool integers = call.input_dtypes[0] == DType::I32;

  std::vector<DeviceArray<T>> operands;
  std::vector<Values> numbers;
  std::vector<std::vector<std::int32_t>> whole;
  std::vector<void*> on_device, on_host;
  for (const TensorId input : op.inputs) {
    numbers.push_back(c.values.at(input));
    for (double& value : numbers.back()) value = static_cast<double>(static_cast<T>(value));
    whole.emplace_back(numbers.back().begin(), numbers.back().end());
    operands.emplace_back(numbers.back());
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    on_device.push_back(operands[i].data());
    on_host.push_back(integers ? static_cast<void*>(whole[i].data()) : numbers[i].data());
  }
  const auto results = static_cast<std::size_t>(call.output_elements(0));
  DeviceArray<T> out = DeviceArray<T>::of_size(call.output_elements(0));
  Values expected(results);
  std::vector<std::int32_t> expected_whole(results);
  const std::vector<void*> out_device = {out.data()};
  const std::vector<void*> out_host = {integers ? static_cast<void*>(expected_whole.data()) : expected.data()};

  const DType stored = std::is_same_v<T, std::int32_t> ? DType::I32
                       : std::is_same_v<T, Bf16>       ? DType::BF16
                                                       : DType::F64;
  const std::vector<DType> types(op.inputs.size(), stored);
  Workspace workspace;
  Products products(false);
  const CudaKernel kernel = cuda_layout_kernel(op.kind);
  ASSERT_NE(kernel, nullptr);
  kernel({{call, on_device, out_device, {}}, types, std::span(types).first(1), kNoStream, workspace, products});
  run_op<double>(call, on_host, out_host, {});
  const Values found = out.values();
  for (std::size_t i = 0; i < results; ++i) {
    const double value = integers ? expected_whole[i] : expected[i];
    ASSERT_NEAR(found[i], value, (integers ? 0.0 : 1.01 * kHalf<T>)*std::abs(value)) << name_of(op.kind) << " " << i;
  }
}

void expect_like_the_processor(OpKind kind, std::vector<Dim> x, const Attributes& attributes) {
  OpCase numbers, integers;
  numbers.add(kind, {numbers.parameter("x", x)}, attributes);
  expect_like_the_processor<double>(numbers);
  expect_like_the_processor<Bf16>(numbers);
  if (kind == OpKind::ReduceSum || kind == OpKind::ReduceMax) return;
  integers.add(kind, {integers.integers("x", x, -9, 9)}, attributes);
  expect_like_the_processor<std::int32_t>(integers);
}

TEST(CudaLayoutOps, DoWhatTheyDoOnTheProcessor) {
  const std::vector<Dim> x = {{"batch", 3}, {"seq", 5}, {"embed", 8}};
  expect_like_the_processor(OpKind::Reshape, x, {.result_dims = {{"tokens", 15}, {"embed", 8}}});
  expect_like_the_processor(OpKind::Transpose, x, {.result_names = {"embed", "batch", "seq"}});
  expect_like_the_processor(OpKind::Broadcast, x,
                            {.result_dims = {{"batch", 3}, {"heads", 2}, {"seq", 5}, {"embed", 8}, {"d", 4}}});
  expect_like_the_processor(OpKind::Slice, x, {.result_dims = {{"batch", 3}, {"part", 2}, {"embed", 8}}, .start = 3});
  expect_like_the_processor(OpKind::Pad, x,
                            {.result_dims = {{"batch", 3}, {"long", 9}, {"embed", 8}}, .start = 3, .value = -2.0});
  expect_like_the_processor(OpKind::ReduceSum, x, {.result_names = {"batch", "embed"}, .scale = 0.25});
  expect_like_the_processor(OpKind::ReduceMax, x, {.result_names = {"seq"}});
}

TEST(CudaLayoutOps, ConcatenateAndSendGradientsToMaxima) {
  OpCase joined;
  const TensorId a = joined.parameter("a", {{"batch", 3}, {"left", 2}, {"embed", 4}});
  const TensorId b = joined.parameter("b", {{"batch", 3}, {"right", 5}, {"embed", 4}});
  joined.add(OpKind::Concat, {a, b}, {.result_dims = {{"batch", 3}, {"both", 7}, {"embed", 4}}});
  expect_like_the_processor<double>(joined);
  expect_like_the_processor<Bf16>(joined);

  OpCase largest;
  const TensorId x = largest.parameter("x", {{"batch", 3}, {"seq", 5}});
  const TensorId y = largest.parameter("y", {{"batch", 3}}), dy = largest.parameter("dy", {{"batch", 3}});
  const Values& from = largest.values[x];
  for (std::size_t row = 0; row < 3; ++row)
    largest.values[y][row] = *std::max_element(&from[5 * row], &from[5 * row] + 5);
  largest.add(OpKind::ReduceMaxBackward, {x, y, dy});
  expect_like_the_processor<double>(largest);
  expect_like_the_processor<Bf16>(largest);
}

TEST(CudaLayoutOps, AreAllThatThisFamilyHas) {
  EXPECT_EQ(cuda_layout_kernel(OpKind::Contract), nullptr);
  for (const OpKind kind : {OpKind::Reshape, OpKind::Transpose, OpKind::Broadcast, OpKind::Slice, OpKind::Concat,
                            OpKind::Pad, OpKind::ReduceSum, OpKind::ReduceMax, OpKind::ReduceMaxBackward})
    EXPECT_NE(cuda_layout_kernel(kind), nullptr);
}

}  // namespace
}  // namespace meshwright::kernels::cuda::layout_test
