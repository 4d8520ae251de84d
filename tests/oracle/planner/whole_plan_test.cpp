// SPDX-License-Identifier: Apache-2.0
// The whole search, with the layers given, against every pipeline of its stage table: each placed, lowered, counted to
// the byte and simulated. The search ranks pipelines by their stages alone and lowers few; what that costs is measured
// here.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "core/planner/bounds/work_bound.h"
#include "tests/oracle/whole_plan_truth.h"
#include "tests/sanitized.h"

namespace meshwright::whole_plan_test {
namespace {

constexpr int kRequests = fewer(300);
constexpr std::size_t kMostPipelines = 40;
constexpr double kSame = 1.0 + 1e-12;

// Of the pipeline that is fastest by its stages' times; nullopt: there is none.
std::optional<Bytes> peak_without_limit(const PlanRequest& request, const CostModel& costs, SimulatedStep& evaluator) {
  WholeSpace space(request, costs, evaluator);
  StageDpRequest wanted{
      .devices = {}, .all_devices = false, .microbatches = std::get<std::int64_t>(request.search.microbatches)};
  for (const HostGroup& group : request.cluster.groups) wanted.devices.push_back(group.devices());
  const auto fastest = fastest_training(space.prices(), wanted);
  const auto truth = fastest ? space.judge(fastest->stages) : std::nullopt;
  if (!truth) return std::nullopt;
  return *std::max_element(truth->peak.begin(), truth->peak.end());
}

TEST(WholePlan, IsTheBestOfAllPipelines) {
  RandomRequests random(20251121);
  int requests = 0, none = 0, unlike = 0, limited = 0, slower = 0, faster = 0;
  double worst = 1.0;
  while (requests < kRequests) {
    PlanRequest request = random.next();
    const auto costs = make_analytic_cost_model(request.cluster);
    SimulatedStep evaluator(*costs);
    const auto peak = peak_without_limit(request, *costs, evaluator);
    if (!peak) continue;  // its batch divides over no mesh
    random.limit_memory(request, *peak);
    WholeSpace space(request, *costs, evaluator);
    const auto pipelines = space.pipelines(kMostPipelines);
    if (!pipelines) continue;
    SCOPED_TRACE(requests++);
    std::vector<TruePlan> truths;
    for (const auto& stages : *pipelines)
      if (auto truth = space.judge(stages)) truths.push_back(std::move(*truth));
    const Seconds bound = work_bound(request, *costs);
    for (const TruePlan& truth : truths)
      if (space.fits(truth)) {
        ASSERT_GE(truth.step, bound) << "of " << truth.stages.size() << " stages";
      }
    std::sort(truths.begin(), truths.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
    const auto first = std::find_if(truths.begin(), truths.end(), [&](const auto& truth) { return space.fits(truth); });
    const bool any = first != truths.end();

    const Planned found = with_program(make_plan(request, *costs, evaluator), *costs);
    ASSERT_EQ(found.plan.has_value(), any) << found.reason;
    unlike += request.cluster.uniform() ? 0 : 1;
    limited += any && first != truths.begin() ? 1 : 0;
    none += any ? 0 : 1;
    if (!any) continue;
    const double ratio = found.plan->predicted.step_time / first->step;
    // A single stage is fitted into the memory once more, and any plan refined, with shardings that are none of the
    // table's.
    faster += ratio * kSame < 1.0 ? 1 : 0;
    slower += ratio > kSame ? 1 : 0;
    worst = std::max(worst, ratio);
  }
  std::printf(
      "%d without a plan, %d limited by memory, %d on unlike hosts; %d faster than the table's best, %d slower, by up "
      "to "
      "%.2f %%\n",
      none, limited, unlike, faster, slower, 100 * (worst - 1));
  // Most plans are the table's own best.
  EXPECT_LT(faster, (kRequests - none) / 2);
  EXPECT_LE(slower, 2);
  EXPECT_LE(worst, 1.01);
  // What was drawn is of every kind.
  EXPECT_GT(none, fewer(12));
  EXPECT_GT(limited, fewer(36));
  EXPECT_GT(unlike, fewer(90));
}

}  // namespace
}  // namespace meshwright::whole_plan_test
