// SPDX-License-Identifier: Apache-2.0
#include "report/rows/tracks.h"

#include <gtest/gtest.h>

#include <set>

#include "report/page/html.h"
#include "report/page/sharding_section.h"
#include "report/page/step_sections.h"
#include "report/page/what_if.h"
#include "simulator/fold/folded_program.h"
#include "simulator/report/step_report.h"
#include "simulator/what_if/breakdown.h"
#include "simulator/what_if/device_speed.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::tracks_test {
namespace {

// Four stages of two devices that split the batch.
struct Made {
  PlanRequest request = ask("mlp:layers=4,hidden=64", "cpu:8", "pipeshard", 32, 4);
  std::unique_ptr<CostModel> costs;
  Planned planned;
  ProgramTimes times;

  Made() {
    request.search.submeshes = std::vector<Submesh>{{1, 2}, {1, 2}, {1, 2}, {1, 2}};
    costs = make_analytic_cost_model(request.cluster);
    SimulatedStep evaluator(*costs);
    planned = with_program(make_plan(request, *costs, evaluator), *costs);
    MW_CHECK(planned.plan.has_value(), "no plan: {}", planned.reason);
    times = program_costs(planned.program, *costs).times;
  }
  [[nodiscard]] Tracks tracks(const StepSimulation& step, const FoldedDevices* folded = nullptr) const {
    return tracks_of(step, *planned.plan, planned.program, planned.graph, folded);
  }
};

std::size_t devices_of(const Tracks& tracks) {
  std::set<int> devices;
  for (const Track& row : tracks.rows) devices.insert(row.devices.begin(), row.devices.end());
  return devices.size();
}

TEST(Tracks, AreOneRowForDevicesThatDoTheSame) {
  const Made made;
  const StepSimulation step = simulate_plain_step(made.planned.program, made.times, nullptr, true);
  const Tracks tracks = made.tracks(step);
  EXPECT_EQ(devices_of(tracks), made.planned.program.devices.size());
  EXPECT_LE(tracks.rows.size(), made.planned.plan->stages.size());
  EXPECT_EQ(tracks.end, step.times.step);
}

TEST(Tracks, AreTheSameOfAFoldedStep) {
  const Made made;
  const FoldedProgram folded = fold_program(made.planned.program, made.times);
  const StepSimulation whole = simulate_plain_step(made.planned.program, made.times, nullptr, true);
  const StepSimulation small = simulate_plain_step(folded.program, folded.times, &folded.folded, true);
  const Tracks a = made.tracks(whole),
               b = tracks_of(small, *made.planned.plan, folded.program, made.planned.graph, &folded.folded);
  ASSERT_EQ(a.rows.size(), b.rows.size());
  for (std::size_t r = 0; r < a.rows.size(); ++r) {
    EXPECT_EQ(a.rows[r].devices, b.rows[r].devices);
    ASSERT_EQ(a.rows[r].compute.size(), b.rows[r].compute.size());
    EXPECT_EQ(a.peak(a.rows[r]), b.peak(b.rows[r]));
    for (std::size_t t = 0; t < a.rows[r].compute.size(); ++t)
      EXPECT_TRUE(a.tasks[a.rows[r].compute.begin + t].same_work(b.tasks[b.rows[r].compute.begin + t]));
  }
}

TEST(Tracks, HoldThePeakOfTheSimulation) {
  const Made made;
  const StepSimulation step = simulate_plain_step(made.planned.program, made.times, nullptr, true);
  const Tracks tracks = made.tracks(step);
  const std::vector<Bytes> peaks = peak_memory(step, made.planned.program);
  for (const Track& row : tracks.rows) EXPECT_EQ(tracks.peak(row), peaks[row.like.index()]);
}

TEST(Tracks, WaitForWhatEndsWhenTheyBegin) {
  const Made made;
  const StepSimulation step = simulate_plain_step(made.planned.program, made.times, nullptr, true);
  const Tracks tracks = made.tracks(step);
  for (const Track& row : tracks.rows)
    for (std::size_t t = row.compute.begin; t < row.compute.end; ++t) {
      const TrackTask& task = tracks.tasks[t];
      if (task.waits_for < 0) {
        EXPECT_EQ(task.begin.ps, 0);
      } else {
        EXPECT_EQ(tracks.tasks[static_cast<std::size_t>(task.waits_for)].end, task.begin);
      }
    }
}

TEST(Tracks, AreSharesWhereTheirTasksAreTooMany) {
  const Made made;
  const StepSimulation step = simulate_plain_step(made.planned.program, made.times, nullptr, true);
  const Tracks all = made.tracks(step);
  Tracks same = all, none = all;
  keep_within(same, all.tasks.size());
  EXPECT_EQ(same.tasks.size(), all.tasks.size());
  keep_within(none, 1);
  EXPECT_TRUE(none.tasks.empty());
  ASSERT_EQ(none.rows.size(), all.rows.size());
  for (std::size_t r = 0; r < all.rows.size(); ++r) {
    ASSERT_TRUE(none.rows[r].shares.has_value());
    EXPECT_EQ(none.peak(none.rows[r]), all.peak(all.rows[r]));
    double shares = 0.0, computing = 0.0;
    for (std::size_t i = none.rows[r].shares->begin; i < none.rows[r].shares->end; ++i)
      shares += none.shares[i] / 255.0;
    for (std::size_t t = all.rows[r].compute.begin; t < all.rows[r].compute.end; ++t)
      computing += static_cast<double>((all.tasks[t].end - all.tasks[t].begin).ps);
    EXPECT_NEAR(shares / kShareParts, computing / static_cast<double>(all.end.ps), 0.005) << r;
  }
}

TEST(Tracks, OfASlowDeviceAreARowOfTheirOwn) {
  const Made made;
  StepRequest request;
  request.name_tasks = true;
  request.slow_devices.push_back({0, 0.5});
  const StepSimulation step =
      simulate_step(*made.planned.plan, made.planned.graph, made.planned.program, made.times, *made.costs, request, 1);
  const Tracks tracks = made.tracks(step);
  EXPECT_EQ(tracks.rows.front().devices, std::vector<int>{0});
}

// Each is slower by itself: eight devices at a thousandth of their speed take a thousand times as long, not 1,000^8.
TEST(SlowDevices, DoNotMultiply) {
  const Made made;
  StepRequest request;
  for (int device = 0; device < 8; ++device) request.slow_devices.push_back({device, 0.001});
  const auto step_under = [&](const StepRequest& asked) {
    return simulate_step(*made.planned.plan, made.planned.graph, made.planned.program, made.times, *made.costs, asked,
                         1)
        .times.step;
  };
  EXPECT_LE(step_under(request).ps, 1000 * step_under({}).ps);
}

TEST(StepSections, HaveARowForEveryTrackAndStage) {
  const Made made;
  const StepSimulation step = simulate_plain_step(made.planned.program, made.times, nullptr, true);
  const Prediction prediction = predict(made.planned.program, *made.costs);
  const RunParts parts(made.planned.program, made.planned.graph, made.request.cluster, *made.costs);
  const StepBreakdown breakdown = breakdown_of(step, made.planned.program, parts);
  Page page{.verb = "simulate"};
  add_step_sections(page, {.plan = *made.planned.plan,
                           .program = made.planned.program,
                           .graph = made.planned.graph,
                           .step = step,
                           .prediction = prediction,
                           .breakdown = breakdown,
                           .ops = {}});
  EXPECT_EQ(page.members.at("tracks").size(), made.tracks(step).rows.size());
  EXPECT_EQ(page.members.at("stages").size(), made.planned.plan->stages.size());
}

TEST(WhatIf, HasNoSectionWithoutOtherPoints) {
  Page page{.verb = "plan"};
  EXPECT_FALSE(what_if_section(page, {{"Micro-batches", "", {{"4", Seconds(1.0), "", true}}}}).has_value());
  const auto section = what_if_section(
      page, {{"Micro-batches", "", {{"2", Seconds(1.5), ""}, {"4", Seconds(1.0), "", true}, {"8", {}, "no"}}}});
  ASSERT_TRUE(section.has_value());
  EXPECT_NE(section->html.find("+50.0 %"), std::string::npos);
  EXPECT_EQ(page.members.at("what_if")[0].at("points")[2].at("step_s"), nullptr);
}

TEST(DeviceSpeed, ChangesComputationsAlone) {
  const Made made;
  const RunParts parts(made.planned.program, made.planned.graph, made.request.cluster, *made.costs);
  EXPECT_EQ(with_device_speed(made.times, parts, 1.0).executable, made.times.executable);
  const ProgramTimes fast = with_device_speed(made.times, parts, 2.0);
  for (std::size_t e = 0; e < fast.executable.size(); ++e) {
    EXPECT_LE(fast.executable[e], made.times.executable[e]);
    EXPECT_GE(2 * fast.executable[e].ps + 1, made.times.executable[e].ps);
  }
  EXPECT_LT(plain_step(made.planned.program, fast), plain_step(made.planned.program, made.times));
}

TEST(Sharding, IsSaidInWords) {
  const std::vector<Dim> dims = {{"batch", 32}, {"embed", 64}};
  EXPECT_EQ(spec_in_words(spec_from_text("S0S1", "test"), dims, {2, 4}), "batch over 2, embed over 4");
  EXPECT_EQ(spec_in_words(spec_from_text("RS01", "test"), dims, {2, 4}), "embed over 8");
  EXPECT_EQ(spec_in_words(spec_from_text("RR", "test"), dims, {2, 4}), "whole on each");
  EXPECT_EQ(spec_in_words(spec_from_text("RR+P1", "test"), dims, {2, 4}), "partial sums on 4");
}

}  // namespace
}  // namespace meshwright::tracks_test
