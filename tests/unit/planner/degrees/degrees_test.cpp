// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "core/planner/considered_plans.h"
#include "core/planner/degrees/degrees_plans.h"
#include "core/planner/degrees/degrees_search.h"
#include "core/planner/degrees/first_degrees.h"
#include "costmodel/framework_memory.h"
#include "simulator/what_if/evaluator.h"
#include "tests/refusal.h"
#include "tests/sanitized.h"
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
  EXPECT_EQ(first_broken("maxtext", {.pp = 4, .schedule = ScheduleKind::GPipe, .micro_batches = 6}),
            "pp=4 does not divide the 6 micro-batches");
  EXPECT_EQ(first_broken("maxtext", {.pp = 4, .schedule = ScheduleKind::GPipe, .micro_batches = 8}), "");
  EXPECT_EQ(first_broken("torchtitan", {.tp = 2, .cp = 512, .sequence_parallel = true}),
            "tp=2 x 2 cp=1024 does not divide the sequence of 1024");
  EXPECT_EQ(first_broken("torchtitan", {.dp = 4, .ep = 2}), "torchtitan has no ZeRO level 0 with ep=2");
  EXPECT_EQ(first_broken("torchtitan", {.dp = 4, .ep = 2, .zero = 2}), "");
  EXPECT_EQ(first_broken("deepspeed", {.dp = 4, .ep = 2, .zero = 3}), "deepspeed has no ZeRO level 3 with ep=2");
  const StageSplit ends{3, 1, ""};
  EXPECT_EQ(first_broken("megatron", {.pp = 4, .split = ends}), "");
  EXPECT_EQ(first_broken("torchtitan", {.pp = 4, .split = ends}),
            "torchtitan cannot be told the blocks of single stages");
  EXPECT_EQ(first_broken("deepspeed", {.pp = 4, .split = ends}),
            "deepspeed cannot be told the blocks of single stages");
  EXPECT_EQ(first_broken("megatron", {.split = ends}), "blocks of single stages need pp of at least 2");
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
  degrees.split = {3, 6, ""};
  EXPECT_EQ(method_text(degrees), "megatron:tp=2,pp=4,vpp=3,first=3,last=6,cp=2,ep=4,etp=1,sp=1,zero=1,exact=1");
  EXPECT_EQ(degrees_of(method_from_text(method_text(degrees)), 64), degrees);
  degrees.split = {0, 0, "Et|(t|)*10tL"};
  EXPECT_EQ(degrees_of(method_from_text(method_text(degrees)), 64), degrees);
  degrees.split = {};
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

// Every combination of degrees there is, of which the rules leave some.
std::vector<Degrees> by_enumeration(const Framework& framework, const PlanRequest& request) {
  const ModelShape shape = shape_of(request.model);
  const int devices = request.cluster.devices();
  std::vector<Degrees> legal;
  const auto note = [&](const Degrees& d) {
    if (broken_rules(framework, shape, d).empty()) legal.push_back(d);
  };
  for (int tp = 1; tp <= request.cluster.only().devices_per_host; ++tp)
    for (int cp = 1; cp <= devices; ++cp)
      for (int pp = 1; pp <= std::min<std::int64_t>(devices, shape.blocks); ++pp) {
        const int dp = devices / (tp * cp * pp);
        if (dp * tp * cp * pp != devices) continue;
        for (std::int64_t micro = 1; micro <= 16; ++micro)
          for (int ep = 1; ep <= shape.experts || ep == 1; ++ep)
            for (const int experts : {0, 1, 2, 3})
              for (const ContextExchange context : framework.context_exchanges)
                for (const ScheduleKind schedule : framework.schedules)
                  for (int chunks = 1; chunks <= 16; ++chunks)
                    for (int zero = 0; zero <= 3; ++zero)
                      for (const Recompute recompute : framework.recompute) {
                        Degrees d{.dp = dp, .tp = tp, .pp = pp, .cp = cp, .ep = ep, .chunks = chunks};
                        d.whole_experts = (experts & 1) != 0, d.folded_experts = (experts & 2) != 0;
                        d.sequence_parallel = framework.sequences != Framework::Sequences::Never && tp > 1;
                        d.zero = zero, d.context = context, d.schedule = schedule, d.recompute = recompute;
                        d.micro_batch = micro, d.micro_batches = request.training.batch / dp / micro;
                        if (d.micro_batches * micro * dp != request.training.batch) continue;
                        // What is one device has one form.
                        if ((d.whole_experts && (ep == 1 || tp == 1)) || (d.folded_experts && (ep == 1 || cp == 1)) ||
                            (experts > 0 && !framework.whole_experts) || (zero > 0 && dp * cp == 1) ||
                            (cp == 1 && context != framework.context_exchanges.front()) ||
                            (pp == 1 && schedule != framework.schedules.front()) || schedule == ScheduleKind::DualPipeV)
                          continue;
                        const auto fixed = traits_of(schedule).chunks;
                        if (fixed ? chunks != *fixed : chunks < 2) continue;
                        if (pp == 1) d.schedule = ScheduleKind::OneFOneB;  // there is no other order
                        note(d);
                      }
      }
  return legal;
}

