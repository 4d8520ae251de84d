// SPDX-License-Identifier: Apache-2.0
// The search among degrees on two devices, where all combinations are planned and simulated one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/planner/considered_plans.h"
#include "core/planner/degrees/degrees_plans.h"
#include "core/planner/degrees/degrees_search.h"
#include "core/planner/degrees/too_large_degrees.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::small_degrees_test {
namespace {

constexpr const char* kModel = "gpt:layers=2,hidden=32,heads=2,seq=8,vocab=64";
constexpr const char* kDeeper = "gpt:layers=4,hidden=32,heads=2,seq=8,vocab=64";

struct Small {
  PlanRequest request;
  std::unique_ptr<CostModel> costs;
  std::map<std::string, PlanOutcome> outcomes;  // of all combinations that a plan expresses, by their texts
  Framework even;                               // does not split the ends

  explicit Small(const std::string& framework, const std::string& model = kModel, std::int64_t batch = 4)
      : request(ask(model, "cpu:2", "pipeshard", batch, Auto{})), even(find_framework(framework)) {
    even.splits_ends = false;
    request.search.schedule = Auto{};
    request.search.recompute = Auto{};
    request.search.launch_for = &even;
    costs = make_analytic_cost_model(request.cluster);
  }
  void simulate_all() {
    const SimulatedStep evaluator(*costs);
    for (const Degrees& degrees : all_degrees(even, request).legal) {
      try {
        outcomes[text_of(degrees)] = evaluator.outcome(given_plan(request_of(request, degrees), *costs));
      } catch (const InputError&) {
        // No plan expresses these degrees.
      }
    }
  }

