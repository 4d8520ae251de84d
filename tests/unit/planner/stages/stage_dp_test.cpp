// SPDX-License-Identifier: Apache-2.0
// The stage search on plain data where the answer is known by heart.
#include "core/planner/pipeline/stage_dp.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "core/base/errors.h"
#include "core/planner/pipeline/stage_dp_ranking.h"

namespace meshwright::stage_dp_test {
namespace {

using Stages = std::vector<TableStage>;

// Slices of 1, 2, ... devices of one kind, 100 bytes on each device.
std::vector<DeviceSlice> slices_of(const std::vector<int>& sizes) {
  std::vector<DeviceSlice> slices;
  for (const int size : sizes) slices.push_back({{size}, Bytes(100)});
  return slices;
}

StageCost takes(double seconds) { return {.time = Seconds(seconds)}; }
StageCost takes(double seconds, double resident, double saved, double working) {
  return {Seconds(seconds), Seconds(0), Bytes(resident), Bytes(saved), Bytes(working)};
}

// Four layers that take 3 s each on one device and do not run together.
StageTable four_equal_layers() {
  StageTable prices(4, slices_of({1, 2}), 1);
  for (int layer = 0; layer < 4; ++layer) prices.at(layer, layer, 0, 0) = takes(3);
  return prices;
}

// One layer on two devices, or two on one each: 10 s against 7 s.
StageTable two_layers() {
  StageTable prices(2, slices_of({1, 2}), 1);
  prices.at(0, 1, 1, 0) = takes(10);
  prices.at(0, 0, 0, 0) = prices.at(1, 1, 0, 0) = takes(7);
  return prices;
}

TEST(StageDp, UniformPipelineTakesStagesPlusMicrobatchesMinusOne) {
  const auto found = fastest_training(four_equal_layers(), {.devices = {4}, .microbatches = 10});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->stages, (Stages{{0, 0, 0, 0}, {1, 1, 0, 0}, {2, 2, 0, 0}, {3, 3, 0, 0}}));
  EXPECT_EQ(found->cost, Seconds((4 + 10 - 1) * 3));  // (n + B - 1) t
  EXPECT_EQ(found->sum, Seconds(4 * 3));
  EXPECT_EQ(found->slowest, Seconds(3));
}

TEST(StageDp, ManyMicrobatchesMakeTheSlowestStageCount) {
  const StageTable prices = two_layers();
  EXPECT_EQ(fastest_training(prices, {.devices = {2}, .microbatches = 1})->cost, Seconds(10));  // against 14
  EXPECT_EQ(fastest_training(prices, {.devices = {2}, .microbatches = 2})->cost, Seconds(20));  // against 21
  EXPECT_EQ(fastest_training(prices, {.devices = {2}, .microbatches = 3})->cost, Seconds(28));  // 14 + 2*7, against 30
  EXPECT_EQ(fastest_training(prices, {.devices = {2}, .microbatches = 3, .stages = 1})->cost, Seconds(30));
  EXPECT_FALSE(fastest_training(prices, {.devices = {2}, .microbatches = 3, .stages = 3}).has_value());
}

TEST(StageDp, MicrobatchesShareTheStep) {
  StageTable prices(1, slices_of({1}), 1);
  prices.at(0, 0, 0, 0) = StageCost{.time = Seconds(2), .step = Seconds(40)};
  const auto found = fastest_training(prices, {.devices = {1}, .microbatches = 8});
  EXPECT_EQ(found->slowest, Seconds(2 + 40.0 / 8));
  EXPECT_EQ(found->cost, Seconds(8 * 2 + 40));  // once per step
}

TEST(StageDp, UsesAllDevicesOrAtMostAllAsAsked) {
  const StageTable prices = four_equal_layers();
  EXPECT_FALSE(fastest_training(prices, {.devices = {5}, .microbatches = 2}).has_value());
  EXPECT_TRUE(fastest_training(prices, {.devices = {5}, .all_devices = false, .microbatches = 2}).has_value());
  EXPECT_FALSE(fastest_training(prices, {.devices = {3}, .all_devices = false, .microbatches = 2}).has_value());
}

TEST(StageDp, AStageMayKeepWhatTheScheduleKeeps) {
  // Two layers on a device each. The first stage holds 10 + 10 working bytes of 100, and 20 per microbatch in flight:
  // four fit, not five. 1F1B keeps 2 of them there, eager 1F1B 3, GPipe all.
  StageTable prices(2, slices_of({1}), 1);
  prices.at(0, 0, 0, 0) = takes(5, 10, 20, 10);
  prices.at(1, 1, 0, 0) = takes(5, 0, 0, 0);
  const auto fits = [&](const InFlight& in_flight, std::int64_t microbatches) {
    return fastest_training(prices, {.devices = {2}, .microbatches = microbatches, .in_flight = in_flight}).has_value();
  };
  EXPECT_TRUE(fits(in_flight_of(ScheduleKind::GPipe), 4));
  EXPECT_FALSE(fits(in_flight_of(ScheduleKind::GPipe), 5));
  EXPECT_TRUE(fits(in_flight_of(ScheduleKind::OneFOneB), 1000));
  // 1F1B that starts early to hide transfers.
  const InFlight eager = [](int from_end, std::int64_t microbatches) {
    return std::min<std::int64_t>(2 * static_cast<std::int64_t>(from_end) + 1, microbatches);
  };
  EXPECT_TRUE(fits(eager, 1000));
  EXPECT_TRUE(fits(in_flight_of(ScheduleKind::Inference), 1000));
  prices.at(0, 0, 0, 0)->saved = Bytes(30);  // two fit, not three
  EXPECT_TRUE(fits(in_flight_of(ScheduleKind::OneFOneB), 1000));
  EXPECT_FALSE(fits(eager, 1000));
  prices.at(0, 0, 0, 0)->saved = Bytes(50);  // one
  EXPECT_FALSE(fits(in_flight_of(ScheduleKind::OneFOneB), 1000));
  EXPECT_TRUE(fits(in_flight_of(ScheduleKind::OneFOneB), 1));
  EXPECT_TRUE(fits(in_flight_of(ScheduleKind::Inference), 1000));
}

// The worked example of Alpa's get_merged_stages_memory_stats (alpa/pipeline_parallel/stage_profiling.py): of 15, 3.3
// are needed to run and 4.0 always, 1.4 per microbatch in flight: four stages may follow.
TEST(StageDp, AlpasMemoryExampleHasRoomForFourSuccessors) {
  for (const int successors : {4, 5}) {
    StageTable prices(successors + 1, {{{1}, Bytes(15)}}, 1);
    prices.at(0, 0, 0, 0) = takes(1, 4.0, 1.4, 3.3);
    for (int layer = 1; layer <= successors; ++layer) prices.at(layer, layer, 0, 0) = takes(1, 0, 0, 0);
    EXPECT_EQ(fastest_training(prices, {.devices = {successors + 1}, .microbatches = 100}).has_value(),
              successors == 4);
  }
}

TEST(StageDp, EarlyStagesTakeTheConfigurationThatKeepsLess) {
  // Configuration 0 is fast and keeps 60 per microbatch, 1 is slow and keeps 20: with 1F1B the last stage may have the
  // first, those with 1 to 4 behind them the second, one with 5 behind it none.
  StageTable prices(6, slices_of({1}), 2);
  for (int layer = 0; layer < 6; ++layer) {
    prices.at(layer, layer, 0, 0) = takes(1, 0, 60, 0);
    prices.at(layer, layer, 0, 1) = takes(2, 0, 20, 0);
    if (layer < 5) prices.at(layer, layer + 1, 0, 1) = takes(4, 0, 20, 0);
  }
  const auto found = fastest_training(prices, {.devices = {5}, .microbatches = 100});
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->sum, Seconds(2 + 2 + 2 + 4 + 1));  // in some order; the last takes 1
  EXPECT_EQ(found->stages.back().config, 0);
  EXPECT_FALSE(fastest_training(prices, {.devices = {6}, .microbatches = 100}).has_value());
}

