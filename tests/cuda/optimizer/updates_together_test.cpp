// SPDX-License-Identifier: Apache-2.0
// Updates and norms of many tensors, which a CUDA device does together, have the bits that they have one by one.
#include <gtest/gtest.h>

#include <utility>

#include "executor/cuda/cuda_device.h"
#include "tests/cuda/flat_ops.h"
#include "tests/cuda/recorded_launches.h"

namespace meshwright::kernels::cuda::updates_together_test {
namespace {

constexpr double kUntouched = -77;

template <class T>
class UpdatesTogether : public testing::Test {};
using Types = testing::Types<float, double, Bf16, F16>;
TYPED_TEST_SUITE(UpdatesTogether, Types);

// --- updates ---

struct Updates {
  OpKind kind;
  Attributes attributes;
  std::vector<std::int64_t> sizes;
};

// Of many tensors with a master copy (of 16-bit types), states, a gradient and the norm.
template <class T>
struct Tensors {
  using W = Wide<T>;
  std::vector<DeviceArray<T>> weights;
  std::vector<std::vector<DeviceArray<W>>> others;  // master, states
  std::vector<DeviceArray<W>> gradients;            // sums, or of type T where that is wide
  std::vector<OpCallPlan> calls;
  DeviceArray<W> norm{Values{9.0}};

  explicit Tensors(const Updates& u) {
    const std::size_t wide = (sizeof(T) == 2 ? 1 : 0) + (u.kind == OpKind::AdamUpdate       ? 2
                                                         : u.kind == OpKind::MomentumUpdate ? 1
                                                                                            : 0);
    std::uint32_t seed = 1;
    for (const std::int64_t n : u.sizes) {
      weights.emplace_back(numbers<T>(n, seed++));
      auto& own = others.emplace_back();
      for (std::size_t k = 0; k < wide; ++k) own.emplace_back(numbers<W>(n, seed++, 0.1, 1.0));
      gradients.emplace_back(numbers<W>(n, seed++));
      OpCallPlan& call = calls.emplace_back();
      call.kind = u.kind;
      call.attributes = u.attributes;
      const std::vector<std::int64_t> shape = {n};
      call.output_shapes.assign(1 + wide, shape);
      call.output_dtypes.assign(1 + wide, kDType<W>);
      call.input_shapes.assign(2 + wide, shape);
      call.input_shapes.push_back({});
      call.input_dtypes.assign(3 + wide, kDType<W>);
      call.input_dtypes[0] = call.output_dtypes[0] = kDType<T>;
    }
  }

  void run(CudaDevice& device, std::size_t i, std::int64_t step = 3) {
    std::vector<void*> out = {weights[i].data()};
    for (DeviceArray<W>& other : others[i]) out.push_back(other.data());
    std::vector<void*> in = out;
    in.insert(in.end(), {gradients[i].data(), norm.data()});
    device.run_op(calls[i], in, out, {{}, step, 0});
  }

