// SPDX-License-Identifier: Apache-2.0
#include "tests/truth/schedule_formulas.h"

#include <gtest/gtest.h>

#include "tests/unit/schedule_walk.h"

namespace meshwright::schedule_formulas_test {
namespace {

PassTimes times(std::int64_t forward, std::int64_t input, std::int64_t weight) {
  return {{forward}, {input}, {weight}};
}

std::vector<int> chunks_of(ScheduleKind kind) {
  const std::optional<int> chunks = traits_of(kind).chunks;
  return chunks ? std::vector<int>{*chunks} : std::vector<int>{2, 3, 5};
}

// Counts, so that a formula that holds nowhere cannot pass.
template <class Check>
int for_many_shapes(ScheduleKind kind, Check check) {
  int held = 0;
  for (const int chunks : chunks_of(kind))
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (const int microbatches : {1, 2, 3, ranks, 2 * ranks - 1, 2 * ranks, 3 * ranks, 4 * ranks + 1})
        held += check(ranks, chunks, microbatches, make_schedule(kind, line_of(ranks * chunks), microbatches, chunks));
  return held;
}

TEST(ScheduleFacts, BubblesAreThoseOfTheLongestPath) {
  for (const ScheduleKind kind : all_schedules()) {
    for (const PassTimes& t : {times(1, 1, 1), times(10, 10, 7), times(10, 10, 3), times(10, 13, 7), times(13, 10, 4),
                               times(10, 9, 12), times(9, 20, 18), times(7, 1, 1)}) {
      const int held = for_many_shapes(kind, [&](int ranks, int chunks, int m, const Schedule& schedule) {
        const std::optional<SimTime> said = bubble(kind, ranks, chunks, m, t);
        const std::optional<SimTime> said_of_rank = rank_bubble(kind, ranks, chunks, m, t);
        EXPECT_EQ(said.has_value(), said_of_rank.has_value());
        if (!said) return 0;
        const Walked walked = walk(schedule, ranks * chunks, {t.forward.ps, t.backward_input.ps, t.backward_weight.ps});
        EXPECT_EQ(said->ps, walked.step - walked.work[0])
            << name_of(kind) << " of " << ranks << " ranks, " << chunks << " chunks, " << m << " microbatches";
        EXPECT_EQ(said_of_rank->ps, walked.longest_span() - walked.work[0])
            << name_of(kind) << " of " << ranks << " ranks, " << chunks << " chunks, " << m << " microbatches";
        return 1;
      });
      const bool any_times = kind != ScheduleKind::ZeroBubbleV && kind != ScheduleKind::VHalf;
      if (any_times || t.forward == t.backward_weight) {
        EXPECT_GE(held, 24) << name_of(kind);
      }
    }
  }
}

TEST(ScheduleFacts, InFlightIsWhatTheScheduleKeeps) {
  for (const ScheduleKind kind : all_schedules()) {
    const int held = for_many_shapes(kind, [&](int ranks, int chunks, int m, const Schedule& schedule) {
      const std::optional<std::vector<int>> said = in_flight_of_ranks(kind, ranks, chunks, m);
      if (!said) return 0;
      EXPECT_EQ(*said, max_in_flight(schedule))
          << name_of(kind) << " of " << ranks << " ranks, " << chunks << " chunks, " << m << " microbatches";
      return 1;
    });
    EXPECT_GE(held, 24) << name_of(kind);
  }
}

TEST(ScheduleFacts, MostInFlightCountsUntilTheWeightGradients) {
  const MicrobatchId a(0), b(1);
  EXPECT_EQ(max_in_flight({{{Pass::Forward, a},
                            {Pass::BackwardInput, a},
                            {Pass::Forward, b},
                            {Pass::BackwardWeight, a},
                            {Pass::BackwardInput, b},
                            {Pass::BackwardWeight, b}},
                           {{Pass::Forward, a}, {Pass::Backward, a}, {Pass::Forward, b}, {Pass::Backward, b}},
                           {{Pass::Forward, a}, {Pass::Forward, b}}}),
            (std::vector<int>{2, 1, 1}));
}

// The claims of the papers for equal times: H1 has a third of the bubble of 1f1b in its memory; H2 and zb-v leave no
// rank idle, in twice its memory and in the same; v-half has about half its bubble in about half its memory.
TEST(ScheduleFacts, AreTheClaimsOfThePapers) {
  const PassTimes t = times(2, 2, 2), half = times(1, 1, 1);
  const int p = 8, m = 32;
  const std::int64_t of_1f1b = bubble(ScheduleKind::OneFOneB, p, 1, m, t)->ps;
  EXPECT_EQ(of_1f1b, 7 * 6);
  EXPECT_EQ(bubble(ScheduleKind::ZeroBubbleH1, p, 1, m, t)->ps, of_1f1b / 3);
  EXPECT_EQ(rank_bubble(ScheduleKind::ZeroBubbleH2, p, 1, m, t)->ps, 0);
  EXPECT_EQ(rank_bubble(ScheduleKind::ZeroBubbleV, p, 2, m, half)->ps, 0);
  EXPECT_EQ(rank_bubble(ScheduleKind::VHalf, p, 2, m, half)->ps, 19);
  EXPECT_EQ(bubble(ScheduleKind::Interleaved, p, 2, m, half)->ps, of_1f1b / 2);
  EXPECT_EQ(in_flight_of_ranks(ScheduleKind::OneFOneB, p, 1, m)->front(), 8);
  EXPECT_EQ(in_flight_of_ranks(ScheduleKind::ZeroBubbleH1, p, 1, m)->front(), 8);
  EXPECT_EQ(in_flight_of_ranks(ScheduleKind::ZeroBubbleH2, p, 1, m)->front(), 15);
  EXPECT_EQ(in_flight_of_ranks(ScheduleKind::ZeroBubbleV, p, 2, m)->front(), 16);  // halves of a stage
  EXPECT_EQ(in_flight_of_ranks(ScheduleKind::VHalf, p, 2, m)->front(), 10);
}

TEST(ScheduleFacts, AreSilentWhereNoFormulaHolds) {
  EXPECT_FALSE(bubble(ScheduleKind::Interleaved, 4, 2, 5, times(1, 1, 1)));
  EXPECT_FALSE(bubble(ScheduleKind::ZeroBubbleH1, 4, 1, 3, times(1, 1, 1)));
  EXPECT_FALSE(bubble(ScheduleKind::ZeroBubbleH2, 4, 1, 6, times(1, 1, 1)));
  EXPECT_FALSE(bubble(ScheduleKind::ZeroBubbleV, 4, 2, 8, times(1, 2, 1)));
  EXPECT_FALSE(bubble(ScheduleKind::VHalf, 4, 2, 8, times(2, 2, 1)));
  EXPECT_FALSE(in_flight_of_ranks(ScheduleKind::VHalf, 4, 2, 6));
}

}  // namespace
}  // namespace meshwright::schedule_formulas_test
