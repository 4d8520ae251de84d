// SPDX-License-Identifier: Apache-2.0
// Explanations of plans against the planner itself: an alternative's price is what planning with it forced costs.
#include "core/planner/intra_op/explain.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/plan/placed_parameters.h"
#include "tests/refusal.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::explain_test {
namespace {

const char* const kGpt = "gpt:layers=1,hidden=32,heads=4,seq=8,vocab=32";
const char* const kLlama = "llama:layers=1,hidden=32,heads=4,kv_heads=2,intermediate=64,seq=8,vocab=32";
const char* const kMixtral =
    "mixtral:layers=1,hidden=16,heads=4,kv_heads=2,intermediate=32,seq=8,vocab=32,experts=4,top_k=2";
const char* const kMlp = "mlp:layers=2,hidden=16";

// Memory does not bind: the models are tiny.
PlanRequest request_of(const char* model, const std::string& method = "shard", int layers = 1) {
  PlanRequest request = ask(model, "cpu:4", method, 16, 2);
  request.training.dtype = DType::F32;
  if (layers > 0) request.search.layers = layers;
  if (method == "shard") request.search.logical_mesh = std::vector{2, 2};
  return request;
}

std::vector<Explanation> explained(const PlanningResult& result, const std::string& tensor = "") {
  const auto costs = make_analytic_cost_model(result.plan->cluster);
  return explain_plan(*result.plan, result.graph, *costs, tensor);
}
std::vector<std::string> compared(const PlanningResult& a, const PlanningResult& b) {
  const auto costs = make_analytic_cost_model(a.plan->cluster);
  return compare_plans(*a.plan, *b.plan, a.graph, *costs);
}

const Alternative* chosen_of(const Explanation& one) {
  const auto is_chosen = [](const Alternative& way) { return way.chosen; };
  EXPECT_EQ(std::count_if(one.alternatives.begin(), one.alternatives.end(), is_chosen), 1) << one.tensor;
  const auto found = std::find_if(one.alternatives.begin(), one.alternatives.end(), is_chosen);
  return found == one.alternatives.end() ? nullptr : &*found;
}

// --- the chosen way ---

TEST(Explain, TheChosenWayTakesTheLeastTimeWhereMemoryDoesNotBind) {
  for (const char* model : {kMlp, kGpt, kLlama, kMixtral})
    for (const int layers : {0, 1, 3}) {
      const PlanningResult result = planned(request_of(model, "shard", layers));
      ASSERT_TRUE(result.plan) << result.reason;
      for (const Explanation& one : explained(result)) {
        const Alternative* chosen = chosen_of(one);
        ASSERT_NE(chosen, nullptr) << one.tensor;
        EXPECT_EQ(chosen->time, one.layer_time) << one.tensor;
        EXPECT_EQ(chosen->bytes, one.layer_bytes) << one.tensor;
        for (const Alternative& way : one.alternatives)
          EXPECT_GE(way.time.si(), chosen->time.si() * (1 - 1e-12)) << one.tensor << " " << way.strategy;
      }
    }
}

TEST(Explain, LayersTogetherTakeWhatThePlanReports) {
  const PlanningResult result = planned(request_of(kGpt, "shard", 2));
  ASSERT_TRUE(result.plan && result.sharding);
  std::map<int, double> layers;
  for (const Explanation& one : explained(result)) layers[one.layer] = one.layer_time.si();
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_NEAR(layers[0] + layers[1], result.sharding->cost.si(), 1e-12 * result.sharding->cost.si());
}

// --- every other way ---

TEST(Explain, AnAlternativeCostsWhatPlanningWithItForcedCosts) {
  for (const auto& [model, tensor] :
       {std::pair{kMlp, "blk0.up"}, std::pair{kMlp, "blk1.down.weight"}, std::pair{kLlama, "blk0.mlp.up"},
        std::pair{kLlama, "blk0.attn.residual"}, std::pair{kGpt, "blk0.attn.out.weight"}}) {
    const PlanningResult free = planned(request_of(model));
    ASSERT_TRUE(free.plan);
    const std::vector<Explanation> found = explained(free, tensor);
    ASSERT_EQ(found.size(), 1u);
    int forced_ways = 0;
    for (const Alternative& way : found[0].alternatives) {
      if (way.spec.partial != 0) continue;  // cannot be forced
      PlanRequest request = request_of(model);
      request.search.forced[tensor] = way.spec;
      const PlanningResult forced = planned(request);
      ASSERT_TRUE(forced.plan && forced.sharding) << tensor << " " << way.strategy << ": " << forced.reason;
      EXPECT_NEAR(forced.sharding->cost.si(), way.time.si(), 1e-12 * way.time.si()) << tensor << " " << way.strategy;
      EXPECT_GE(forced.sharding->cost.si(), free.sharding->cost.si() * (1 - 1e-12)) << tensor << " " << way.strategy;
      ++forced_ways;
    }
    EXPECT_GE(forced_ways, 2) << tensor;
  }
}

TEST(Explain, ListsEachSpecOnceByTime) {
  for (const Explanation& one : explained(planned(request_of(kLlama)))) {
    for (std::size_t i = 0; i + 1 < one.alternatives.size(); ++i)
      EXPECT_LE(one.alternatives[i].time, one.alternatives[i + 1].time) << one.tensor;
    std::vector<ShardingSpec> specs;
    for (const Alternative& way : one.alternatives) specs.push_back(way.spec);
    std::sort(specs.begin(), specs.end());
    EXPECT_EQ(std::adjacent_find(specs.begin(), specs.end()), specs.end()) << one.tensor;
  }
}

// --- which plans and tensors ---

// Stages that cut blocks open, let tensors pass by, and methods with states of their own: everything has its choice.
TEST(Explain, KnowsTheChoicesOfEveryMethod) {
  const char* const t5 = "t5:layers=1,hidden=32,heads=4,intermediate=64,seq=8,vocab=32";
  for (const auto& [model, method, layers] :
       {std::tuple{kMixtral, "megatron:ep=2,pp=2", 4}, std::tuple{kMixtral, "megatron:pp=4", 8},
        std::tuple{t5, "megatron:pp=4", 4}, std::tuple{kGpt, "zero1", 0}, std::tuple{kGpt, "zero2", 2},
        std::tuple{kMlp, "zero3", 3}, std::tuple{kLlama, "megatron:cp=2,pp=2", 4}, std::tuple{kMlp, "pipeshard", 7},
        std::tuple{kMlp, "largest", 0}})
    for (const ScheduleKind schedule : {ScheduleKind::OneFOneB, ScheduleKind::Inference}) {
      PlanRequest request = request_of(model, method, layers);
      request.search.schedule = schedule;
      const PlanningResult result = planned(request);
      ASSERT_TRUE(result.plan) << method << ": " << result.reason;
      std::vector<Explanation> found;
      ASSERT_EQ(refusal([&] { return found = explained(result); }), "not refused") << model << " " << method;
      for (const Explanation& one : found) EXPECT_NE(chosen_of(one), nullptr) << method << " " << one.tensor;
      EXPECT_GE(found.size(), 10u) << method;
    }
}

// What is padded is among the alternatives.
TEST(Explain, KnowsTheChoicesOfPaddedParameters) {
  for (const auto& [cluster, method] :
       {std::pair{"cpu:3", "zero1"}, std::pair{"cpu:3", "zero3"}, std::pair{"cpu:6", "zero3:shard=3"}}) {
    const PlanningResult result = planned(ask(kGpt, cluster, method, 12, 2));
    ASSERT_TRUE(result.plan) << method << ": " << result.reason;
    ASSERT_TRUE(has_padding(*result.plan, result.graph)) << method;
    for (const Explanation& one : explained(result)) EXPECT_NE(chosen_of(one), nullptr) << method << " " << one.tensor;
  }
}

// The embedding's table is the output matrix too.
// Where one elimination would be too large, each alternative is solved by itself, to the same end.
TEST(Explain, FindsTheSameOneByOne) {
  const PlanningResult result = planned(request_of(kMlp));
  const auto costs = make_analytic_cost_model(result.plan->cluster);
  const std::vector<Explanation> together = explained(result);
  const std::vector<Explanation> alone = explain_plan(*result.plan, result.graph, *costs, "", 0.0);
  ASSERT_EQ(together.size(), alone.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(together[i].method, ExplainMethod::MinMarginals);
    EXPECT_EQ(alone[i].method, ExplainMethod::Solves);
    ASSERT_EQ(together[i].alternatives.size(), alone[i].alternatives.size()) << alone[i].tensor;
    for (std::size_t a = 0; a < alone[i].alternatives.size(); ++a) {
      const Alternative &of = alone[i].alternatives[a], &same = together[i].alternatives[a];
      EXPECT_NEAR(of.time.si(), same.time.si(), 1e-9 * same.time.si()) << alone[i].tensor;
      // All are solved to the end.
      EXPECT_EQ(of.bound, of.time) << alone[i].tensor;
    }
  }
}

TEST(Explain, TellsTheReadersOfOneParameterApart) {
  const std::vector<Explanation> found = explained(planned(request_of(kGpt)), "wte");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].reader, "embed");
  EXPECT_NE(found[1].reader, "embed");
}

