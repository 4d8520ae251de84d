// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/candidates.h"

#include <gtest/gtest.h>

#include <set>

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

// Two to four stages of five layers on submeshes of one, two and four of four devices: every cut that differs by one
// layer at one border, and every submesh for one stage that leaves no more than the four devices in use.
TEST(Candidates, AreMovedByOneBorderOrToOneOtherSubmesh) {
  PlanRequest request = ask("mlp:layers=5,hidden=64", "cpu:4", "pipeshard", 16, 4);
  request.search.layers = 5;
  const auto costs = make_analytic_cost_model(request.cluster);
  SimulatedStep evaluator(*costs);
  WholeSpace space(request, *costs, evaluator);
  const StageTable table = space.prices();
  const CandidateRequest wanted = space.wanted();
  const auto devices_of = [&](int slice) { return table.slices()[static_cast<std::size_t>(slice)].devices.front(); };
  const std::vector<std::vector<int>> all_firsts = {{0, 1}, {0, 4}, {0, 2, 3}, {0, 1, 4}, {0, 1, 2, 3}, {0, 2, 3, 4}};
  int borders = 0, submeshes = 0;
  for (const std::vector<int>& firsts : all_firsts) {
    TablePipeline pipeline;
    for (std::size_t s = 0; s < firsts.size(); ++s)
      pipeline.stages.push_back({firsts[s], (s + 1 < firsts.size() ? firsts[s + 1] : 5) - 1, 0, 0});
    ASSERT_EQ(devices_of(0), 1);
    std::set<std::vector<int>> cuts, wanted_cuts;
    std::set<std::pair<int, int>> moves, wanted_moves;  // stage, submesh
    for (const TablePipeline& other : space.ranking().moved(pipeline, table, wanted)) {
      ASSERT_EQ(other.stages.size(), firsts.size());
      std::vector<int> cut;
      bool same_slices = true;
      for (std::size_t s = 0; s < firsts.size(); ++s) {
        cut.push_back(other.stages[s].first);
        if (other.stages[s].slice == 0) continue;
        same_slices = false;
        moves.emplace(s, other.stages[s].slice);
      }
      if (same_slices) cuts.insert(cut);
    }
    for (std::size_t s = 1; s < firsts.size(); ++s)
      for (const int by : {-1, 1}) {
        std::vector<int> cut = firsts;
        cut[s] += by;
        const int end = s + 1 < firsts.size() ? firsts[s + 1] : 5;
        if (cut[s] > firsts[s - 1] && cut[s] < end) wanted_cuts.insert(cut);
      }
    for (std::size_t s = 0; s < firsts.size(); ++s)
      for (int slice = 1; slice < std::ssize(table.slices()); ++slice)
        if (static_cast<int>(firsts.size()) - 1 + devices_of(slice) <= 4) wanted_moves.emplace(s, slice);
    EXPECT_EQ(cuts, wanted_cuts) << firsts.size();
    EXPECT_EQ(moves, wanted_moves) << firsts.size();
    borders += static_cast<int>(cuts.size());
    submeshes += static_cast<int>(moves.size());
  }
  EXPECT_EQ(borders, 8);
  EXPECT_GT(submeshes, 6);
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

// Two towers side by side feed a third stage. With one stage of all layers any order of passes will do.
TEST(Schedules, OfStagesInALineDoNotSuitTowersInSeveralStages) {
  const std::set<ScheduleKind> of_any_graph = {ScheduleKind::OneFOneB, ScheduleKind::EagerOneFOneB, ScheduleKind::GPipe,
                                               ScheduleKind::Inference};
  for (const char* method : {"pipeshard", "shard"}) {
    PlanRequest request =
        ask("two_tower:layers=2,hidden=16,heads=4,image=16,patch=4,text_layers=2,text_hidden=16,text_heads=4,seq=16,"
            "vocab=32,embed=8",
            "cpu:4", method, 16, 4);
    const auto costs = make_analytic_cost_model(request.cluster);
    SimulatedStep evaluator(*costs);
    SearchContext context(request, *costs, evaluator);
    const Point point = prepare_point(context, {.layers = 4, .layer_cut = {}, .microbatches = 4});
    ASSERT_FALSE(point.spans.ranking->is_line());
    for (const ScheduleKind schedule : all_schedules()) {
      const std::string why = why_unsuitable(request, point, schedule).value_or("");
      EXPECT_EQ(why.find("needs stages that feed one the next") != std::string::npos,
                method == std::string("pipeshard") && !of_any_graph.contains(schedule))
          << method << ", " << name_of(schedule) << ": " << why;
    }
  }
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