TEST(AllDegrees, AreAllThatBreakNoRule) {
  for (const std::string& name : framework_names()) {
    const Framework& framework = find_framework(name);
    if (framework.own_meshes) continue;
    PlanRequest request = ask_for(
        name, "mixtral:layers=4,hidden=64,heads=4,kv_heads=2,intermediate=128,seq=32,vocab=128,experts=2,top_k=1",
        "cpu:4", 36);
    request.cluster.only().hosts = 2;
    request.cluster.only().devices_per_host = 2;
    const std::vector<Degrees> all = all_degrees(framework, request).legal, truth = by_enumeration(framework, request);
    EXPECT_EQ(all.size(), truth.size()) << name;
    for (const Degrees& d : truth) EXPECT_EQ(std::count(all.begin(), all.end(), d), 1) << name << ' ' << text_of(d);
  }
}

TEST(AllDegrees, KeepToWhatIsAsked) {
  const Framework& framework = find_framework("megatron");
  const auto asked = [&](auto change) {
    PlanRequest request = ask_for("megatron", kModel, "cpu:4", 16);
    change(request.search);
    return all_degrees(framework, request).legal;
  };
  const std::vector<Degrees> any = asked([](auto&) {});
  const auto expect_those = [&](auto change, auto is_asked) {
    std::vector<Degrees> expected;
    std::copy_if(any.begin(), any.end(), std::back_inserter(expected), is_asked);
    EXPECT_FALSE(expected.empty());
    EXPECT_EQ(asked(change), expected);
  };
  expect_those([](auto& search) { search.microbatches = std::int64_t{4}; },
               [](const Degrees& d) { return d.micro_batches == 4; });
  expect_those([](auto& search) { search.recompute = Recompute::Full; },
               [](const Degrees& d) { return d.recompute == Recompute::Full; });
  expect_those([](auto& search) { search.schedule = ScheduleKind::OneFOneB; },
               [](const Degrees& d) { return d.schedule == ScheduleKind::OneFOneB; });
  expect_those(
      [](auto& search) {
        search.schedule = ScheduleKind::Interleaved;
        search.chunks = 2;
      },
      [](const Degrees& d) { return d.schedule == ScheduleKind::Interleaved && d.chunks == 2; });
}

TEST(AllDegrees, SayWhichRuleLeftOutTheOthers) {
  // Of 4 devices and 3 samples: one replica alone divides the batch.
  const PlanRequest request = ask_for("fsdp", "gpt:layers=2,hidden=64,heads=4,seq=1,vocab=128", "cpu:4", 3);
  const AllDegrees all = all_degrees(find_framework("fsdp"), request);
  std::int64_t broken = 0;
  for (const auto& [rule, count] : all.broken) broken += count;
  EXPECT_EQ(all.tried, broken + static_cast<std::int64_t>(all.legal.size()));
  EXPECT_GT(all.broken.at("dp does not divide the batch"), 0);
  for (const Degrees& d : all.legal) EXPECT_EQ(3 % d.dp, 0);
}

