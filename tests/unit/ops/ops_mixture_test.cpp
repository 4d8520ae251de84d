// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: who gets which slot, what goes there and back, derivatives with the slots held, and every way to
// split the ops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/op_fixture.h"

namespace meshwright::ops_mixture_test {
namespace {

using Dims = std::vector<Dim>;

constexpr std::int64_t kBatch = 4, kSeq = 8, kExperts = 4, kEmbed = 8;
const Dims kTokens = {{"batch", kBatch}, {"seq", kSeq}, {"embed", kEmbed}};
const Dims kScores = {{"batch", kBatch}, {"seq", kSeq}, {"expert", kExperts}};

Dims buffer_dims(std::int64_t capacity) {
  return {{"expert", kExperts}, {"batch", kBatch}, {"capacity", capacity}, {"embed", kEmbed}};
}

void expect_contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

std::string splittable_axes(const Graph& graph, const Op& op) {
  std::string text;
  for (const IterationAxis& axis : iteration_space(graph, op).axes)
    if (axis.splittable) text += fmt::format("{}{}", text.empty() ? "" : " ", axis.name);
  return text;
}

// Slots of one batch row and top_k, capacity, as TopKSlots gives them.
Values slots_of(const Values& scores, std::int64_t experts, std::int64_t top_k, std::int64_t capacity) {
  OpCase c;
  const auto seq = static_cast<std::int64_t>(scores.size()) / experts;
  const TensorId x = c.input("scores", {{"batch", 1}, {"seq", seq}, {"expert", experts}});
  c.values[x] = scores;
  c.add(OpKind::TopKSlots, {x}, {.top_k = top_k, .capacity = capacity});
  return computed(c);
}

// Slots that the ops under test can be handed: by TopKSlots from scores that depend on `key`.
Values some_slots(const std::string& key, std::int64_t top_k, std::int64_t capacity) {
  OpCase c;
  c.add(OpKind::TopKSlots, {c.input(key, kScores)}, {.top_k = top_k, .capacity = capacity});
  return computed(c);
}

// --- TopKSlots ---

TEST(TopKSlots, AreClaimedInTheOrderOfTheSequence) {
  // Tokens 0, 1 and 3 want expert 0, token 2 wants expert 1.
  EXPECT_EQ(slots_of({9, 1, /**/ 8, 2, /**/ 3, 7, /**/ 6, 4}, 2, 1, 4), (Values{0, -1, 1, -1, -1, 0, 2, -1}));
}

TEST(TopKSlots, AreLostWhenTheExpertIsFull) {
  EXPECT_EQ(slots_of({9, 1, /**/ 8, 2, /**/ 3, 7, /**/ 6, 4}, 2, 1, 2), (Values{0, -1, 1, -1, -1, 0, -1, -1}));
}

// Token 0 wants 0 then 1, token 1 wants 1 then 0: by tokens token 0 would have slot 0 of both.
TEST(TopKSlots, GoToAllFirstChoicesBeforeAnySecond) {
  EXPECT_EQ(slots_of({9, 1, /**/ 1, 9}, 2, 2, 2), (Values{0, 1, 1, 0}));
  EXPECT_EQ(slots_of({9, 1, /**/ 1, 9}, 2, 2, 1), (Values{0, -1, -1, 0}));
}

TEST(TopKSlots, PreferTheLowerExpertOfEquals) {
  // Choices 0 then 1, and 1 then 2: expert 1 is token 1's first choice.
  EXPECT_EQ(slots_of({5, 5, 5, /**/ 1, 5, 5}, 3, 2, 2), (Values{0, 1, -1, -1, 0, 0}));
}

// Plain loops, choice by choice: among the experts not yet chosen the first of the highest score.
Values reference_slots(const Values& scores, std::int64_t top_k, std::int64_t capacity) {
  Values slots(scores.size(), -1);
  for (std::int64_t b = 0; b < kBatch; ++b) {
    std::vector<std::int64_t> count(kExperts, 0);
    std::vector<std::set<std::int64_t>> chosen(kSeq);
    for (std::int64_t k = 0; k < top_k; ++k)
      for (std::int64_t s = 0; s < kSeq; ++s) {
        const auto score = [&](std::int64_t e) {
          return scores[static_cast<std::size_t>((b * kSeq + s) * kExperts + e)];
        };
        std::int64_t best = 0;
        while (chosen[static_cast<std::size_t>(s)].count(best) > 0) ++best;
        for (std::int64_t e = 0; e < kExperts; ++e)
          if (chosen[static_cast<std::size_t>(s)].count(e) == 0 && score(e) > score(best)) best = e;
        chosen[static_cast<std::size_t>(s)].insert(best);
        if (count[static_cast<std::size_t>(best)] == capacity) continue;
        slots[static_cast<std::size_t>((b * kSeq + s) * kExperts + best)] =
            static_cast<double>(count[static_cast<std::size_t>(best)]++);
      }
  }
  return slots;
}

TEST(TopKSlots, AgreeWithPlainLoopsAndAreDistinctPerExpert) {
  for (const std::int64_t top_k : {1, 2, 4})
    for (const std::int64_t capacity : {1, 3, 8}) {
      OpCase c;
      const TensorId scores = c.input("scores", kScores);
      for (double& score : c.values[scores]) score = std::round(2 * score);  // with ties
      c.add(OpKind::TopKSlots, {scores}, {.top_k = top_k, .capacity = capacity});
      const Values slots = computed(c);
      EXPECT_EQ(slots, reference_slots(c.values[scores], top_k, capacity));
      for (std::int64_t row = 0; row < kBatch * kExperts; ++row) {
        std::set<double> taken;
        for (std::int64_t s = 0; s < kSeq; ++s) {
          const double slot = slots[static_cast<std::size_t>((row / kExperts * kSeq + s) * kExperts + row % kExperts)];
          if (slot < 0) continue;
          EXPECT_TRUE(slot < static_cast<double>(capacity) && taken.insert(slot).second) << slot;
        }
      }
    }
}

// --- there and back ---

// sum over experts of weights * y, and its inverse direction, by plain loops over everything.
struct Plain {
  std::int64_t capacity;
  Values slots;
  std::size_t token(std::int64_t b, std::int64_t s, std::int64_t m) const {
    return static_cast<std::size_t>((b * kSeq + s) * kEmbed + m);
  }
  std::size_t gate(std::int64_t b, std::int64_t s, std::int64_t e) const {
    return static_cast<std::size_t>((b * kSeq + s) * kExperts + e);
  }
  std::size_t place(std::int64_t e, std::int64_t b, std::int64_t slot, std::int64_t m) const {
    return static_cast<std::size_t>(((e * kBatch + b) * capacity + slot) * kEmbed + m);
  }
  // visit(token, gate, place) for every taken slot and element.
  template <class Visit>
  void each(Visit visit) const {
    for (std::int64_t b = 0; b < kBatch; ++b)
      for (std::int64_t s = 0; s < kSeq; ++s)
        for (std::int64_t e = 0; e < kExperts; ++e)
          for (std::int64_t m = 0; m < kEmbed; ++m)
            if (const double slot = slots[gate(b, s, e)]; slot >= 0)
              visit(token(b, s, m), gate(b, s, e), place(e, b, static_cast<std::int64_t>(slot), m));
  }
};

// Results of the six ops that move tokens, in `precision`, against plain loops in double.
void expect_plain_loops(DType precision, double tolerance) {
  const Plain plain{3, some_slots("plain", 2, 3)};
  OpCase c;
  const TensorId slots = c.integers("slots", kScores, plain.slots);
  const TensorId x = c.input("x", kTokens), w = c.input("w", kScores), y = c.input("y", buffer_dims(3));
  const TensorId dispatched = c.add(OpKind::Dispatch, {x, slots}, {.capacity = 3});
  const TensorId combined = c.add(OpKind::Combine, {y, slots, w});
  const TensorId dx = c.add(OpKind::DispatchBackward, {slots, y});
  const TensorId dy = c.add(OpKind::CombineBackward, {slots, w, x}, {.result_dims = buffer_dims(3)});
  const TensorId dw = c.add(OpKind::CombineWeightsBackward, {y, slots, x});
  Values at_x = c.values[x], at_w = c.values[w], at_y = c.values[y];
  std::map<TensorId, Values> expected;
  for (const TensorId id : {dispatched, combined, dx, dy, dw})
    expected[id].resize(static_cast<std::size_t>(c.graph.tensor(id).elements()));
  plain.each([&](std::size_t token, std::size_t gate, std::size_t place) {
    expected[dispatched][place] += at_x[token];
    expected[combined][token] += at_w[gate] * at_y[place];
    expected[dx][token] += at_y[place];
    expected[dy][place] += at_w[gate] * at_x[token];
    expected[dw][gate] += at_y[place] * at_x[token];
  });
  for (const auto& [id, values] : expected) {
    const Values found = computed(c, id, precision);
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(found[i], values[i], tolerance) << c.graph.tensor(id).name << "[" << i << "]";
  }
}

TEST(Mixture, AgreesWithPlainLoops) {
  expect_plain_loops(DType::F64, 1e-14);
  expect_plain_loops(DType::F32, 2e-6);  // sums of 8 products of numbers below 1 that were rounded to 2^-24
}

TEST(Mixture, BringsEveryTokenBackWhenThereIsRoom) {
  OpCase c;
  const TensorId x = c.input("x", kTokens), scores = c.input("scores", kScores, 0.0, 1.0);
  const TensorId slots = c.add(OpKind::TopKSlots, {scores}, {.top_k = 1, .capacity = kSeq});
  const TensorId weights = c.add(OpKind::GateWeights, {scores, slots}, {.normalize = true});
  const TensorId buffer = c.add(OpKind::Dispatch, {x, slots}, {.capacity = kSeq});
  c.add(OpKind::Combine, {buffer, slots, weights});
  EXPECT_EQ(c.graph.tensor(buffer).dims, buffer_dims(kSeq));
  EXPECT_EQ(c.graph.tensor(c.result()).dims, kTokens);
  EXPECT_EQ(computed(c), c.values[x]);
}

// Of top 2 with room, weights that sum to 1 bring back the token too; one slot per expert loses most of it.
TEST(Mixture, LosesWhatFindsNoSlot) {
  const auto lost = [](std::int64_t capacity) {
    OpCase c;
    const TensorId x = c.input("x", kTokens), scores = c.input("scores", kScores, 0.0, 1.0);
    const TensorId slots = c.add(OpKind::TopKSlots, {scores}, {.top_k = 2, .capacity = capacity});
    const TensorId weights = c.add(OpKind::GateWeights, {scores, slots}, {.normalize = true});
    const TensorId buffer = c.add(OpKind::Dispatch, {x, slots}, {.capacity = capacity});
    c.add(OpKind::Combine, {buffer, slots, weights});
    const Values back = computed(c);
    int tokens = 0;
    for (std::size_t i = 0; i < back.size(); i += kEmbed) {
      tokens += back[i] == 0.0 ? 1 : 0;
      EXPECT_TRUE(back[i] == 0.0 || std::abs(back[i] - c.values[x][i]) < 1e-15) << i;
    }
    return tokens;
  };
  EXPECT_EQ(lost(kSeq), 0);
  EXPECT_GE(lost(1), kBatch * (kSeq - kExperts));
}

TEST(Dispatch, LeavesOutSlotsBeyondItsCapacity) {
  OpCase c;
  const TensorId x = c.input("x", {{"batch", 1}, {"seq", 2}, {"embed", 1}});
  const TensorId slots = c.integers("slots", {{"batch", 1}, {"seq", 2}, {"expert", 1}}, Values{5, 1});
  c.values[x] = {3, 4};
  c.add(OpKind::Dispatch, {x, slots}, {.capacity = 2});
  EXPECT_EQ(computed(c), (Values{0, 4}));
}

// --- gate weights ---

TEST(GateWeights, AreTheScoresOfTakenSlots) {
  OpCase c;
  const Dims dims = {{"batch", 1}, {"seq", 2}, {"expert", 3}};
  const TensorId scores = c.input("scores", dims);
  c.values[scores] = {1, 3, 4, 5, 6, 7};
  const TensorId slots = c.integers("slots", dims, Values{0, 2, -1, -1, -1, -1});
  const TensorId plain = c.add(OpKind::GateWeights, {scores, slots});
  const TensorId normal = c.add(OpKind::GateWeights, {scores, slots}, {.normalize = true});
  EXPECT_EQ(computed(c, plain), (Values{1, 3, 0, 0, 0, 0}));
  EXPECT_EQ(computed(c, normal), (Values{0.25, 0.75, 0, 0, 0, 0}));
}

// --- one-hot slots ---

TEST(OneHotSlots, AreOneWhereASlotIsTaken) {
  OpCase c;
  const Dims dims = {{"batch", 1}, {"seq", 2}, {"expert", 3}};
  c.add(OpKind::OneHotSlots, {c.integers("slots", dims, Values{1, -1, 0, /**/ 2, 0, -1})},
        {.dtype = DType::F64, .capacity = 2});
  EXPECT_EQ(c.graph.tensor(c.result()).dims, (Dims{{"batch", 1}, {"seq", 2}, {"capacity", 2}, {"expert", 3}}));
  // Token 0 has slot 0 of expert 2 and slot 1 of expert 0; token 1 slot 0 of expert 1, and slot 2 is beyond.
  EXPECT_EQ(computed(c), (Values{0, 0, 1, 1, 0, 0, /**/ 0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(computed(c, c.result(), DType::F32), computed(c));
}

// A mask times the tokens is their dispatch, and with the weights in it their combination.
OpCase by_masks() {
  OpCase c;
  const TensorId slots = c.integers("slots", kScores, some_slots("masks", 2, 4));
  const TensorId x = c.parameter("x", kTokens), weights = c.parameter("weights", kScores, 0.1, 1.0);
  const TensorId mask = c.add(OpKind::OneHotSlots, {slots}, {.dtype = DType::F64, .capacity = 4}, "mask");
  const TensorId sent = c.add(OpKind::Contract, {x, mask}, {.result_names = {"expert", "batch", "capacity", "embed"}});
  const TensorId weighed =
      c.add(OpKind::Contract, {weights, mask}, {.result_names = {"batch", "seq", "capacity", "expert"}});
  c.add(OpKind::Contract, {weighed, sent}, {.result_names = {"batch", "seq", "embed"}});
  return c;
}

TEST(OneHotSlots, MakeContractionsOfDispatchAndCombine) {
  OpCase c = by_masks();
  const auto id = [&](const std::string& name) {
    return std::find_if(c.graph.tensors().begin(), c.graph.tensors().end(),
                        [&](const Tensor& tensor) { return tensor.name == name; })
        ->id;
  };
  const Values contracted = computed(c);
  const TensorId sent = c.add(OpKind::Dispatch, {id("x"), id("slots")}, {.capacity = 4});
  c.add(OpKind::Combine, {sent, id("slots"), id("weights")});
  const Values moved = computed(c);
  for (std::size_t i = 0; i < moved.size(); ++i) EXPECT_NEAR(contracted[i], moved[i], 1e-14) << i;
  expect_true_vjp(by_masks());
}

TEST(OneHotSlots, ShardByShardAreTheWhole) {
  OpCase c;
  c.add(OpKind::OneHotSlots, {c.integers("slots", kScores, some_slots("masks", 2, 4))},
        {.dtype = DType::F64, .capacity = 4});
  EXPECT_EQ(splittable_axes(c.graph, c.graph.ops()[0]), "batch seq expert capacity");
  EXPECT_EQ(expect_sharded_equals_whole(c), 4 + 4 + (8 + 16));
}

// --- derivatives and splits ---

// Scores to weights to the combined tokens, which have been through a product per expert; the slots are given.
OpCase routed(bool normalize) {
  OpCase c;
  const TensorId slots = c.integers("slots", kScores, some_slots("routed", 2, 3));
  const TensorId x = c.parameter("x", kTokens), scores = c.parameter("scores", kScores, 0.1, 1.0);
  const TensorId w = c.parameter("w", {{"expert", kExperts}, {"embed", kEmbed}, {"out", 4}});
  const TensorId weights = c.add(OpKind::GateWeights, {scores, slots}, {.normalize = normalize});
  const TensorId buffer = c.add(OpKind::Dispatch, {x, slots}, {.capacity = 3});
  const TensorId y = c.add(OpKind::Contract, {buffer, w}, {.result_names = {"expert", "batch", "capacity", "out"}});
  c.add(OpKind::Combine, {y, slots, weights});
  return c;
}

TEST(Mixture, HasItsDerivative) {
  for (const bool normalize : {false, true}) expect_true_vjp(routed(normalize));
}

TEST(Mixture, ShardByShardIsTheWhole) {
  for (const bool normalize : {false, true}) expect_sharded_equals_whole(routed(normalize));
  OpCase c;
  c.add(OpKind::TopKSlots, {c.input("scores", kScores)}, {.top_k = 2, .capacity = 3});
  EXPECT_EQ(expect_sharded_equals_whole(c), 1 + 1 + 3);  // batch over 2, over 4, over either of 2 x 2 and both
}

// Slots are integers: nothing flows back through them, also where they depend on parameters.
TEST(TopKSlots, PassNoGradient) {
  OpCase c;
  const TensorId scores = c.parameter("scores", kScores), x = c.parameter("x", kTokens);
  const TensorId slots = c.add(OpKind::TopKSlots, {scores}, {.top_k = 2, .capacity = 3});
  c.add(OpKind::Dispatch, {x, slots}, {.capacity = 3});
  const OpCase whole = op_bench::with_backward(c);
  for (const Tensor& tensor : whole.graph.tensors()) EXPECT_NE(tensor.parameter, scores) << tensor.name;
}

TEST(Mixture, IsSplitAsTheSlotsAllow) {
  const OpCase forward = routed(true), c = op_bench::with_backward(forward);
  std::map<std::string, std::string> axes;
  for (const Op& op : c.graph.ops()) axes[name_of(op.kind)] = splittable_axes(c.graph, op);
  EXPECT_EQ(axes["gate_weights"], "batch seq");
  EXPECT_EQ(axes["gate_weights_backward"], "batch seq");
  EXPECT_EQ(axes["dispatch"], "batch seq embed expert");
  EXPECT_EQ(axes["dispatch_backward"], "batch seq expert embed");
  EXPECT_EQ(axes["combine"], "expert batch out seq");
  EXPECT_EQ(axes["combine_backward"], "batch seq expert out");
  EXPECT_EQ(axes["combine_weights_backward"], "expert batch out seq");
}

TEST(Mixture, CountsTheFlopsOfItsProductsOnly) {
  const OpCase c = routed(true);
  EXPECT_EQ(graph_flops(c.graph), Flops(2.0 * kExperts * kBatch * 3 * kEmbed * 4));
}

// --- refusals ---

std::string refused(OpKind kind, const std::vector<Dims>& operands, std::size_t integers,
                    const Attributes& attributes) {
  OpCase c;
  std::vector<TensorId> inputs;
  for (std::size_t i = 0; i < operands.size(); ++i)
    inputs.push_back(i == integers ? c.integers("slots", operands[i], 0, 2)
                                   : c.parameter(fmt::format("operand{}", i), operands[i]));
  return refusal([&] { c.add(kind, inputs, attributes); });
}

TEST(Mixture, NamesTheOpAndItsDimensionsWhenItRefuses) {
  const Dims two = {{"batch", kBatch}, {"seq", kSeq}}, other = {{"batch", kBatch}, {"seq", 7}, {"expert", kExperts}};
  const std::size_t none = 9;
  const std::string scores = to_text(kScores);
  for (const auto& [top_k, capacity] : {std::pair{0, 1}, {5, 1}, {1, 0}})
    expect_contains(refused(OpKind::TopKSlots, {kScores}, none, {.top_k = top_k, .capacity = capacity}),
                    {"'top_k_slots0' (top_k_slots)", fmt::format("top_k = {}", top_k), scores});
  expect_contains(refused(OpKind::TopKSlots, {two}, none, {.top_k = 1, .capacity = 1}), {"three dimensions", "seq=8)"});
  expect_contains(refused(OpKind::TopKSlots, {kScores}, 0, {.top_k = 1, .capacity = 1}), {"floating-point", scores});
  expect_contains(refused(OpKind::GateWeights, {kScores, kScores}, none, {}), {"(gate_weights)", "i32", scores});
  expect_contains(refused(OpKind::GateWeights, {other, kScores}, 1, {}), {"same dimensions", "seq=7", scores});
  expect_contains(refused(OpKind::GateWeightsBackward, {kScores, kScores, other}, 1, {}),
                  {"(gate_weights_backward)", "slots and dy", "seq=7"});
  expect_contains(refused(OpKind::Dispatch, {kTokens, two}, 1, {.capacity = 2}), {"(dispatch)", "three dimensions"});
  expect_contains(refused(OpKind::Dispatch, {kTokens, other}, 1, {.capacity = 2}), {"x must have the batch", "seq=7"});
  expect_contains(refused(OpKind::Dispatch, {kScores, kScores}, 1, {.capacity = 2}), {"x must have the batch", scores});
  expect_contains(refused(OpKind::Dispatch, {kTokens, kScores}, 1, {}), {"capacity = 0", scores});
  expect_contains(refused(OpKind::OneHotSlots, {kScores}, none, {.capacity = 2}), {"(one_hot_slots)", "i32", scores});
  expect_contains(refused(OpKind::OneHotSlots, {kScores}, 0, {}), {"capacity = 0", scores});
  expect_contains(refused(OpKind::OneHotSlots, {kScores}, 0, {.dtype = DType::I32, .capacity = 2}), {"dtype", scores});
  const Dims full = {kTokens[0], kTokens[1], {"capacity", 3}};
  expect_contains(refused(OpKind::Dispatch, {full, kScores}, 1, {.capacity = 2}), {"named 'capacity'", "capacity=3"});
}

TEST(Mixture, RefusesBuffersOfOtherExpertsOrTokens) {
  const Dims buffer = buffer_dims(3);
  const std::vector<Dims> wrong = {{buffer[1], buffer[0], buffer[2], buffer[3]},
                                   {buffer[0], buffer[1], buffer[3]},
                                   {{"expert", 5}, buffer[1], buffer[2], buffer[3]},
                                   {buffer[0], buffer[1], {"seq", kSeq}, buffer[3]}};
  for (const Dims& one : wrong) {
    expect_contains(refused(OpKind::DispatchBackward, {kScores, one}, 0, {}), {"dy must have the", to_text(one)});
    expect_contains(refused(OpKind::Combine, {one, kScores, kScores}, 1, {}), {"y must have the", to_text(one)});
    expect_contains(refused(OpKind::CombineWeightsBackward, {one, kScores, kTokens}, 1, {}),
                    {"(combine_weights_backward)", "y must have the", to_text(one)});
    expect_contains(refused(OpKind::CombineBackward, {kScores, kScores, kTokens}, 0, {.result_dims = one}),
                    {"(combine_backward)", "its result " + to_text(one)});
  }
  const Dims short_tokens = {kTokens[0], kTokens[1], {"embed", 7}};
  expect_contains(refused(OpKind::CombineWeightsBackward, {buffer, kScores, short_tokens}, 1, {}),
                  {"same last dimension", "embed=7"});
  expect_contains(refused(OpKind::CombineBackward, {kScores, kScores, short_tokens}, 0, {.result_dims = buffer}),
                  {"last dimension of dout", "embed=7"});
  expect_contains(refused(OpKind::Combine, {buffer, kScores, kTokens}, 1, {}), {"slots and weights", to_text(kTokens)});
}

}  // namespace
}  // namespace meshwright::ops_mixture_test
