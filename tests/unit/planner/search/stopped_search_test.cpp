// SPDX-License-Identifier: Apache-2.0
// What a search still does once it is asked to stop, what it says of that, and with what plan it answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "core/planner/search/stage_space.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::stopped_search_test {
namespace {

// --- what is still done ---

// Says stop from a given ask on, and knows the steps of the search that begin after that.
class StepsAfterStop final : public StepLog {
 public:
  explicit StepsAfterStop(int from) : from_(from) {}
  void begin(const char* step) override {
    if (asks >= from_) after += std::string(after.empty() ? "" : " ") + step;
  }
  void end(const std::string& /*result*/) override {}
  bool stop() { return ++asks >= from_; }

  int asks = 0;
  std::string after;

 private:
  const int from_;
};

// Stopped at so many of its asks, evenly between the first and the last, the search ends the step at hand, or the one
// program that it has begun with; and says that it was interrupted whenever it was told to stop.
void expect_to_end_with_what_is_begun(PlanRequest request, int stops) {
  const auto costs = make_analytic_cost_model(request.cluster);
  const auto run = [&](int ask) {
    StepsAfterStop steps(ask);
    request.steps = &steps;
    request.stop = [&] { return steps.stop(); };
    SimulatedStep evaluator(*costs);
    const PlanningResult result = make_plan(request, *costs, evaluator);
    EXPECT_EQ(result.log.interrupted, steps.asks >= ask) << "ask " << ask;
    return steps;
  };
  constexpr int kNever = 1 << 30;
  const int asks = run(kNever).asks;
  ASSERT_GT(asks, 4);
  const std::set<std::string> begun = {"", "bound", "lower judge", "cost rank lower judge"};
  for (int part = 0; part < stops; ++part) {
    const int ask = 1 + static_cast<int>(static_cast<std::int64_t>(asks - 1) * part / (stops - 1));
    const std::string after = run(ask).after;
    EXPECT_TRUE(begun.contains(after)) << "from ask " << ask << " of " << asks << ": " << after;
  }
}

constexpr const char* kGpt = "gpt:layers=2,hidden=32,heads=4,seq=8,vocab=64";

TEST(StoppedSearch, OfEveryNumberOfMicrobatchesEndsWithWhatIsBegun) {
  expect_to_end_with_what_is_begun(ask("mlp:layers=2,hidden=32", "cpu:3", "pipeshard", 6, Auto{}), 20);
}
TEST(StoppedSearch, OfAllThatIsLeftOpenEndsWithWhatIsBegun) {
  PlanRequest request = ask("mlp:layers=2,hidden=32", "cpu:2", "pipeshard", 4, Auto{});
  request.search.schedule = Auto{};
  request.search.recompute = Auto{};
  request.search.layers = Auto{};
  expect_to_end_with_what_is_begun(request, 5);
}
TEST(StoppedSearch, ForAFrontEndsWithWhatIsBegun) {
  PlanRequest request = ask("mlp:layers=2,hidden=32", "cpu:2", "pipeshard", 8, 2);
  request.goal.front = true;
  expect_to_end_with_what_is_begun(request, 46);
}
TEST(StoppedSearch, WithLargeProgramsEndsWithWhatIsBegun) {
  expect_to_end_with_what_is_begun(ask("mlp:layers=2,hidden=32", "cpu:16", "pipeshard", 256, Auto{}), 6);
}
TEST(StoppedSearch, WithLittleMemoryEndsWithWhatIsBegun) {
  PlanRequest request = ask(kGpt, "cpu:2", "pipeshard", 8, Auto{});
  request.cluster.only().device.memory = Bytes(3e5);
  expect_to_end_with_what_is_begun(request, 6);
}
TEST(StoppedSearch, InWhichNothingFitsEndsWithWhatIsBegun) {
  PlanRequest request = ask(kGpt, "cpu:2", "pipeshard", 8, Auto{});
  request.cluster.only().device.memory = Bytes(3e4);
  expect_to_end_with_what_is_begun(request, 5);
}
TEST(StoppedSearch, OfOneStageEndsWithWhatIsBegun) {
  PlanRequest request = ask(kGpt, "cpu:2", "shard", 8, 2);
  request.search.recompute = Auto{};
  expect_to_end_with_what_is_begun(request, 14);
}
TEST(StoppedSearch, OfFewerHostsEndsWithWhatIsBegun) {
  PlanRequest request = ask("mlp:layers=2,hidden=8", "p3.16xlarge:4", "pipeshard", 8, Auto{});
  request.cluster.only().devices_per_host = 1;
  request.search.layers = 2;
  expect_to_end_with_what_is_begun(request, 30);
}
TEST(StoppedSearch, OfSeveralStagesOnEachRankEndsWithWhatIsBegun) {
  PlanRequest request = ask("mlp:layers=4,hidden=64", "cpu:2", "pipeshard", 8, 4);
  request.search.schedule = ScheduleKind::Interleaved;
  expect_to_end_with_what_is_begun(request, 25);
}
TEST(StoppedSearch, ForServingEndsWithWhatIsBegun) {
  PlanRequest request = ask("mlp:layers=2,hidden=8", "cpu:2", "pipeshard", 8, Auto{});
  request.search.schedule = ScheduleKind::Inference;
  request.goal.objective = Goal::Objective::Latency;
  expect_to_end_with_what_is_begun(request, 30);
}
TEST(StoppedSearch, OfWhatHostsKeepEndsWithWhatIsBegun) {
  PlanRequest request = ask("mlp:layers=2,hidden=8", "cpu:2", "data", 4, 2);
  request.search.any_offload = true;
  request.cluster.only().device.host_memory = Bytes(1e9);
  request.cluster.only().device.host_bandwidth = BytesPerSecond(1e9);
  expect_to_end_with_what_is_begun(request, 20);
}

// --- the first plan of many devices ---

PlanRequest of_many_devices(const std::string& method = "pipeshard") {
  PlanRequest request = ask("gpt:layers=4,hidden=32,heads=4,seq=8,vocab=64", "p3.16xlarge:4", method, 64, Auto{});
  request.stop = [] { return true; };
  return request;
}

// The numbers of micro-batches whose stages get costs.
std::vector<std::int64_t> numbers_of(PlanRequest request) {
  std::vector<std::int64_t> numbers;
  request.progress = [&](const std::string& text) {
    int layers = 0;
    long long number = 0;
    if (text.find("computing stage costs") == std::string::npos) return;
    if (std::sscanf(text.c_str(), "%d layers, %lld micro-batches", &layers, &number) == 2) numbers.push_back(number);
  };
  (void)planned(request);
  return numbers;
}

// 1, 2, 4 ... 128 are eight numbers, 1, 2, 4 ... 1024 eleven. A given one is looked at first, and then for a plain
// plan.
TEST(FirstPlan, IsLookedForAmongTheLastQuarterOfTheNumbersOfMicrobatches) {
  PlanRequest request = of_many_devices();
  request.training.batch = 128;
  EXPECT_EQ(numbers_of(request), (std::vector<std::int64_t>{64}));
  request.training.batch = 1024;
  EXPECT_EQ(numbers_of(request), (std::vector<std::int64_t>{256}));
  request.cluster.only().device.memory = Bytes(1e4);  // nothing fits
  EXPECT_EQ(numbers_of(request), (std::vector<std::int64_t>{256, 512, 1024}));
  request.search.microbatches = std::int64_t{16};
  EXPECT_EQ(numbers_of(request), (std::vector<std::int64_t>{16, 16}));
}

TEST(FirstPlan, HasStagesOfWholeHostsWithTheirOwnMeshes) {
  const PlanRequest request = of_many_devices();
  const Planned result = planned(request);
  ASSERT_TRUE(result.plan);
  for (const StagePlan& stage : result.plan->stages) {
    EXPECT_EQ(stage.submesh, (Submesh{1, 8}));
    EXPECT_EQ(stage.logical_shape, (std::vector<int>{1, 8}));
  }
  EXPECT_TRUE(result.log.interrupted);
}

// No plan of any number of micro-batches takes less than the bound that is told of it, nor of its own.
TEST(FirstPlan, IsBoundedAsThePlanOfAWholeSearchIs) {
  PlanRequest request = of_many_devices();
  const Planned first = planned(request);
  ASSERT_TRUE(first.plan);
  request.stop = nullptr;
  request.search.microbatches = first.plan->training.microbatches;
  const Planned whole = planned(request);
  ASSERT_TRUE(whole.plan);
  EXPECT_LE(whole.plan->predicted.step_time, first.plan->predicted.step_time);
  EXPECT_LE(first.plan->predicted.lower_bound, whole.plan->predicted.step_time);
  EXPECT_LE(first.lower_bound_within_layers, whole.plan->predicted.step_time);
}

// Up to 16 devices someone who waits so long has a plan; what shards and specs leave open is not named by a few meshes,
// nor what the request itself says of submeshes; serving and stored costs are left as well.
TEST(FirstPlan, IsOnlyLookedForWhereItIsPlain) {
  const auto has_plan = [](const PlanRequest& request) { return planned(request).plan.has_value(); };
  EXPECT_TRUE(has_plan(of_many_devices()));
  EXPECT_TRUE(has_plan(of_many_devices("data")));
  EXPECT_TRUE(has_plan(of_many_devices("zero3")));
  EXPECT_TRUE(has_plan(of_many_devices("megatron:tp=4,pp=2")));
  EXPECT_FALSE(has_plan(of_many_devices("shard")));
  for (const int hosts : {2, 3}) {
    PlanRequest request = of_many_devices();
    request.cluster = find_cluster(fmt::format("p3.16xlarge:{}", hosts));
    EXPECT_EQ(has_plan(request), hosts == 3);
  }
  PlanRequest given = of_many_devices();
  given.search.submeshes = std::vector<Submesh>{{1, 8}};
  EXPECT_FALSE(has_plan(given));
  PlanRequest serves = of_many_devices();
  serves.search.schedule = ScheduleKind::Inference;
  EXPECT_FALSE(has_plan(serves));
  serves.goal.objective = Goal::Objective::Latency;
  EXPECT_FALSE(has_plan(serves));
}

// Of all schedules the plain one: one forward, one backward.
TEST(FirstPlan, HasTheScheduleAskedForOrThePlainOne) {
  PlanRequest request = of_many_devices();
  request.search.schedule = Auto{};
  EXPECT_EQ(planned(request).plan->schedule, ScheduleKind::OneFOneB);
  request.search.schedule = ScheduleKind::GPipe;
  EXPECT_EQ(planned(request).plan->schedule, ScheduleKind::GPipe);
}

}  // namespace
}  // namespace meshwright::stopped_search_test