// Weights 400, gradients as many, states 4000 for the model.
TEST(FirstDegrees, AreOfTheMostReplicasWhoseStateTakesHalfOfTheMemory) {
  const ReplicaBytes replica{Bytes(400), Bytes(4000)};
  const Degrees whole{.dp = 8}, split{.dp = 4, .tp = 2}, pipe{.dp = 4, .pp = 2};
  Degrees sharded = whole, again = split;
  sharded.zero = 1;
  again.zero = 1;
  again.recompute = Recompute::Full;
  EXPECT_EQ(state_estimate(whole, replica), Bytes(4800));
  EXPECT_EQ(state_estimate(split, replica), Bytes(2400));
  EXPECT_EQ(state_estimate(sharded, replica), Bytes(1300));  // 400 + 400 + 4000/8
  EXPECT_EQ(state_estimate(again, replica), Bytes(900));     // 200 + 200 + 4000/8
  EXPECT_EQ(in_order_of_trial({pipe, whole, split, sharded}, replica, Bytes(1e4)),
            (std::vector<Degrees>{sharded, whole, split, pipe}));
  // Half of 4000 is less than 2400; recomputation comes before replicas.
  EXPECT_EQ(in_order_of_trial({pipe, whole, split, sharded, again}, replica, Bytes(4000)),
            (std::vector<Degrees>{again, sharded, whole, split, pipe}));
}

// A replica on 6 devices comes before one on 8, and that before one on 9.
TEST(FirstDegrees, AreOfTheSmallestReplicasHoweverTheseAreDivided) {
  const Degrees tensor{.tp = 6}, pipe{.pp = 4, .cp = 2}, both{.tp = 3, .cp = 3}, context{.cp = 8};
  EXPECT_EQ(in_order_of_trial({pipe, tensor}, {}, Bytes(1e6)), (std::vector<Degrees>{tensor, pipe}));
  EXPECT_EQ(in_order_of_trial({both, context}, {}, Bytes(1e6)), (std::vector<Degrees>{context, both}));
}

TEST(FirstDegrees, CountExpertsAsNearlyAllWeights) {
  const ReplicaBytes replica{Bytes(800), Bytes(0)};
  Degrees degrees{.dp = 8, .tp = 2, .ep = 4};
  EXPECT_EQ(state_estimate(degrees, replica), Bytes(200));  // weights and gradients, 800 / (4 x 2) each
  degrees.whole_experts = true;
  EXPECT_EQ(state_estimate(degrees, replica), Bytes(400));  // 800 / 4
}

// Asked for the k-th time it says stop: the answer is a plan that fits, and none is faster than the whole search's.
TEST(DegreesSearch, HasAPlanWheneverItIsStopped) {
  PlanRequest request = ask_for("megatron", kMixture, kSanitized ? "cpu:2" : "cpu:8", 32);
  const auto costs = make_analytic_cost_model(request.cluster);
  SimulatedStep evaluator(*costs);
  const Seconds whole = search_degrees(request, *costs, evaluator).plan->predicted.step_time;
  for (const int calls : {0, 1, 5, 20, 60, 80, 100, 200}) {
    int left = calls;
    request.stop = [&] { return left-- <= 0; };
    const Planned result = with_program(search_degrees(request, *costs, evaluator), *costs);
    EXPECT_EQ(result.log.interrupted, left < 0) << calls;
    ASSERT_TRUE(result.plan) << calls;
    EXPECT_EQ(check_plan(*result.plan, result.graph), std::vector<std::string>{}) << calls;
    EXPECT_LE(result.check.largest_peak(), request.cluster.usable_memory()) << calls;
    EXPECT_GE(result.plan->predicted.step_time, whole) << calls;
    EXPECT_LE(result.lower_bound_within_layers, whole) << calls;
  }
}