  [[nodiscard]] std::vector<Values> values() const {
    std::vector<Values> all;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      all.push_back(weights[i].values());
      for (const DeviceArray<W>& other : others[i]) all.push_back(other.values());
    }
    return all;
  }
};

// More than one launch takes, whole and in parts of chunks and groups, one of them empty.
std::vector<std::int64_t> many_sizes() {
  std::vector<std::int64_t> sizes = {9000, 0, 3, 4096, 1, 4097};
  for (std::int64_t i = 0; i < 140; ++i) sizes.push_back(1 + 7 * i % 53);
  return sizes;
}

TYPED_TEST(UpdatesTogether, UpdatesAreThoseOfOneTensorAfterTheOtherToTheBit) {
  const Attributes attributes{
      .learning_rate = 0.125, .epsilon = 1e-3, .momentum = 0.75, .weight_decay = 0.25, .max_norm = 0.5};
  for (const OpKind kind : {OpKind::SgdUpdate, OpKind::MomentumUpdate, OpKind::AdamUpdate}) {
    const Updates updates{kind, attributes, many_sizes()};
    Tensors<TypeParam> one(updates), together(updates);
    const std::vector<Values> before = one.values();
    CudaDevice device(0, false, [](DType type) { return type; });
    for (std::size_t i = 0; i < updates.sizes.size(); ++i) {
      one.run(device, i);
      device.finish();
    }
    for (std::size_t i = 0; i < updates.sizes.size(); ++i) together.run(device, i);
    device.finish();
    EXPECT_NE(one.values(), before);
    EXPECT_EQ(together.values(), one.values()) << name_of(kind);
  }
}

TEST(UpdatesTogether_, TakeALaunchForEach64TensorsAndHaveOneRange) {
  if (!can_record()) GTEST_SKIP() << "this build cannot record";
  const Updates updates{OpKind::AdamUpdate, {.learning_rate = 0.125, .max_norm = 0.5}, many_sizes()};
  const auto launches = [&](std::size_t first, std::size_t last) {
    Tensors<Bf16> tensors(updates);
    CudaDevice device(0, false, [](DType type) { return type; });
    device.finish();
    return launches_of([&] {
      for (std::size_t i = first; i < last; ++i) {
        device.begin_work("mw:op flops=0 bytes=1 an update");
        tensors.run(device, i);
        device.end_work();
      }
      device.finish();
    });
  };
  const Launches all = launches(0, updates.sizes.size());
  EXPECT_EQ(all.kernels, 3U);  // 145 tensors have elements
  std::int64_t elements = 0;
  for (const std::int64_t n : updates.sizes) elements += n;
  // Per element a gradient read, and the weight, its master and two moments read and written; a norm for each tensor.
  const std::int64_t bytes = elements * (4 + 2 * (2 + 3 * 4)) + 4 * static_cast<std::int64_t>(updates.sizes.size());
  EXPECT_EQ(all.ranges, std::vector{fmt::format("mw:op flops=0 bytes={} adam_update bf16 of 146 tensors", bytes)});
  const Launches one = launches(3, 4);
  EXPECT_EQ(one.kernels, 1U);
  EXPECT_EQ(one.ranges, std::vector<std::string>{"mw:op flops=0 bytes=1 an update"});
}

// --- norms ---

OpCallPlan flat_call(OpKind kind, const std::vector<std::int64_t>& sizes, DType in, DType out) {
  OpCallPlan call{};
  call.kind = kind;
  for (const std::int64_t n : sizes) {
    call.input_shapes.push_back({n});
    call.input_dtypes.push_back(in);
  }
  call.output_shapes = {{}};
  call.output_dtypes = {out};
  return call;
}

// The sum of the squares of all gradients, added up in a chain whose links change places in three numbers.
template <class T>
Values chained(const std::vector<DeviceArray<T>>& gradients, bool together) {
  using W = Wide<T>;
  DeviceArray<W> cells(Values{kUntouched, kUntouched, kUntouched});
  W *total = cells.data(), *other = total + 1, *spare = total + 2;
  std::vector<OpCallPlan> calls;
  calls.reserve(gradients.size());
  CudaDevice device(0, false, [](DType type) { return type; });
  const OpCallPlan sum = flat_call(OpKind::Add, {1, 1}, kDType<W>, kDType<W>);
  const auto run = [&](const OpCallPlan& call, const std::vector<void*>& in, W* out) {
    device.run_op(call, in, std::vector<void*>{out}, {});
    if (!together) device.finish();
  };
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const auto n = static_cast<std::int64_t>(gradients[i].raw().size());
    const OpCallPlan& squares = calls.emplace_back(flat_call(OpKind::SumSquares, {n}, kDType<T>, kDType<W>));
    run(squares, {const_cast<T*>(gradients[i].data())}, i == 0 ? total : other);
    if (i == 0) continue;
    run(sum, {total, other}, spare);
    std::swap(total, spare);
  }
  device.finish();
  const Values values = cells.values();
  return {values[static_cast<std::size_t>(total - cells.data())], values[0], values[1], values[2]};
}

TYPED_TEST(UpdatesTogether, NormsAreThoseOfOneTensorAfterTheOtherToTheBit) {
  std::vector<DeviceArray<TypeParam>> gradients;
  double truth = 0;
  std::uint32_t seed = 1;
  std::vector<std::int64_t> sizes = many_sizes();
  sizes.push_back(40000);  // several blocks
  for (const std::int64_t n : sizes)
    for (const double value : gradients.emplace_back(numbers<TypeParam>(n, seed++)).values()) truth += value * value;
  const Values together = chained(gradients, true);
  EXPECT_EQ(together, chained(gradients, false));
  // The truth is added up number by number.
  EXPECT_NEAR(together[0], truth, (200 * kHalfPlace<Wide<TypeParam>> + 70000 * 0x1p-53) * truth);
}