// Twelve equal blocks are three kinds of layer: the first with the embedding, the inner ones, the last with the loss.
TEST(Explain, WithoutANameTakesOneLayerOfEachKind) {
  std::vector<int> layers;
  for (const Explanation& one : explained(planned(request_of("mlp:layers=12,hidden=16", "shard", 0))))
    if (layers.empty() || layers.back() != one.layer) layers.push_back(one.layer);
  EXPECT_LE(layers.size(), 3u);
  EXPECT_EQ(layers.front(), 0);
}

TEST(Explain, NamesTheNearestTensorsOfAMisspelledOne) {
  const PlanningResult result = planned(request_of(kMlp));
  EXPECT_EQ(refusal([&] { return explained(result, "blk0.ups"); })
                .find("unknown tensor 'blk0.ups'; the nearest "
                      "known are blk0.up"),
            0u);
}

TEST(Explain, SaysWhenAPlanWasChangedByHand) {
  PlanningResult result = planned(request_of(kMlp));
  OpSharding& up = result.plan->stages[0].ops.at("blk0.up");
  up = {{{"mlp", 2}}, spec_from_text("S01R", "test"), 0};  // made as RS1, then moved: never weighed
  const std::string said = refusal([&] { return explained(result, "blk0.up"); });
  EXPECT_NE(said.find("'blk0.up': layer 0 of the plan is split in a way that the planner does not weigh"),
            std::string::npos)
      << said;
}