// Every combination that a plan expresses, by its text: planned and simulated whole.
std::map<std::string, PlanOutcome> outcomes_of_all(const PlanRequest& request, const CostModel& costs,
                                                   const PlanEvaluator& evaluator) {
  std::map<std::string, PlanOutcome> outcomes;
  for (const Degrees& degrees : all_degrees(*request.search.launch_for, request).legal) {
    try {
      outcomes[text_of(degrees)] = evaluator.outcome(given_plan(request_of(request, degrees), costs));
    } catch (const InputError&) {
      // No plan expresses these degrees.
    }
  }
  return outcomes;
}

// As even stages of blocks that are recomputed whole or not at all.
Framework with_even_ends(const std::string& name) {
  Framework framework = find_framework(name);
  framework.splits_ends = framework.recomputes_modules = false;
  return framework;
}

class DegreesSearchOf : public testing::TestWithParam<std::tuple<const char*, const char*, double>> {};

TEST_P(DegreesSearchOf, FindsTheFastestOfAllCombinations) {
  const auto& [framework, model, memory] = GetParam();
  // Under a sanitizer all combinations of four devices take half an hour.
  PlanRequest request = ask_for(framework, model, kSanitized ? "cpu:2" : "cpu:4", kSanitized ? 4 : 16);
  const Framework even = with_even_ends(framework);
  request.search.launch_for = &even;
  request.cluster.groups.front().device.memory = Bytes(memory);
  const auto costs = make_analytic_cost_model(request.cluster);
  SimulatedStep evaluator(*costs);
  const std::map<std::string, PlanOutcome> all = outcomes_of_all(request, *costs, evaluator);
  std::optional<Seconds> best;
  for (const auto& [text, outcome] : all)
    if (outcome.peak <= request.cluster.usable_memory()) best = std::min(best.value_or(outcome.step), outcome.step);
  ConsideredPlans considered;
  request.record = &considered;
  Planned found = with_program(make_plan(request, *costs, evaluator), *costs);
  // What was left out does not fit, or is slower.
  using Fate = ConsideredPlan::Fate;
  for (const ConsideredPlan* plan : considered.ranked()) {
    const auto known = all.find(plan->degrees);
    if (known == all.end()) continue;
    if (plan->fate == Fate::TooLarge || plan->fate == Fate::RuledOut) {
      EXPECT_GT(known->second.peak, request.cluster.usable_memory()) << plan->degrees << ": " << plan->why;
    } else if (plan->estimated && !plan->simulated) {
      // Collectives that a program shares are counted apart in the work of a micro-batch.
      EXPECT_LE(0.9 * *plan->estimated, known->second.step) << plan->degrees;
    }
  }
  ASSERT_EQ(found.plan.has_value(), best.has_value()) << found.reason;
  if (!best) return;
  EXPECT_EQ(to_sim_time(found.plan->predicted.step_time), to_sim_time(*best));
  EXPECT_LE(found.plan->predicted.lower_bound, *best);
  EXPECT_LE(found.lower_bound_within_layers, *best);
  EXPECT_LE(found.check.largest_peak(), request.cluster.usable_memory());
  request.record = nullptr;
  request.threads = 3;
  EXPECT_EQ(to_json(*make_plan(request, *costs, evaluator).plan).dump(), to_json(*found.plan).dump());
  // With lighter ends it is never slower.
  request.search.launch_for = &find_framework(framework);
  if (!request.search.launch_for->splits_ends) return;
  EXPECT_LE(make_plan(request, *costs, evaluator).plan->predicted.step_time, *best);
}

