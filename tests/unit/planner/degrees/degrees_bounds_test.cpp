// SPDX-License-Identifier: Apache-2.0
// What degrees take and keep, at least. Times are seconds: tens, hundreds and thousands tell the layers apart.
#include "core/planner/degrees/degrees_bounds.h"

#include <gtest/gtest.h>

namespace meshwright::degrees_bounds_test {
namespace {

constexpr double kDoubt = 0.98, kLikely = 0.9;  // the shares of a bound that are held to

StepCost layer(double forward, double backward, double resident = 0.0, double saved = 0.0) {
  StepCost cost;
  cost.forward = Seconds(forward);
  cost.backward = Seconds(backward);
  cost.resident = Bytes(resident);
  cost.saved = Bytes(saved);
  return cost;
}

Work work(double block, double before, double after, double all, double resident = 0.0, double saved = 0.0) {
  return {.block = Seconds(block),
          .before = Seconds(before),
          .after = Seconds(after),
          .all = Seconds(all),
          .resident = Bytes(resident),
          .saved = Bytes(saved)};
}

Degrees pipe(int pp, int chunks, std::int64_t micro_batches) {
  return {.pp = pp,
          .chunks = chunks,
          .schedule = chunks == 1 ? ScheduleKind::OneFOneB : ScheduleKind::Interleaved,
          .micro_batches = micro_batches};
}

Plan plan_of(ScheduleKind schedule, const std::vector<std::array<double, 3>>& times) {
  Plan plan;
  plan.schedule = schedule;
  for (const auto& [forward, backward, update] : times) {
    StagePlan& stage = plan.stages.emplace_back();
    stage.forward = Seconds(forward);
    stage.backward = Seconds(backward);
    stage.update = Seconds(update);
  }
  return plan;
}

TEST(WorkOfLayers, PartsTheLeastBlockFromWhatTheEndsTakeAboveIt) {
  const Work inside = work_of_layers({layer(100, 20, 7, 3), layer(4, 1, 5, 2), layer(1000, 200, 6, 4)}, 3);
  EXPECT_EQ(inside.block, Seconds(5));
  EXPECT_EQ(inside.before, Seconds(115));  // 120 - 5
  EXPECT_EQ(inside.after, Seconds(1195));  // 1200 - 5
  EXPECT_EQ(inside.all, Seconds(1325));
  EXPECT_EQ(inside.resident, Bytes(5));
  EXPECT_EQ(inside.saved, Bytes(2));
}

TEST(WorkOfLayers, TakesEndsThatAreLayersAndFurtherModulesForWhatIsBesideTheBlocks) {
  const Work apart = work_of_layers(
      {layer(100, 20, 9, 9), layer(4, 1, 5, 2), layer(5, 1, 6, 3), layer(30, 7, 8, 8), layer(1000, 200, 9, 9)}, 2, 1);
  EXPECT_EQ(apart.block, Seconds(5));
  EXPECT_EQ(apart.before, Seconds(120));
  EXPECT_EQ(apart.after, Seconds(1238));  // 1200 + 37, and 1 that the last block takes above the least
  EXPECT_EQ(apart.resident, Bytes(5));
  EXPECT_EQ(apart.saved, Bytes(2));
}

TEST(WorkOfLayers, KnowsNoBlockWhereTheLayersAreNone) {
  const Work whole = work_of_layers({layer(8, 4, 5, 2)}, 0);
  EXPECT_EQ(whole.block, Seconds(0));
  EXPECT_EQ(whole.all, Seconds(12));
  EXPECT_EQ(whole.resident, Bytes(0));
}

// 3 stages of 12 / 3 = 4: a rank works 5 micro-batches, and fills and drains through 2 others.
TEST(BoundOfWork, SplitsModelsWithoutBlocksEvenly) {
  EXPECT_DOUBLE_EQ(bound_of_work(work(0, 0, 0, 12), pipe(3, 1, 5), 0).si(), kDoubt * (5 * 4 + 2 * 4));
  // Stages of 2 on 3 ranks of 4.
  EXPECT_DOUBLE_EQ(bound_of_work(work(0, 0, 0, 12), pipe(3, 2, 6), 0).si(), kDoubt * (6 * 4 + 2 * 2));
}

// 4 blocks of 10 on 2 ranks; 100 before the first and 1000 after the last.
TEST(BoundOfWork, IsTheBusiestRankAndThePassesThroughTheOthers) {
  const Work ends = work(10, 100, 1000, 1140);
  EXPECT_DOUBLE_EQ(bound_of_work(ends, pipe(2, 1, 8), 4).si(), kDoubt * (8 * 1020 + 120));
  // Ranks of stages {0, 2} and {1, 3}; stage 0 takes 110.
  EXPECT_DOUBLE_EQ(bound_of_work(ends, pipe(2, 2, 8), 4).si(), kDoubt * (8 * 1020 + 110));
  // Where weight gradients fill the ends, nothing is added for them.
  Degrees split = pipe(2, 1, 8);
  split.schedule = ScheduleKind::ZeroBubbleH1;
  EXPECT_DOUBLE_EQ(bound_of_work(ends, split, 4).si(), kDoubt * 8 * 1020);
}

// 1000 resident and 1 saved of each block; half of what is resident is left.
TEST(LeastMemoryOfWork, IsWhatIsLeftOfTheStatesAndWhatIsInFlight) {
  const Work blocks = work(10, 0, 0, 40, 1000, 1);
  // The first of 2 ranks keeps 2 micro-batches of its 2 blocks.
  EXPECT_DOUBLE_EQ(least_memory_of_work(blocks, pipe(2, 1, 8), 4, 0.5).si(), kLikely * (2 * 500 + 2 * 2));
  EXPECT_DOUBLE_EQ(least_memory_of_work(blocks, pipe(2, 1, 8), 4, 1.0).si(), kLikely * (2 * 1000 + 2 * 2));
  EXPECT_DOUBLE_EQ(least_memory_of_work(blocks, pipe(2, 1, 1), 4, 0.5).si(), kLikely * (2 * 500 + 2));
  // The first rank keeps 4 micro-batches of its first chunk and 1 of its second, the second 2 and 1.
  EXPECT_DOUBLE_EQ(least_memory_of_work(blocks, pipe(2, 2, 8), 4, 0.5).si(), kLikely * (2 * 500 + 5));
  // Where ranks wait for micro-batches that are not there: 2 of the first chunk and 1 of the second.
  EXPECT_DOUBLE_EQ(least_memory_of_work(blocks, pipe(2, 2, 9), 4, 0.5).si(), kLikely * (2 * 500 + 3));
  EXPECT_EQ(least_memory_of_work(work(0, 0, 0, 40), pipe(2, 1, 8), 0, 0.5), Bytes(0));
}

// Two stages of 10 + 20 and 1 + 2, and 4 micro-batches.
TEST(BoundOfStages, IsTheBusiestRankAfterTheForwardsBeforeIt) {
  const Degrees degrees = pipe(2, 1, 4);
  // The second stage is done with a micro-batch while the first computes the next.
  const Plan falling = plan_of(ScheduleKind::OneFOneB, {{10, 20, 5}, {1, 2, 0.5}});
  EXPECT_DOUBLE_EQ(bound_of_stages(falling, degrees).si(), kDoubt * (4 * 30 + 5));
  // Beside the update of 5 the first stage has its last backward of 2, and its own update.
  const Plan rising = plan_of(ScheduleKind::OneFOneB, {{1, 2, 0.5}, {10, 20, 5}});
  EXPECT_DOUBLE_EQ(bound_of_stages(rising, degrees).si(), kDoubt * (1 + 4 * 30 + 5));
  const Plan drained = plan_of(ScheduleKind::OneFOneB, {{1, 2, 8}, {10, 20, 5}});
  EXPECT_DOUBLE_EQ(bound_of_stages(drained, degrees).si(), kDoubt * (1 + 4 * 30 + 2 + 8));
}

TEST(BoundOfStages, AddsUpTheStagesOfARank) {
  const Plan plan = plan_of(ScheduleKind::Interleaved, {{1, 2, 0.25}, {10, 20, 0.5}, {100, 200, 1}, {1000, 2000, 2}});
  // Stages 1 and 3: 3030. Before them is a forward of 1, after them a backward of 2, or their updates of 2.5.
  EXPECT_DOUBLE_EQ(bound_of_stages(plan, pipe(2, 2, 4)).si(), kDoubt * (1 + 4 * 3030 + 2 + 1.25));
}

}  // namespace
}  // namespace meshwright::degrees_bounds_test