TEST(StageDp, CountsEveryKindOfDevice) {
  // A layer takes 2 s on a device of kind 0 and 8 s on one of kind 1, which has less memory.
  StageTable prices(3, {{{1, 0}, Bytes(100)}, {{0, 1}, Bytes(40)}}, 1);
  for (int layer = 0; layer < 3; ++layer) {
    prices.at(layer, layer, 0, 0) = takes(2, 0, 30, 0);
    prices.at(layer, layer, 1, 0) = takes(8, 0, 30, 0);
  }
  StageDpRequest request{.devices = {3, 0}, .microbatches = 4};
  EXPECT_EQ(fastest_training(prices, request)->cost, Seconds(2 + 2 + 2 + 3 * 2));
  request.devices = {2, 1};
  const auto found = fastest_training(prices, request);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->cost, Seconds(2 + 2 + 8 + 3 * 8));
  EXPECT_EQ(found->stages, (Stages{{0, 0, 0, 0}, {1, 1, 0, 0}, {2, 2, 1, 0}}));  // one in flight there, not more
  request.devices = {1, 2};
  EXPECT_FALSE(fastest_training(prices, request).has_value());
}

TEST(StageDp, ServingTradesLatencyForThroughput) {
  const StageTable prices = two_layers();  // one stage: latency and pace 10; two: latency 14, pace 7
  const StageDpRequest request{.devices = {2}, .in_flight = in_flight_of(ScheduleKind::Inference)};
  EXPECT_EQ(min_latency(prices, request, Seconds(10))->cost, Seconds(10));
  EXPECT_EQ(min_latency(prices, request, Seconds(9))->cost, Seconds(14));
  EXPECT_EQ(min_latency(prices, request, Seconds(7))->cost, Seconds(14));
  EXPECT_FALSE(min_latency(prices, request, Seconds(6)).has_value());
  EXPECT_EQ(max_throughput(prices, request, Seconds(14))->cost, Seconds(7));
  EXPECT_EQ(max_throughput(prices, request, Seconds(13))->cost, Seconds(10));
  EXPECT_FALSE(max_throughput(prices, request, Seconds(9)).has_value());
}

