// SPDX-License-Identifier: Apache-2.0
// Updates on the device against the processor's in double.
#include "kernels/cuda/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "executor/ops/kernel_table.h"
#include "kernels/cpu/optimizer/loss_scaling.h"
#include "kernels/cpu/optimizer/optimizer.h"
#include "tests/cuda/flat_ops.h"
#include "tests/cuda/weight_types.h"

namespace meshwright::kernels::cuda::optimizer_test {
namespace {

template <class Pair>
class CudaOptimizer : public testing::Test {};
TYPED_TEST_SUITE(CudaOptimizer, WeightTypes);

// Some roundings of what is computed in.
template <class T>
constexpr double kSlack = 16 * kHalfPlace<Wide<T>>;
// Where the device knows the step, Adam divides by 1 - 0.999^3 of the device's own power, whose roundings count
// 333-fold.
constexpr double kOfPowers = 0x1p-44;

TYPED_TEST(CudaOptimizer, GradientsAreAddedUp) {
  using T = typename TypeParam::T;
  using G = typename TypeParam::G;
  using A = G;  // what gradients of type T are added up in
  for (const std::int64_t n : {1, 5, 64, 1003}) {
    const Values total = numbers<A>(n, 1), gradient = numbers<T>(n, 2);
    DeviceArray<A> on_total(total);
    const DeviceArray<T> on_gradient(gradient);
    accumulate(kNoStream, on_total.data(), on_gradient.data(), n);
    Values expected;
    for (std::size_t i = 0; i < total.size(); ++i)
      expected.push_back(static_cast<double>(A(static_cast<Wide<A>>(total[i] + gradient[i]))));
    EXPECT_EQ(on_total.values(), expected);
  }
}

TYPED_TEST(CudaOptimizer, SumOfSquaresIsTheSameInAnyPlace) {
  using T = typename TypeParam::T;
  for (const std::int64_t n : {1, 7, 2049, 40000, 300001}) {
    Values x = numbers<T>(n + 1, 3);
    const DeviceArray<T> shifted(x);
    x.erase(x.begin());
    const DeviceArray<T> well(x);
    auto workspace = DeviceArray<std::int8_t>::of_size(static_cast<std::int64_t>(sum_squares_workspace(n)));
    auto one = DeviceArray<Wide<T>>::of_size(1), other = DeviceArray<Wide<T>>::of_size(1);
    sum_squares(kNoStream, well.data(), one.data(), n, workspace.data());
    sum_squares(kNoStream, shifted.data() + 1, other.data(), n, workspace.data());
    EXPECT_EQ(one.values(), other.values());
    // Doubles are added up one by one on the processor.
    const double rounding = sizeof(T) == 8 ? static_cast<double>(n) * 0x1p-53 : sizeof(T) == 2 ? 0x1p-21 : 0x1p-50;
    expect_rounded<Wide<T>>(one.values(), {kernels::sum_squares(x.data(), n)}, rounding);
  }
}

TEST(CudaOptimizer_, SquaresMayBeAnyNumber) {
  auto workspace = DeviceArray<std::int8_t>::of_size(static_cast<std::int64_t>(sum_squares_workspace(3)));
  auto out = DeviceArray<float>::of_size(1);
  const DeviceArray<F16> infinite({1.0, 1e6, 2.0});
  sum_squares(kNoStream, infinite.data(), out.data(), 3, workspace.data());
  EXPECT_EQ(out.values()[0], std::numeric_limits<double>::infinity());
  const DeviceArray<float> none({1.0, std::nan(""), 2.0});
  sum_squares(kNoStream, none.data(), out.data(), 3, workspace.data());
  EXPECT_TRUE(std::isnan(out.values()[0]));
}

// --- updates, by op: the processor's op on the same numbers says what is expected ---

struct Case {
  OpKind kind;
  Attributes attributes;
  bool master = false;
  double squares = 9.0;
  Values scaling = {2.0, 5.0, 4.0};
  std::int64_t n = 103;
  std::int64_t step = 7;
};

std::size_t states_of(OpKind kind) { return kind == OpKind::AdamUpdate ? 2 : kind == OpKind::MomentumUpdate ? 1 : 0; }

// Weight, master, states, gradient, squares and scaling of a case, of the given types, rounded to them.
template <class T, class G>
std::vector<Values> operands(const Case& c) {
  using W = Wide<T>;
  const Values weight = numbers<T>(c.n, 1);
  std::vector<Values> all = {weight};
  if (c.master) all.push_back(numbers<W>(c.n, 2));
  for (std::size_t k = 0; k < states_of(c.kind); ++k)
    all.push_back(numbers<W>(c.n, 3 + static_cast<std::uint32_t>(k), k == 0 ? -1.0 : 0.01, 1.0));
  all.push_back(numbers<G>(c.n, 5));
  const bool scaled = c.attributes.loss_scale > 0.0;
  if (scaled || c.attributes.max_norm > 0.0) all.push_back({c.squares});
  if (scaled) all.push_back(c.scaling);
  return all;
}

// The tensors that are updated, afterwards.
std::vector<Values> on_processor(const Case& c, std::vector<Values> all) {
  const std::size_t updated = 1 + (c.master ? 1 : 0) + states_of(c.kind);
  OpCallPlan call{};
  call.kind = c.kind;
  call.attributes = c.attributes;
  std::vector<void*> in, out;
  for (Values& values : all) {
    call.input_shapes.push_back({static_cast<std::int64_t>(values.size())});
    in.push_back(values.data());
  }
  out.assign(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(updated));
  const OpMoment moment{{}, c.step, 0};
  optimizer_kernel<double>(c.kind)({{call, in, out, moment}});
  all.resize(updated);
  return all;
}

template <class T, class G>
std::vector<Values> on_device(const Case& c, const std::vector<Values>& all) {
  using W = Wide<T>;
  const std::size_t updated = 1 + (c.master ? 1 : 0) + states_of(c.kind);
  DeviceArray<T> weight(all[0]);
  DeviceArray<G> gradient(all[updated]);
  std::vector<DeviceArray<W>> wide;
  wide.reserve(all.size());
  std::vector<FlatTensor> inputs = {flat(weight)};
  for (std::size_t k = 1; k < all.size(); ++k)
    inputs.push_back(k == updated ? flat(gradient) : flat(wide.emplace_back(all[k])));
  const std::vector<FlatTensor> outputs(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(updated));
  run_flat(cuda_optimizer_kernel(c.kind), c.kind, c.attributes, inputs, outputs, {{}, c.step, 0});
  std::vector<Values> found = {weight.values()};
  for (std::size_t k = 1; k < updated; ++k) found.push_back(wide[k - 1].values());
  return found;
}

template <class T, class G>
void expect_like_processor(const Case& c) {
  const std::vector<Values> all = operands<T, G>(c), expected = on_processor(c, all), found = on_device<T, G>(c, all);
  ASSERT_EQ(found.size(), expected.size());
  const Values size(static_cast<std::size_t>(c.n), 4.0);  // of the terms of a sum that may cancel
  const double slack = kSlack<T> + kOfPowers;
  expect_rounded<T>(found[0], expected[0], slack, size);
  for (std::size_t k = 1; k < found.size(); ++k) expect_rounded<Wide<T>>(found[k], expected[k], slack, size);
}

std::vector<Case> cases(OpKind kind) {
  const Attributes plain{.learning_rate = 0.125, .epsilon = 1e-3, .momentum = 0.75, .weight_decay = 0.25};
  Attributes clipped = plain, scaled = plain, both = plain, loose = plain;
  clipped.max_norm = 0.5, loose.max_norm = 100.0;
  scaled.loss_scale = 16.0;
  both.loss_scale = 16.0, both.max_norm = 0.01;
  std::vector<Case> all;
  for (const Attributes& attributes : {plain, clipped, loose, scaled, both})
    for (const bool master : {false, true}) all.push_back({kind, attributes, master});
  return all;
}

TYPED_TEST(CudaOptimizer, UpdatesAreTheProcessors) {
  using T = typename TypeParam::T;
  using G = typename TypeParam::G;
  for (const OpKind kind : {OpKind::SgdUpdate, OpKind::MomentumUpdate, OpKind::AdamUpdate})
    for (Case c : cases(kind)) {
      if (c.master && sizeof(T) != 2) continue;
      for (const std::int64_t n : {1, 4, 103, 2000}) {
        c.n = n;
        SCOPED_TRACE(testing::Message() << static_cast<int>(kind) << ", master " << c.master << ", norm "
                                        << c.attributes.max_norm << ", scale " << c.attributes.loss_scale << ", " << n);
        expect_like_processor<T, G>(c);
      }
    }
}

TYPED_TEST(CudaOptimizer, AStepIsLeftOutWhereGradientsAreNotFinite) {
  using T = typename TypeParam::T;
  using G = typename TypeParam::G;
  for (const OpKind kind : {OpKind::SgdUpdate, OpKind::MomentumUpdate, OpKind::AdamUpdate})
    for (const double squares : {std::numeric_limits<double>::infinity(), std::nan("")}) {
      Case c{kind, {.learning_rate = 0.125, .loss_scale = 4.0}, sizeof(T) == 2, squares};
      const std::vector<Values> all = operands<T, G>(c), found = on_device<T, G>(c, all);
      for (std::size_t k = 0; k < found.size(); ++k) EXPECT_EQ(found[k], all[k]);
    }
}

// Whether a step counts, and which, the kernels see on the device: 4 of 7 steps were left out.
TYPED_TEST(CudaOptimizer, StepsLeftOutDoNotCount) {
  using T = typename TypeParam::T;
  using G = typename TypeParam::G;
  Case scaled{OpKind::AdamUpdate, {.learning_rate = 0.125, .loss_scale = 1.0}};
  scaled.scaling = {0.0, 0.0, 4.0};
  Case plain{OpKind::AdamUpdate, {.learning_rate = 0.125}};
  plain.step = 3;
  const auto found = on_device<T, G>(scaled, operands<T, G>(scaled)),
             expected = on_device<T, G>(plain, operands<T, G>(plain));
  EXPECT_EQ(found, expected);
}

TYPED_TEST(CudaOptimizer, TheNumberOfTheStepMayLieOnTheDevice) {
  using T = typename TypeParam::T;
  using G = typename TypeParam::G;
  using W = Wide<T>;
  const std::int64_t n = 103;
  const auto after = [&](const AdamSettings& settings, const std::int64_t* step = nullptr) {
    DeviceArray<T> weight(numbers<T>(n, 1));
    DeviceArray<W> first(numbers<W>(n, 2)), second(numbers<W>(n, 3, 0.1, 1.0));
    const DeviceArray<G> gradient(numbers<G>(n, 4));
    update(kNoStream, UpdatedTensor<T, G>{weight.data(), nullptr, first.data(), second.data(), gradient.data(), n},
           settings, {.step = step});
    return weight.values();
  };
  DeviceArray<std::int64_t> step(Values{5.0});
  const Values expected = after({0.125, 0.9, 0.99, 1e-6, 5, 0.01});
  EXPECT_EQ(after({0.125, 0.9, 0.99, 1e-6, 4, 0.01}, step.data()), expected);
  EXPECT_NE(after({0.125, 0.9, 0.99, 1e-6, 4, 0.01}), expected);
}

TYPED_TEST(CudaOptimizer, SeveralTensorsAtOnceAreUpdatedLikeOneAfterTheOther) {
  using T = typename TypeParam::T;
  using G = typename TypeParam::G;
  using W = Wide<T>;
  const AdamSettings settings{0.125, 0.9, 0.99, 1e-6, 5, 0.01};
  const DeviceArray<W> squares(Values{9.0}), scaling(Values{1.0, 0.0, 2.0});
  const StepGradients<W> step_gradients{0.5, 8.0, squares.data(), scaling.data()};
  // Several chunks, none, part of a group, exactly one chunk; a tensor that begins between groups.
  const std::vector<std::int64_t> sizes = {9000, 0, 3, 4096, 1, 0, 4097};
  struct Tensors {
    DeviceArray<T> weight;
    DeviceArray<W> master, first, second;
    DeviceArray<G> gradient;
    UpdatedTensor<T, G> at(std::int64_t n, bool with_master) {
      return {
          weight.data() + 1, with_master ? master.data() : nullptr, first.data(), second.data(), gradient.data(), n};
    }
  };
  const auto make = [&] {
    std::vector<Tensors> all;
    std::uint32_t seed = 1;
    for (const std::int64_t n : sizes) {
      const std::int64_t some = std::max<std::int64_t>(n, 1);
      DeviceArray<T> weight(numbers<T>(n + 1, seed));
      DeviceArray<W> master(numbers<W>(some, seed + 1)), first(numbers<W>(some, seed + 2)),
          second(numbers<W>(some, seed + 3, 0.1, 1.0));
      all.push_back({std::move(weight), std::move(master), std::move(first), std::move(second),
                     DeviceArray<G>(numbers<G>(some, seed + 4))});
      seed += 5;
    }
    return all;
  };
  std::vector<Tensors> one = make(), together = make();
  std::vector<UpdatedTensor<T, G>> descriptors;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    update(kNoStream, one[k].at(sizes[k], k % 2 == 0), settings, step_gradients);
    descriptors.push_back(together[k].at(sizes[k], k % 2 == 0));
  }
  update<T, G>(kNoStream, descriptors, settings, step_gradients);
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    EXPECT_EQ(together[k].weight.values(), one[k].weight.values()) << k;
    EXPECT_EQ(together[k].master.values(), one[k].master.values()) << k;
    EXPECT_EQ(together[k].first.values(), one[k].first.values()) << k;
    EXPECT_EQ(together[k].second.values(), one[k].second.values()) << k;
  }
}

