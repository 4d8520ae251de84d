// SPDX-License-Identifier: Apache-2.0
// What the kinds of schedules are. What they cost is in schedule_formulas_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <random>

#include "core/base/errors.h"
#include "core/schedule/schedule.h"
#include "tests/truth/draw_schedule.h"
#include "tests/unit/schedule_walk.h"

namespace meshwright::schedule_kinds_test {
namespace {

std::vector<int> chunks_of(ScheduleKind kind) {
  const std::optional<int> chunks = traits_of(kind).chunks;
  return chunks ? std::vector<int>{*chunks} : std::vector<int>{2, 3, 5};
}

Schedule of_ranks(ScheduleKind kind, int ranks, int microbatches, int chunks) {
  return make_schedule(kind, line_of(ranks * chunks, traits_of(kind).copies), microbatches, chunks);
}

template <class Check>
void for_many_shapes(Check check) {
  for (const ScheduleKind kind : all_schedules())
    for (const int chunks : chunks_of(kind))
      for (int ranks = 1; ranks <= 7; ++ranks)
        for (int microbatches = 1; microbatches <= 17; ++microbatches)
          if (!unmet_by(kind, ranks, microbatches))
            check(kind, ranks, chunks, microbatches, of_ranks(kind, ranks, microbatches, chunks));
}

TEST(ScheduleKinds, AreElevenAndFoundByTheirNames) {
  EXPECT_EQ(all_schedules().size(), 11U);
  for (const ScheduleKind kind : all_schedules()) EXPECT_EQ(schedule_from_name(name_of(kind)), kind);
}

TEST(ScheduleKinds, RunEveryPassOfEveryMicrobatchOnceAndInOrder) {
  for_many_shapes([](ScheduleKind kind, int ranks, int chunks, int microbatches, const Schedule& schedule) {
    const ScheduleTraits traits = traits_of(kind);
    const std::vector<Pass> passes = !traits.trains ? std::vector<Pass>{Pass::Forward}
                                     : traits.splits_backward
                                         ? std::vector<Pass>{Pass::Forward, Pass::BackwardInput, Pass::BackwardWeight}
                                         : std::vector<Pass>{Pass::Forward, Pass::Backward};
    ASSERT_EQ(schedule.size(), static_cast<std::size_t>(ranks));
    std::map<std::pair<int, Pass>, int> next;  // (stage, pass) -> microbatch
    for (const auto& runs : schedule)
      for (const ScheduledRun& run : runs) {
        const MicrobatchRange own = microbatches_of(kind, run.stage.value, ranks * chunks, microbatches);
        const int expected = own.first + next[std::pair(run.stage.value, run.pass)]++;
        ASSERT_EQ(run.microbatch.value, expected) << name_of(kind);
      }
    ASSERT_EQ(next.size(), static_cast<std::size_t>(ranks * chunks) * passes.size()) << name_of(kind);
    for (const auto& [of, microbatch] : next) {
      EXPECT_NE(std::find(passes.begin(), passes.end(), of.second), passes.end());
      EXPECT_EQ(microbatch, microbatches / traits.copies);
    }
  });
}

TEST(ScheduleKinds, NeverWaitForEver) {
  for_many_shapes([](ScheduleKind kind, int ranks, int chunks, int, const Schedule& schedule) {
    (void)walk(schedule, ranks * chunks, {3, 2, 1, 1}, traits_of(kind).copies);
  });
}

// Beyond the small shapes: more chunks than microbatches in a group, one microbatch more than whole groups.
TEST(ScheduleKinds, NeverWaitForEverWithManyChunksOrRanks) {
  for (const auto& [ranks, chunks, microbatches] :
       std::vector<std::tuple<int, int, int>>{{4, 4, 5}, {2, 9, 3}, {16, 2, 17}, {3, 8, 1}, {5, 6, 11}})
    (void)walk(of_ranks(ScheduleKind::Interleaved, ranks, microbatches, chunks), ranks * chunks, {1, 1, 1});
  for (const ScheduleKind kind : {ScheduleKind::ZeroBubbleV, ScheduleKind::VHalf, ScheduleKind::DualPipeV})
    for (const int ranks : {16, 31}) (void)walk(of_ranks(kind, ranks, 70, 2), ranks * 2, {1, 1, 1});
  (void)walk(of_ranks(ScheduleKind::DualPipe, 16, 70, 2), 32, {1, 1, 1}, 2);
}

TEST(ScheduleKinds, HaveEachStageOnItsRank) {
  for_many_shapes([](ScheduleKind kind, int ranks, int chunks, int, const Schedule& schedule) {
    const std::vector<int> rank_of = ranks_of_stages(kind, ranks * chunks, chunks);
    for (std::size_t r = 0; r < schedule.size(); ++r)
      for (const ScheduledRun& run : schedule[r]) ASSERT_EQ(rank_of[run.stage.index()], static_cast<int>(r));
  });
  EXPECT_EQ(ranks_of_stages(ScheduleKind::Interleaved, 6, 2), (std::vector<int>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(ranks_of_stages(ScheduleKind::ZeroBubbleV, 6, 2), (std::vector<int>{0, 1, 2, 2, 1, 0}));
  EXPECT_EQ(ranks_of_stages(ScheduleKind::DualPipe, 8, 2), (std::vector<int>{0, 1, 2, 3, 3, 2, 1, 0}));
}

// Stages in any directed acyclic graph, numbered so that each feeds later ones; the last is fed by all that feed
// nobody.
TEST(ScheduleKinds, WithoutALineRunOnAnyGraphOfStages) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const int stages = 2 + static_cast<int>(random() % 7);
    Feeds feeds(static_cast<std::size_t>(stages));
    std::vector<int> after(feeds.size(), 0);
    for (int s = stages - 2; s >= 0; --s) {
      std::vector<int>& mine = feeds[static_cast<std::size_t>(s)];
      for (int t = s + 1; t < stages; ++t)
        if (random() % 3 == 0) mine.push_back(t);
      if (mine.empty()) mine.push_back(stages - 1);
      for (const int t : mine)
        after[static_cast<std::size_t>(s)] =
            std::max(after[static_cast<std::size_t>(s)], after[static_cast<std::size_t>(t)] + 1);
    }
    for (const ScheduleKind kind : all_schedules()) {
      if (traits_of(kind).line) continue;
      const Schedule schedule = make_schedule(kind, after, 1 + static_cast<int>(random() % 12));
      EXPECT_NO_THROW((void)unit_ticks(schedule, feeds)) << name_of(kind);
    }
  }
}

TEST(ScheduleKinds, OfChunksAskForALineAndTheirNumber) {
  EXPECT_THROW((void)make_schedule(ScheduleKind::ZeroBubbleV, {2, 1, 1, 0}, 4, 2), InternalError);
  EXPECT_THROW((void)make_schedule(ScheduleKind::Interleaved, line_of(4), 4, 1), InternalError);
  EXPECT_THROW((void)make_schedule(ScheduleKind::Interleaved, line_of(5), 4, 2), InternalError);
  EXPECT_THROW((void)make_schedule(ScheduleKind::OneFOneB, line_of(4), 4, 2), InternalError);
  EXPECT_THROW((void)make_schedule(ScheduleKind::DualPipe, line_of(4), 4, 2), InternalError);     // one line
  EXPECT_THROW((void)make_schedule(ScheduleKind::DualPipe, line_of(6, 2), 6, 2), InternalError);  // three ranks
}

TEST(EagerOneFOneB, RunsTwiceAsManyForwardsAhead) {
  EXPECT_EQ(draw(make_schedule(ScheduleKind::EagerOneFOneB, line_of(3), 6)),
            "stage 0 | F0  F1  F2  F3  F4  B0  F5  B1   .  B2   .  B3   .  B4   .  B5\n"
            "stage 1 |  .  F0  F1  F2  B0  F3  B1  F4  B2  F5  B3   .  B4   .  B5   .\n"
            "stage 2 |  .   .  F0  B0  F1  B1  F2  B2  F3  B3  F4  B4  F5  B5   .   .\n");
}

// A message may take as long as a forward without delaying anything in the steady state.
TEST(EagerOneFOneB, HidesMessagesThat1F1BWaitsFor) {
  const int ranks = 4, microbatches = 40;
  const WalkTimes times{10, 5, 5, 5};
  const auto idle = [&](ScheduleKind kind) {
    const Walked walked = walk(make_schedule(kind, line_of(ranks), microbatches), ranks, times);
    return walked.step - walked.work[0];
  };
  EXPECT_EQ(idle(ScheduleKind::EagerOneFOneB), 3 * (10 + 10 + 5 + 5));
  EXPECT_GT(idle(ScheduleKind::OneFOneB), 2 * idle(ScheduleKind::EagerOneFOneB));
}

TEST(Interleaved, TakesGroupsOfMicrobatchesThroughOneChunkAfterTheOther) {
  EXPECT_EQ(draw(of_ranks(ScheduleKind::Interleaved, 2, 4, 2)),
            "rank 0 | 0F0  0F1  2F0  2F1  0F2  2B0  0F3  2B1  2F2  0B0  2F3  0B1    .  2B2    .  2B3  0B2  0B3\n"
            "rank 1 |   .  1F0  1F1  3F0  3B0  3F1  3B1  1F2  1B0  1F3  1B1  3F2  3B2  3F3  3B3  1B2  1B3    .\n");
}

// The last group is that of a whole number of groups without what is not there.
TEST(Interleaved, LeavesOutTheMicrobatchesOfAShortLastGroup) {
  for (int short_by = 1; short_by <= 3; ++short_by) {
    Schedule whole = of_ranks(ScheduleKind::Interleaved, 4, 8, 3);
    for (auto& runs : whole)
      runs.erase(std::remove_if(runs.begin(), runs.end(),
                                [&](const ScheduledRun& run) { return run.microbatch.value >= 8 - short_by; }),
                 runs.end());
    EXPECT_EQ(of_ranks(ScheduleKind::Interleaved, 4, 8 - short_by, 3), whole);
  }
}

TEST(ZeroBubble, H1DelaysWeightGradientsByTheRank) {
  EXPECT_EQ(draw(make_schedule(ScheduleKind::ZeroBubbleH1, line_of(3), 4)),
            "stage 0 | F0  F1  F2   .   .  I0  W0  F3  I1  W1  I2  W2  I3  W3\n"
            "stage 1 |  .  F0  F1   .  I0  F2  I1  W0  F3  I2  W1  I3  W2  W3\n"
            "stage 2 |  .   .  F0  I0  F1  I1  F2  I2  W0  F3  I3  W1  W2  W3\n");
}

TEST(ZeroBubble, H2LeavesNoRankIdleInEqualTimes) {
  EXPECT_EQ(draw(make_schedule(ScheduleKind::ZeroBubbleH2, line_of(3), 6)),
            "stage 0 | F0  F1  F2  F3  F4  I0  W0  F5  I1  W1  I2  W2  I3  W3  I4  W4  I5  W5   .   .\n"
            "stage 1 |  .  F0  F1  F2  I0  F3  I1  F4  I2  W0  F5  I3  W1  I4  W2  I5  W3  W4  W5   .\n"
            "stage 2 |  .   .  F0  I0  F1  I1  F2  I2  F3  I3  F4  I4  W0  F5  I5  W1  W2  W3  W4  W5\n");
}

TEST(ZeroBubble, VLeavesNoRankIdleInEqualTimes) {
  EXPECT_EQ(draw(of_ranks(ScheduleKind::ZeroBubbleV, 2, 3, 2)),
            "rank 0 | 0F0  0F1  0F2  3F0  3I0  3W0  3F1  3I1  3W1  0I0  0W0  3F2  3I2  3W2  0I1  0W1  0I2  0W2    .\n"
            "rank 1 |   .  1F0  2F0  1F1  2F1  2I0  2W0  1F2  1I0  1W0  2F2  2I1  2W1  1I1  2I2  1I2  1W1  2W2  1W2\n");
}

TEST(ZeroBubble, VHalfWaitsToKeepLess) {
  EXPECT_EQ(draw(of_ranks(ScheduleKind::VHalf, 3, 3, 2)),
            "rank 0 | 0F0  0F1  0F2    .    .  5F0  5I0  5W0    .    .  5F1  5I1  0I0  5W1  0W0  5F2  5I2  0I1  5W2  "
            "0W1    .  0I2  0W2\n"
            "rank 1 |   .  1F0  1F1  1F2  4F0    .    .  4I0  4W0  4F1  1I0  1W0  4I1  4W1  4F2    .  1I1  4I2  1W1  "
            "4W2  1I2  1W2    .\n"
            "rank 2 |   .    .  2F0  3F0  2F1  3F1    .    .  3I0  2I0  3W0  2W0  2F2  3F2  3I1  2I1  3W1  2W1  3I2  "
            "2I2  3W2  2W2    .\n");
}

// A rank's runs as "F0 f0 B0": upper case for the microbatches that enter at rank 0, lower case for those that enter at
// the last rank, each counted from 0; I and W where the halves of a backward do not follow one another.
std::string in_two_cases(const std::vector<ScheduledRun>& runs, int ranks, int microbatches) {
  std::string text;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const ScheduledRun& run = runs[i];
    const bool back = run.stage.value >= ranks;
    const bool whole = run.pass == Pass::BackwardInput && i + 1 < runs.size() &&
                       runs[i + 1] == ScheduledRun{Pass::BackwardWeight, run.microbatch, run.stage};
    const std::string letters = back ? "fbiw" : "FBIW";
    const char letter = letters[static_cast<std::size_t>(whole ? Pass::Backward : run.pass)];
    text +=
        fmt::format("{}{}{}", text.empty() ? "" : " ", letter, run.microbatch.value - (back ? microbatches / 2 : 0));
    if (whole) ++i;
  }
  return text;
}

// What dualpipe/dualpipe.py of github.com/deepseek-ai/DualPipe (commit 3da1bbe) runs on each rank, told by running its
// step() with compute and communication taken out. Eight ranks and 20 microbatches are the picture of its README, whose
// second half of the ranks mirrors the first.
TEST(DualPipe, RunsInTheOrderOfItsRepository) {
  const auto rows = [](int ranks, int microbatches) {
    std::vector<std::string> found;
    for (const auto& runs : of_ranks(ScheduleKind::DualPipe, ranks, microbatches, 2))
      found.push_back(in_two_cases(runs, ranks, microbatches));
    return found;
  };
  EXPECT_EQ(rows(2, 4), (std::vector<std::string>{"F0 f0 F1 b0 f1 B0 b1 B1", "f0 F0 f1 B0 F1 b0 B1 b1"}));
  EXPECT_EQ(rows(4, 8), (std::vector<std::string>{"F0 F1 F2 f0 b0 f1 F3 b1 f2 B0 b2 f3 B1 b3 B2 B3",
                                                  "F0 f0 F1 f1 F2 b0 f2 B0 F3 b1 f3 B1 b2 B2 i3 I3 w3 W3",
                                                  "f0 F0 f1 F1 f2 B0 F2 b0 f3 B1 F3 b1 B2 b2 I3 i3 W3 w3",
                                                  "f0 f1 f2 F0 B0 F1 f3 B1 F2 b0 B2 F3 b1 B3 b2 b3"}));
  EXPECT_EQ(rows(4, 10)[1], "F0 f0 F1 f1 F2 b0 f2 B0 F3 b1 f3 B1 F4 b2 f4 B2 b3 B3 i4 I4 w4 W4");
  std::vector<std::string> picture = rows(8, 20);
  const std::vector<std::string> half = {
      "F0 F1 F2 F3 F4 F5 F6 f0 b0 f1 b1 f2 b2 f3 F7 b3 f4 B0 F8 b4 f5 B1 F9 b5 f6 B2 b6 f7 B3 b7 f8 B4 b8 f9 B5 b9 "
      "B6 B7 B8 B9",
      "F0 F1 F2 F3 F4 f0 F5 f1 b0 f2 b1 f3 F6 b2 f4 B0 F7 b3 f5 B1 F8 b4 f6 B2 F9 b5 f7 B3 b6 f8 B4 b7 f9 B5 b8 B6 "
      "i9 I7 w9 I8 W7 I9 W8 W9",
      "F0 F1 F2 f0 F3 f1 F4 f2 b0 f3 F5 b1 f4 B0 F6 b2 f5 B1 F7 b3 f6 B2 F8 b4 f7 B3 F9 b5 f8 B4 b6 f9 B5 b7 B6 b8 "
      "I7 i9 I8 W7 I9 w9 W8 W9",
      "F0 f0 F1 f1 F2 f2 F3 f3 F4 b0 f4 B0 F5 b1 f5 B1 F6 b2 f6 B2 F7 b3 f7 B3 F8 b4 f8 B4 F9 b5 f9 B5 b6 B6 b7 B7 "
      "i8 I8 i9 I9 w8 W8 w9 W9"};
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(picture[r], half[r]);
    for (char& c : picture[7 - r])
      if (std::isalpha(static_cast<unsigned char>(c)) != 0) c = static_cast<char>(c ^ 0x20);  // the other case
    EXPECT_EQ(picture[7 - r], half[r]);
  }
}

TEST(DualPipe, SaysWhichNumbersItNeeds) {
  EXPECT_EQ(unmet_by(ScheduleKind::DualPipe, 3, 8), "an even number of ranks, and there are 3");
  EXPECT_EQ(unmet_by(ScheduleKind::DualPipe, 4, 9), "an even number of micro-batches, and there are 9");
  EXPECT_EQ(unmet_by(ScheduleKind::DualPipe, 4, 6), "at least two micro-batches for each of 4 ranks, and there are 6");
  EXPECT_EQ(unmet_by(ScheduleKind::DualPipe, 4, 8), std::nullopt);
  EXPECT_EQ(unmet_by(ScheduleKind::DualPipeV, 3, 1), std::nullopt);
}

}  // namespace
}  // namespace meshwright::schedule_kinds_test
