// SPDX-License-Identifier: Apache-2.0
// The stage search against enumeration of all pipelines, and against the plain recurrence where there are too many.
#include "core/planner/choose_pipeline.h"

#include <gtest/gtest.h>

#include <random>

#include "core/base/errors.h"
#include "tests/oracle/enumeration.h"

namespace meshwright {
namespace {

constexpr int kAnyNumber = 1 << 20;

// Which times a random table holds: small integers make many ties and exact sums, real numbers none.
enum class Times { Integers, Reals };

StageTable random_table(std::mt19937& random, int layers, int most_options, double empty, Times times,
                        int least_successors) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  StageTable table(layers, {{1, 1}, {1, 2}, {1, 4}, {2, 4}});
  for (int first = 0; first < layers; ++first)
    for (int last = first; last < layers; ++last)
      for (int m = 0; m < 4; ++m) {
        if (std::bernoulli_distribution(empty)(random)) continue;
        for (int c = draw(1, most_options); c > 0; --c) {
          const Seconds time(times == Times::Integers ? draw(1, 9)
                                                      : std::uniform_real_distribution<double>(0.1, 10.0)(random));
          const int successors = draw(0, 2) == 0 ? kAnyNumber : draw(least_successors, layers);
          table.at(first, last, m).push_back({time, successors, c});
        }
      }
  return table;
}

TEST(ChoosePipeline, UniformPipelineTakesStagesPlusMicrobatchesMinusOne) {
  // Four layers that take 3 s each on one device and do not run on more: n = 4 stages, B = 10.
  StageTable table(4, {{1, 1}, {1, 2}});
  for (int layer = 0; layer < 4; ++layer) table.at(layer, layer, 0) = {{Seconds(3), kAnyNumber, 0}};
  const auto pipeline = choose_pipeline(table, {.devices = 4, .microbatches = 10});
  ASSERT_TRUE(pipeline.has_value());
  EXPECT_EQ(pipeline->stages.size(), 4U);
  EXPECT_EQ(pipeline->time, Seconds((4 + 10 - 1) * 3));  // (n + B - 1) t
}

TEST(ChoosePipeline, ManyMicrobatchesMakeTheLargestStageCount) {
  // Two layers on two devices: one stage of 10 s, or two stages of 7 s.
  StageTable table(2, {{1, 1}, {1, 2}});
  table.at(0, 1, 1) = {{Seconds(10), kAnyNumber, 0}};
  table.at(0, 0, 0) = table.at(1, 1, 0) = {{Seconds(7), kAnyNumber, 0}};
  EXPECT_EQ(choose_pipeline(table, {.devices = 2, .microbatches = 1})->time, Seconds(10));  // against 14
  EXPECT_EQ(choose_pipeline(table, {.devices = 2, .microbatches = 2})->time, Seconds(20));  // against 21
  EXPECT_EQ(choose_pipeline(table, {.devices = 2, .microbatches = 3})->time, Seconds(28));  // 14 + 2*7, against 30
  EXPECT_EQ(choose_pipeline(table, {.devices = 2, .microbatches = 3, .stages = 1})->time, Seconds(30));
}

TEST(ChoosePipeline, UsesAllDevicesOrNone) {
  StageTable table(2, {{1, 1}, {1, 2}});
  table.at(0, 0, 0) = table.at(1, 1, 0) = table.at(0, 1, 1) = {{Seconds(1), kAnyNumber, 0}};
  EXPECT_TRUE(choose_pipeline(table, {.devices = 2, .microbatches = 4}).has_value());
  EXPECT_FALSE(choose_pipeline(table, {.devices = 3, .microbatches = 4}).has_value());
  EXPECT_FALSE(choose_pipeline(table, {.devices = 2, .microbatches = 4, .stages = 3}).has_value());
}

TEST(ChoosePipeline, EarlyStagesNeedRoomForTheirSuccessors) {
  // The fast first stage keeps activations for no successor; the slow one for one.
  StageTable table(2, {{1, 1}});
  table.at(0, 0, 0) = {{Seconds(1), 0, 0}, {Seconds(5), 1, 0}};
  table.at(1, 1, 0) = {{Seconds(2), 0, 0}};
  const auto pipeline = choose_pipeline(table, {.devices = 2, .microbatches = 1});
  ASSERT_TRUE(pipeline.has_value());
  EXPECT_EQ(pipeline->stages, (std::vector<ChosenStage>{{0, 0, 0, 1}, {1, 1, 0, 0}}));
  EXPECT_EQ(pipeline->time, Seconds(7));
  table.at(1, 1, 0).front().max_successors = -1;
  EXPECT_FALSE(choose_pipeline(table, {.devices = 2, .microbatches = 1}).has_value());
}

TEST(ChoosePipeline, EqualTimesAreDecidedByFewerStages) {
  // With B = 2: three stages of 2 s take 6 + 2 = 8, {0,1} + {2} takes 3 + 2 + 3 = 8. The first has the smaller largest
  // stage and is met first; {0} + {1,2} with 1 + 4 + 4 = 9 has the second's sum and comes lexicographically before it.
  StageTable table(3, {{1, 1}, {1, 2}});
  table.at(0, 0, 0) = {{Seconds(2), kAnyNumber, 0}, {Seconds(1), 1, 0}};
  table.at(1, 1, 0) = table.at(2, 2, 0) = {{Seconds(2), kAnyNumber, 0}};
  table.at(1, 2, 1) = {{Seconds(4), kAnyNumber, 0}};
  table.at(0, 1, 1) = {{Seconds(3), kAnyNumber, 0}};
  const auto pipeline = choose_pipeline(table, {.devices = 3, .microbatches = 2});
  ASSERT_TRUE(pipeline.has_value());
  EXPECT_EQ(pipeline->time, Seconds(8));
  EXPECT_EQ(pipeline->stages, (std::vector<ChosenStage>{{0, 1, 1, 0}, {2, 2, 0, 0}}));
}

TEST(ChoosePipeline, EqualsEnumerationOnRandomTables) {
  constexpr unsigned kSeed = 31337;
  std::mt19937 random(kSeed);
  int none = 0, memory_binds = 0;
  for (int n = 0; n < 400; ++n) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", table " << n);
    const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    const int layers = draw(1, 5);
    StageTable table =
        random_table(random, layers, 3, n % 3 == 0 ? 0.5 : 0.1, n % 2 == 0 ? Times::Integers : Times::Reals, -1);
    PipelineSearch search{.devices = draw(1, 8), .microbatches = draw(1, 3) == 1 ? 1 : draw(2, 40)};
    if (draw(0, 3) == 0) search.stages = draw(1, 5);
    const auto truth = choose_pipeline_by_enumeration(table, search);
    const auto chosen = choose_pipeline(table, search);
    ASSERT_EQ(chosen.has_value(), truth.has_value());
    none += !truth;
    if (truth) {
      EXPECT_EQ(chosen->time, truth->time);
      EXPECT_EQ(chosen->stages, truth->stages);
    }
    for (auto& options : table.options)
      for (StageOption& option : options) option.max_successors = kAnyNumber;
    const auto unlimited = choose_pipeline(table, search);
    memory_binds += unlimited && (!truth || unlimited->time < truth->time);
  }
  std::cout << "seed " << kSeed << ": 400 tables, " << none << " without a pipeline, memory binds in " << memory_binds
            << "\n";
  EXPECT_GT(none, 20);
  EXPECT_GT(memory_binds, 50);
}

