// SPDX-License-Identifier: Apache-2.0
// Adafactor's update on the device against the processor's in double.
#include "kernels/cuda/optimizer/adafactor.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/cuda/flat_ops.h"
#include "tests/cuda/weight_types.h"

namespace meshwright::kernels::cuda::adafactor_test {
namespace {

template <class Pair>
class CudaAdafactor : public testing::Test {};
TYPED_TEST_SUITE(CudaAdafactor, WeightTypes);

// A gradient and its moments: V factored over the first and the last dimension, for each index of the others, or whole.
struct Case {
  std::vector<std::int64_t> sizes;
  bool factored = true;
  std::vector<MomentDim> dims = {};
  std::int64_t elements = 1, of[3] = {1, 1, 1};  // of the gradient; of r, c and mean
};

Case with_dims(Case c) {
  c.dims.resize(c.sizes.size());
  for (std::size_t d = c.sizes.size(); d-- > 0;) {
    const bool first = d == 0, last = d + 1 == c.sizes.size();
    const bool has[3] = {!c.factored || !last, c.factored && !first, c.factored && !first && !last};
    c.dims[d].extent = c.sizes[d];
    c.elements *= c.sizes[d];
    for (int m = 0; m < 3; ++m) {
      c.dims[d].strides[m] = has[m] ? c.of[m] : 0;
      if (has[m]) c.of[m] *= c.sizes[d];
    }
  }
  return c;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  // Rows of one chunk and of several, of fewer elements than a warp has lanes, and more items than blocks.
  for (const std::vector<std::int64_t>& sizes :
       std::vector<std::vector<std::int64_t>>{{2, 2}, {7, 3, 5}, {5, 2500}, {2500, 5}, {3, 2, 2, 40}, {9000, 3}})
    for (const bool factored : {true, false}) all.push_back(with_dims({sizes, factored}));
  all.push_back(with_dims({{1003}, false}));
  return all;
}

template <class W>
struct OnDevice {
  explicit OnDevice(const std::vector<Values>& moments) : r(moments[0]), c(moments[1]), mean(moments[2]) {}
  Moments<W> of(const Case& one) {
    return {one.dims, r.data(), one.factored ? c.data() : nullptr, one.factored ? mean.data() : nullptr};
  }
  DeviceArray<W> r, c, mean;
};

template <class W>
std::vector<Values> moments_of(const Case& c) {
  std::vector<Values> all;
  for (int m = 0; m < 3; ++m) all.push_back(numbers<W>(c.of[m], 5 + static_cast<std::uint32_t>(m), 0.01, 1.0));
  return all;
}
Moments<double> on_processor(const Case& c, const std::vector<Values>& moments) {
  return {c.dims, moments[0].data(), c.factored ? moments[1].data() : nullptr,
          c.factored ? moments[2].data() : nullptr};
}

template <class T>
constexpr double kSlack = 32 * kHalfPlace<Wide<T>>;

TYPED_TEST(CudaAdafactor, MovesHaveTheProcessorsSquares) {
  using G = typename TypeParam::G;
  using W = Wide<G>;
  auto workspace = DeviceArray<double>::of_size(static_cast<std::int64_t>(move_squares_workspace() / sizeof(double)));
  for (const Case& c : cases()) {
    const std::vector<Values> moments = moments_of<W>(c);
    const Values gradient = numbers<G>(c.elements, 1);
    const DeviceArray<G> on_gradient(gradient);
    OnDevice<W> on_device(moments);
    auto out = DeviceArray<W>::of_size(1);
    move_squares<G>(kNoStream, on_gradient.data(), on_device.of(c), out.data(), workspace.data(), {});
    const double expected = kernels::move_squares<double>(gradient.data(), on_processor(c, moments), 1.0);
    expect_rounded<W>(out.values(), {expected}, kSlack<W> * 4);
  }
}

TYPED_TEST(CudaAdafactor, WeightsFollowTheProcessorsMove) {
  using T = typename TypeParam::T;
  using G = typename TypeParam::G;
  using W = Wide<T>;
  for (const Case& c : cases())
    for (const bool has_master : {false, true}) {
      if (has_master && sizeof(T) != 2) continue;
      const std::vector<Values> moments = moments_of<W>(c);
      const Values gradient = numbers<G>(c.elements, 1), weight = numbers<T>(c.elements, 2);
      Values expected = has_master ? numbers<W>(c.elements, 3) : weight;
      const DeviceArray<G> on_gradient(gradient);
      DeviceArray<T> on_weight(weight);
      DeviceArray<W> on_master(expected);
      OnDevice<W> on_device(moments);
      const DeviceArray<W> squares(Values{64.0}), norm(Values{16.0});
      // Moves of a root mean square of 8 / sqrt(4 elements); gradients of norm 4, clipped to 2.
      const AdafactorSettings settings{0.125, 0.25, 1.0, 4 * c.elements};
      const StepGradients<W> step{.max_norm = 2.0, .squares = norm.data()};
      follow_move<T, G>(kNoStream, on_weight.data(), has_master ? on_master.data() : nullptr, on_gradient.data(),
                        on_device.of(c), squares.data(), settings, step);
      const double over = std::max(1.0, std::sqrt(64.0 / static_cast<double>(4 * c.elements)));
      kernels::follow_move<double>(expected.data(), gradient.data(), on_processor(c, moments), 2.0 / (4.0 + 1e-6),
                                   {0.125 / over, 1 - 0.125 * 0.25});
      const Values size(static_cast<std::size_t>(c.elements), 40.0);  // of the terms of a sum that may cancel
      if (has_master) expect_rounded<W>(on_master.values(), expected, kSlack<T>, size);
      expect_rounded<T>(on_weight.values(), expected, kSlack<T>, size);
    }
}

TYPED_TEST(CudaAdafactor, AStepThatOverflowsIsLeftOutAndDoesNotCount) {
  using T = typename TypeParam::T;
  using W = Wide<T>;
  const Case c = with_dims({{7, 3, 5}});
  OnDevice<W> on_device(moments_of<W>(c));
  const Values weight = numbers<T>(c.elements, 2), before = on_device.r.values();
  DeviceArray<T> on_weight(weight);
  const DeviceArray<T> gradient(numbers<T>(c.elements, 1));
  const DeviceArray<W> squares(Values{1.0}), infinite(Values{std::numeric_limits<double>::infinity()}),
      finite(Values{1.0}), now(numbers<W>(c.of[0], 9, 0.0, 1.0)), scaling(Values{0.0, 0.0, 3.0});
  StepGradients<W> step{.loss_scale = 1.0, .squares = infinite.data(), .scaling = scaling.data()};
  follow_move<T, T>(kNoStream, on_weight.data(), nullptr, gradient.data(), on_device.of(c), squares.data(),
                    {0.125, 0.25, 1.0, c.elements}, step);
  EXPECT_EQ(on_weight.values(), weight);
  decay_mean<W>(kNoStream, on_device.r.data(), now.data(), c.of[0], {0.8, 1e-30, 5}, step);
  EXPECT_EQ(on_device.r.values(), before);
  // Of 5 steps 3 were left out: this is the second.
  step.squares = finite.data();
  decay_mean<W>(kNoStream, on_device.r.data(), now.data(), c.of[0], {0.8, 1e-30, 5}, step);
  Values expected = before;
  const Values given = now.values();
  kernels::decay_mean<double>(expected.data(), given.data(), c.of[0], kernels::kept_share(2, 0.8), 1.0, 1e-30);
  expect_rounded<W>(on_device.r.values(), expected, kSlack<W>);
}

}  // namespace
}  // namespace meshwright::kernels::cuda::adafactor_test
