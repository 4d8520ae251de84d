// SPDX-License-Identifier: Apache-2.0
// The stage search on plain data against enumeration of all pipelines, and against the plain recurrence.
#include "core/planner/pipeline/stage_dp.h"

#include <gtest/gtest.h>

#include "core/planner/pipeline/stage_dp_ranking.h"
#include "tests/oracle/stage_dp_truth.h"

namespace meshwright::stage_dp_test {
namespace {

using Slices = std::vector<std::vector<int>>;

// A table, a request and all its pipelines.
struct Case {
  StageTable prices;
  StageDpRequest request;
  std::vector<TablePipeline> all;
};

// 1F1B that starts early to hide transfers keeps more than the schedules do.
InFlight in_flight_of_eager_1f1b() {
  return [](int from_end, std::int64_t microbatches) {
    return std::min<std::int64_t>(2 * static_cast<std::int64_t>(from_end) + 1, microbatches);
  };
}

InFlight drawn_in_flight(int which) {
  switch (which) {
    case 0:
      return in_flight_of(ScheduleKind::GPipe);
    case 1:
      return in_flight_of(ScheduleKind::Inference);
    case 2:
      return in_flight_of_eager_1f1b();
    case 3:  // neither growing nor falling
      return [](int from_end, std::int64_t microbatches) {
        return std::min<std::int64_t>(5 - from_end % 3, microbatches);
      };
    default:
      return in_flight_of(ScheduleKind::OneFOneB);
  }
}

Case draw_case(std::mt19937& random, const Slices& slices, const std::vector<int>& most_devices, int n, int unit = 1) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const DrawnTimes times = n % 3 == 0   ? DrawnTimes::Integers
                           : n % 3 == 1 ? DrawnTimes::Reals
                                        : DrawnTimes::Proportional;
  const int layers = draw(1, 5), configs = draw(1, 3);
  Case drawn{random_prices(random, layers, slices, configs, n % 4 == 0 ? 0.5 : 0.1, times), {}, {}};
  for (const int most : most_devices) drawn.request.devices.push_back(draw(most_devices.size() > 1 ? 0 : 1, most));
  drawn.request.devices.front() = std::max(1, drawn.request.devices.front());
  for (int& count : drawn.request.devices) count *= unit;
  drawn.request.all_devices = draw(0, 3) > 0;
  drawn.request.microbatches = draw(0, 2) == 0 ? 1 : draw(0, 9) == 0 ? 1000000 : draw(2, 40);
  drawn.request.in_flight = drawn_in_flight(draw(0, 7));
  if (draw(0, 3) == 0) drawn.request.stages = draw(1, 5);
  drawn.all = all_table_pipelines(drawn.prices, drawn.request);
  return drawn;
}

const Slices kOneKind{{1}, {2}, {4}};
const Slices kTwoKinds{{1, 0}, {0, 1}, {2, 0}, {0, 2}, {1, 1}, {3, 0}};

bool is_one_of(const TablePipeline& pipeline, const std::vector<TablePipeline>& all) {
  return std::any_of(all.begin(), all.end(), [&](const TablePipeline& other) {
    return other.stages == pipeline.stages && other.sum == pipeline.sum && other.slowest == pipeline.slowest;
  });
}

// The least of value(pipeline) among those that are allowed.
template <class Value, class Allowed>
std::optional<Seconds> least(const std::vector<TablePipeline>& all, Value value, Allowed allowed) {
  std::optional<Seconds> found;
  for (const TablePipeline& pipeline : all)
    if (allowed(pipeline)) found = std::min(found.value_or(value(pipeline)), value(pipeline));
  return found;
}

void expect_training_equals_enumeration(unsigned seed, const Slices& slices, const std::vector<int>& devices, int cases,
                                        int unit = 1) {
  std::mt19937 random(seed);
  int none = 0, memory_binds = 0;
  for (int n = 0; n < cases; ++n) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", table " << n);
    Case drawn = draw_case(random, slices, devices, n, unit);
    const auto truth = least(
        drawn.all, [](const auto& p) { return p.cost; }, [](const auto&) { return true; });
    const auto found = fastest_training(drawn.prices, drawn.request);
    ASSERT_EQ(found.has_value(), truth.has_value());
    none += !truth;
    if (truth) {
      EXPECT_EQ(found->cost, *truth);
      EXPECT_TRUE(is_one_of(*found, drawn.all));
    }
    drawn.request.in_flight = [](int, std::int64_t) { return 0; };
    const auto unlimited = fastest_training(drawn.prices, drawn.request);
    memory_binds += unlimited && (!truth || unlimited->cost < *truth);
  }
  std::cout << "seed " << seed << ": " << cases << " tables, " << none << " without a pipeline, memory binds in "
            << memory_binds << "\n";
  EXPECT_GT(none, cases / 20);
  EXPECT_GT(memory_binds, cases / 10);
}