TEST(ChoosePipeline, EqualsThePlainRecurrenceOnMidSizeTables) {
  constexpr unsigned kSeed = 2718;
  std::mt19937 random(kSeed);
  for (int n = 0; n < 24; ++n) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", table " << n);
    const StageTable table = random_table(random, 8, 2, 0.2, n % 2 == 0 ? Times::Integers : Times::Reals, 0);
    const PipelineSearch search{.devices = 8, .microbatches = 1 << (n / 2)};
    const auto truth = pipeline_time_by_recurrence(table, search);
    const auto chosen = choose_pipeline(table, search);
    ASSERT_EQ(chosen.has_value(), truth.has_value());
    if (!truth) continue;
    EXPECT_EQ(chosen->time, Seconds(*truth));
  }
}

// Winners for every (t_max, number of stages), best first: what choose_pipelines promises, by enumeration.
std::vector<ChosenPipeline> winners_by_enumeration(const StageTable& table, const PipelineSearch& search) {
  const auto largest_and_sum = [&](const ChosenPipeline& pipeline) {
    double largest = 0.0, sum = 0.0;
    for (auto s = pipeline.stages.rbegin(); s != pipeline.stages.rend(); ++s) {
      const double time = table.at(s->first, s->last, s->submesh)[s->option].time.si();
      largest = std::max(largest, time);
      sum += time;
    }
    return std::pair(largest, sum);
  };
  const std::vector<ChosenPipeline> all = all_pipelines(table, search);
  std::set<double> bounds;
  for (const auto& pipeline : all) bounds.insert(largest_and_sum(pipeline).first);
  std::vector<ChosenPipeline> winners;
  for (double bound : bounds)
    for (std::size_t stages = 1; stages <= static_cast<std::size_t>(table.layers); ++stages) {
      std::optional<ChosenPipeline> best;
      for (const auto& pipeline : all) {
        if (pipeline.stages.size() != stages || largest_and_sum(pipeline).first > bound) continue;
        ChosenPipeline by_sum{pipeline.stages, Seconds(largest_and_sum(pipeline).second)};
        if (!best || ranks_before(by_sum, *best)) best = by_sum;
      }
      if (!best) continue;
      const auto [largest, sum] = largest_and_sum(*best);
      best->time = Seconds(sum + static_cast<double>(search.microbatches - 1) * largest);
      const auto same = [&](const ChosenPipeline& other) { return other.stages == best->stages; };
      if (std::none_of(winners.begin(), winners.end(), same)) winners.push_back(*best);
    }
  std::sort(winners.begin(), winners.end(), ranks_before);
  return winners;
}

