// SPDX-License-Identifier: Apache-2.0
// Pipelines with several stages on each rank against enumeration of all of them.
#include "core/planner/pipeline/chunked_pipelines.h"

#include <gtest/gtest.h>

#include "core/schedule/schedule.h"
#include "tests/oracle/stage_dp_truth.h"

namespace meshwright::chunked_pipelines_test {
namespace {

struct Drawn {
  StageTable prices;
  int slice;
  std::vector<int> configs;
  ChunkedShape shape;
};

Drawn draw(std::mt19937& random, int round) {
  const auto number = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const auto times = round % 3 == 0   ? DrawnTimes::Integers
                     : round % 3 == 1 ? DrawnTimes::Reals
                                      : DrawnTimes::Proportional;
  const ScheduleKind kinds[] = {ScheduleKind::Interleaved, ScheduleKind::ZeroBubbleV, ScheduleKind::VHalf,
                                ScheduleKind::DualPipeV, ScheduleKind::DualPipe};
  Drawn drawn{random_prices(random, number(4, 8), {{1}, {2}}, 3, 0.1, times), number(0, 1), {}, {}};
  drawn.configs = round % 2 == 0 ? std::vector<int>{0, 1, 2} : std::vector<int>{2, 0};
  drawn.shape.schedule = kinds[round % 5];
  drawn.shape.chunks = traits_of(drawn.shape.schedule).chunks.value_or(number(2, 3));
  drawn.shape.ranks = number(1, 4);
  drawn.shape.microbatches = number(1, 12);
  if (drawn.shape.schedule == ScheduleKind::DualPipe) {
    drawn.shape.ranks = 2 * number(1, 2);
    drawn.shape.microbatches = 2 * drawn.shape.ranks + 2 * number(0, 3);
  }
  return drawn;
}

// By the formulas of the header, term by term.
std::vector<double> all_costs(const Drawn& drawn) {
  const auto [kind, ranks, chunks, microbatches] = drawn.shape;
  const int copies = traits_of(kind).copies, stages = ranks * chunks / copies;
  const std::vector<int> kept =
      max_in_flight(make_schedule(kind, line_of(ranks * chunks, copies), static_cast<int>(microbatches), chunks));
  const std::vector<int> rank_of = ranks_of_stages(kind, ranks * chunks, chunks);
  const double memory = drawn.prices.slices()[static_cast<std::size_t>(drawn.slice)].memory.si();
  const double v = chunks / copies, shared = v * (static_cast<double>(microbatches) - 1.0) + 1.0;
  std::vector<double> costs, times;
  const std::function<void(int)> extend = [&, chunks = chunks](int first) {
    const int stage = static_cast<int>(times.size());
    if (stage == stages) {
      if (first < drawn.prices.layers()) return;
      double sum = 0.0, slowest = 0.0;
      for (auto time = times.rbegin(); time != times.rend(); ++time)
        sum = sum + *time, slowest = std::max(slowest, *time);
      costs.push_back(sum + (shared - 1.0) * slowest);
      return;
    }
    for (int last = first; last < drawn.prices.layers(); ++last)
      for (const int config : drawn.configs) {
        const auto& price = drawn.prices.at(first, last, drawn.slice, config);
        const double in_flight = kept[static_cast<std::size_t>(rank_of[static_cast<std::size_t>(stage)])];
        if (!price || chunks * price->resident.si() + price->working.si() + in_flight * price->saved.si() > memory)
          continue;
        times.push_back(price->time.si() + v * price->step.si() / shared);
        extend(last + 1);
        times.pop_back();
      }
  };
  extend(0);
  std::sort(costs.begin(), costs.end());
  return costs;
}

TEST(ChunkedPipelines, AreTheBestOfAllInOrder) {
  std::mt19937 random(11);
  int some = 0, none = 0;
  for (int round = 0; round < 300; ++round) {
    const Drawn drawn = draw(random, round);
    const std::vector<double> truth = all_costs(drawn);
    const ChunkedSchedule schedule(drawn.shape);
    const auto best = best_chunked(drawn.prices, drawn.slice, drawn.configs, schedule, 1);
    const auto found = best_chunked(drawn.prices, drawn.slice, drawn.configs, schedule, 6);
    ASSERT_EQ(best.size(), std::min<std::size_t>(1, truth.size())) << round;
    ASSERT_EQ(found.size(), std::min<std::size_t>(6, truth.size())) << round;
    (truth.empty() ? none : some) += 1;
    for (const TablePipeline& pipeline : best) EXPECT_EQ(pipeline.cost.si(), truth.front()) << round;
    for (std::size_t k = 0; k < found.size(); ++k) {
      EXPECT_NEAR(found[k].cost.si(), truth[k], 1e-9 * truth[k]) << round;
      EXPECT_EQ(found[k].chunks, drawn.shape.chunks);
      EXPECT_EQ(static_cast<int>(found[k].stages.size()), drawn.shape.chunks * drawn.shape.ranks);
      for (const TableStage& stage : found[k].stages) EXPECT_EQ(stage.slice, drawn.slice);
    }
  }
  EXPECT_GT(some, 50);
  EXPECT_GT(none, 10);
}

// A table of `layers` layers in which every span takes the same per layer.
StageTable even_prices(int layers, const StageCost& of_layer, Bytes memory) {
  StageTable prices(layers, {{{1}, memory}}, 1);
  for (int first = 0; first < layers; ++first)
    for (int last = first; last < layers; ++last) {
      const double n = last - first + 1;
      prices.at(first, last, 0, 0) = StageCost{.time = n * of_layer.time,
                                               .step = n * of_layer.step,
                                               .resident = n * of_layer.resident,
                                               .saved = n * of_layer.saved,
                                               .working = of_layer.working,
                                               .held = n * of_layer.held};
    }
  return prices;
}

TEST(ChunkedPipelines, HaveTheStagesOfAllCopies) {
  const StageCost layer{.time = Seconds(1.0), .step = Seconds(8.0), .resident = Bytes(100)};
  const StageTable prices = even_prices(4, layer, Bytes(1e6));
  const ChunkedSchedule schedule({ScheduleKind::DualPipe, 2, 2, 8});
  const auto found = best_chunked(prices, 0, {0}, schedule, 3);
  ASSERT_EQ(found.size(), 3u);  // the cuts after the layers 1, 0 and 2
  for (const TablePipeline& pipeline : found) {
    ASSERT_EQ(pipeline.stages.size(), 4u);
    EXPECT_EQ(pipeline.stages[2], pipeline.stages[0]);
    EXPECT_EQ(pipeline.stages[3], pipeline.stages[1]);
    EXPECT_EQ(pipeline.stages[1].last, 3);
    // Both ranks have both stages, each for half of the microbatches; a rank updates its own: 4 / 2 and 8 n / 8.
    const auto n = static_cast<double>(pipeline.stages[0].last + 1);
    EXPECT_EQ(rank_times(pipeline, prices, schedule), (std::vector<Seconds>{Seconds(2.0 + n), Seconds(6.0 - n)}));
  }
}

// 2 ranks, 8 microbatches, 3 kept: 100 bytes of a stage and 40 of a copy, 7 and 3 * 10 bytes.
TEST(ChunkedPipelines, CountWhatCopiesHave) {
  const ChunkedSchedule schedule({ScheduleKind::DualPipe, 2, 2, 8}, 0.4);
  const StageCost layer{
      .time = Seconds(1.0), .step = Seconds(4.0), .resident = Bytes(100), .saved = Bytes(10), .working = Bytes(7)};
  for (const auto& [memory, fits] : {std::pair{177.0, true}, {176.0, false}}) {
    const StageTable prices = even_prices(2, layer, Bytes(memory));
    EXPECT_EQ(!best_chunked(prices, 0, {0}, schedule, 1).empty(), fits);
    const auto roomy = best_chunked(prices, 0, {0}, schedule, 1, 2.0);
    ASSERT_FALSE(roomy.empty());
    EXPECT_EQ(fits_ranks(roomy.front(), prices, schedule), fits);
  }
}

// 2 ranks, 2 chunks, 8 microbatches: rank 0 keeps 2 (2 - 1) + 2 + 1 = 5 chunks, so 2 * 100 + 7 + 5 * 10 bytes.
TEST(ChunkedPipelines, FitWhereTheFullestRankDoes) {
  const ChunkedSchedule schedule({ScheduleKind::Interleaved, 2, 2, 8});
  const StageCost layer{.time = Seconds(1.0),
                        .step = Seconds(4.0),
                        .resident = Bytes(100),
                        .saved = Bytes(10),
                        .working = Bytes(7),
                        .held = Bytes(1e6)};
  for (const auto& [memory, fits] : {std::pair{257.0, true}, {256.0, false}}) {
    const StageTable prices = even_prices(4, layer, Bytes(memory));
    const auto found = best_chunked(prices, 0, {0}, schedule, 1);
    EXPECT_EQ(!found.empty(), fits);
    const auto roomy = best_chunked(prices, 0, {0}, schedule, 1, 2.0);
    ASSERT_FALSE(roomy.empty());
    EXPECT_EQ(fits_ranks(roomy.front(), prices, schedule), fits);
    for (const Seconds time : rank_times(roomy.front(), prices, schedule))
      EXPECT_DOUBLE_EQ(time.si(), 2 * (1 + 4 / 8.0));
  }
}

// 1 microbatch on 2 ranks: rank 0 keeps both its chunks while the second half of its first backward is to come.
TEST(ChunkedPipelines, HoldWhatTheSecondHalfOfABackwardReads) {
  const ChunkedSchedule schedule({ScheduleKind::ZeroBubbleV, 2, 2, 1});
  const StageCost layer{.time = Seconds(1.0),
                        .step = Seconds(0.0),
                        .resident = Bytes(100),
                        .saved = Bytes(10),
                        .working = Bytes(0),
                        .held = Bytes(3)};
  for (const auto& [memory, fits] : {std::pair{200.0 + 20.0 + 6.0, true}, {200.0 + 20.0 + 2.0, false}}) {
    const StageTable prices = even_prices(4, layer, Bytes(memory));
    const auto found = best_chunked(prices, 0, {0}, schedule, 1, 2.0);
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(fits_ranks(found.front(), prices, schedule), fits);
  }
}

}  // namespace
}  // namespace meshwright::chunked_pipelines_test