TEST(StageDp, InFlightCountsAreThoseOfTheSchedules) {
  for (const ScheduleKind kind : {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::Inference})
    for (int stage = 0; stage < 5; ++stage) EXPECT_EQ(in_flight_of(kind)(stage, 3), in_flight(kind, stage, 3));
}

TEST(PipelineRanking, GivesOneAfterTheOther) {
  const StageTable prices = two_layers();
  PipelineRanking ranking = PipelineRanking::by_training_time(prices, {.devices = {2}, .microbatches = 3});
  EXPECT_EQ(ranking.next()->cost, Seconds(14 + 2 * 7));
  EXPECT_EQ(ranking.next()->cost, Seconds(10 + 2 * 10));
  EXPECT_FALSE(ranking.next().has_value());
}

TEST(PipelineRanking, GivesEqualPipelinesOneByOne) {
  // 24 layers of two equal configurations: 2^24 pipelines of one cost.
  StageTable prices(24, slices_of({1}), 2);
  for (int layer = 0; layer < 24; ++layer) prices.at(layer, layer, 0, 0) = prices.at(layer, layer, 0, 1) = takes(0.1);
  PipelineRanking ranking = PipelineRanking::by_training_time(prices, {.devices = {24}, .microbatches = 5});
  std::set<Stages> seen;
  for (int n = 0; n < 1000; ++n) {
    const auto found = ranking.next();
    ASSERT_TRUE(found.has_value());
    EXPECT_NEAR(found->cost.si(), (24 + 5 - 1) * 0.1, 1e-12);
    EXPECT_TRUE(seen.insert(found->stages).second);
  }
}

TEST(StageDp, RefusesWhatMakesNoSense) {
  StageTable prices = two_layers();
  EXPECT_THROW((void)fastest_training(prices, {.devices = {2}, .microbatches = 0}), InputError);
  EXPECT_THROW((void)fastest_training(prices, {.devices = {0}}), InputError);
  EXPECT_THROW((void)fastest_training(prices, {.devices = {2, 2}}), InputError);
  EXPECT_THROW((void)fastest_training(prices, {.devices = {2}, .in_flight = nullptr}), InputError);
  EXPECT_THROW((void)fastest_training(prices, {.devices = {2}, .stages = 0}), InputError);
  EXPECT_THROW((void)PipelineRanking::by_training_time(prices, {.devices = {-1}}), InputError);
  for (const double wrong : {-1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    prices.at(0, 0, 0, 0) = takes(wrong);
    EXPECT_THROW((void)fastest_training(prices, {.devices = {2}}), InputError) << wrong;
    prices.at(0, 0, 0, 0) = takes(1, wrong, 0, 0);
    EXPECT_THROW((void)fastest_training(prices, {.devices = {2}}), InputError) << wrong;
  }
}

}  // namespace
}  // namespace meshwright::stage_dp_test
