// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts on the device against the processor's in double.
#include "kernels/cuda/tokens/mixture.h"

#include <limits>

#include "kernels/cpu/tokens/mixture.h"
#include "tests/cuda/typed_ops.h"

namespace meshwright::kernels::cuda::mixture_test {
namespace {

template <class Number>
class CudaMixture : public testing::Test {};
using Numbers = testing::Types<float, double, Bf16, F16>;
TYPED_TEST_SUITE(CudaMixture, Numbers);

kernels::MixtureShape on_cpu_shape(MixtureShape shape) {
  return {shape.batch, shape.seq, shape.experts, shape.capacity, shape.embed};
}

std::vector<std::int32_t> slots_of(const Values& scores, MixtureShape shape, std::int64_t top_k) {
  std::vector<std::int32_t> slots(scores.size());
  kernels::top_k_slots(scores.data(), slots.data(), on_cpu_shape(shape), top_k);
  return slots;
}
Values values_of(const std::vector<std::int32_t>& integers) { return {integers.begin(), integers.end()}; }

struct Case {
  MixtureShape shape;
  std::int64_t top_k;
};
// Experts of a part of a warp and of several; widths of single elements, of packs, and of several turns of a warp; more
// choices than a block has threads.
const std::vector<Case> kCases = {{{1, 1, 1, 1, 1}, 1},    {{2, 13, 5, 4, 7}, 2},   {{1, 20, 33, 6, 8}, 3},
                                  {{1, 4, 70, 2, 264}, 4}, {{2, 3, 4, 3, 1032}, 4}, {{1, 5, 3, 2, 1025}, 1},
                                  {{1, 130, 2, 100, 3}, 2}};

template <class T>
void expect_slots(const Values& scores, MixtureShape shape, std::int64_t top_k) {
  const DeviceArray<T> on_scores(scores);
  auto slots = DeviceArray<std::int32_t>::of_size(shape.batch * shape.seq * shape.experts);
  auto workspace = DeviceArray<std::int32_t>::of_size(shape.batch * shape.seq * top_k);
  top_k_slots(kNoStream, on_scores.data(), slots.data(), shape, top_k, workspace.data());
  EXPECT_EQ(slots.raw(), slots_of(scores, shape, top_k)) << shape.experts << " experts";
}

TYPED_TEST(CudaMixture, TokensTakeTheProcessorsSlots) {
  for (const auto& [shape, top_k] : kCases) {
    const std::int64_t count = shape.batch * shape.seq * shape.experts;
    expect_slots<TypeParam>(numbers<TypeParam>(count, 1), shape, top_k);
    expect_slots<TypeParam>(whole_numbers(count, 2, 0, 3), shape, top_k);  // of equal scores the first
    expect_slots<TypeParam>(same(count, 0.0), shape, top_k);               // all to the same
  }
  // More experts than a lane keeps in mind, of which the last are chosen.
  Values rising;
  for (std::int64_t i = 0; i < 3 * 2200; ++i) rising.push_back(static_cast<double>(i % 2200 / 50));
  expect_slots<TypeParam>(rising, {1, 3, 2200, 2, 1}, 5);
}

TYPED_TEST(CudaMixture, ScoresThatAreNoNumbersChooseAsOnTheProcessor) {
  const double none = std::nan(""), maximum = std::numeric_limits<double>::infinity();
  const Values row[] = {{none, 1, 2, maximum},       {1, none, 2, 0},
                        {none, none, none, none},    {-maximum, none, -maximum, none},
                        {maximum, none, maximum, 3}, {2, none, none, 1}};
  Values scores;
  for (const Values& one : row) scores.insert(scores.end(), one.begin(), one.end());
  for (const std::int64_t top_k : {1, 2, 3, 4}) expect_slots<TypeParam>(scores, {1, 6, 4, 4, 1}, top_k);
}

TYPED_TEST(CudaMixture, WeightsAreTheScoresOfTakenSlots) {
  using W = Wide<TypeParam>;
  for (const auto& [shape, top_k] : kCases) {
    const std::int64_t rows = shape.batch * shape.seq, experts = shape.experts, count = rows * experts;
    const Values scores = numbers<TypeParam>(count, 3, 0.25, 1.0), dy = numbers<TypeParam>(count, 4);
    const std::vector<std::int32_t> slots = slots_of(scores, shape, top_k);
    const DeviceArray<TypeParam> on_scores(scores), on_dy(dy);
    const DeviceArray<std::int32_t> on_slots(values_of(slots));
    auto out = DeviceArray<TypeParam>::of_size(count);
    for (const bool normalize : {false, true}) {
      Values expected = same(count, 7.0);
      const double rounding = (4.0 + static_cast<double>(top_k)) * kHalfPlace<W>;
      gate_weights(kNoStream, on_scores.data(), on_slots.data(), out.data(), {rows, experts, normalize});
      kernels::gate_weights(scores.data(), slots.data(), expected.data(), {rows, experts, normalize});
      expect_rounded<TypeParam>(out.values(), expected, rounding);
      gate_weights_backward(kNoStream, on_scores.data(), on_slots.data(), on_dy.data(), out.data(),
                            {rows, experts, normalize});
      kernels::gate_weights_backward(scores.data(), slots.data(), dy.data(), expected.data(),
                                     {rows, experts, normalize});
      // Of differences of numbers up to 2 divided by at least 1/4.
      expect_rounded<TypeParam>(out.values(), expected, 4 * rounding, same(count, 16.0));
    }
  }
}

TYPED_TEST(CudaMixture, TokensGoToTheirSlotsAndBack) {
  using W = Wide<TypeParam>;
  for (const auto& [shape, top_k] : kCases) {
    const std::int64_t pairs = shape.batch * shape.seq * shape.experts, tokens = shape.batch * shape.seq * shape.embed;
    const std::int64_t buffer = shape.experts * shape.batch * shape.capacity * shape.embed;
    MixtureShape roomy = shape;
    roomy.capacity += 2;  // what is beyond the capacity has no slot
    const std::vector<std::int32_t> slots = slots_of(numbers<TypeParam>(pairs, 5), roomy, top_k);
    const Values x = numbers<TypeParam>(tokens, 6), y = numbers<TypeParam>(buffer, 7),
                 weights = numbers<TypeParam>(pairs, 8);
    const DeviceArray<TypeParam> on_x(x), on_y(y), on_weights(weights);
    const DeviceArray<std::int32_t> on_slots(values_of(slots));
    const kernels::MixtureShape same_shape = on_cpu_shape(shape);
    auto workspace = DeviceArray<std::int32_t>::of_size(shape.experts * shape.batch * shape.capacity);
    const double rounding = (2.0 + static_cast<double>(top_k)) * kHalfPlace<W>;
    const Values room = same(tokens, 4.0 * static_cast<double>(top_k));
    for (const bool weighted : {false, true}) {
      const TypeParam* given = weighted ? on_weights.data() : nullptr;
      const double* known = weighted ? weights.data() : nullptr;
      DeviceArray<TypeParam> to_buffer(same(buffer, 7.0)), to_tokens(same(tokens, 7.0));
      Values expected = same(buffer, 7.0);
      scatter_tokens(kNoStream, on_x.data(), on_slots.data(), given, to_buffer.data(), shape, workspace.data());
      kernels::scatter_tokens(x.data(), slots.data(), known, expected.data(), same_shape);
      if (weighted)
        expect_rounded<TypeParam>(to_buffer.values(), expected, rounding);
      else
        EXPECT_EQ(to_buffer.values(), expected);
      expected = same(tokens, 7.0);
      gather_tokens(kNoStream, on_y.data(), on_slots.data(), given, to_tokens.data(), shape);
      kernels::gather_tokens(y.data(), slots.data(), known, expected.data(), same_shape);
      expect_rounded<TypeParam>(to_tokens.values(), expected, rounding, room);
    }
    DeviceArray<TypeParam> dweights(same(pairs, 7.0));
    Values expected = same(pairs, 7.0);
    gather_weights_backward(kNoStream, on_y.data(), on_slots.data(), on_x.data(), dweights.data(), shape);
    kernels::gather_weights_backward(y.data(), slots.data(), x.data(), expected.data(), same_shape);
    const double terms = static_cast<double>(shape.embed);
    expect_rounded<TypeParam>(dweights.values(), expected, (8 + terms / 32) * kHalfPlace<W>, same(pairs, 4.0 * terms));
  }
}

TYPED_TEST(CudaMixture, MasksHaveAOneForEachSlot) {
  for (const auto& [shape, top_k] : kCases) {
    const std::int64_t rows = shape.batch * shape.seq, experts = shape.experts;
    MixtureShape roomy = shape;
    roomy.capacity += 3;
    const std::vector<std::int32_t> slots = slots_of(numbers<TypeParam>(rows * experts, 9), roomy, top_k);
    const DeviceArray<std::int32_t> on_slots(values_of(slots));
    for (const std::int64_t first : {0, 2}) {
      const std::int64_t capacity = shape.capacity < 100 ? shape.capacity : 100, count = rows * capacity * experts;
      DeviceArray<TypeParam> mask(same(count, 7.0));
      Values expected = same(count, 7.0);
      one_hot_slots(kNoStream, on_slots.data(), mask.data(), {rows, capacity, experts, first});
      kernels::one_hot_slots(slots.data(), expected.data(), {rows, capacity, experts, first});
      EXPECT_EQ(mask.values(), expected);
    }
  }
}

// --- ops, of the second half of the sequence, or of the capacity where that is split ---

const Dim kBatch{"batch", 2}, kSeq{"seq", 12}, kExpert{"expert", 3}, kCapacity{"capacity", 4}, kEmbed{"embed", 8};
const OpOperand kScores{DType::BF16, {kBatch, kSeq, kExpert}}, kSlots{DType::I32, {kBatch, kSeq, kExpert}},
    kTokens{DType::BF16, {kBatch, kSeq, kEmbed}}, kBuffer{DType::BF16, {kExpert, kBatch, kCapacity, kEmbed}};

void expect_op(OpKind kind, const Attributes& attributes, const std::vector<OpOperand>& operands,
               const std::vector<Values>& values, const std::string& split, double room) {
  const OpResults results = run_typed(cuda_mixture_kernel(kind), kind, attributes, operands, values, split, 2, 1);
  for (std::size_t i = 0; i < results.expected[0].size(); ++i)
    EXPECT_NEAR(results.found[0][i], results.expected[0][i], room + kHalfPlace<Bf16> * std::abs(results.expected[0][i]))
        << name_of(kind) << ", element " << i;
}

TEST(CudaMixtureOps, AreTheProcessorsOnAShard) {
  const Values scores = numbers<Bf16>(2 * 6 * 3, 1, 0.25, 1.0), gradient = numbers<Bf16>(2 * 6 * 3, 2);
  const Values slots = values_of(slots_of(scores, {2, 6, 3, 4, 8}, 2));
  const Values x = numbers<Bf16>(2 * 6 * 8, 3), y = numbers<Bf16>(3 * 2 * 4 * 8, 4);
  expect_op(OpKind::TopKSlots, {.top_k = 2, .capacity = 3}, {kScores}, {numbers<Bf16>(12 * 3, 5)}, "batch", 0.0);
  for (const bool normalize : {false, true}) {
    expect_op(OpKind::GateWeights, {.normalize = normalize}, {kScores, kSlots}, {scores, slots}, "seq", 1e-6);
    expect_op(OpKind::GateWeightsBackward, {.normalize = normalize}, {kScores, kSlots, kScores},
              {scores, slots, gradient}, "seq", 1e-5);
  }
  expect_op(OpKind::Dispatch, {.capacity = 4}, {kTokens, kSlots}, {x, slots}, "seq", 0.0);
  expect_op(OpKind::DispatchBackward, {}, {kSlots, kBuffer}, {slots, y}, "seq", 1e-6);
  expect_op(OpKind::Combine, {}, {kBuffer, kSlots, kScores}, {y, slots, scores}, "seq", 1e-6);
  expect_op(OpKind::CombineBackward, {.result_dims = kBuffer.dims}, {kSlots, kScores, kTokens}, {slots, scores, x},
            "seq", 1e-6);
  expect_op(OpKind::CombineWeightsBackward, {}, {kBuffer, kSlots, kTokens}, {y, slots, x}, "seq", 1e-5);
  expect_op(OpKind::OneHotSlots, {.dtype = DType::BF16, .capacity = 4}, {kSlots},
            {values_of(slots_of(numbers<Bf16>(2 * 12 * 3, 6), {2, 12, 3, 4, 8}, 2))}, "capacity", 0.0);
}

}  // namespace
}  // namespace meshwright::kernels::cuda::mixture_test