TEST(StageDp, TrainingEqualsEnumerationWithOneKindOfDevice) {
  expect_training_equals_enumeration(31337, kOneKind, {8}, 1200);
}

TEST(StageDp, TrainingEqualsEnumerationWithTwoKindsOfDevices) {
  expect_training_equals_enumeration(2718, kTwoKinds, {4, 3}, 600);
}

TEST(StageDp, TrainingEqualsEnumerationWithManyStatesOfTwoKindsOfDevices) {
  // Up to 41 x 25 counts, most of which no pipeline leaves.
  expect_training_equals_enumeration(1414, {{8, 0}, {0, 8}, {8, 8}, {16, 0}, {0, 16}}, {5, 3}, 300, 8);
}

TEST(StageDp, TrainingEqualsThePlainRecurrenceOnMidSizeTables) {
  std::mt19937 random(1618);
  for (int n = 0; n < 30; ++n) {
    SCOPED_TRACE(testing::Message() << "seed 1618, table " << n);
    const auto times = n % 3 == 0 ? DrawnTimes::Integers : n % 3 == 1 ? DrawnTimes::Reals : DrawnTimes::Proportional;
    const StageTable prices = random_prices(random, 9, {{1}, {2}, {4}, {8}}, 2, 0.2, times);
    StageDpRequest request{.devices = {10}, .microbatches = 1 << (n / 3), .in_flight = drawn_in_flight(n % 5)};
    const auto truth = least_training_by_recurrence(prices, request);
    const auto found = fastest_training(prices, request);
    ASSERT_EQ(found.has_value(), truth.has_value());
    if (truth) {
      EXPECT_EQ(found->cost, Seconds(*truth));
    }
  }
}

TEST(StageDp, MoreThanSixtyFourStatesOfDevicesEqualThePlainRecurrence) {
  std::mt19937 random(577);
  int found_some = 0;
  for (int n = 0; n < 12; ++n) {
    SCOPED_TRACE(testing::Message() << "seed 577, table " << n);
    const StageTable prices = random_prices(random, 6, {{16}, {32}, {48}, {64}, {80}}, 2, 0.2,
                                            n % 2 == 0 ? DrawnTimes::Integers : DrawnTimes::Proportional);
    StageDpRequest request{.devices = {96 + 16 * n}, .microbatches = 1 << n % 6};
    const auto truth = least_training_by_recurrence(prices, request);
    const auto found = fastest_training(prices, request);
    ASSERT_EQ(found.has_value(), truth.has_value());
    found_some += truth.has_value();
    if (truth) {
      EXPECT_EQ(found->cost, Seconds(*truth));
    }
  }
  EXPECT_GT(found_some, 6);
}

void expect_serving_equals_enumeration(unsigned seed, const Slices& slices, const std::vector<int>& devices,
                                       int cases) {
  std::mt19937 random(seed);
  int none = 0, binds = 0;
  for (int n = 0; n < cases; ++n) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", table " << n);
    const Case drawn = draw_case(random, slices, devices, n);
    const auto sum = [](const TablePipeline& p) { return p.sum; };
    const auto slowest = [](const TablePipeline& p) { return p.slowest; };
    const auto any = [](const TablePipeline&) { return true; };
    // Bounds that some pipeline keeps exactly, or that none may keep.
    const auto drawn_pipeline = [&]() -> const TablePipeline* {
      if (drawn.all.empty() || n % 8 == 0) return nullptr;
      return &drawn.all[std::uniform_int_distribution<std::size_t>(0, drawn.all.size() - 1)(random)];
    };
    const TablePipeline *a = drawn_pipeline(), *b = drawn_pipeline();
    const Seconds stage_bound = a ? a->slowest : Seconds(0.5), sum_bound = b ? b->sum : Seconds(0.8);

    const auto latency = least(drawn.all, sum, [&](const auto& p) { return p.slowest <= stage_bound; });
    const auto quick = min_latency(drawn.prices, drawn.request, stage_bound);
    ASSERT_EQ(quick.has_value(), latency.has_value());
    none += !latency;
    if (latency) {
      EXPECT_EQ(quick->cost, *latency);
      EXPECT_LE(quick->slowest, stage_bound);
      EXPECT_TRUE(is_one_of(*quick, drawn.all));
      binds += *latency > *least(drawn.all, sum, any);
    }
    const auto pace = least(drawn.all, slowest, [&](const auto& p) { return p.sum <= sum_bound; });
    const auto steady = max_throughput(drawn.prices, drawn.request, sum_bound);
    ASSERT_EQ(steady.has_value(), pace.has_value());
    if (!pace) continue;
    EXPECT_EQ(steady->cost, *pace);
    EXPECT_EQ(steady->sum, *least(drawn.all, sum, [&](const auto& p) { return p.slowest <= *pace; }));
    EXPECT_TRUE(is_one_of(*steady, drawn.all));
    binds += *pace > *least(drawn.all, slowest, any);
  }
  std::cout << "seed " << seed << ": " << cases << " tables, " << none << " without a pipeline, " << binds
            << " bounds bind\n";
  EXPECT_GT(none, cases / 20);
  EXPECT_GT(binds, cases / 50);
}