// --- two plans ---

TEST(Compare, EqualPlansDecideTheSame) {
  const PlanningResult result = planned(request_of(kLlama, "shard", 0));
  EXPECT_EQ(compared(result, result), std::vector<std::string>{});
}

TEST(Compare, NamesWhatWasForced) {
  const PlanningResult free = planned(request_of(kLlama, "shard", 0));
  PlanRequest request = request_of(kLlama, "shard", 0);
  request.search.forced["blk0.mlp.up"] = spec_from_text("RS1R", "test");
  const PlanningResult forced = planned(request);
  const std::vector<std::string> sentences = compared(free, forced);
  ASSERT_GE(sentences.size(), 2u);
  EXPECT_EQ(sentences[0].find("layer 0: "), 0u) << sentences[0];
  EXPECT_TRUE(std::any_of(sentences.begin(), sentences.end(), [](const std::string& text) {
    return text.find("  blk0.mlp.up: ") == 0 && text.find("-> RS1R") != std::string::npos;
  })) << join(sentences, "\n");
}

// Each plan's layer is priced with its own borders, in either order.
TEST(Compare, IsTheSameFromBothSides) {
  const PlanningResult free = planned(request_of(kMlp, "shard", 2));
  PlanRequest request = request_of(kMlp, "shard", 2);
  request.search.batch_axis = 1;
  const PlanningResult other = planned(request);
  const std::vector<std::string> there = compared(free, other), back = compared(other, free);
  ASSERT_EQ(there.size(), back.size());
  EXPECT_GE(there.size(), 4u);
  const std::string against = " against ";
  for (std::size_t i = 0; i < there.size(); ++i) {
    if (there[i].find("layer ") != 0) continue;
    const std::string tail = " per micro-batch";
    const std::size_t colon = there[i].find(": ") + 2, middle = there[i].find(against);
    const std::string first = there[i].substr(colon, middle - colon);
    EXPECT_EQ(back[i].find(against + first + tail), back[i].size() - (against + first + tail).size()) << back[i];
  }
}