// Two stages, for links are slow; the last has a large vocabulary beside its blocks.
// Whatever number of sets is reached first: the rest, which may promise more than those that wait, is left.
TEST(DegreesSearch, EndsAtTheMostSetsThatArePlanned) {
  PlanRequest request = ask_for(
      "torchtitan", "llama:layers=4,hidden=64,heads=4,kv_heads=4,intermediate=128,seq=32,vocab=128", "cpu:4", 16);
  const auto costs = make_analytic_cost_model(request.cluster);
  SimulatedStep evaluator(*costs);
  const PlanningResult all = search_degrees(request, *costs, evaluator);
  ASSERT_TRUE(all.plan.has_value());
  for (std::size_t most = 1; most < 80; most += kSanitized ? 39 : 6) {
    request.search.most_degrees = most;
    const PlanningResult some = search_degrees(request, *costs, evaluator);
    ASSERT_TRUE(some.plan.has_value()) << most;
    EXPECT_GE(some.plan->predicted.step_time, all.plan->predicted.step_time) << most;
    EXPECT_LE(some.lower_bound_within_layers, all.plan->predicted.step_time) << most;
  }
}

TEST(DegreesSearch, GivesAnEndWithALargeVocabularyFewerBlocks) {
  PlanRequest request = ask_for("megatron", "gpt:layers=8,hidden=64,heads=4,seq=32,vocab=2048", "cpu:2", 16);
  HostGroup& hosts = request.cluster.only();
  hosts.within_host.beta = SecondsPerByte(100 * hosts.within_host.beta.si());
  const Planned found = planned(request);
  const Framework even = with_even_ends("megatron");
  request.search.launch_for = &even;
  ASSERT_TRUE(found.plan);
  EXPECT_LT(found.plan->predicted.step_time, 0.97 * planned(request).plan->predicted.step_time);
  EXPECT_NE(found.plan->method.find("last="), std::string::npos) << found.plan->method;
  EXPECT_EQ(degrees_of(method_from_text(found.plan->method), 2).split.first, 0) << found.plan->method;
}

// One set of degrees for all devices is an answer of the free search, too; that also looks at cuts with fewer layers
// than the schedule needs.
TEST(DegreesSearch, IsNeverFasterThanTheFreeSearch) {
  const std::vector<std::pair<const char*, ScheduleKind>> requests = {
      {kModel, ScheduleKind::OneFOneB}, {kModel, ScheduleKind::Interleaved}, {kMixture, ScheduleKind::OneFOneB}};
  for (const auto& [model, schedule] : fewer_of(requests)) {
    PlanRequest request = ask(model, "cpu:8", "pipeshard", 16, Auto{});
    request.search.layers = Auto{};
    request.search.schedule = schedule;
    request.search.chunks = Auto{};
    const Planned free = planned(request);
    Framework runnable = find_framework("megatron");
    std::erase(runnable.context_exchanges, ContextExchange::PointToPoint);
    request.search.launch_for = &runnable;
    const Planned degrees = planned(request);
    ASSERT_TRUE(free.plan && degrees.plan) << model;
    EXPECT_LE(free.plan->predicted.step_time, degrees.plan->predicted.step_time)
        << model << ", " << name_of(schedule) << ": " << degrees.plan->method;
    EXPECT_EQ(free.plan->method, "pipeshard");
  }
}

// Six blocks on two ranks with one, two or three stages each.
TEST(DegreesRequest, MakesAsManyStagesOnEachRankAsTheDegreesSay) {
  const PlanRequest request = ask("gpt:layers=6,hidden=32,heads=2,seq=8,vocab=64", "cpu:2", "pipeshard", 4, Auto{});
  const auto costs = make_analytic_cost_model(request.cluster);
  for (const int chunks : {1, 2, 3}) {
    const Degrees degrees{.pp = 2,
                          .chunks = chunks,
                          .schedule = chunks == 1 ? ScheduleKind::OneFOneB : ScheduleKind::Interleaved,
                          .micro_batches = 4};
    const PlanRequest of = request_of(request, degrees);
    EXPECT_EQ(std::get<int>(of.search.chunks), std::max(2, chunks));
    EXPECT_EQ(given_plan(of, *costs).plan.stages.size(), static_cast<std::size_t>(2 * chunks));
  }
}