TEST(UpdatesTogether_, NormsTakeThreeLaunchesForEach64Tensors) {
  if (!can_record()) GTEST_SKIP() << "this build cannot record";
  std::vector<DeviceArray<Bf16>> gradients;
  for (int i = 0; i < 130; ++i) gradients.emplace_back(numbers<Bf16>(1 + i, 1));
  EXPECT_EQ(launches_of([&] { (void)chained(gradients, true); }).kernels, 3U * 3U);
  EXPECT_EQ(launches_of([&] { (void)chained(gradients, false); }).kernels, 2U * 130U + 129U);
}

// A number that is squared, and then lies where the next result is written; and one that is a result itself.
TEST(UpdatesTogether_, SquaresReadWhatIsThereWhenTheyAreAskedFor) {
  DeviceArray<float> cells({3.0, 0.0, 0.0});
  float* const x = cells.data();
  const OpCallPlan square = flat_call(OpKind::SumSquares, {1}, DType::F32, DType::F32);
  CudaDevice device(0, false, [](DType type) { return type; });
  const auto run = [&](float* from, float* to) {
    device.run_op(square, std::vector<void*>{from}, std::vector<void*>{to}, {});
  };
  run(x, x + 1);      // 9
  run(x + 1, x);      // 81
  run(x, x + 2);      // 6561
  run(x + 1, x + 1);  // 81
  device.finish();
  EXPECT_EQ(cells.values(), (Values{81, 81, 6561}));
}

// Another learning rate, another step, and a weight for the second time: what came before is done before.
TYPED_TEST(UpdatesTogether, UpdatesThatDifferAreDoneInTheirOrder) {
  Updates updates{OpKind::AdamUpdate, {.learning_rate = 0.125, .max_norm = 0.5}, {5, 300, 17, 64}};
  Tensors<TypeParam> one(updates), together(updates);
  for (auto* tensors : {&one, &together}) {
    CudaDevice device(0, false, [](DType type) { return type; });
    tensors->calls[2].attributes.learning_rate = 0.5;
    for (const auto& [tensor, step] : {std::pair{0, 3}, {1, 3}, {2, 3}, {3, 3}, {3, 3}, {1, 4}, {0, 5}}) {
      tensors->run(device, static_cast<std::size_t>(tensor), step);
      if (tensors == &one) device.finish();
    }
    device.finish();
  }
  EXPECT_EQ(together.values(), one.values());
}

// Whatever is asked for later finds them done.
TEST(UpdatesTogether_, WhatIsAskedForLaterFindsUpdatesDone) {
  const Updates updates{OpKind::SgdUpdate, {.learning_rate = 1.0, .max_norm = 100.0}, {3, 5}};
  const auto weight_after = [&](auto&& ask) {
    Tensors<float> tensors(updates);
    CudaDevice device(0, false, [](DType type) { return type; });
    tensors.run(device, 0);
    tensors.run(device, 1);
    ask(device, tensors);
    synchronize(device.stream());
    return tensors.weights[1].values();
  };
  Tensors<float> expected(updates);
  const Values weight = expected.weights[1].values(), gradient = expected.gradients[1].values();
  Values updated;
  for (std::size_t i = 0; i < 5; ++i)
    updated.push_back(static_cast<double>(static_cast<float>(weight[i] - gradient[i])));
  EXPECT_EQ(weight_after([](CudaDevice&, Tensors<float>&) {}), updated);
  Values read;
  (void)weight_after([&](CudaDevice& device, Tensors<float>& tensors) {
    std::vector<float> copied(5);
    device.read(copied.data(), tensors.weights[1].data(), 5 * sizeof(float));
    read.assign(copied.begin(), copied.end());
  });
  EXPECT_EQ(read, updated);
  EXPECT_EQ(weight_after([](CudaDevice& device, Tensors<float>& tensors) {
              device.clear(tensors.weights[1].data(), 2 * sizeof(float));
            }),
            (Values{0, 0, updated[2], updated[3], updated[4]}));
  auto copied = DeviceArray<float>::of_size(5);
  (void)weight_after([&](CudaDevice& device, Tensors<float>& tensors) {
    device.copy(copied.data(), tensors.weights[1].data(), 5 * sizeof(float));
  });
  EXPECT_EQ(copied.values(), updated);
}

}  // namespace
}  // namespace meshwright::kernels::cuda::updates_together_test
