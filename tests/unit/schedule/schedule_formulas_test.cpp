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

// At how many shapes a formula has to hold: dualpipe is there for 2, 4, 6 and 8 ranks with two of these numbers each.
int least_of_shapes(ScheduleKind kind) { return kind == ScheduleKind::DualPipe ? 8 : 24; }

// Counts, so that a formula that holds nowhere cannot pass.
template <class Check>
int for_many_shapes(ScheduleKind kind, Check check) {
  int held = 0;
  for (const int chunks : chunks_of(kind))
    for (int ranks = 1; ranks <= 8; ++ranks)
      for (const int microbatches : {1, 2, 3, ranks, 2 * ranks - 1, 2 * ranks, 3 * ranks, 4 * ranks + 1})
        if (!unmet_by(kind, ranks, microbatches))
          held += check(ranks, chunks, microbatches,
                        make_schedule(kind, line_of(ranks * chunks, traits_of(kind).copies), microbatches, chunks));
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
        const Walked walked = walk(schedule, ranks * chunks, {t.forward.ps, t.backward_input.ps, t.backward_weight.ps},
                                   traits_of(kind).copies);
        EXPECT_EQ(said->ps, walked.step - walked.work[0])
            << name_of(kind) << " of " << ranks << " ranks, " << chunks << " chunks, " << m << " microbatches";
        EXPECT_EQ(said_of_rank->ps, walked.longest_span() - walked.work[0])
            << name_of(kind) << " of " << ranks << " ranks, " << chunks << " chunks, " << m << " microbatches";
        return 1;
      });
      const bool any_times = kind != ScheduleKind::ZeroBubbleV && kind != ScheduleKind::VHalf &&
                             kind != ScheduleKind::DualPipeV && kind != ScheduleKind::DualPipe;
      if (any_times || t.forward == t.backward_weight) {
        EXPECT_GE(held, least_of_shapes(kind)) << name_of(kind);
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
    EXPECT_GE(held, least_of_shapes(kind)) << name_of(kind);
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
  EXPECT_EQ(bubble(ScheduleKind::DualPipe, p, 2, m, t)->ps, 3 * 2);  // (8/2 - 1) (F+I-W)
  EXPECT_EQ(in_flight_of_ranks(ScheduleKind::DualPipe, p, 2, m)->front(), 9);
}

TEST(ScheduleFacts, AreSilentWhereNoFormulaHolds) {
  EXPECT_FALSE(bubble(ScheduleKind::Interleaved, 4, 2, 5, times(1, 1, 1)));
  EXPECT_FALSE(bubble(ScheduleKind::ZeroBubbleH1, 4, 1, 3, times(1, 1, 1)));
  EXPECT_FALSE(bubble(ScheduleKind::ZeroBubbleH2, 4, 1, 6, times(1, 1, 1)));
  EXPECT_FALSE(bubble(ScheduleKind::ZeroBubbleV, 4, 2, 8, times(1, 2, 1)));
  EXPECT_FALSE(bubble(ScheduleKind::VHalf, 4, 2, 8, times(2, 2, 1)));
  EXPECT_FALSE(bubble(ScheduleKind::DualPipeV, 4, 2, 7, times(1, 1, 1)));
  EXPECT_FALSE(bubble(ScheduleKind::DualPipeV, 4, 2, 8, times(1, 2, 1)));
  EXPECT_FALSE(bubble(ScheduleKind::DualPipe, 4, 2, 8, times(1, 2, 1)));
  EXPECT_FALSE(in_flight_of_ranks(ScheduleKind::VHalf, 4, 2, 6));
}

// --- DualPipe's own formula, of forwards and backwards that run as one ---

// Runs of a rank that begin and end together: each alone, but both halves of a backward whose weights follow at once,
// and with the forward of the other chunk before it where there is one. Left apart are, as in the repository, the
// halves of the backwards among the first forwards, and the last rank's first pair.
using Block = std::vector<ScheduledRun>;
std::vector<Block> blocks_of(const std::vector<ScheduledRun>& runs, int ranks, bool is_last) {
  const auto is = [&](std::size_t i, Pass pass) { return i < runs.size() && runs[i].pass == pass; };
  const auto is_backward = [&](std::size_t i) {
    return is(i, Pass::BackwardInput) && is(i + 1, Pass::BackwardWeight) && runs[i].stage == runs[i + 1].stage &&
           runs[i].microbatch == runs[i + 1].microbatch;
  };
  const auto is_pair = [&](std::size_t i) {
    return is(i, Pass::Forward) && is_backward(i + 1) &&
           (runs[i].stage.value < ranks) != (runs[i + 1].stage.value < ranks);
  };
  std::vector<Block> blocks;
  bool apart = is_last;
  for (std::size_t i = 0; i < runs.size();) {
    std::size_t count = 1;
    if (is_pair(i)) {
      if (!apart) count = 3;
      apart = false;
    } else if (is_backward(i) && (!is(i + 2, Pass::Forward) || is_pair(i + 2))) {
      count = 2;
    }
    blocks.emplace_back(runs.begin() + static_cast<std::ptrdiff_t>(i),
                        runs.begin() + static_cast<std::ptrdiff_t>(i + count));
    i += count;
  }
  return blocks;
}

