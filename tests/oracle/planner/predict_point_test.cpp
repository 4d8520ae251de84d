// SPDX-License-Identifier: Apache-2.0
// What is predicted of a number of micro-batches from two others against the stages of that number.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "core/planner/search/point.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::predict_point_test {
namespace {

struct Points {
  PlanRequest request;
  std::unique_ptr<CostModel> costs = make_analytic_cost_model(request.cluster);
  SimulatedStep evaluator{*costs};
  SearchContext context{request, *costs, evaluator};

  explicit Points(PlanRequest wanted) : request(std::move(wanted)) {}
  Points(const Points&) = delete;
  [[nodiscard]] Point at(std::int64_t microbatches) {
    return prepare_point(context, {.layers = 4, .layer_cut = {}, .microbatches = microbatches});
  }
  // The least cost of a pipeline of the point.
  [[nodiscard]] Seconds best(const Point& point) {
    const StageTable table = make_stage_table(point, 1.0, StageSearch::Keep::All, {});
    const auto found =
        point.spans.ranking->first_by_cost(table, candidate_request(context, point, request.first_schedule()));
    MW_CHECK(found.has_value(), "no pipeline");
    return found->cost;
  }
};

PlanRequest request_for(ScheduleKind schedule) {
  PlanRequest request = ask("gpt:layers=4,hidden=64,heads=4,seq=64,vocab=96", "cpu:4", "pipeshard", 64, Auto{});
  request.search.schedule = schedule;
  return request;
}

TEST(PredictPoint, OfItsOwnNumberIsTheBestPipelineOfThePoint) {
  for (const ScheduleKind schedule : {ScheduleKind::OneFOneB, ScheduleKind::GPipe}) {
    Points points(request_for(schedule));
    const Point few = points.at(4), many = points.at(16);
    for (const auto& [own, other] : {std::pair(&few, &many), std::pair(&many, &few)}) {
      const auto found = predict_point(points.context, *own, *other, own->microbatches(), schedule);
      ASSERT_TRUE(found);
      EXPECT_NEAR(*found / points.best(*own), 1.0, 1e-9) << name_of(schedule);
    }
  }
}

// What ops take grows with the samples, from what launching them takes: between two numbers as a line says.
TEST(PredictPoint, BetweenTwoNumbersIsNearTheBestPipelineOfThatNumber) {
  Points points(request_for(ScheduleKind::OneFOneB));
  const Point few = points.at(4), many = points.at(32);
  for (const std::int64_t between : {8, 16})
    for (const auto& [own, other] : {std::pair(&few, &many), std::pair(&many, &few)}) {
      const auto found = predict_point(points.context, *own, *other, between, ScheduleKind::OneFOneB);
      ASSERT_TRUE(found);
      EXPECT_NEAR(*found / points.best(points.at(between)), 1.0, 0.05) << between;
    }
}

// Beyond both no more is promised than that samples take as long each: twice as many micro-batches of half the samples
// take at least as long.
TEST(PredictPoint, BeyondBothNumbersGainsNothingFromOpsOfFewerSamples) {
  Points points(request_for(ScheduleKind::OneFOneB));
  const Point few = points.at(4), many = points.at(8);
  Seconds before = *predict_point(points.context, many, few, 8, ScheduleKind::OneFOneB);
  for (const std::int64_t beyond : {16, 32, 64}) {
    const auto found = predict_point(points.context, many, few, beyond, ScheduleKind::OneFOneB);
    ASSERT_TRUE(found);
    EXPECT_GT(*found, 0.5 * before) << beyond;
    EXPECT_LT(*found, 2.0 * points.best(points.at(beyond))) << beyond;
    before = *found;
  }
}

TEST(PredictPoint, KnowsNothingWhereNothingFits) {
  Points points(request_for(ScheduleKind::OneFOneB));
  const Point few = points.at(4), many = points.at(8);
  EXPECT_TRUE(predict_point(points.context, few, many, 16, ScheduleKind::OneFOneB, 1.0));
  EXPECT_FALSE(predict_point(points.context, few, many, 16, ScheduleKind::OneFOneB, 1e-9));
}

}  // namespace
}  // namespace meshwright::predict_point_test