TEST(ChoosePipelines, AreTheBestWinnersOfAllBoundsAndStageNumbers) {
  constexpr unsigned kSeed = 1618;
  std::mt19937 random(kSeed);
  int with_several = 0;
  for (int n = 0; n < 150; ++n) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", table " << n);
    const StageTable table = random_table(random, 4, 2, 0.3, n % 2 == 0 ? Times::Integers : Times::Reals, -1);
    const PipelineSearch search{.devices = 4, .microbatches = std::uniform_int_distribution<int>(1, 20)(random)};
    std::vector<ChosenPipeline> truth = winners_by_enumeration(table, search);
    if (truth.size() > 5) truth.erase(truth.begin() + 5, truth.end());
    const std::vector<ChosenPipeline> chosen = choose_pipelines(table, search, 5);
    ASSERT_EQ(chosen.size(), truth.size());
    with_several += truth.size() > 1;
    for (std::size_t c = 0; c < chosen.size(); ++c) {
      EXPECT_EQ(chosen[c].time, truth[c].time);
      EXPECT_EQ(chosen[c].stages, truth[c].stages);
    }
    const auto first = choose_pipeline(table, search);
    ASSERT_EQ(first.has_value(), !chosen.empty());
    if (!first) continue;
    EXPECT_EQ(first->stages, chosen.front().stages);
  }
  EXPECT_GT(with_several, 50);
}

TEST(MaxSuccessors, ReproducesAlpasMicroExample) {
  // 15 - 3.3 - 4 = 7.7 holds 5 microbatches of 1.4: this stage's own and 4 successors' worth.
  EXPECT_EQ(max_successors_1f1b(Bytes(15), Bytes(3.3), Bytes(4), Bytes(1.4)), 4);
  EXPECT_EQ(max_successors_1f1b(Bytes(15), Bytes(8), Bytes(4), Bytes(3)), 0);    // exactly one microbatch
  EXPECT_EQ(max_successors_1f1b(Bytes(15), Bytes(8), Bytes(4), Bytes(4)), -1);   // not even one
  EXPECT_EQ(max_successors_1f1b(Bytes(15), Bytes(20), Bytes(4), Bytes(1)), -1);  // clipped
  EXPECT_EQ(max_successors_1f1b(Bytes(15), Bytes(1), Bytes(1), Bytes(0)), kAnyNumber);
}

TEST(MaxSuccessors, OfSchedulesWithFixedInFlightCountAreAllOrNothing) {
  EXPECT_EQ(max_successors_fixed(Bytes(15), Bytes(3), Bytes(4), Bytes(2), 4), kAnyNumber);  // 3 + 4 + 8 = 15
  EXPECT_EQ(max_successors_fixed(Bytes(15), Bytes(3), Bytes(4), Bytes(2), 5), -1);
}

TEST(ChoosePipeline, RefusesTimesThatAreNoNumbers) {
  StageTable table(1, {{1, 1}});
  table.at(0, 0, 0) = {{Seconds(std::numeric_limits<double>::infinity()), 0, 0}};
  EXPECT_THROW((void)choose_pipeline(table, {}), InputError);
}

}  // namespace
}  // namespace meshwright
