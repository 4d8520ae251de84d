// SPDX-License-Identifier: Apache-2.0
// Convolutions on the device against those on the processor in double.
#include "kernels/cuda/convolution/convolution.h"

#include <cstring>

#include "kernels/cuda/convolution/convolution_cudnn.h"
#include "tests/cuda/whole_ops.h"

namespace meshwright::kernels::cuda::convolution_test {
namespace {

template <class T>
class CudaConvolution : public testing::Test {};
using Types = testing::Types<float, double, Bf16, F16>;
TYPED_TEST_SUITE(CudaConvolution, Types);

// `after`: padding behind.
Windows windows(std::int64_t from, std::int64_t size, std::int64_t stride = 1, std::int64_t before = 0,
                std::int64_t after = 0) {
  return {from, (from + before + after - size) / stride + 1, size, stride, before};
}

std::int64_t x_size(const ConvolutionShape& s) { return s.batch * s.rows.from * s.columns.from * s.groups * s.in; }
std::int64_t y_size(const ConvolutionShape& s) { return s.batch * s.rows.to * s.columns.to * s.groups * s.out; }
std::int64_t w_size(const ConvolutionShape& s) { return s.groups * s.rows.size * s.columns.size * s.in * s.out; }

struct Results {
  Values y, dx, dw;
};

template <class T>
Results on_device(const ConvolutionShape& s, const Values& x, const Values& w, const Values& dy,
                  ConvolutionTile tile = ConvolutionTile::Best) {
  const DeviceArray<T> device_x(x), device_w(w), device_dy(dy);
  auto y = DeviceArray<T>::of_size(y_size(s)), dx = DeviceArray<T>::of_size(x_size(s)),
       dw = DeviceArray<T>::of_size(w_size(s));
  TestWorkspace workspace;
  convolution(kNoStream, device_x.data(), device_w.data(), y.data(), s, tile);
  convolution_backward_input(kNoStream, device_w.data(), device_dy.data(), dx.data(), s, tile);
  convolution_backward_weight(kNoStream, device_x.data(), device_dy.data(), dw.data(), s,
                              workspace.take(convolution_backward_weight_workspace<T>(s)), tile);
  return {y.values(), dx.values(), dw.values()};
}

Results on_processor(const ConvolutionShape& s, const Values& x, const Values& w, const Values& dy) {
  Results r{Values(dy.size()), Values(x.size()), Values(w.size())};
  kernels::convolution(x.data(), w.data(), r.y.data(), s);
  kernels::convolution_backward_input(w.data(), dy.data(), r.dx.data(), s);
  kernels::convolution_backward_weight(x.data(), dy.data(), r.dw.data(), s);
  return r;
}

// x, w and dy of a shape, and what must come of them.
template <class T>
struct Example {
  ConvolutionShape shape;
  Values x = numbers<T>(x_size(shape), 1), w = numbers<T>(w_size(shape), 2), dy = numbers<T>(y_size(shape), 3);
  Results expected = on_processor(shape, x, w, dy);
  Results magnitudes = on_processor(shape, absolute(x), absolute(w), absolute(dy));

  // Each of n sums rounds to Wide<T>, on the processor to double; tensor cores cut off instead, and add a few at once.
  static constexpr double kEach = (sizeof(T) == 2 ? 8.0 : 2.0) * kHalfPlace<Wide<T>>;
  [[nodiscard]] double taps() const { return static_cast<double>(shape.rows.size * shape.columns.size); }

