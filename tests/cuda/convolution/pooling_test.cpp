// SPDX-License-Identifier: Apache-2.0
// Pooling on the device against that on the processor in double.
#include "kernels/cuda/convolution/pooling.h"

#include <cstring>

#include "tests/cuda/whole_ops.h"

namespace meshwright::kernels::cuda::pooling_test {
namespace {

template <class T>
class CudaPooling : public testing::Test {};
using Types = testing::Types<float, double, Bf16, F16>;
TYPED_TEST_SUITE(CudaPooling, Types);

Windows windows(std::int64_t from, std::int64_t size, std::int64_t stride = 1, std::int64_t before = 0,
                std::int64_t after = 0) {
  return {from, (from + before + after - size) / stride + 1, size, stride, before};
}

std::int64_t x_size(const PoolShape& s) { return s.batch * s.rows.from * s.columns.from * s.channels; }
std::int64_t y_size(const PoolShape& s) { return s.batch * s.rows.to * s.columns.to * s.channels; }

struct Results {
  Values max, max_gradient, average, average_gradient;
};

template <class T>
Results on_device(const PoolShape& s, const Values& x, const Values& dy) {
  const DeviceArray<T> device_x(x), device_dy(dy);
  auto max = DeviceArray<T>::of_size(y_size(s)), average = DeviceArray<T>::of_size(y_size(s)),
       max_gradient = DeviceArray<T>::of_size(x_size(s)), average_gradient = DeviceArray<T>::of_size(x_size(s));
  TestWorkspace workspace;
  max_pool(kNoStream, device_x.data(), max.data(), s);
  max_pool_backward(kNoStream, device_x.data(), device_dy.data(), max_gradient.data(), s,
                    workspace.take(max_pool_backward_workspace(s)));
  average_pool(kNoStream, device_x.data(), average.data(), s);
  average_pool_backward(kNoStream, device_dy.data(), average_gradient.data(), s);
  return {max.values(), max_gradient.values(), average.values(), average_gradient.values()};
}

Results on_processor(const PoolShape& s, const Values& x, const Values& dy) {
  Results r{Values(dy.size()), Values(x.size()), Values(dy.size()), Values(x.size())};
  kernels::max_pool(x.data(), r.max.data(), s);
  kernels::max_pool_backward(x.data(), dy.data(), r.max_gradient.data(), s);
  kernels::average_pool(x.data(), r.average.data(), s);
  kernels::average_pool_backward(dy.data(), r.average_gradient.data(), s);
  return r;
}

// The maximum of sums that rounding could take: of |dy| over all windows of an element, of |x| over a window.
template <class T>
void expect_right(const char* name, const PoolShape& s) {
  SCOPED_TRACE(name);
  // Few different numbers, so that a window has several maxima.
  Values x;
  for (const double value : numbers<T>(x_size(s), 1)) x.push_back(std::round(2.0 * value));
  const Values dy = numbers<T>(y_size(s), 2);
  const Results found = on_device<T>(s, x, dy), expected = on_processor(s, x, dy),
                magnitudes = on_processor(s, absolute(x), absolute(dy));
  const double slack = 4.0 * static_cast<double>(s.rows.size * s.columns.size) * kHalfPlace<Wide<T>>;
  EXPECT_EQ(found.max, expected.max);
  expect_rounded<T>(found.max_gradient, expected.max_gradient, slack, Values(x.size(), 2.0));
  expect_rounded<T>(found.average, expected.average, slack, magnitudes.average);
  expect_rounded<T>(found.average_gradient, expected.average_gradient, slack, magnitudes.average_gradient);
}

TYPED_TEST(CudaPooling, IsThatOfTheProcessorInBothDirections) {
  using T = TypeParam;
  expect_right<T>("one number", {1, 1, windows(1, 1), windows(1, 1)});
  expect_right<T>("halves", {2, 16, windows(6, 2, 2), windows(8, 2, 2)});
  expect_right<T>("overlapping", {2, 24, windows(9, 3, 2, 1, 1), windows(11, 3, 2, 1, 1)});
  expect_right<T>("overlapping, without padding", {2, 8, windows(8, 3, 2), windows(9, 3, 2)});
  expect_right<T>("every other one", {2, 8, windows(8, 1, 2), windows(7, 1, 2)});
  expect_right<T>("side by side, the last ones cut", {2, 16, windows(7, 2, 2, 0, 1), windows(8, 3, 3, 0, 1)});
  expect_right<T>("odd channels", {3, 5, windows(7, 3, 2, 1, 1), windows(5, 3, 1, 1, 1)});
  expect_right<T>("whole image", {3, 40, windows(7, 7), windows(7, 7)});
  expect_right<T>("windows of more than 255", {2, 8, windows(17, 17), windows(18, 16, 2)});
  expect_right<T>("stride beyond the window", {2, 8, windows(9, 2, 3), windows(7, 1, 4)});
  expect_right<T>("asymmetric", {2, 8, windows(6, 3, 2, 0, 1), windows(7, 3, 3, 2, 0)});
  expect_right<T>("unreached last columns", {2, 3, windows(5, 3), windows(8, 3, 4)});
  expect_right<T>("one column", {2, 12, windows(33, 4, 1, 1, 2), windows(1, 1)});
}

// 4096 blocks of 256 threads at most: some have a second place.
TEST(CudaPoolingOfMany, ReachesPlacesBeyondTheGrid) {
  const PoolShape s{1, 1, windows(1030, 1), windows(1021, 1)};
  const Values x = numbers<float>(x_size(s), 3);
  const DeviceArray<float> device_x(x);
  auto y = DeviceArray<float>::of_size(y_size(s));
  max_pool(kNoStream, device_x.data(), y.data(), s);
  EXPECT_EQ(y.values(), x);
}

TYPED_TEST(CudaPooling, GivesTheGradientToTheFirstMaximumOnly) {
  using T = TypeParam;
  const PoolShape s{1, 8, windows(4, 2, 2), windows(4, 2, 2)};
  const DeviceArray<T> x(Values(128, -1.0)), dy(Values(32, 3.0));
  auto dx = DeviceArray<T>::of_size(128);
  TestWorkspace workspace;
  max_pool_backward(kNoStream, x.data(), dy.data(), dx.data(), s, workspace.take(max_pool_backward_workspace(s)));
  Values expected(128, 0.0);
  for (const std::size_t place : {0, 2, 8, 10})
    for (std::size_t c = 0; c < 8; ++c) expected[place * 8 + c] = 3.0;
  EXPECT_EQ(dx.values(), expected);
}

TYPED_TEST(CudaPooling, HasTheSameBitsEveryTime) {
  using T = TypeParam;
  const PoolShape s{2, 9, windows(9, 3, 1, 1, 1), windows(8, 3, 1, 1, 1)};
  const Values x = numbers<T>(x_size(s), 4), dy = numbers<T>(y_size(s), 5);
  const Results first = on_device<T>(s, x, dy), second = on_device<T>(s, x, dy);
  EXPECT_EQ(first.average, second.average);
  EXPECT_EQ(first.max_gradient, second.max_gradient);
  EXPECT_EQ(first.average_gradient, second.average_gradient);
}

// Pooling of (batch, h, w, groups, channels): the last two are channels of it.
TYPED_TEST(CudaPooling, AsAnOpIsThatOfTheProcessor) {
  using T = TypeParam;
  const std::vector<Dim> x_dims = {{"batch", 2}, {"h", 7}, {"w", 6}, {"groups", 2}, {"channel", 4}};
  const std::vector<Dim> y_dims = {{"batch", 2}, {"h2", 4}, {"w2", 3}, {"groups", 2}, {"channel", 4}};
  const Attributes forward = {.result_dims = {y_dims[1], y_dims[2]},
                              .window = {3, 2},
                              .stride = {2, 2},
                              .pad_before = {1, 0},
                              .pad_after = {1, 0}};
  Attributes max_backward = forward, average_backward = forward;
  max_backward.result_dims = {};
  average_backward.result_dims = x_dims;
  Graph graph;
  const TensorId x = graph.add_tensor("x", TensorKind::Input, DType::F32, x_dims);
  const TensorId dy = graph.add_tensor("dy", TensorKind::Input, DType::F32, y_dims);
  graph.add_op(OpKind::MaxPool, "max", {x}, forward);
  graph.add_op(OpKind::MaxPoolBackward, "max_backward", {x, dy}, max_backward);
  graph.add_op(OpKind::AveragePool, "average", {x}, forward);
  graph.add_op(OpKind::AveragePoolBackward, "average_backward", {dy}, average_backward);
  const Values x_values = numbers<T>(2 * 7 * 6 * 8, 1), dy_values = numbers<T>(2 * 4 * 3 * 8, 2);
  const std::vector<Values> operands[] = {{x_values}, {x_values, dy_values}, {x_values}, {dy_values}};
  for (std::size_t i = 0; i < 4; ++i) {
    const Op& op = graph.ops()[i];
    SCOPED_TRACE(op.name);
    const OpCallPlan call = whole_call(graph, op);
    const Values found = op_on_device<T>(cuda_convolution_kernel(op.kind), call, operands[i]);
    expect_rounded<T>(found, op_on_processor(call, operands[i]), 24 * kHalfPlace<Wide<T>>, Values(found.size(), 2.0));
  }
}

}  // namespace
}  // namespace meshwright::kernels::cuda::pooling_test
