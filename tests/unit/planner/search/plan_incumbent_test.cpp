// SPDX-License-Identifier: Apache-2.0
// What a search learns from the verdicts on its plans, one by one.
#include "core/planner/search/plan_incumbent.h"

#include <gtest/gtest.h>

#include "core/base/random.h"
#include "core/planner/search/expected_share.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::plan_incumbent_test {
namespace {

using Kind = Verdict::Kind;

// One stage on one device, whose micro-batches tell plans apart.
PlanProgram program(int number, ScheduleKind schedule = ScheduleKind::OneFOneB) {
  PlanProgram found{std::make_shared<const Graph>(), {}, nullptr};
  found.plan.schedule = schedule;
  found.plan.training.microbatches = number;
  found.plan.stages.push_back({0, 3, {1, 2}, {2, 1}, {}, {}, {}, {}});
  return found;
}
Verdict fits(double step, double to_beat, std::optional<double> share = std::nullopt, int chunks = 1) {
  Verdict verdict;
  verdict.kind = step < to_beat ? Kind::Better : Kind::NotBetter;
  verdict.step = verdict.score = Seconds(step);
  verdict.lower_bound = Seconds(step / 2);
  verdict.share = share;
  verdict.chunks = chunks;
  verdict.peaks = {Bytes(10 * step)};
  return verdict;
}
Verdict too_large(double needs, double usable) {
  Verdict verdict;
  verdict.kind = Kind::TooLarge;
  verdict.worst = PlanningResult::TooLarge{0, 1, 0, 3, Bytes(needs), Bytes(usable)};
  verdict.excess = Bytes(needs - usable);
  return verdict;
}

TEST(PlanIncumbent, IsTheLatestThatWasBetterWithWhatItsVerdictSays) {
  const PlanRequest request = ask("mlp:layers=2,hidden=64", "cpu:2");
  PlanIncumbent incumbent(request);
  EXPECT_EQ(incumbent.plan(), nullptr);
  EXPECT_FALSE(incumbent.score());
  incumbent.apply(program(1), fits(8, 100));
  incumbent.apply(program(2), fits(9, 8));
  incumbent.apply(program(3), {});  // without a place
  incumbent.apply(program(4), too_large(30, 20));
  EXPECT_EQ(incumbent.plan()->training.microbatches, 1);
  EXPECT_EQ(incumbent.score(), Seconds(8));
  incumbent.apply(program(5), fits(6, 8));
  PlanningResult result = incumbent.take_result();
  ASSERT_TRUE(result.plan);
  EXPECT_EQ(result.plan->training.microbatches, 5);
  EXPECT_EQ(result.plan->predicted.step_time, Seconds(6));
  EXPECT_EQ(result.lower_bound_within_layers, Seconds(3));
  EXPECT_EQ(result.plan->stages[0].peak_memory, Bytes(60));
  EXPECT_FALSE(result.too_large);
  EXPECT_TRUE(result.front.empty());
}

TEST(PlanIncumbent, ExplainsWhatLacksTheLeastWhileNothingFits) {
  const PlanRequest request = ask("mlp:layers=2,hidden=64", "cpu:2");
  PlanIncumbent incumbent(request);
  incumbent.explain_if_unknown("first");
  incumbent.explain_if_unknown("second");
  EXPECT_TRUE(incumbent.would_explain(Bytes(1e9)));
  incumbent.apply(program(1), too_large(30, 20));
  EXPECT_TRUE(incumbent.would_explain(Bytes(9)));
  EXPECT_FALSE(incumbent.would_explain(Bytes(10)));
  incumbent.apply(program(2), too_large(50, 39));  // lacks 11
  incumbent.apply(program(3), too_large(27, 20));
  incumbent.explain_unless_too_large("no layers");
  PlanIncumbent other(request);
  other.explain_if_unknown("first");
  other.explain_unless_too_large("no layers");
  EXPECT_EQ(other.take_result().reason, "no layers");
  const PlanningResult result = incumbent.take_result();
  ASSERT_TRUE(result.too_large);
  EXPECT_EQ(result.too_large->needs, Bytes(27));
  EXPECT_EQ(result.reason, "stage 0 of 1 (layers 0..3 on 1x2) " + result.too_large->text());
}

TEST(PlanIncumbent, NamesTheBestOfWhatMissesTheGoal) {
  PlanRequest request = ask("mlp:layers=2,hidden=64", "cpu:2");
  const auto reason_of = [&] {
    PlanIncumbent incumbent(request);
    for (const auto& [throughput, latency] : {std::pair(4.0, 3.0), {7.0, 2.0}, {5.0, 1.0}, {2.0, 6.0}}) {
      Verdict verdict;
      verdict.kind = Kind::MissesGoal;
      verdict.throughput = throughput;
      verdict.latency = Seconds(latency);
      incumbent.apply(program(1), verdict);
    }
    return incumbent.take_result().reason;
  };
  EXPECT_EQ(reason_of().find("the maximum throughput found is 7 samples/s;"), 0U);
  request.goal.max_latency = Seconds(0.5);
  EXPECT_EQ(reason_of().find("the minimum latency found is " + human_seconds(Seconds(1)) + ";"), 0U);
}

// Shares of 0.9 and 0.8 under 1F1B, 1.2 with two chunks; of several schedules those above 1 tell, too.
TEST(PlanIncumbent, KnowsTheLeastShareOfEverySchedule) {
  PlanRequest request = ask("mlp:layers=2,hidden=64", "cpu:2");
  const auto shares = [&](NearPlans* near) {
    PlanIncumbent incumbent(request, near);
    incumbent.apply(program(1), fits(8, 100, 0.9));
    incumbent.apply(program(2), fits(9, 8, 0.8));
    incumbent.apply(program(3), fits(9, 8, 0.85));
    incumbent.apply(program(4, ScheduleKind::Interleaved), fits(9, 8, 1.2, 2));
    EXPECT_FALSE(incumbent.min_share(ScheduleKind::OneFOneB, 2));
    EXPECT_FALSE(incumbent.min_share(ScheduleKind::GPipe, 1));
    const auto seen = incumbent.min_share(ScheduleKind::OneFOneB, 1);
    EXPECT_TRUE(seen && seen->share == 0.8 && seen->programs == 3);
    return incumbent.min_share(ScheduleKind::Interleaved, 2)->share;
  };
  NearPlans near;
  request.search.schedule = ScheduleKind::OneFOneB;
  EXPECT_EQ(shares(nullptr), 1.0);
  request.search.schedule = Auto{};
  EXPECT_EQ(shares(nullptr), 1.2);
  EXPECT_EQ(shares(&near), 1.0);
}

// Plans of 8, 9 and 6 s, parted over two that began with the first, are told as if one after the other.
TEST(PlanIncumbent, JoinsWhatOthersBesideItWereTold) {
  const PlanRequest request = ask("mlp:layers=2,hidden=64", "cpu:2");
  NearPlans near, near_one, near_two;
  PlanIncumbent incumbent(request, &near);
  incumbent.apply(program(1), fits(8, 100, 0.9));
  PlanIncumbent one = incumbent.beside(&near_one), two = incumbent.beside(&near_two);
  EXPECT_EQ(two.score(), Seconds(8));
  EXPECT_EQ(two.near_share(), incumbent.near_share());
  one.apply(program(2), fits(7, 8, 0.8));
  two.apply(program(3), fits(6, 8, 0.95));
  two.apply(program(4), fits(9, 6, 0.7));
  incumbent.join(std::move(two), std::move(near_two));
  EXPECT_EQ(incumbent.score(), Seconds(6));
  incumbent.join(std::move(one), std::move(near_one));
  EXPECT_EQ(incumbent.score(), Seconds(6));
  EXPECT_EQ(incumbent.plan()->training.microbatches, 3);
  const auto seen = incumbent.min_share(ScheduleKind::OneFOneB, 1);
  EXPECT_TRUE(seen && seen->share == 0.7 && seen->programs == 4);
  std::vector<std::int64_t> fastest;  // by their micro-batches
  for (const NearPlans::Near& of : near.fastest({4, 2.0}, {4, 2.0}))
    fastest.push_back(of.made.plan.training.microbatches);
  EXPECT_EQ(fastest, (std::vector<std::int64_t>{3, 2, 1, 4}));
}

TEST(PlanIncumbent, JoinsTheReasonOfWhatLacksTheLeast) {
  const PlanRequest request = ask("mlp:layers=2,hidden=64", "cpu:2");
  PlanIncumbent incumbent(request), unexplained(request);
  incumbent.apply(program(1), too_large(30, 20));
  PlanIncumbent less = incumbent.beside(nullptr), more = incumbent.beside(nullptr);
  less.apply(program(2), too_large(27, 20));
  more.apply(program(3), too_large(29, 20));
  incumbent.join(std::move(less), {});
  incumbent.join(std::move(more), {});
  EXPECT_FALSE(incumbent.would_explain(Bytes(7)));
  EXPECT_EQ(incumbent.take_result().too_large->needs, Bytes(27));
  PlanIncumbent other = unexplained.beside(nullptr);
  other.explain_unless_too_large("no layers");
  unexplained.join(std::move(other), {});
  EXPECT_EQ(unexplained.take_result().reason, "no layers");
}

// Before a program was seen 0.97 of a large model's stages are expected and 0.94 of a small one's, 0.9 of that where
// communication hides. Of 32 programs or fewer the least share may fall by half a hundredth, or by four; of 64 by half
// of that, of 128 and more by a quarter.
TEST(ExpectedShare, FallsLessTheMoreProgramsWereSeen) {
  PlanRequest request = ask("mlp:layers=2,hidden=64", "cpu:2");
  const Programs large{true, false}, small{false, false}, hiding{false, true};
  PlanIncumbent incumbent(request);
  const auto expected = [&](const Programs& programs) {
    return expected_share(programs, ScheduleKind::OneFOneB, 1, incumbent);
  };
  EXPECT_DOUBLE_EQ(expected(large), 0.97);
  EXPECT_DOUBLE_EQ(expected(small), 0.94);
  EXPECT_DOUBLE_EQ(expected(hiding), 0.9 * 0.94);
  EXPECT_FALSE(to_beat(large, ScheduleKind::OneFOneB, incumbent));
  int programs = 0;
  const auto see = [&](int count) {
    for (; programs < count; ++programs) incumbent.apply(program(programs), fits(9, programs == 0 ? 100 : 8, 0.5));
  };
  for (const auto& [count, certain] : {std::pair(1, 1.0), {32, 1.0}, {64, 0.5}, {128, 0.25}, {1000, 0.25}}) {
    see(count);
    EXPECT_DOUBLE_EQ(expected(large), (1 - 0.005 * certain) * 0.5) << count;
    EXPECT_DOUBLE_EQ(expected(small), (1 - 0.04 * certain) * 0.5) << count;
    EXPECT_DOUBLE_EQ(expected(hiding), (1 - 0.04 * certain) * 0.5) << count;
  }
  // 0.5 of its stages is expected of plans with one stage each, and it may fall by two hundredths more.
  EXPECT_DOUBLE_EQ(to_beat(large, ScheduleKind::OneFOneB, incumbent)->si(), 9 / (0.98 * (1 - 0.005 * 0.25) * 0.5));
  EXPECT_DOUBLE_EQ(to_beat(large, ScheduleKind::GPipe, incumbent)->si(), 9 / (0.98 * 0.97));
  // Ranks of zb-v have two stages each, so that nothing is expected of other numbers. Those of interleaved may have
  // any.
  for (const ScheduleKind schedule : {ScheduleKind::ZeroBubbleV, ScheduleKind::Interleaved})
    incumbent.apply(program(++programs, schedule), fits(9, 8, 0.99, 2));
  EXPECT_DOUBLE_EQ(to_beat(large, ScheduleKind::ZeroBubbleV, incumbent)->si(), 9 / (0.98 * (1 - 0.005) * 0.99));
  EXPECT_DOUBLE_EQ(to_beat(large, ScheduleKind::Interleaved, incumbent)->si(), 9 / (0.98 * 0.97));
}

TEST(ExpectedShare, LooksFurtherWherePlansAreRefined) {
  const PlanRequest request = ask("mlp:layers=2,hidden=64", "cpu:2");
  NearPlans near;
  PlanIncumbent incumbent(request, &near);
  incumbent.apply(program(1), fits(9, 100));
  EXPECT_DOUBLE_EQ(to_beat({true, false}, ScheduleKind::OneFOneB, incumbent)->si(), 9 / (0.98 * 0.97 * kMinRefined));
}

// Against all pairs: a point stays unless another is no worse in anything, or equal and before it.
TEST(FrontOf, KeepsWhatNoOtherMatches) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    std::vector<FrontPoint> points;
    for (int i = 1 + random.below(12); i > 0; --i) {
      FrontPoint point{{}, 1 + random.below(3)};
      point.plan.predicted.step_time = Seconds(random.below(4));
      point.plan.predicted.peak_memory = Bytes(random.below(4));
      point.plan.training.microbatches = i;
      points.push_back(point);
    }
    std::vector<std::int64_t> wanted, found;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto beats = [&](std::size_t j) {
        const PlanPrediction &a = points[j].plan.predicted, &b = points[i].plan.predicted;
        const bool no_worse =
            a.step_time <= b.step_time && a.peak_memory <= b.peak_memory && points[j].devices <= points[i].devices;
        const bool equal =
            a.step_time == b.step_time && a.peak_memory == b.peak_memory && points[j].devices == points[i].devices;
        return no_worse && (!equal || j < i);
      };
      bool beaten = false;
      for (std::size_t j = 0; j < points.size(); ++j) beaten = beaten || beats(j);
      if (!beaten) wanted.push_back(points[i].plan.training.microbatches);
    }
    Seconds before(0.0);
    for (const FrontPoint& point : front_of(points)) {
      found.push_back(point.plan.training.microbatches);
      EXPECT_LE(before, point.plan.predicted.step_time);
      before = point.plan.predicted.step_time;
    }
    std::sort(wanted.begin(), wanted.end());
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, wanted) << "seed " << seed;
  }
}

}  // namespace
}  // namespace meshwright::plan_incumbent_test