// With tensor parallelism, which the request rules out, the step would be shorter.
TEST(DegreesSearch, KeepsTheFreeSearchToItsLogicalMeshes) {
  PlanRequest request = ask("gpt-1.3b", "p3.16xlarge:1", "pipeshard", 8, 2);
  request.search.layers = Auto{};
  request.search.recompute = Recompute::Full;
  request.search.logical_mesh_space = LogicalMeshSpace::DataParallelOnly;
  const Planned found = planned(request);
  ASSERT_TRUE(found.plan);
  for (const StagePlan& stage : found.plan->stages)
    EXPECT_EQ(stage.logical_shape, (std::vector<int>{stage.submesh.devices(), 1})) << found.log.how;
}

// With 16 GiB everything fits; with 2 to 4 MB states have to be split or activations recomputed; with 100 kB nothing
// fits.
INSTANTIATE_TEST_SUITE_P(Small, DegreesSearchOf,
                         testing::Values(std::tuple{"megatron", kModel, 16e9}, std::tuple{"megatron", kModel, 2.2e6},
                                         std::tuple{"megatron", kMixture, 4e6}, std::tuple{"torchtitan", kMixture, 4e6},
                                         std::tuple{"deepspeed", kModel, 2.2e6}, std::tuple{"fsdp", kModel, 16e9},
                                         std::tuple{"fsdp", kModel, 1e5}, std::tuple{"maxtext", kModel, 16e9}));

// Weights, gradients and states of 25,808 parameters are 413 kB, and half of that where two replicas split all of them.
TEST(DegreesSearch, SplitsStatesOverReplicasWhereNothingElseFits) {
  PlanRequest request = ask_for("fsdp", "gpt:layers=2,hidden=32,heads=1,seq=8,vocab=16", "cpu:2", 2);
  request.search.microbatches = std::int64_t{1};
  request.search.recompute = Recompute::None;
  request.cluster.groups.front().device.memory = Bytes(300e3);
  const Planned found = planned(request);
  ASSERT_TRUE(found.plan.has_value()) << found.reason;
  EXPECT_GE(degrees_of(method_from_text(found.plan->method), 2).zero, 2) << found.plan->method;
  // Its peaks are those of its program.
  ASSERT_EQ(found.plan->stages.size(), 1u);
  EXPECT_EQ(found.plan->stages.front().peak_memory, found.check.peak_memory.front());
}

TEST(DegreesSearch, SaysWhatIsNearestWhereNothingFits) {
  PlanRequest request = ask_for("megatron", kModel, "cpu:4", 16);
  request.cluster.groups.front().device.memory = Bytes(1e5);
  const Planned found = planned(request);
  ASSERT_FALSE(found.plan.has_value());
  EXPECT_NE(found.reason.find("that megatron launches none fits; the nearest, megatron:tp="), std::string::npos)
      << found.reason;
}

TEST(DegreesSearch, SaysWhichRuleBindsWhereNothingIsLaunched) {
  // Three heads divide no degree of four devices but 1, and one sample has no replicas.
  const PlanRequest request = ask_for("fsdp", "gpt:layers=2,hidden=96,heads=3,seq=3,vocab=128", "cpu:4", 1);
  const Planned found = planned(request);
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
  const Planned found = with_program(make_plan(request, *costs, evaluator), *costs);
  ASSERT_TRUE(found.plan.has_value()) << found.reason;
  const auto memory = evaluator.software_memory(*found.plan, found.graph);
  ASSERT_TRUE(memory.has_value());
  EXPECT_LE(memory->needs, memory->usable);
  EXPECT_EQ(memory->usable, safe_room(gibibytes(5.0), software));
  EXPECT_LT(memory->usable, gibibytes(3.0));  // 2 GiB are the driver's
}

}  // namespace
}  // namespace meshwright
