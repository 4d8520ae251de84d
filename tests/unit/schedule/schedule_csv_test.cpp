// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/schedule_csv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/refusal.h"

namespace meshwright::schedule_csv_test {
namespace {

std::string refused(const std::string& text) {
  return refusal([&] { return schedule_from_csv(text, "s.csv"); });
}

TEST(ScheduleCsv, HasOneRowPerRankAndOneCellPerTick) {
  EXPECT_EQ(schedule_to_csv(make_schedule(ScheduleKind::OneFOneB, line_of(2), 3)),
            "0F0,0F1,,0B0,0F2,0B1,,0B2\n"
            ",1F0,1B0,1F1,1B1,1F2,1B2,\n");
  EXPECT_EQ(schedule_to_csv(make_schedule(ScheduleKind::ZeroBubbleV, line_of(4), 1, 2)),
            "0F0,,,3F0,3I0,3W0,,,0I0,0W0\n"
            ",1F0,2F0,,,2I0,2W0,1I0,1W0,\n");
  EXPECT_EQ(schedule_to_csv(make_schedule(ScheduleKind::DualPipe, line_of(4, 2), 4, 2), 2),
            "0F0,3F2,0F1,3I2,3W2,3F3,0I0,0W0,3I3,3W3,0I1,0W1\n"
            "2F2,1F0,2F3,1I0,1W0,1F1,2I2,2W2,1I1,1W1,2I3,2W3\n");
}

TEST(ScheduleCsv, ComesBackAsItWas) {
  for (const ScheduleKind kind : all_schedules())
    for (const int chunks : traits_of(kind).chunks ? std::vector<int>{*traits_of(kind).chunks} : std::vector<int>{2, 3})
      for (int ranks = 1; ranks <= 5; ++ranks)
        for (const int microbatches : {1, 2, 3, 7, 12}) {
          // The file is of stages that all run every microbatch.
          if (traits_of(kind).copies > 1) continue;
          const Schedule schedule = make_schedule(kind, line_of(ranks * chunks), microbatches, chunks);
          EXPECT_EQ(schedule_from_csv(schedule_to_csv(schedule), "s.csv"), schedule) << name_of(kind);
        }
}

TEST(ScheduleCsv, MayHaveSpacesIdleCellsAndCarriageReturns) {
  const Schedule schedule = {
      {{Pass::Forward, MicrobatchId(0), StageId(0)},
       {Pass::BackwardInput, MicrobatchId(0), StageId(0)},
       {Pass::BackwardWeight, MicrobatchId(0), StageId(0)}},
      {{Pass::Forward, MicrobatchId(0), StageId(1)}, {Pass::Backward, MicrobatchId(0), StageId(1)}}};
  EXPECT_EQ(schedule_from_csv(" 0F0,,, 0I0 ,0W0\r\n,1F0,1B0\r\n\r\n", "s.csv"), schedule);
}

TEST(ScheduleCsv, ACellThatIsNoRunIsNamed) {
  EXPECT_EQ(refused("0F0,0X0"),
            "s.csv, row 1, column 2: '0X0' is not a run; expected stage, F, B, I or W, and microbatch, such as 0F0, or "
            "an empty cell");
  for (const char* cell : {"F0", "0F", "0F0x", "0 F0", "-1F0", "0f0", "0FF0", "0"})
    EXPECT_NE(refused(cell).find("is not a run"), std::string::npos) << cell << ": " << refused(cell);
  EXPECT_EQ(refused("0F0,0SEND_F0"),
            "s.csv, row 1, column 2: '0SEND_F0' is communication; give the compute-only schedule, in which "
            "communication is implied");
  EXPECT_NE(refused("(0F1;0B0)OVERLAP_F_B").find("has several runs in one cell"), std::string::npos);
  EXPECT_NE(refused("0F99999999999").find("s.csv, row 1, column 1"), std::string::npos);
}

TEST(ScheduleCsv, NoRowsOrARankWithoutRunsIsRefused) {
  EXPECT_EQ(refused("\n"), "s.csv has no rows; give one row of cells like 0F0 for each rank");
  EXPECT_EQ(refused("0F0\n,,\n1F0\n"), "s.csv, row 2 has no runs; give rank 1 at least one stage");
}

TEST(ScheduleCsv, AStageIsOnOneRank) {
  EXPECT_EQ(refused("0F0,0B0\n1F0,0F1,0B1,1B0\n"),
            "s.csv, row 2, column 2: 0F1 is a run of stage 0, which is on rank 0; give each stage to one rank");
}

TEST(ScheduleCsv, EveryRunStandsOnce) {
  EXPECT_EQ(refused("0F0,0B0,0F0"), "s.csv, row 1, column 3: 0F0 is already in row 1, column 1; give each run once");
  EXPECT_EQ(refused("0F0,0B0,0F1"), "s.csv, row 1: 0B1 is missing; give every stage every microbatch");
  EXPECT_EQ(refused("0F0,0F1,0B0,0B1\n1F0,1B0\n"), "s.csv, row 2: 1F1 is missing; give every stage every microbatch");
  EXPECT_EQ(refused("0F0,0I0"), "s.csv, row 1: 0W0 is missing; give every stage every microbatch");
  EXPECT_EQ(refused("0F0\n2F0\n"), "s.csv has runs of stage 2 and none of stage 1; number the stages without gaps");
}

TEST(ScheduleCsv, ABackwardIsWholeOrInTwo) {
  EXPECT_EQ(refused("0F0,0B0,0W0"),
            "s.csv, row 1, column 3: 0W0 is given beside 0B0 of column 2; give either B or both I and W");
}

TEST(ScheduleCsv, WhatIsReadIsMadeBefore) {
  EXPECT_EQ(refused("0B0,0F0"), "s.csv, row 1, column 1: 0B0 comes before 0F0 of column 2; swap them");
  EXPECT_EQ(refused("0F0,0W0,0I0"), "s.csv, row 1, column 2: 0W0 comes before 0I0 of column 3; swap them");
}

TEST(ScheduleCsv, RanksThatWaitForEachOtherForEverAreNamed) {
  EXPECT_EQ(refused("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"),
            "s.csv: deadlock: rank 0 waits in 0B0 for 1B0, rank 1 waits in 1F1 for 0F1; move one of these runs");
  // Rank 2 waits too, and is in no circle.
  EXPECT_EQ(refused("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n2F0,2F1,2B0,2B1\n"),
            "s.csv: deadlock: rank 0 waits in 0B0 for 1B0, rank 1 waits in 1F1 for 0F1; move one of these runs");
  EXPECT_EQ(refused("1F0,0F0\n"), "s.csv: deadlock: rank 0 waits in 1F0 for 0F0; move one of these runs");
}

// Exported schedules with a few characters changed: what is not refused runs to its end.
TEST(ScheduleCsv, ChangedTextIsRefusedOrRuns) {
  std::mt19937 random(5);
  const std::string letters = "0123FBIW,\n x";
  int accepted = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<ScheduleKind> kinds = all_schedules();
    std::erase_if(kinds, [](ScheduleKind each) { return traits_of(each).copies > 1; });
    const ScheduleKind kind = kinds[random() % kinds.size()];
    const int chunks = traits_of(kind).chunks.value_or(2);
    std::string text = schedule_to_csv(make_schedule(kind, line_of(2 * chunks), 2, chunks));
    for (unsigned n = 1 + random() % 3; n > 0; --n) text[random() % text.size()] = letters[random() % letters.size()];
    try {
      const Schedule schedule = schedule_from_csv(text, "s.csv");
      int stages = 0;
      for (const auto& runs : schedule)
        for (const ScheduledRun& run : runs) stages = std::max(stages, run.stage.value + 1);
      EXPECT_NO_THROW((void)unit_ticks(schedule, line_feeds(stages))) << text;
      ++accepted;
    } catch (const InputError&) {
    }
  }
  EXPECT_GT(accepted, 20);
}

}  // namespace
}  // namespace meshwright::schedule_csv_test