TEST(StageDp, ServingEqualsEnumerationWithOneKindOfDevice) {
  expect_serving_equals_enumeration(141, kOneKind, {8}, 600);
}
TEST(StageDp, ServingEqualsEnumerationWithTwoKindsOfDevices) {
  expect_serving_equals_enumeration(173, kTwoKinds, {4, 3}, 300);
}

bool nearly(Seconds a, Seconds b) { return std::abs((a - b).si()) <= 1e-12 * std::max(a, b).si(); }

// The ranking gives every pipeline once, the n-th with the n-th cost.
void expect_ranking_of(PipelineRanking ranking, std::vector<TablePipeline> all) {
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.cost < b.cost; });
  std::set<std::vector<TableStage>> seen;
  for (const TablePipeline& truth : all) {
    const auto found = ranking.next();
    ASSERT_TRUE(found);
    ASSERT_TRUE(nearly(found->cost, truth.cost)) << found->cost.si() << " instead of " << truth.cost.si();
    ASSERT_TRUE(seen.insert(found->stages).second);
  }
  EXPECT_FALSE(ranking.next().has_value());
  for (const TablePipeline& truth : all) EXPECT_TRUE(seen.count(truth.stages));
}

void expect_ranking_equals_enumeration(unsigned seed, const Slices& slices, const std::vector<int>& devices,
                                       int cases) {
  std::mt19937 random(seed);
  std::size_t given = 0;
  for (int n = 0; n < cases; ++n) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", table " << n);
    Case drawn = draw_case(random, slices, devices, n);
    given += drawn.all.size();
    expect_ranking_of(PipelineRanking::by_training_time(drawn.prices, drawn.request), drawn.all);
    if (n % 4 != 0) continue;
    const Seconds slowest = drawn.all.empty() ? Seconds(1) : drawn.all[drawn.all.size() / 3].slowest;
    std::erase_if(drawn.all, [&](const TablePipeline& p) { return p.slowest > slowest; });
    for (TablePipeline& pipeline : drawn.all) pipeline.cost = pipeline.sum;
    expect_ranking_of(PipelineRanking::by_latency(drawn.prices, drawn.request, slowest), drawn.all);
  }
  std::cout << "seed " << seed << ": " << cases << " tables, " << given << " pipelines\n";
  EXPECT_GT(given, static_cast<std::size_t>(10 * cases));
}

TEST(PipelineRanking, EqualsEnumerationWithOneKindOfDevice) {
  expect_ranking_equals_enumeration(99, kOneKind, {6}, 400);
}
TEST(PipelineRanking, EqualsEnumerationWithTwoKindsOfDevices) {
  expect_ranking_equals_enumeration(98, kTwoKinds, {3, 2}, 200);
}

TEST(PipelineRanking, EqualsEnumerationWithManyConfigurations) {
  std::mt19937 random(97);
  for (int n = 0; n < 20; ++n) {
    SCOPED_TRACE(testing::Message() << "seed 97, table " << n);
    const StageTable prices =
        random_prices(random, 2 + n % 2, kOneKind, 15, 0.1, n % 4 < 2 ? DrawnTimes::Integers : DrawnTimes::Reals);
    const StageDpRequest request{.devices = {3}, .microbatches = 1 + 7 * (n % 5)};
    const std::vector<TablePipeline> all = all_table_pipelines(prices, request);
    EXPECT_GT(all.size(), 100U);
    expect_ranking_of(PipelineRanking::by_training_time(prices, request), all);
  }
}

}  // namespace
}  // namespace meshwright::stage_dp_test