// When the last block ends less what a rank works, each block beginning when all that its runs wait for has ended.
std::int64_t bubble_of_blocks(const std::vector<std::vector<Block>>& blocks, int of_a_line, const PassTimes& t) {
  std::map<std::tuple<int, int, bool>, std::int64_t> ends;  // (stage, microbatch, is a forward)
  std::vector<std::size_t> done(blocks.size(), 0);
  std::vector<std::int64_t> now(blocks.size(), 0), work = now;
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t r = 0; r < blocks.size(); ++r) {
      if (done[r] == blocks[r].size()) continue;
      std::int64_t begin = now[r], takes = 0;
      bool ready = true;
      for (const ScheduledRun& run : blocks[r][done[r]]) {
        const bool forward = run.pass == Pass::Forward;
        takes += forward ? t.forward.ps : run.pass == Pass::BackwardInput ? t.backward_input.ps : t.backward_weight.ps;
        const int from = forward ? run.stage.value - 1 : run.stage.value + 1;
        const bool at_end = forward ? run.stage.value % of_a_line == 0 : from % of_a_line == 0;
        if (run.pass == Pass::BackwardWeight || at_end) continue;
        const auto found = ends.find({from, run.microbatch.value, forward});
        ready = ready && found != ends.end();
        if (ready) begin = std::max(begin, found->second);
      }
      if (!ready) continue;
      now[r] = begin + takes, work[r] += takes;
      for (const ScheduledRun& run : blocks[r][done[r]])
        if (run.pass != Pass::BackwardWeight)
          ends[{run.stage.value, run.microbatch.value, run.pass == Pass::Forward}] = now[r];
      ++done[r];
      progress = true;
    }
  }
  for (std::size_t r = 0; r < blocks.size(); ++r) EXPECT_EQ(done[r], blocks[r].size()) << "rank " << r << " waits";
  return *std::max_element(now.begin(), now.end()) - work[0];
}

// Where a forward takes as long as the gradient of an input: (PP/2 - 1) (F&B + B - 3W), PP = 2 ranks. A rank that runs
// the passes of a pair one by one hands its results on earlier, and waits less.
TEST(DualPipeV, HasThePublishedBubbleWhereAForwardAndABackwardRunAsOne) {
  for (const PassTimes& t : {times(1, 1, 1), times(2, 2, 1), times(4, 4, 3), times(3, 3, 1)})
    for (int ranks = 1; ranks <= 6; ++ranks)
      for (const int m : {2 * ranks, 2 * ranks + 3, 5 * ranks}) {
        const Schedule schedule = make_schedule(ScheduleKind::DualPipeV, line_of(2 * ranks), m, 2);
        const SimTime both{t.forward.ps + t.backward_input.ps + t.backward_weight.ps};
        const std::int64_t published = published_dualpipe_bubble(ranks, both, t).ps;
        std::vector<std::vector<Block>> blocks;
        for (const auto& runs : schedule)
          blocks.push_back(blocks_of(runs, ranks, blocks.size() + 1 == schedule.size()));
        EXPECT_EQ(bubble_of_blocks(blocks, 2 * ranks, t), published) << ranks << " ranks, " << m;
        EXPECT_LE(bubble(ScheduleKind::DualPipeV, ranks, 2, m, t)->ps, published);
      }
}

// The same formula on its own ranks, of which the two in the middle leave their first pair apart.
TEST(DualPipe, HasThePublishedBubbleWhereAForwardAndABackwardRunAsOne) {
  for (const PassTimes& t : {times(1, 1, 1), times(2, 2, 1), times(4, 4, 3), times(3, 3, 1)})
    for (int ranks = 2; ranks <= 10; ranks += 2)
      for (const int m : {2 * ranks, 2 * ranks + 6, 5 * ranks}) {
        const Schedule schedule = make_schedule(ScheduleKind::DualPipe, line_of(2 * ranks, 2), m, 2);
        const SimTime both{t.forward.ps + t.backward_input.ps + t.backward_weight.ps};
        const std::int64_t published = published_dualpipe_bubble(ranks / 2, both, t).ps;
        std::vector<std::vector<Block>> blocks;
        for (const auto& runs : schedule) {
          const int rank = static_cast<int>(blocks.size());
          blocks.push_back(blocks_of(runs, ranks, rank == ranks / 2 - 1 || rank == ranks / 2));
        }
        EXPECT_EQ(bubble_of_blocks(blocks, ranks, t), published) << ranks << " ranks, " << m;
        EXPECT_LE(bubble(ScheduleKind::DualPipe, ranks, 2, m, t)->ps, published);
      }
}

// PP + 1 activations of a stage on every rank, as its table says.
TEST(DualPipeV, KeepsOneActivationMoreThanThereAreStages) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    EXPECT_EQ(max_in_flight(make_schedule(ScheduleKind::DualPipeV, line_of(2 * ranks), 3 * ranks, 2)),
              std::vector<int>(static_cast<std::size_t>(ranks), 2 * ranks + 1));
}

// PP + 1 on every rank, in the same table.
TEST(DualPipe, KeepsOneActivationMoreThanThereAreRanks) {
  for (int ranks = 2; ranks <= 16; ranks += 2)
    EXPECT_EQ(max_in_flight(make_schedule(ScheduleKind::DualPipe, line_of(2 * ranks, 2), 4 * ranks, 2)),
              std::vector<int>(static_cast<std::size_t>(ranks), ranks + 1));
}

}  // namespace
}  // namespace meshwright::schedule_formulas_test