// A thread has several turns.
TEST(CudaOptimizer_, NothingIsLeftOutBeyondTheGrid) {
  const std::int64_t n = 4096 * 256 * 2 + 5;
  const Values weight = numbers<double>(n, 1), gradient = numbers<double>(n, 2);
  DeviceArray<double> on_weight(weight);
  const DeviceArray<double> on_gradient(gradient);
  update(kNoStream, UpdatedTensor<double, double>{.weight = on_weight.data(), .gradient = on_gradient.data(), .n = n},
         SgdSettings{0.5}, {});
  const Values found = on_weight.values();
  for (std::size_t i = 0; i < weight.size(); ++i) ASSERT_EQ(found[i], weight[i] - 0.5 * gradient[i]) << i;
}

TEST(CudaOptimizer_, TheLossScaleFollowsGoodAndBadSteps) {
  const double bad = std::numeric_limits<double>::infinity();
  DeviceArray<float> on_state({0.0, 0.0, 0.0});
  std::vector<float> state(3, 0.0f);
  for (const double squares : {1.0, 4.0, bad, 1.0, bad, 2.0, 2.0, 2.0, std::nan(""), 1.0}) {
    DeviceArray<float> on_squares(Values{squares});
    run_flat(cuda_optimizer_kernel(OpKind::ScalingUpdate), OpKind::ScalingUpdate, {.growth_interval = 2},
             {flat(on_state), flat(on_squares)}, {flat(on_state)});
    kernels::update_scaling(state.data(), std::isfinite(squares), 2);
    EXPECT_EQ(on_state.raw(), state);
  }
  EXPECT_EQ(state[2], 3.0f);
}

TEST(CudaOptimizer_, GradientsOfOneTypeAreAddedUpAndMeasuredInAnother) {
  DeviceArray<float> total({1.0, 2.0, 3.0});
  DeviceArray<Bf16> gradient({0.5, 0x1p-20, -3.0});
  auto squares = DeviceArray<float>::of_size(1);
  run_flat(cuda_optimizer_kernel(OpKind::Accumulate), OpKind::Accumulate, {}, {flat(total), flat(gradient)},
           {flat(total)});
  EXPECT_EQ(total.values(), (Values{1.5, 2.0 + 0x1p-20, 0.0}));
  run_flat(cuda_optimizer_kernel(OpKind::SumSquares), OpKind::SumSquares, {}, {flat(gradient)}, {flat(squares)});
  EXPECT_EQ(squares.values(), (Values{9.25}));
}

}  // namespace
}  // namespace meshwright::kernels::cuda::optimizer_test
