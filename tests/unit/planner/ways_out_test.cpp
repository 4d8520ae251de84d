// SPDX-License-Identifier: Apache-2.0
#include "core/planner/ways_out.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tests/unit/planning_fixture.h"

namespace meshwright::ways_out_test {
namespace {

const char* const kGpt = "gpt:layers=2,hidden=32,heads=4,seq=32,vocab=64";
const char* const kMlp = "mlp:layers=2,hidden=128";

// Counts what is planned.
struct Analytic {
  int calls = 0;
  CostContextOf cost_context_of() {
    return [this](const Cluster& cluster) {
      ++calls;
      CostContext pricing{make_analytic_cost_model(cluster), nullptr};
      pricing.evaluator = std::make_unique<SimulatedStep>(*pricing.costs);
      return pricing;
    };
  }
};

PlanRequest with_memory(PlanRequest request, Bytes usable) {
  request.cluster.only().device.memory = usable;
  request.cluster.only().device.usable_memory = 1.0;
  return request;
}

Bytes peak_of(const PlanRequest& request) { return planned(request).plan->predicted.peak_memory; }

PlanRequest data_parallel(const char* model, const char* method = "data") {
  PlanRequest request = ask(model, "cpu:4", method, 64, 4);
  request.search.layers = 2;
  return request;
}

// Memory for full recomputation, but not for none.
PlanRequest short_of_activations() {
  const PlanRequest request = data_parallel(kGpt);
  PlanRequest recomputed = request;
  recomputed.search.recompute = Recompute::Full;
  return with_memory(request, 0.5 * (peak_of(request) + peak_of(recomputed)));
}

// Memory for optimizer state that is split, but not for whole one.
PlanRequest short_of_state() {
  const PlanRequest request = data_parallel(kMlp);
  return with_memory(request, 0.5 * (peak_of(request) + peak_of(data_parallel(kMlp, "zero1"))));
}

WaysOut ways_out_of(const PlanRequest& request, const WaysOutLimits& limits = {}) {
  Analytic analytic;
  const Planned failed = planned(request);
  EXPECT_FALSE(failed.plan);
  EXPECT_TRUE(failed.too_large) << failed.reason;
  return find_ways_out(request, failed, analytic.cost_context_of(), limits);
}

std::set<std::string> changes(const WaysOut& found) {
  std::set<std::string> texts;
  for (const WayOut& way : found.ways) texts.insert(way.change);
  return texts;
}

TEST(WaysOut, FitWhenTheyArePlannedAgain) {
  for (const PlanRequest& request : {short_of_activations(), short_of_state()}) {
    const WaysOut found = ways_out_of(request, {.planning_calls = 40, .ways = 10});
    EXPECT_GE(found.ways.size(), 2u);
    for (const WayOut& way : found.ways) {
      const Planned again = planned(way.request);
      ASSERT_TRUE(again.plan) << way.change << ": " << again.reason;
      EXPECT_EQ(again.plan->predicted.step_time, way.step_time) << way.change;
      EXPECT_LE(again.check.largest_peak(), way.request.cluster.usable_memory()) << way.change;
    }
  }
}

TEST(WaysOut, OfTooManyActivationsAreToRecomputeThemOrHaveFewerAtOnce) {
  const std::set<std::string> found = changes(ways_out_of(short_of_activations(), {.planning_calls = 40, .ways = 10}));
  EXPECT_TRUE(
      std::any_of(found.begin(), found.end(), [](const auto& text) { return text.starts_with("--recompute "); }));
  EXPECT_TRUE(found.contains("--micro-batches 8"));
  EXPECT_TRUE(found.contains("--batch 32"));
}

TEST(WaysOut, OfWholeOptimizerStateIsTheFirstZeroLevelThatFits) {
  const WaysOut found = ways_out_of(short_of_state(), {.planning_calls = 40, .ways = 10});
  EXPECT_TRUE(changes(found).contains("--method zero1"));
  for (const char* too_far : {"--method zero2", "--method zero3"}) {
    EXPECT_FALSE(changes(found).contains(too_far));
    EXPECT_EQ(std::count(found.in_vain.begin(), found.in_vain.end(), too_far), 0);
  }
  // More of what does not shrink the state was tried and is not offered.
  EXPECT_NE(std::count(found.in_vain.begin(), found.in_vain.end(), "--recompute full"), 0);
}

TEST(WaysOut, OfStateSplitWithinGroupsIsToSplitItOverAllDevices) {
  const PlanRequest request = data_parallel(kMlp, "zero1:shard=2");
  const PlanRequest tight = with_memory(request, 0.5 * (peak_of(request) + peak_of(data_parallel(kMlp, "zero1"))));
  EXPECT_TRUE(changes(ways_out_of(tight, {.planning_calls = 40, .ways = 10})).contains("--method zero1"));
}

TEST(WaysOut, OfWholeOptimizerStateAreTheHostsWhereTheClusterSaysWhatTheyHold) {
  PlanRequest request = short_of_state();
  const auto offered = [&] { return changes(ways_out_of(request, {.planning_calls = 40, .ways = 10})); };
  EXPECT_FALSE(offered().contains("--offload optimizer"));
  request.cluster.only().device.host_bandwidth = BytesPerSecond(1e9);
  request.cluster.only().device.host_memory = Bytes(1.0);  // too little
  EXPECT_FALSE(offered().contains("--offload optimizer"));
  request.cluster.only().device.host_memory = Bytes(1e9);
  EXPECT_TRUE(offered().contains("--offload optimizer"));
}

TEST(WaysOut, OfWeightsThatDevicesCannotHoldAreTheHostsThatCan) {
  PlanRequest request = data_parallel(kMlp);
  request.cluster.only().device.host_bandwidth = BytesPerSecond(1e9);
  request.cluster.only().device.host_memory = Bytes(1e9);
  PlanRequest away = request;
  away.training.offload = Offload::Optimizer | Offload::Activations | Offload::Weights;
  PlanRequest state_away = request;
  state_away.training.offload = Offload::Optimizer;
  const PlanRequest tight = with_memory(request, 0.5 * (peak_of(away) + peak_of(state_away)));
  const std::set<std::string> found = changes(ways_out_of(tight, {.planning_calls = 60, .ways = 10}));
  EXPECT_TRUE(found.contains("--offload " + name_of(away.training.offload)));
  EXPECT_FALSE(found.contains("--offload optimizer"));
}

TEST(WaysOut, AreSortedByTimePerSampleOneOfEachKind) {
  const PlanRequest request = short_of_activations();
  const Planned failed = planned(request);
  const WaysOut found = ways_out_of(request, {.planning_calls = 40, .ways = 10});
  const double before = failed.too_large->step_time.si() / 64;
  std::set<WayOut::Kind> kinds;
  for (std::size_t i = 0; i < found.ways.size(); ++i) {
    const WayOut& way = found.ways[i];
    EXPECT_TRUE(kinds.insert(way.kind).second) << way.change;
    if (i > 0) {
      EXPECT_GE(way.per_sample(), found.ways[i - 1].per_sample());
    }
    const double samples = static_cast<double>(way.request.training.batch);
    EXPECT_NEAR(*way.slower, way.step_time.si() / samples / before - 1.0, 1e-12) << way.change;
  }
  EXPECT_EQ(ways_out_of(request, {.planning_calls = 40, .ways = 2}).ways.size(), 2u);
}

TEST(WaysOut, CallThePlannerAsOftenAsAllowedAndNotAfterBeingStopped) {
  const PlanRequest request = short_of_activations();
  const Planned failed = planned(request);
  for (const int calls : {0, 1, 3}) {
    Analytic analytic;
    (void)find_ways_out(request, failed, analytic.cost_context_of(), {.planning_calls = calls});
    EXPECT_EQ(analytic.calls, calls);
  }
  Analytic analytic;
  const WaysOut stopped = find_ways_out(request, failed, analytic.cost_context_of(), {.stop = [] { return true; }});
  EXPECT_EQ(analytic.calls, 0);
  EXPECT_TRUE(stopped.ways.empty());
  EXPECT_TRUE(stopped.in_vain.empty());
}

TEST(WaysOut, PlanNothingThatWeightsAndStateAloneMakeTooLarge) {
  const PlanRequest request = with_memory(data_parallel(kMlp), Bytes(1024));
  Analytic analytic;
  const Planned failed = planned(request);
  const WaysOut found = find_ways_out(request, failed, analytic.cost_context_of());
  EXPECT_EQ(analytic.calls, 0);
  EXPECT_TRUE(sentence(failed, found).ends_with(" usable each; use more or larger devices, or a smaller model"));
  // With the memory that the sentence names there is a plan.
  EXPECT_TRUE(planned(with_memory(request, failed.too_large->needs)).plan) << sentence(failed, found);
}

// On many devices a part of each request's space is searched; all of it has no worse a plan.
TEST(WaysOut, OfLargeRequestsAreWhatTheirPlansTakeAtMost) {
  PlanRequest request = ask(kGpt, "cpu:16", "data", 256, 4);
  request.search.layers = 2;
  PlanRequest recomputed = request;
  recomputed.search.recompute = Recompute::Full;
  request = with_memory(request, 0.5 * (peak_of(request) + peak_of(recomputed)));
  const WaysOut found = ways_out_of(request, {.planning_calls = 6, .ways = 10});
  ASSERT_FALSE(found.ways.empty());
  for (const WayOut& way : found.ways) {
    EXPECT_TRUE(way.at_most || way.request.training.batch <= 128) << way.change;
    const Planned again = planned(way.request);
    ASSERT_TRUE(again.plan) << way.change << ": " << again.reason;
    EXPECT_LE(again.plan->predicted.step_time, way.step_time) << way.change;
  }
}

// Too little memory even if every layer is recomputed: less recomputation is in vain, and is not planned.
TEST(WaysOut, OfLargeRequestsAreNotPlannedWhereALargerChangeIsInVain) {
  PlanRequest request = ask(kMlp, "cpu:16", "data", 512, 4);
  request.search.layers = 2;
  PlanRequest recomputed = request;
  recomputed.search.recompute = Recompute::Full;
  request = with_memory(request, 0.98 * peak_of(recomputed));
  std::set<std::string> planned_changes;
  request.progress = [&](const std::string& text) { planned_changes.insert(text.substr(0, text.find(':'))); };
  const Planned failed = planned(request);
  planned_changes.clear();
  Analytic analytic;
  const WaysOut found = find_ways_out(request, failed, analytic.cost_context_of(), {.planning_calls = 40, .ways = 10});
  EXPECT_TRUE(planned_changes.contains("--recompute full"));
  for (const char* smaller : {"--recompute selective", "--recompute full", "--recompute auto"}) {
    EXPECT_EQ(std::count(found.in_vain.begin(), found.in_vain.end(), smaller), 1) << smaller;
    if (std::string(smaller) != "--recompute full") {
      EXPECT_FALSE(planned_changes.contains(smaller)) << smaller;
    }
  }
  // Of changes that fit the smallest is the answer, though the largest was planned first.
  EXPECT_TRUE(planned_changes.contains("--method zero3"));
  EXPECT_TRUE(changes(found).contains("--method zero1"));
  EXPECT_FALSE(changes(found).contains("--method zero3"));
}

TEST(WaysOut, MoreHostsAreNamedAsThePresetWhereItIsOne) {
  // 8.6e9 weights of 4 bytes with Adam's moments: 16 bytes each with gradients, 128 GiB on eight devices of 14.7.
  PlanRequest request = ask("mlp:layers=1,hidden=32768", "p3.16xlarge:1", "shard", 8, 1);
  request.search.layers = 1;
  const WaysOut found = ways_out_of(request, {.planning_calls = 40, .ways = 10});
  EXPECT_TRUE(changes(found).contains("--cluster p3.16xlarge:2")) << sentence(planned(request), found);
  request.cluster.name = "lab.json";
  const WaysOut of_a_file = ways_out_of(request, {.planning_calls = 40, .ways = 10});
  EXPECT_TRUE(changes(of_a_file).contains("1 more host")) << sentence(planned(request), of_a_file);
}

TEST(WaysOut, AreNotLookedForWhereMemoryIsNotTheLimit) {
  Planned failed;
  failed.reason = "the stages' submeshes have no place side by side on the 2 hosts of lab";
  Analytic analytic;
  const WaysOut found = find_ways_out(data_parallel(kMlp), failed, analytic.cost_context_of());
  EXPECT_EQ(analytic.calls, 0);
  EXPECT_EQ(sentence(failed, found), failed.reason);
}

TEST(WaysOutSentence, NamesTheStageThenWhatToChangeAndWhatItCosts) {
  Planned failed;
  failed.too_large = {3, 4, 12, 15, gibibytes(21.4), gibibytes(16), Seconds(2.0)};
  WaysOut found;
  EXPECT_EQ(
      sentence(failed, found),
      "stage 3 of 4 (layers 12..15) needs 21.4 GiB of 16.0 GiB per device; it would fit devices with 21.4 GiB usable "
      "each; use more or larger devices, or a smaller model");
  failed.too_large->likely = true;
  EXPECT_EQ(
      sentence(failed, found),
      "stage 3 of 4 (layers 12..15) needs 21.4 GiB per device, and no more than 16.0 GiB is likely to fit; it would "
      "fit devices with 21.4 GiB usable each; use more or larger devices, or a smaller model");
  failed.too_large->likely = false;
  found.in_vain = {"--recompute full", "--batch 8"};
  EXPECT_EQ(
      sentence(failed, found),
      "stage 3 of 4 (layers 12..15) needs 21.4 GiB of 16.0 GiB per device; it would fit devices with 21.4 GiB usable "
      "each; not enough alone: --recompute full, --batch 8");
  PlanRequest request;
  request.training.batch = 10;
  found.ways = {{WayOut::Kind::ZeroLevel, "--method zero2", request, Seconds(2.02), false, 0.01},
                {WayOut::Kind::Recomputation, "--recompute full", request, Seconds(2.1), true, std::nullopt}};
  EXPECT_EQ(
      sentence(failed, found),
      "stage 3 of 4 (layers 12..15) needs 21.4 GiB of 16.0 GiB per device; cheapest ways out, with what "
      "they change in time per sample: --method zero2 (+1.0 %), --recompute full (at most 210.000 ms per sample)");
}

}  // namespace
}  // namespace meshwright::ways_out_test