TEST(Compare, NamesStagesAndClustersThatDiffer) {
  const PlanningResult two = planned(request_of(kGpt, "megatron:tp=2,pp=2", 2));
  const PlanningResult one = planned(request_of(kGpt, "megatron:tp=4", 2));
  const std::vector<std::string> stages = compared(one, two);
  ASSERT_GE(stages.size(), 2u);
  EXPECT_EQ(stages[0], "1 stages against 2");
  EXPECT_EQ(stages[1], "stage 0: layers 0..1 on 1x4 as 1x4 against 0..0 on 1x2 as 1x2");
  PlanRequest request = request_of(kGpt, "megatron:tp=4", 2);
  request.cluster.name = "another";
  request.cluster.only().within_host.beta = SecondsPerByte(2 * request.cluster.only().within_host.beta.si());
  EXPECT_EQ(compared(one, planned(request)), std::vector<std::string>{"cluster cpu:4 against another"});
}

TEST(Compare, CallsPlansWithStateOnTheHostsTheSameStep) {
  PlanRequest request = request_of(kMlp, "data", 2);
  request.cluster.only().device.host_memory = Bytes(1e9);
  request.cluster.only().device.host_bandwidth = BytesPerSecond(1e9);
  const PlanningResult here = planned(request);
  request.training.offload = Offload::Optimizer;
  EXPECT_EQ(compared(here, planned(request)), std::vector<std::string>{"offload none against optimizer"});
}

TEST(Compare, RefusesPlansOfDifferentSteps) {
  const PlanningResult mlp = planned(request_of(kMlp)), gpt = planned(request_of(kGpt));
  EXPECT_NE(refusal([&] { return compared(mlp, gpt); }).find("different training steps"), std::string::npos);
  PlanRequest request = request_of(kMlp);
  request.training.batch = 32;
  const PlanningResult more = planned(request);
  EXPECT_NE(refusal([&] { return compared(mlp, more); }).find("different training steps"), std::string::npos);
  // Serving and training are steps of their own.
  PlanRequest serving = request_of(kMlp);
  serving.search.schedule = ScheduleKind::Inference;
  const PlanningResult served = planned(serving);
  EXPECT_NE(refusal([&] { return compared(mlp, served); }).find("different training steps"), std::string::npos);
  EXPECT_EQ(compared(served, served), std::vector<std::string>{});
}

TEST(Compare, OfOtherMicrobatchesSaysWhatDiffersWithoutTensors) {
  PlanRequest request = request_of(kMlp, "megatron:pp=2", 0);
  const PlanningResult few = planned(request);
  request.search.microbatches = std::int64_t{4};
  request.search.schedule = ScheduleKind::GPipe;
  request.search.recompute = Recompute::Full;
  const PlanningResult many = planned(request);
  ASSERT_TRUE(few.plan && many.plan);
  const std::vector<std::string> sentences = compared(few, many);
  ASSERT_GE(sentences.size(), 3u);
  EXPECT_EQ(sentences[0], "2 micro-batches against 4");
  EXPECT_EQ(sentences[1], "recompute none against full");
  EXPECT_EQ(sentences[2], "schedule 1f1b against gpipe");
}

}  // namespace
}  // namespace meshwright::explain_test