  // With so much memory on each device.
  PlanningResult search(double memory, ConsideredPlans* considered = nullptr) {
    request.cluster.groups.front().device.memory = Bytes(memory);
    request.record = considered;
    SimulatedStep evaluator(*costs);
    return search_degrees(request, *costs, evaluator);
  }
};

bool fits(const PlanOutcome& outcome, const PlanRequest& request) {
  return outcome.peak <= request.cluster.usable_memory();
}

// Memory of which each of the combinations is the first to need more, and a little less.
std::vector<double> telling_memories(const Small& small) {
  const double usable_share = small.request.cluster.usable_memory() / small.request.cluster.only().device.memory;
  std::vector<double> peaks;
  for (const auto& [text, outcome] : small.outcomes) peaks.push_back(outcome.peak.si() / usable_share);
  std::sort(peaks.begin(), peaks.end());
  std::vector<double> memories = {0.9 * peaks.front(), 2 * peaks.back()};
  for (std::size_t part = 0; part < 3; ++part) memories.push_back(1.001 * peaks[part * (peaks.size() - 1) / 3]);
  return memories;
}

TEST(SmallDegrees, TheSearchFindsTheFastestThatFitsWhateverTheMemory) {
  for (const char* framework : {"megatron", "fsdp"}) {
    Small small(framework);
    small.simulate_all();
    for (const double memory : telling_memories(small)) {
      const PlanningResult found = small.search(memory);
      std::optional<Seconds> best;
      for (const auto& [text, outcome] : small.outcomes)
        if (fits(outcome, small.request)) best = std::min(best.value_or(outcome.step), outcome.step);
      ASSERT_EQ(found.plan.has_value(), best.has_value()) << framework << ", " << memory << ": " << found.reason;
      if (!best) continue;
      EXPECT_EQ(to_sim_time(found.plan->predicted.step_time), to_sim_time(*best)) << framework << ", " << memory;
      EXPECT_LE(found.lower_bound_within_layers, *best) << framework << ", " << memory;
    }
  }
}

// "megatron launches L of T combinations of degrees; P were planned, ...": the rest of L is ruled out.
TEST(SmallDegrees, TheLogCountsWhatWasPlanned) {
  using Fate = ConsideredPlan::Fate;
  Small small("megatron", kDeeper);
  small.request.search.recompute = Recompute::None;
  small.simulate_all();
  const AllDegrees all = all_degrees(small.even, small.request);
  const Framework& splits_ends = find_framework("megatron");
  bool lighter = false;
  for (const double memory : telling_memories(small))
    for (const Framework* framework : std::vector<const Framework*>{&small.even, &splits_ends}) {
      small.request.search.launch_for = framework;
      ConsideredPlans considered;
      const SearchLog log = small.search(memory, &considered).log;
      std::int64_t planned = 0, simulated = 0, left = 0;
      std::set<std::string> texts;
      for (const ConsideredPlan* plan : considered.ranked()) {
        const bool with_lighter_ends =
            plan->degrees.find("first=") != std::string::npos || plan->degrees.find("last=") != std::string::npos;
        simulated += plan->simulated ? 1 : 0;
        EXPECT_TRUE(texts.insert(plan->degrees).second) << plan->degrees;
        if (with_lighter_ends) continue;
        const bool is_planned = !plan->layer_starts.empty() || plan->fate == Fate::Inexpressible;
        (is_planned ? planned : left) += 1;
        EXPECT_EQ(plan->stages.empty(), plan->layer_starts.empty()) << plan->degrees;
      }
      EXPECT_EQ(planned + left, static_cast<std::int64_t>(all.legal.size()));
      EXPECT_EQ(log.points_ruled_out, left) << log.how;
      EXPECT_EQ(log.simulations, simulated) << log.how;
      const std::string head = fmt::format("megatron launches {} of {} combinations of degrees; {} were planned, ",
                                           all.legal.size(), all.tried, planned);
      EXPECT_EQ(log.how.substr(0, head.size()), head);
      EXPECT_TRUE(framework == &splits_ends || log.how.find("at the ends") == std::string::npos) << log.how;
      lighter = lighter || log.how.find("with fewer blocks at the ends of the fastest") != std::string::npos;
    }
  EXPECT_TRUE(lighter);
}

// The fastest differ in their stages on each rank alone: with other ends each of them would be the others, too.
TEST(SmallDegrees, LighterEndsOfSeveralOfTheFastestArePlannedOnce) {
  Small small("megatron", "gpt:layers=8,hidden=32,heads=2,seq=8,vocab=512", 8);
  small.request.search.launch_for = &find_framework("megatron");
  small.request.search.recompute = Recompute::None;
  small.request.search.microbatches = std::int64_t{4};
  HostGroup& hosts = small.request.cluster.only();
  hosts.within_host.beta = SecondsPerByte(1000 * hosts.within_host.beta.si());
  small.costs = make_analytic_cost_model(small.request.cluster);
  ConsideredPlans considered;
  const SearchLog log = small.search(hosts.device.memory.si(), &considered).log;
  std::set<std::string> lighter;
  for (const ConsideredPlan* plan : considered.ranked()) {
    if (plan->degrees.find("first=") != std::string::npos || plan->degrees.find("last=") != std::string::npos)
      lighter.insert(plan->degrees);
  }
  EXPECT_NE(log.how.find(fmt::format("then {} with fewer blocks at the ends", lighter.size())), std::string::npos)
      << log.how;
  // Those of the four fastest with even ends, on up to 16 stages of each rank.
  small.request.search.launch_for = &small.even;
  SimulatedStep evaluator(*small.costs);
  std::vector<Degrees> bases = find_degrees(small.request, *small.costs, evaluator).fastest;
  bases.resize(std::min<std::size_t>(bases.size(), 4));
  const ModelShape shape = shape_of(small.request.model);
  std::set<std::string> wanted;
  for (Degrees degrees : bases)
    for (int chunks = 1; chunks <= 16; ++chunks) {
      degrees.chunks = chunks;
      degrees.schedule = chunks == 1 ? ScheduleKind::OneFOneB : ScheduleKind::Interleaved;
      for (const StageSplit& split : lighter_ends(shape.blocks, degrees.pp, chunks)) {
        degrees.split = split;
        if (broken_rules(find_framework("megatron"), shape, degrees).empty()) wanted.insert(text_of(degrees));
      }
    }
  EXPECT_EQ(lighter, wanted);
}

// Two ranks of three blocks each become four and two: the head has a large vocabulary.
TEST(SmallDegrees, LighterEndsAreNoSlowerAndOnlyAfterTheRest) {
  Small small("megatron", "gpt:layers=6,hidden=32,heads=2,seq=8,vocab=512", 8);
  small.request.search.schedule = ScheduleKind::OneFOneB;
  HostGroup& hosts = small.request.cluster.only();
  hosts.within_host.beta = SecondsPerByte(1000 * hosts.within_host.beta.si());
  small.costs = make_analytic_cost_model(small.request.cluster);
  const double memory = hosts.device.memory.si();
  const PlanningResult even = small.search(memory);
  small.request.search.launch_for = &find_framework("megatron");
  const PlanningResult lighter = small.search(memory);
  ASSERT_TRUE(even.plan && lighter.plan);
  EXPECT_LT(lighter.plan->predicted.step_time, even.plan->predicted.step_time) << even.plan->method;
  EXPECT_NE(lighter.plan->method.find("last="), std::string::npos) << lighter.plan->method;
  EXPECT_EQ(lighter.lower_bound_within_layers,
            std::min(even.lower_bound_within_layers, lighter.plan->predicted.step_time));
}

// Both that beat what is asked for are told, in the order of their steps; where none does, there is no plan.
TEST(SmallDegrees, OnlyWhatBeatsAStepIsWanted) {
  Small small("fsdp");
  small.simulate_all();
  SimulatedStep evaluator(*small.costs);
  std::vector<Seconds> steps;
  for (const auto& [text, outcome] : small.outcomes) steps.push_back(outcome.step);
  std::sort(steps.begin(), steps.end());
  for (const Seconds to_beat : {steps.front(), 1.0001 * steps.front(), 2.0 * steps.back()}) {
    const FoundDegrees found = find_degrees(small.request, *small.costs, evaluator, to_beat);
    EXPECT_EQ(found.result.plan.has_value(), to_beat > steps.front());
    EXPECT_EQ(found.fastest.empty(), to_beat == steps.front());
    Seconds before(0.0);
    for (const Degrees& degrees : found.fastest) {
      const Seconds step = small.outcomes.at(text_of(degrees)).step;
      EXPECT_LT(step, to_beat) << text_of(degrees);
      EXPECT_GE(to_sim_time(step), to_sim_time(before)) << text_of(degrees);
      before = step;
    }
    if (!found.result.plan) continue;
    EXPECT_EQ(to_sim_time(found.result.plan->predicted.step_time), to_sim_time(steps.front()));
  }
  // Where nothing is to be beaten, all that was simulated is told.
  const FoundDegrees free = find_degrees(small.request, *small.costs, evaluator);
  EXPECT_GT(free.fastest.size(), 0U);
  EXPECT_EQ(static_cast<std::int64_t>(free.fastest.size()), free.result.log.simulations);
  // Where nothing can fit, nothing is planned just to say what is nearest.
  const auto legal = static_cast<std::int64_t>(all_degrees(small.even, small.request).legal.size());
  small.request.cluster.groups.front().device.memory = Bytes(1e4);
  EXPECT_EQ(find_degrees(small.request, *small.costs, evaluator, steps.back()).result.log.points_ruled_out, legal);
  EXPECT_EQ(find_degrees(small.request, *small.costs, evaluator).result.log.points_ruled_out, legal - 1);
}

// What a plan needs at least is told before it is simulated, of one rank as of two.
TEST(SmallDegrees, NeedNearlyWhatTheirPlansTake) {
  for (const char* framework : {"megatron", "fsdp"}) {
    Small small(framework);
    small.simulate_all();
    SimulatedStep evaluator(*small.costs);
    DegreesPlans plans(small.request, *small.costs, evaluator, false);
    for (const Degrees& degrees : all_degrees(small.even, small.request).legal) {
      const auto outcome = small.outcomes.find(text_of(degrees));
      if (outcome == small.outcomes.end()) continue;
      plans.build_graphs({degrees});
      const Bytes needs = plans.plan_of(degrees).needs;
      EXPECT_LE(needs, outcome->second.peak) << text_of(degrees);
      EXPECT_GE(needs, 0.5 * outcome->second.peak) << text_of(degrees);
    }
  }
}

// Seven devices suit neither four samples, two heads nor two blocks.
TEST(SmallDegrees, OfWhichNoneIsLaunchedTellWhatTheyBreakMostOften) {
  Small small("megatron");
  small.request.cluster = find_cluster("cpu:7");
  const AllDegrees all = all_degrees(small.even, small.request);
  ASSERT_TRUE(all.legal.empty());
  std::set<std::int64_t> counts;
  std::string most;
  for (const auto& [rule, count] : all.broken)
    if (counts.insert(count).second && count == *counts.rbegin()) most = rule;
  ASSERT_GT(counts.size(), 1u);
  const PlanningResult found = small.search(1e9);
  EXPECT_FALSE(found.plan);
  EXPECT_EQ(
      found.reason,
      fmt::format("megatron launches none of {} combinations of degrees on 7 devices; most often {}", all.tried, most));
}

// Of few combinations all may be planned, and none simulated, when the search is asked to stop.
TEST(SmallDegrees, ThereIsAPlanWheneverTheSearchIsStopped) {
  Small small("fsdp");
  small.request.search.recompute = Recompute::None;
  small.request.search.microbatches = std::int64_t{1};
  ASSERT_LE(all_degrees(small.even, small.request).legal.size(), 16u);
  SimulatedStep evaluator(*small.costs);
  int asks = 0;
  small.request.stop = [&] { return ++asks < 0; };
  const Seconds whole = search_degrees(small.request, *small.costs, evaluator).plan->predicted.step_time;
  const int all = asks;
  ASSERT_GT(all, 5);
  for (int calls = 0; calls < all; ++calls) {
    int left = calls;
    small.request.stop = [&] { return left-- <= 0; };
    const PlanningResult found = search_degrees(small.request, *small.costs, evaluator);
    ASSERT_TRUE(found.plan) << calls << " of " << all << ": " << found.reason;
    EXPECT_GE(found.plan->predicted.step_time, whole) << calls;
    EXPECT_LE(found.lower_bound_within_layers, whole) << calls;
  }
}

// What holds at least as much as degrees that do not fit, does not fit either.
TEST(TooLargeDegrees, RuleOutWhatKeepsNoLess) {
  const Degrees large{.dp = 2, .tp = 2, .pp = 2, .zero = 1, .recompute = Recompute::Selective, .micro_batch = 2};
  TooLargeDegrees known;
  EXPECT_FALSE(known.rule_out(large));
  known.add(large);
  EXPECT_TRUE(known.rule_out(large));
  const auto with = [&](auto change) {
    Degrees degrees = large;
    change(degrees);
    return known.rule_out(degrees);
  };
  EXPECT_TRUE(with([](Degrees& d) { d.zero = 0; }));
  EXPECT_FALSE(with([](Degrees& d) { d.zero = 2; }));
  EXPECT_TRUE(with([](Degrees& d) { d.micro_batch = 4; }));
  EXPECT_FALSE(with([](Degrees& d) { d.micro_batch = 1; }));
  EXPECT_TRUE(with([](Degrees& d) { d.recompute = Recompute::None; }));
  EXPECT_FALSE(with([](Degrees& d) { d.recompute = Recompute::Full; }));
  EXPECT_TRUE(with([](Degrees& d) { d.schedule = ScheduleKind::GPipe; }));
  EXPECT_TRUE(with([](Degrees& d) { d.schedule = ScheduleKind::Interleaved, d.chunks = 2; }));
  EXPECT_FALSE(with([](Degrees& d) { d.schedule = ScheduleKind::ZeroBubbleH1; }));
  for (int Degrees::*degree : {&Degrees::tp, &Degrees::pp, &Degrees::cp, &Degrees::ep})
    EXPECT_FALSE(with([&](Degrees& d) { d.*degree = 4; }));
  EXPECT_FALSE(with([](Degrees& d) { d.split.last = 1; }));
  // Interleaved chunks tell nothing about other chunks, nor about one stage for each rank.
  Degrees chunked = large;
  chunked.schedule = ScheduleKind::Interleaved;
  chunked.chunks = 2;
  TooLargeDegrees of_chunks;
  of_chunks.add(chunked);
  EXPECT_TRUE(of_chunks.rule_out(chunked));
  EXPECT_FALSE(of_chunks.rule_out(large));
  chunked.chunks = 4;
  EXPECT_FALSE(of_chunks.rule_out(chunked));
}

}  // namespace
}  // namespace meshwright::small_degrees_test
