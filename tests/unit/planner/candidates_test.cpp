// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/candidates.h"

#include <gtest/gtest.h>

#include "core/planner/search/point.h"
#include "tests/oracle/whole_plan_truth.h"

namespace meshwright::candidates_test {
namespace {

constexpr double kSame = 1.0 + 1e-9;

// Whenever it is said that all were looked at, no pipeline of the table takes less by its stages alone.
TEST(Candidates, EndWhereNothingCanBeFaster) {
  int all = 0;
  RandomRequests random(7);
  for (int round = 0; round < 60; ++round) {
    const PlanRequest request = random.next();
    if (!request.trains()) continue;
    const auto costs = make_analytic_cost_model(request.cluster);
    SimulatedStep evaluator(*costs);
    WholeSpace space(request, *costs, evaluator);
    const auto pipelines = space.pipelines(2000);
    if (!pipelines || pipelines->empty()) continue;
    const CandidateRequest wanted = space.wanted();
    const Candidates found = space.ranking().find(space.prices(), wanted);
    ASSERT_FALSE(found.ranked.empty());
    if (!found.all) continue;
    ++all;
    for (const auto& stages : *pipelines) {
      const auto candidate = space.ranking().simulate({.stages = stages}, wanted);
      const Seconds step = candidate ? candidate->step : found.ranked.front().step;
      EXPECT_LE(found.ranked.front().step.si(), kSame * step.si()) << round;
    }
  }
  EXPECT_GT(all, 10);
}

TEST(Candidates, AreToldWithTheBestOfThem) {
  Candidates none, some;
  some.simulated = 7;
  for (const double step : {2.0, 3.0}) some.ranked.push_back({.pipeline = {}, .step = Seconds(step)});
  EXPECT_EQ(summary_of(none), "no pipeline");
  EXPECT_EQ(summary_of(some), "7 pipelines, best 2.000 s");
  EXPECT_EQ(summary_of(std::vector{none, none}), "2 searches, 0 pipelines, none fits");
  EXPECT_EQ(summary_of(std::vector{none, some}), "2 searches, 7 pipelines, best 2.000 s");
  EXPECT_EQ(summary_of(std::optional<TablePipeline>()), "no pipeline fits");
  EXPECT_EQ(summary_of(std::optional(TablePipeline{.stages = {}, .cost = Seconds(2.0)})),
            "the first pipeline, cost 2.000 s");
}

// Of two numbers of microbatches that were priced, what is predicted is what the best pipeline of each table costs.
TEST(Prediction, IsTheCostItselfWherePricesAreKnown) {
  for (const double slowness : {1.0, 100.0})
    for (const ScheduleKind schedule : {ScheduleKind::OneFOneB, ScheduleKind::GPipe}) {
      PlanRequest request = ask("mlp:layers=4,hidden=64", "cpu:4", "pipeshard", 64, Auto{});
      request.search.layers = 4;
      request.search.schedule = schedule;
      HostGroup& hosts = request.cluster.only();
      hosts.within_host.beta = SecondsPerByte(slowness * hosts.within_host.beta.si());
      const auto costs = make_analytic_cost_model(request.cluster);
      SimulatedStep evaluator(*costs);
      SearchContext context(request, *costs, evaluator);
      const Point few = prepare_point(context, {.layers = 4, .layer_cut = {}, .microbatches = 2});
      const Point many = prepare_point(context, {.layers = 4, .layer_cut = {}, .microbatches = 16});
      for (const std::int64_t microbatches : {2, 16}) {
        PlanRequest one = request;
        one.search.microbatches = microbatches;
        const auto best = fastest_training(
            WholeSpace(one, *costs, evaluator).prices(),
            {.devices = {4}, .all_devices = false, .microbatches = microbatches, .in_flight = in_flight_of(schedule)});
        ASSERT_TRUE(best);
        for (const auto& predicted : {predict_point(context, many, few, microbatches, schedule),
                                      predict_point(context, few, many, microbatches, schedule)}) {
          ASSERT_TRUE(predicted);
          EXPECT_NEAR(predicted->si(), best->cost.si(), 1e-9 * best->cost.si()) << microbatches;
        }
      }
    }
}

}  // namespace
}  // namespace meshwright::candidates_test
