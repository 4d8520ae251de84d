// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "core/planner/degrees/degrees_search.h"
#include "costmodel/framework_memory.h"
#include "simulator/what_if/evaluator.h"
#include "tests/refusal.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright {
namespace {

constexpr const char* kModel = "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=128";
constexpr const char* kMixture =
    "mixtral:layers=4,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=32,vocab=128,experts=4,top_k=2";

PlanRequest ask_for(const std::string& framework, const std::string& model, const std::string& cluster,
                    std::int64_t batch) {
  PlanRequest request = ask(model, cluster, "pipeshard", batch, Auto{});
  request.search.schedule = Auto{};
  request.search.recompute = Auto{};
  request.search.launch_for = &find_framework(framework);
  return request;
}

std::string first_broken(const std::string& framework, const Degrees& degrees) {
  const ModelShape shape{.blocks = 12, .heads = 12, .kv_heads = 4, .experts = 8, .seq = 1024, .tied = true};
  const std::vector<std::string> broken = broken_rules(find_framework(framework), shape, degrees);
  return broken.empty() ? "" : broken.front();
}

TEST(FrameworkRules, NameTheDegreeAndTheSizeThatItDoesNotDivide) {
  EXPECT_EQ(first_broken("megatron", {.dp = 2, .tp = 4, .pp = 3, .sequence_parallel = true}), "");
  EXPECT_EQ(first_broken("megatron", {.tp = 8}), "tp=8 does not divide the 12 heads");
  EXPECT_EQ(first_broken("megatron", {.tp = 6}),
            "neither of tp=6 and the 4 heads of keys and values divides the other");
  EXPECT_EQ(first_broken("torchtitan", {.tp = 12, .sequence_parallel = true}),
            "tp=12 does not divide the 4 heads of keys and values");
  EXPECT_EQ(first_broken("torchtitan", {.pp = 2}),
            "torchtitan cannot tie the embedding to the last product in a pipeline");
  EXPECT_EQ(first_broken("torchtitan", {.tp = 4}), "torchtitan always splits the sequence over tp=4");
  EXPECT_EQ(first_broken("fsdp", {.pp = 2}), "fsdp has no pipeline stages");
  EXPECT_EQ(first_broken("deepspeed", {.dp = 2, .pp = 2, .zero = 2}),
            "deepspeed has no ZeRO level 2 with pipeline stages");
  EXPECT_EQ(first_broken("maxtext", {.pp = 5, .schedule = ScheduleKind::GPipe}),
            "pp=5 x vpp=1 does not divide the 12 blocks");
  EXPECT_EQ(first_broken("megatron", {.dp = 4, .ep = 3}), "ep=3 does not divide the 8 experts");
  EXPECT_EQ(first_broken("megatron", {.dp = 3, .ep = 2}), "ep=2 does not divide dp=3");
  EXPECT_EQ(first_broken("megatron", {.dp = 1, .cp = 2, .ep = 2, .folded_experts = true}), "");
  EXPECT_EQ(first_broken("megatron", {.dp = 1, .cp = 2, .ep = 8, .folded_experts = true}),
            "ep=8 of folded experts does not divide dp=1 x cp=2");
  EXPECT_EQ(first_broken("megatron", {.cp = 3}), "2 cp=6 does not divide the sequence of 1024");
  EXPECT_EQ(first_broken("megatron", {.cp = 8, .context = ContextExchange::AllToAll}),
            "cp-comm=a2a: cp=8 x tp=1 does not divide the 4 heads of keys and values");
  EXPECT_EQ(first_broken("torchtitan", {.cp = 2, .context = ContextExchange::PointToPoint}),
            "torchtitan has no cp-comm=p2p");
  EXPECT_EQ(first_broken("megatron", {.pp = 2, .chunks = 2, .schedule = ScheduleKind::Interleaved, .micro_batches = 3}),
            "pp=2 does not divide the 3 micro-batches of an interleaved schedule");
}

TEST(FrameworkRules, CountTheEmbeddingAndTheLossAsBlocksWhereThatPartsEvenly) {
  const Degrees eight{.pp = 2, .chunks = 4, .schedule = ScheduleKind::Interleaved, .micro_batches = 4};
  const ModelShape fourteen{.blocks = 14, .heads = 8, .kv_heads = 8, .seq = 1024}, thirteen{.blocks = 13, .heads = 8};
  EXPECT_TRUE(broken_rules(find_framework("megatron"), fourteen, eight).empty());
  EXPECT_EQ(
      broken_rules(find_framework("megatron"), thirteen, eight),
      std::vector<std::string>{"pp=2 x vpp=4 divides neither the 13 blocks nor these with the embedding and the loss"});
  const PlanRequest request = ask_for("megatron", "gpt:layers=14,hidden=64,heads=8,seq=16,vocab=64", "cpu:2", 8);
  const AllDegrees all = all_degrees(find_framework("megatron"), request);
  EXPECT_TRUE(std::any_of(all.legal.begin(), all.legal.end(), [](const Degrees& d) { return d.stages() == 8; }));
}

TEST(Frameworks, UnknownOnesAreRefusedWithTheNearest) {
  EXPECT_EQ(refusal([] { static_cast<void>(find_framework("megatrom")); }).find("unknown framework 'megatrom'"), 0U);
}

TEST(MethodOfDegrees, ReadsBackAsTheSameDegrees) {
  Degrees degrees{.dp = 4, .tp = 2, .pp = 4, .cp = 2, .ep = 4, .chunks = 3};
  degrees.whole_experts = degrees.sequence_parallel = true;
  degrees.zero = 1;
  EXPECT_EQ(method_text(degrees), "megatron:tp=2,pp=4,vpp=3,cp=2,ep=4,etp=1,sp=1,zero=1,exact=1");
  EXPECT_EQ(degrees_of(method_from_text(method_text(degrees)), 64), degrees);
  degrees.context = ContextExchange::PointToPoint;
  degrees.folded_experts = true;
  EXPECT_EQ(method_text(degrees), "megatron:tp=2,pp=4,vpp=3,cp=2,cp-comm=p2p,ep=4,etp=1,fold=1,sp=1,zero=1,exact=1");
  EXPECT_EQ(degrees_of(method_from_text(method_text(degrees)), 64), degrees);
}

TEST(AllDegrees, UseEveryDeviceAndBreakNoRule) {
  for (const std::string& name : framework_names()) {
    const Framework& framework = find_framework(name);
    if (framework.own_meshes) continue;
    const PlanRequest request = ask_for(name, kMixture, "cpu:8", 32);
    const AllDegrees all = all_degrees(framework, request);
    EXPECT_FALSE(all.legal.empty()) << name;
    for (const Degrees& d : all.legal) {
      EXPECT_EQ(d.dp * d.tp * d.pp * d.cp, 8) << text_of(d);
      EXPECT_EQ(d.micro_batch * d.micro_batches * d.dp, 32) << text_of(d);
      EXPECT_TRUE(broken_rules(framework, shape_of(request.model), d).empty()) << text_of(d);
    }
    for (std::size_t i = 0; i < all.legal.size(); ++i)
      EXPECT_EQ(std::count(all.legal.begin(), all.legal.end(), all.legal[i]), 1) << text_of(all.legal[i]);
  }
}

// Without pipelines, contexts and experts: dp x tp = 4 with tp of 1, 2 or 4; micro-batches of 1, 2, 4 or 8 samples of
// the 8/dp of a replica; levels 0, 2 and 3 with replicas, else 0; with and without recomputation.
TEST(AllDegrees, OfFsdpAreCountedByHand) {
  PlanRequest request = ask_for("fsdp", "gpt:layers=2,hidden=64,heads=4,seq=1,vocab=128", "cpu:4", 8);
  // tp=1: dp=4, micro-batches of 1 and 2; tp=2: dp=2, 1, 2 and 4; tp=4: dp=1, 1, 2, 4 and 8.
  EXPECT_EQ(all_degrees(find_framework("fsdp"), request).legal.size(), 2U * 3 * 2 + 3U * 3 * 2 + 4U * 1 * 2);
}

// Every combination planned and simulated whole.
std::optional<Seconds> fastest_of_all(const PlanRequest& request, const CostModel& costs,
                                      const PlanEvaluator& evaluator) {
  std::optional<Seconds> best;
  for (const Degrees& degrees : all_degrees(*request.search.launch_for, request).legal) {
    try {
      const PlanOutcome outcome = evaluator.outcome(given_plan(request_of(request, degrees), costs));
      if (outcome.peak <= request.cluster.usable_memory()) best = std::min(best.value_or(outcome.step), outcome.step);
    } catch (const InputError&) {
      // No plan expresses these degrees.
    }
  }
  return best;
}

class DegreesSearchOf : public testing::TestWithParam<std::tuple<const char*, const char*, double>> {};

TEST_P(DegreesSearchOf, FindsTheFastestOfAllCombinations) {
  const auto& [framework, model, memory] = GetParam();
  PlanRequest request = ask_for(framework, model, "cpu:4", 16);
  request.cluster.groups.front().device.memory = Bytes(memory);
  const auto costs = make_analytic_cost_model(request.cluster);
  SimulatedStep evaluator(*costs);
  const std::optional<Seconds> best = fastest_of_all(request, *costs, evaluator);
  PlanningResult found = make_plan(request, *costs, evaluator);
  ASSERT_EQ(found.plan.has_value(), best.has_value()) << found.reason;
  if (!best) return;
  EXPECT_EQ(to_sim_time(found.plan->predicted.step_time), to_sim_time(*best));
  EXPECT_LE(found.plan->predicted.lower_bound, *best);
  EXPECT_LE(found.lower_bound_within_layers, *best);
  EXPECT_LE(found.check.largest_peak(), request.cluster.usable_memory());
  request.threads = 3;
  EXPECT_EQ(to_json(*make_plan(request, *costs, evaluator).plan).dump(), to_json(*found.plan).dump());
}

// With 16 GiB everything fits; with 2 to 4 MB states have to be split or activations recomputed; with 100 kB nothing
// fits.
INSTANTIATE_TEST_SUITE_P(Small, DegreesSearchOf,
                         testing::Values(std::tuple{"megatron", kModel, 16e9}, std::tuple{"megatron", kModel, 2.2e6},
                                         std::tuple{"megatron", kMixture, 16e9}, std::tuple{"megatron", kMixture, 4e6},
                                         std::tuple{"torchtitan", kMixture, 4e6},
                                         std::tuple{"deepspeed", kModel, 2.2e6}, std::tuple{"fsdp", kModel, 16e9},
                                         std::tuple{"fsdp", kModel, 1e5}, std::tuple{"maxtext", kModel, 16e9}));

TEST(DegreesSearch, SaysWhatIsNearestWhereNothingFits) {
  PlanRequest request = ask_for("megatron", kModel, "cpu:4", 16);
  request.cluster.groups.front().device.memory = Bytes(1e5);
  const PlanningResult found = planned(request);
  ASSERT_FALSE(found.plan.has_value());
  EXPECT_NE(found.reason.find("that megatron launches none fits; the nearest, megatron:tp="), std::string::npos)
      << found.reason;
}

TEST(DegreesSearch, SaysWhichRuleBindsWhereNothingIsLaunched) {
  // Three heads divide no degree of four devices but 1, and one sample has no replicas.
  const PlanRequest request = ask_for("fsdp", "gpt:layers=2,hidden=96,heads=3,seq=3,vocab=128", "cpu:4", 1);
  const PlanningResult found = planned(request);
  ASSERT_FALSE(found.plan.has_value());
  EXPECT_NE(found.reason.find("fsdp launches none of"), std::string::npos) << found.reason;
}

TEST(DegreesSearch, RefusesWhatFrameworksDoNotLaunch) {
  EXPECT_EQ(refusal([] { planned(ask_for("megatron", "mlp:layers=2,hidden=64", "cpu:4", 8)); }),
            "megatron launches transformers, and model mlp has no attention heads; leave the framework out.");
  EXPECT_EQ(refusal([] {
              planned(ask_for("megatron", kModel, "dgx-a100:1+p3.16xlarge:1", 16));
            }).find("megatron launches one set"),
            0U);
}

// What a software keeps decides, not this program's executor.
TEST(DegreesSearch, FitsTheMemoryOfTheSoftware) {
  PlanRequest request = ask_for("megatron", "gpt-350m", "p3.16xlarge:1", 16);
  const SoftwareProfile software = find_software_profile("megatron");
  const auto costs = make_physical_cost_model(request.cluster, software);
  SimulatedEvaluator evaluator(*costs, &software);
  request.cluster.groups.front().device.memory = gibibytes(5.0);
  const PlanningResult found = make_plan(request, *costs, evaluator);
  ASSERT_TRUE(found.plan.has_value()) << found.reason;
  const auto memory = evaluator.software_memory(*found.plan, found.graph);
  ASSERT_TRUE(memory.has_value());
  EXPECT_LE(memory->needs, memory->usable);
  EXPECT_EQ(memory->usable, safe_room(gibibytes(5.0), software));
  EXPECT_LT(memory->usable, gibibytes(3.0));  // 2 GiB are the driver's
}

}  // namespace
}  // namespace meshwright
