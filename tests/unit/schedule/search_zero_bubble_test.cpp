// SPDX-License-Identifier: Apache-2.0
#include "tests/truth/search_zero_bubble.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/truth/schedule_formulas.h"
#include "tests/unit/schedule_walk.h"

namespace meshwright::search_zero_bubble_test {
namespace {

ZeroBubbleProblem equal(int ranks, int microbatches, std::int64_t forward, std::int64_t input, std::int64_t weight,
                        double memory_limit) {
  const auto all = static_cast<std::size_t>(ranks);
  ZeroBubbleProblem problem;
  problem.forward.assign(all, SimTime{forward});
  problem.backward_input.assign(all, SimTime{input});
  problem.backward_weight.assign(all, SimTime{weight});
  problem.microbatches = microbatches;
  problem.memory_limit.assign(all, memory_limit);
  return problem;
}

std::vector<WalkTimes> times_of(const ZeroBubbleProblem& problem) {
  std::vector<WalkTimes> times;
  for (std::size_t r = 0; r < problem.forward.size(); ++r)
    times.push_back(
        {problem.forward[r].ps, problem.backward_input[r].ps, problem.backward_weight[r].ps, problem.message.ps});
  return times;
}

// The most that a rank keeps, in activations.
double most_kept(const std::vector<ScheduledRun>& runs, double kept_for_weights) {
  int forwards = 0, inputs = 0, weights = 0;
  double most = 0.0;
  for (const ScheduledRun& run : runs) {
    forwards += run.pass == Pass::Forward ? 1 : 0;
    inputs += run.pass == Pass::BackwardInput ? 1 : 0;
    weights += run.pass == Pass::BackwardWeight ? 1 : 0;
    most = std::max(most, forwards - inputs + kept_for_weights * (inputs - weights));
  }
  return most;
}

TEST(SearchZeroBubble, FindsH1InTheMemoryOf1F1BAndH2InTwiceItForEqualTimes) {
  for (int p = 1; p <= 6; ++p) {
    const auto one = search_zero_bubble(equal(p, 4 * p, 1, 1, 1, p), ZeroBubbleGoal::RankSpan);
    const auto two = search_zero_bubble(equal(p, 4 * p, 1, 1, 1, 2 * p - 1), ZeroBubbleGoal::RankSpan);
    const PassTimes t{{1}, {1}, {1}};
    EXPECT_EQ(one->rank_span.ps, 12 * p + rank_bubble(ScheduleKind::ZeroBubbleH1, p, 1, 4 * p, t)->ps);
    EXPECT_EQ(two->rank_span.ps, 12 * p + rank_bubble(ScheduleKind::ZeroBubbleH2, p, 1, 4 * p, t)->ps);
  }
}

// Over random problems: the times it says are those of its schedule, the memory is kept to, no handcrafted schedule
// that fits is better, and no schedule is faster than its bounds: a rank's work, and one microbatch there and back.
TEST(SearchZeroBubble, SaysTheTruthKeepsToTheMemoryAndIsNoWorseThanTheHandcrafted) {
  std::mt19937 random(11);
  const auto draw = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  for (int round = 0; round < 300; ++round) {
    const int ranks = draw(1, 7);
    ZeroBubbleProblem problem = equal(ranks, draw(1, 20), draw(0, 20), draw(0, 20), draw(0, 20), draw(1, 2 * ranks));
    if (round % 2 == 0)
      for (std::size_t r = 0; r < problem.forward.size(); ++r) {
        problem.forward[r] = {draw(1, 20)};
        problem.backward_weight[r] = {draw(1, 20)};
        problem.memory_limit[r] = draw(10, 10 * ranks) / 10.0;
      }
    problem.message = {draw(0, 4)};
    problem.kept_for_weights = draw(0, 10) / 10.0;
    for (const ZeroBubbleGoal goal : {ZeroBubbleGoal::Step, ZeroBubbleGoal::RankSpan}) {
      const auto found = search_zero_bubble(problem, goal);
      ASSERT_TRUE(found);
      const Walked walked = walk(found->schedule, times_of(problem));
      EXPECT_EQ(found->step.ps, walked.step);
      EXPECT_EQ(found->rank_span.ps, walked.longest_span());
      double least = 1e9;
      for (std::size_t r = 0; r < problem.forward.size(); ++r) {
        EXPECT_LE(most_kept(found->schedule[r], problem.kept_for_weights), problem.memory_limit[r] + 1e-6);
        EXPECT_GE(walked.longest_span(), walked.work[r]);
        least = std::min(least, problem.memory_limit[r]);
      }
      for (const ScheduleKind kind : {ScheduleKind::ZeroBubbleH1, ScheduleKind::ZeroBubbleH2}) {
        if (in_flight(kind, 0, problem.microbatches, ranks - 1) > least) continue;
        const Walked handcrafted = walk(make_schedule(kind, line_of(ranks), problem.microbatches), times_of(problem));
        const bool of_step = goal == ZeroBubbleGoal::Step;
        EXPECT_LE(of_step ? found->step.ps : found->rank_span.ps,
                  of_step ? handcrafted.step : handcrafted.longest_span());
      }
    }
  }
}

TEST(SearchZeroBubble, HasNothingWhereARankCannotKeepOneActivation) {
  ZeroBubbleProblem problem = equal(3, 4, 1, 1, 1, 2);
  problem.memory_limit[1] = 0.9;
  EXPECT_FALSE(search_zero_bubble(problem, ZeroBubbleGoal::Step));
}

TEST(SearchZeroBubble, MoreMemoryHelps) {
  const auto span = [](double limit) {
    return search_zero_bubble(equal(6, 30, 10, 10, 7, limit), ZeroBubbleGoal::RankSpan)->rank_span.ps;
  };
  EXPECT_GT(span(3), span(6));
  EXPECT_GT(span(6), span(12));
  EXPECT_LT(span(24), 30 * 27 + 10);  // nearly no bubble
}

}  // namespace
}  // namespace meshwright::search_zero_bubble_test