  void expect_y(const Values& y) const {
    expect_rounded<T>(y, expected.y, kEach * taps() * static_cast<double>(shape.in), magnitudes.y);
  }
  void expect_dx(const Values& dx) const {
    expect_rounded<T>(dx, expected.dx, kEach * taps() * static_cast<double>(shape.out), magnitudes.dx);
  }
  void expect_dw(const Values& dw) const {
    const auto places = static_cast<double>(shape.batch * shape.rows.to * shape.columns.to);
    expect_rounded<T>(dw, expected.dw, kEach * places, magnitudes.dw);
  }
};

template <class T>
void expect_right(const char* name, const ConvolutionShape& s) {
  SCOPED_TRACE(name);
  const Example<T> example{s};
  const Results found = on_device<T>(s, example.x, example.w, example.dy);
  example.expect_y(found.y);
  example.expect_dx(found.dx);
  example.expect_dw(found.dw);
}

TYPED_TEST(CudaConvolution, IsThatOfTheProcessorInBothDirections) {
  using T = TypeParam;
  expect_right<T>("one number", {1, 1, 1, 1, windows(1, 1), windows(1, 1)});
  expect_right<T>("plain", {2, 1, 2, 4, windows(5, 3), windows(4, 2)});
  expect_right<T>("fours of channels", {2, 1, 8, 12, windows(5, 3, 1, 1, 1), windows(6, 3, 1, 1, 1)});
  expect_right<T>("deep", {2, 1, 72, 8, windows(6, 3, 1, 1, 1), windows(5, 1)});
  expect_right<T>("odd channels", {2, 1, 11, 67, windows(6, 1), windows(5, 3, 1, 1, 1)});
  expect_right<T>("even in, odd out", {1, 1, 4, 5, windows(6, 3), windows(5, 3)});
  expect_right<T>("an image's first", {1, 1, 3, 16, windows(20, 7, 2, 3, 2), windows(22, 7, 2, 3, 2)});
  expect_right<T>("pointwise, strided", {2, 1, 8, 20, windows(7, 1, 2), windows(5, 1, 3)});
  expect_right<T>("strides that differ", {2, 1, 4, 8, windows(9, 3, 2, 1, 1), windows(10, 3, 3, 1, 2)});
  expect_right<T>("asymmetric", {2, 1, 4, 4, windows(6, 3, 2, 0, 1), windows(6, 3, 2, 0, 1)});
  expect_right<T>("unreached last columns", {2, 1, 4, 4, windows(5, 3), windows(8, 3, 4)});
  expect_right<T>("window as large as the image", {3, 1, 4, 6, windows(4, 4), windows(5, 5)});
  expect_right<T>("one column", {2, 1, 4, 4, windows(9, 3, 1, 1, 1), windows(1, 1)});
}

TYPED_TEST(CudaConvolution, OfGroupsIsThatOfTheProcessor) {
  using T = TypeParam;
  expect_right<T>("wide groups", {2, 3, 12, 20, windows(5, 3, 1, 1, 1), windows(6, 3, 2, 1, 1)});
  expect_right<T>("wide odd groups", {1, 2, 9, 11, windows(5, 3, 1, 1, 1), windows(6, 3, 2, 1, 1)});
  expect_right<T>("narrow groups", {2, 5, 3, 4, windows(5, 3, 1, 1, 1), windows(6, 3, 1, 1, 1)});
  expect_right<T>("narrow and strided", {2, 4, 3, 2, windows(7, 3, 2, 1, 1), windows(11, 2, 3, 1, 0)});
  expect_right<T>("depthwise", {2, 40, 1, 1, windows(9, 3, 1, 1, 1), windows(11, 3, 1, 1, 1)});
  expect_right<T>("depthwise and strided", {3, 33, 1, 1, windows(11, 5, 2, 2, 2), windows(13, 5, 2, 1, 2)});
  expect_right<T>("depthwise with multipliers", {2, 7, 1, 6, windows(6, 3, 1, 1, 1), windows(5, 3, 1, 1, 1)});
  expect_right<T>("stride beyond the window", {1, 36, 1, 1, windows(9, 1, 3), windows(9, 2, 3)});
}

bool same_bits(const Values& a, const Values& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

// Sums are made in one order, whatever the tile: with one right all are.
template <class T>
void expect_same_bits_in_every_tile(const ConvolutionShape& s) {
  const Values x = numbers<T>(x_size(s), 4), w = numbers<T>(w_size(s), 5), dy = numbers<T>(y_size(s), 6);
  const Results middle = on_device<T>(s, x, w, dy, ConvolutionTile::Middle);
  for (const ConvolutionTile tile : {ConvolutionTile::Large, ConvolutionTile::Slim}) {
    const Results other = on_device<T>(s, x, w, dy, tile);
    EXPECT_TRUE(same_bits(other.y, middle.y));
    EXPECT_TRUE(same_bits(other.dx, middle.dx));
    EXPECT_TRUE(same_bits(other.dw, middle.dw));
  }
}

TEST(CudaConvolutionTiles, HaveTheSameBits) {
  for (const ConvolutionShape& s : {ConvolutionShape{1, 1, 16, 136, windows(13, 2), windows(11, 1)},
                                    ConvolutionShape{1, 1, 67, 5, windows(7, 1), windows(5, 2, 2)}}) {
    expect_same_bits_in_every_tile<float>(s);
    expect_same_bits_in_every_tile<Bf16>(s);
  }
}

// Of whole numbers each sum is exact: parts of places must not lose or repeat any.
TYPED_TEST(CudaConvolution, CountsEveryPlaceOnceInTheWeight) {
  using T = TypeParam;
  for (const ConvolutionShape& s : {ConvolutionShape{2, 1, 2, 2, windows(17, 3, 1, 1, 1), windows(16, 3, 1, 1, 1)},
                                    ConvolutionShape{2, 8, 1, 1, windows(17, 3, 1, 1, 1), windows(16, 3, 1, 1, 1)}}) {
    const DeviceArray<T> x(Values(static_cast<std::size_t>(x_size(s)), 1.0)),
        dy(Values(static_cast<std::size_t>(y_size(s)), 0.125));
    auto dw = DeviceArray<T>::of_size(w_size(s));
    TestWorkspace workspace;
    const std::size_t bytes = convolution_backward_weight_workspace<T>(s);
    EXPECT_GT(bytes, sizeof(Wide<T>) * static_cast<std::size_t>(w_size(s)));  // more parts than one
    convolution_backward_weight(kNoStream, x.data(), dy.data(), dw.data(), s, workspace.take(bytes));
    const Values found = dw.values();
    // The corner tap meets 16 x 15 places of each image, the middle one all.
    const double corner = static_cast<double>(static_cast<T>(2 * 16 * 15 * 0.125)),
                 middle = static_cast<double>(static_cast<T>(2 * 17 * 16 * 0.125));
    EXPECT_EQ(found.front(), corner);
    EXPECT_EQ(found[static_cast<std::size_t>(4 * s.in * s.out)], middle);
    EXPECT_EQ(found.back(), corner);
  }
}

TYPED_TEST(CudaConvolution, HasTheSameBitsEveryTime) {
  using T = TypeParam;
  for (const ConvolutionShape& s : {ConvolutionShape{2, 1, 5, 6, windows(17, 2), windows(17, 2)},
                                    ConvolutionShape{2, 34, 1, 1, windows(17, 3, 2, 1, 1), windows(19, 3, 1, 1, 1)}}) {
    const Values x = numbers<T>(x_size(s), 4), w = numbers<T>(w_size(s), 5), dy = numbers<T>(y_size(s), 6);
    const Results first = on_device<T>(s, x, w, dy), second = on_device<T>(s, x, w, dy);
    EXPECT_TRUE(same_bits(first.y, second.y) && same_bits(first.dx, second.dx) && same_bits(first.dw, second.dw));
  }
}

TYPED_TEST(CudaConvolution, GivesImagesOfASplitBatchTheSameBits) {
  using T = TypeParam;
  const ConvolutionShape s{4, 1, 5, 6, windows(9, 3, 2, 1, 1), windows(7, 3, 1, 1, 1)};
  ConvolutionShape half = s;
  half.batch = 2;
  const Values x = numbers<T>(x_size(s), 4), w = numbers<T>(w_size(s), 5), dy = numbers<T>(y_size(s), 6);
  const auto first_half = [](const Values& values) {
    return Values(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  };
  const Results all = on_device<T>(s, x, w, dy), part = on_device<T>(half, first_half(x), w, first_half(dy));
  EXPECT_TRUE(same_bits(first_half(all.y), part.y));
  EXPECT_TRUE(same_bits(first_half(all.dx), part.dx));
}

// What is a whole number of fours does not lie well from its second element on.
TYPED_TEST(CudaConvolution, IsRightWhereNothingLiesWell) {
  using T = TypeParam;
  const ConvolutionShape s{2, 1, 4, 8, windows(5, 3, 1, 1, 1), windows(4, 3, 1, 1, 1)};
  const Values x = numbers<T>(x_size(s) + 1, 1), w = numbers<T>(w_size(s) + 1, 2);
  const DeviceArray<T> device_x(x), device_w(w);
  auto y = DeviceArray<T>::of_size(y_size(s) + 1);
  convolution(kNoStream, device_x.data() + 1, device_w.data() + 1, y.data() + 1, s);
  Values expected(static_cast<std::size_t>(y_size(s)));
  kernels::convolution(x.data() + 1, w.data() + 1, expected.data(), s);
  const Values found = y.values();
  expect_rounded<T>(Values(found.begin() + 1, found.end()), expected, 2.0 * 36 * kHalfPlace<Wide<T>>,
                    Values(expected.size(), 4.0 * 36));
}

TYPED_TEST(CudaConvolution, FiltersAreTransposedThereAndBack) {
  using T = TypeParam;
  const std::int64_t batch = 3, rows = 45, columns = 34;
  const Values values = numbers<T>(batch * rows * columns, 7);
  const DeviceArray<T> from(values);
  auto turned = DeviceArray<T>::of_size(batch * rows * columns), back = DeviceArray<T>::of_size(batch * rows * columns);
  transpose_filters(kNoStream, from.data(), turned.data(), batch, rows, columns);
  transpose_filters(kNoStream, turned.data(), back.data(), batch, columns, rows);
  EXPECT_EQ(turned.values()[(2 * 34 + 33) * 45 + 44], values[(2 * 45 + 44) * 34 + 33]);
  EXPECT_EQ(turned.values()[(1 * 34 + 7) * 45 + 40], values[(1 * 45 + 40) * 34 + 7]);
  EXPECT_EQ(back.values(), values);
}

template <class T>
Values by_library(CudnnConvolutions& library, ConvolutionPass pass, const ConvolutionShape& s, const Values& first,
                  const Values& second, std::int64_t size) {
  const DeviceArray<T> device_first(first), device_second(second);
  auto result = DeviceArray<T>::of_size(size);
  TestWorkspace workspace;
  library.run(kNoStream, pass, s, device_first.data(), device_second.data(), result.data(),
              workspace.take(library.workspace<T>(pass, s)));
  return result.values();
}

TYPED_TEST(CudaConvolution, OfCudnnIsThatOfTheProcessorAndTheSameEveryTime) {
  if (!CudnnConvolutions::are_built()) GTEST_SKIP() << "this build has no cuDNN";
  using T = TypeParam;
  using Pass = ConvolutionPass;
  CudnnConvolutions library(false);
  for (const ConvolutionShape& s : {ConvolutionShape{2, 1, 64, 32, windows(9, 3, 1, 1, 1), windows(8, 3, 1, 1, 1)},
                                    ConvolutionShape{2, 1, 32, 64, windows(9, 3, 2, 1, 1), windows(8, 3, 2, 1, 1)},
                                    ConvolutionShape{2, 1, 3, 32, windows(15, 7, 2, 3, 3), windows(16, 7, 2, 3, 3)},
                                    ConvolutionShape{2, 2, 32, 16, windows(9, 3, 1, 1, 1), windows(8, 3, 2, 1, 1)}}) {
    const Example<T> example{s};
    if (library.runs<T>(Pass::Forward, s)) {
      const Values y = by_library<T>(library, Pass::Forward, s, example.x, example.w, y_size(s));
      example.expect_y(y);
      EXPECT_TRUE(same_bits(y, by_library<T>(library, Pass::Forward, s, example.x, example.w, y_size(s))));
    }
    if (library.runs<T>(Pass::BackwardInput, s)) {
      const Values dx = by_library<T>(library, Pass::BackwardInput, s, example.w, example.dy, x_size(s));
      example.expect_dx(dx);
      EXPECT_TRUE(same_bits(dx, by_library<T>(library, Pass::BackwardInput, s, example.w, example.dy, x_size(s))));
    }
    if (library.runs<T>(Pass::BackwardWeight, s)) {
      const Values dw = by_library<T>(library, Pass::BackwardWeight, s, example.x, example.dy, w_size(s));
      example.expect_dw(dw);
      EXPECT_TRUE(same_bits(dw, by_library<T>(library, Pass::BackwardWeight, s, example.x, example.dy, w_size(s))));
    }
  }
}

TYPED_TEST(CudaConvolution, OfCudnnTakesWhatItIsFor) {
  if (!CudnnConvolutions::are_built()) GTEST_SKIP() << "this build has no cuDNN";
  using T = TypeParam;
  CudnnConvolutions library(true);
  const ConvolutionShape wide{2, 1, 64, 64, windows(8, 3, 1, 1, 1), windows(8, 3, 1, 1, 1)};
  const ConvolutionShape asymmetric{2, 1, 64, 64, windows(8, 3, 2, 0, 1), windows(8, 3, 2, 0, 1)};
  for (const ConvolutionPass pass :
       {ConvolutionPass::Forward, ConvolutionPass::BackwardInput, ConvolutionPass::BackwardWeight}) {
    EXPECT_EQ(library.runs<T>(pass, wide), (!std::is_same_v<T, double>));
    EXPECT_FALSE(library.runs<T>(pass, asymmetric));
  }
}

// x (batch, h, w, [groups], in) by w ([groups], kh, kw, in, out).
struct Op3 {
  std::vector<Dim> x, w, y;
  Attributes attributes;
};

template <class T>
void expect_right_ops(const Op3& c) {
  const auto elements = [](const std::vector<Dim>& dims) {
    std::int64_t count = 1;
    for (const Dim& dim : dims) count *= dim.size;
    return count;
  };
  const auto with_result = [&](const std::vector<Dim>& result) {
    Attributes attributes = c.attributes;
    attributes.result_dims = result;
    return attributes;
  };
  Graph graph;
  const TensorId x = graph.add_tensor("x", TensorKind::Input, DType::F32, c.x);
  const TensorId w = graph.add_tensor("w", TensorKind::Input, DType::F32, c.w);
  const TensorId dy = graph.add_tensor("dy", TensorKind::Input, DType::F32, c.y);
  graph.add_op(OpKind::Convolution, "y", {x, w}, with_result({c.y[1], c.y[2]}));
  graph.add_op(OpKind::ConvolutionBackwardInput, "dx", {w, dy}, with_result(c.x));
  graph.add_op(OpKind::ConvolutionBackwardWeight, "dw", {x, dy}, with_result(c.w));
  const Values x_values = numbers<T>(elements(c.x), 1), w_values = numbers<T>(elements(c.w), 2),
               dy_values = numbers<T>(elements(c.y), 3);
  const std::vector<Values> operands[] = {{x_values, w_values}, {w_values, dy_values}, {x_values, dy_values}};
  for (std::size_t i = 0; i < 3; ++i) {
    const Op& op = graph.ops()[i];
    expect_whole_op<T>(cuda_convolution_kernel(op.kind), graph, op, operands[i], 200);
  }
}

TYPED_TEST(CudaConvolution, AsAnOpIsThatOfTheProcessor) {
  expect_right_ops<TypeParam>({{{"batch", 2}, {"h", 7}, {"w", 6}, {"in", 3}},
                               {{"kh", 3}, {"kw", 2}, {"in", 3}, {"out", 5}},
                               {{"batch", 2}, {"h2", 4}, {"w2", 3}, {"out", 5}},
                               {.stride = {2, 2}, .pad_before = {1, 0}, .pad_after = {1, 1}}});
  expect_right_ops<TypeParam>({{{"batch", 2}, {"h", 5}, {"w", 6}, {"groups", 2}, {"in", 3}},
                               {{"groups", 2}, {"kh", 2}, {"kw", 3}, {"in", 3}, {"out", 4}},
                               {{"batch", 2}, {"h2", 4}, {"w", 6}, {"groups", 2}, {"out", 4}},
                               {.pad_before = {0, 1}, .pad_after = {0, 1}}});
  expect_right_ops<TypeParam>({{{"batch", 2}, {"h", 5}, {"w", 6}, {"in", 7}},
                               {{"kh", 1}, {"kw", 1}, {"in", 7}, {"out", 4}},
                               {{"batch", 2}, {"h", 5}, {"w", 6}, {"out", 4}},
                               {}});
}

TEST(CudaConvolutionKernel, KnowsItsKinds) { EXPECT_EQ(cuda_convolution_kernel(OpKind::Contract), nullptr); }

}  // namespace
}  // namespace meshwright::kernels::cuda::convolution_test
