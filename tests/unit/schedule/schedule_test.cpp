// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "core/base/errors.h"
#include "tests/refusal.h"
#include "tests/truth/draw_schedule.h"

namespace meshwright::schedule_test {
namespace {

using Pass = ScheduledRun::Pass;
constexpr ScheduleKind kKinds[] = {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::Inference};

// Largest number of microbatches between their forward and their backward.
int largest_in_flight(const std::vector<ScheduledRun>& runs) {
  int now = 0, largest = 0;
  for (const ScheduledRun& run : runs) {
    now += run.pass == Pass::Forward ? 1 : -1;
    largest = std::max(largest, now);
  }
  return largest;
}

// Columns of the drawing: cells are separated by two spaces, so the first line's length gives their number.
std::size_t ticks(const std::string& drawing) {
  std::istringstream cells(drawing.substr(0, drawing.find('\n')));
  std::string word;
  std::size_t words = 0;
  while (cells >> word) ++words;
  return words - 3;  // "stage", "0", "|"
}

TEST(OneFOneB, WarmsUpThenAlternatesThenDrains) {
  EXPECT_EQ(draw(make_schedule(ScheduleKind::OneFOneB, line_of(4), 6)),
            "stage 0 | F0  F1  F2  F3   .   .   .  B0  F4  B1  F5  B2   .  B3   .  B4   .  B5\n"
            "stage 1 |  .  F0  F1  F2   .   .  B0  F3  B1  F4  B2  F5  B3   .  B4   .  B5   .\n"
            "stage 2 |  .   .  F0  F1   .  B0  F2  B1  F3  B2  F4  B3  F5  B4   .  B5   .   .\n"
            "stage 3 |  .   .   .  F0  B0  F1  B1  F2  B2  F3  B3  F4  B4  F5  B5   .   .   .\n");
}

TEST(OneFOneB, WithFewerMicrobatchesThanStagesRunsAllForwardsFirst) {
  EXPECT_EQ(draw(make_schedule(ScheduleKind::OneFOneB, line_of(3), 1)),
            "stage 0 | F0   .   .   .   .  B0\n"
            "stage 1 |  .  F0   .   .  B0   .\n"
            "stage 2 |  .   .  F0  B0   .   .\n");
}

// Two towers, of stages 0 and 1 and of stage 2, that stage 3 joins: the shorter tower begins at once too, and keeps no
// more than the stage beside it.
TEST(OneFOneB, RunsBranchesSideBySide) {
  EXPECT_EQ(draw(make_schedule(ScheduleKind::OneFOneB, {2, 1, 1, 0}, 4), {{1}, {3}, {3}, {}}),
            "stage 0 | F0  F1  F2   .   .  B0  F3  B1   .  B2   .  B3\n"
            "stage 1 |  .  F0  F1   .  B0  F2  B1  F3  B2   .  B3   .\n"
            "stage 2 | F0  F1   .   .  B0  F2  B1  F3  B2   .  B3   .\n"
            "stage 3 |  .   .  F0  B0  F1  B1  F2  B2  F3  B3   .   .\n");
}

// A stem that feeds two branches: it goes back when both have.
TEST(GPipe, GoesBackToAStemAfterBothOfItsBranches) {
  EXPECT_EQ(draw(make_schedule(ScheduleKind::GPipe, {2, 1, 1, 0}, 2), {{1, 2}, {3}, {3}, {}}),
            "stage 0 | F0  F1   .   .   .   .  B0  B1\n"
            "stage 1 |  .  F0  F1   .   .  B0  B1   .\n"
            "stage 2 |  .  F0  F1   .   .  B0  B1   .\n"
            "stage 3 |  .   .  F0  F1  B0  B1   .   .\n");
}

TEST(Schedules, HaveTheirTicksInOrder) {
  for (int after = 0; after <= 8; ++after)
    for (int microbatches = 1; microbatches <= 20; ++microbatches) {
      const Schedule schedule = make_schedule(ScheduleKind::OneFOneB, {after}, microbatches);
      for (std::size_t i = 1; i < schedule[0].size(); ++i)
        ASSERT_LT(tick_of(schedule[0][i - 1], after), tick_of(schedule[0][i], after));
    }
}

TEST(GPipe, RunsAllForwardsThenAllBackwardsInMicrobatchOrder) {
  EXPECT_EQ(draw(make_schedule(ScheduleKind::GPipe, line_of(2), 3)),
            "stage 0 | F0  F1  F2   .   .  B0  B1  B2\n"
            "stage 1 |  .  F0  F1  F2  B0  B1  B2   .\n");
}

TEST(Inference, OnlyRunsForwards) {
  EXPECT_EQ(draw(make_schedule(ScheduleKind::Inference, line_of(2), 11)).substr(0, 30),
            "stage 0 |  F0   F1   F2   F3  ");
  for (const auto& runs : make_schedule(ScheduleKind::Inference, line_of(3), 5))
    for (const ScheduledRun& run : runs) EXPECT_EQ(run.pass, Pass::Forward);
}

TEST(Schedules, RunEveryPassOfEveryMicrobatchOnceInOrder) {
  for (const ScheduleKind kind : kKinds) {
    for (int stages = 1; stages <= 8; ++stages) {
      for (int microbatches = 1; microbatches <= 20; ++microbatches) {
        for (const auto& runs : make_schedule(kind, line_of(stages), microbatches)) {
          int forwards = 0, backwards = 0;
          for (const ScheduledRun& run : runs) {
            int& next = run.pass == Pass::Forward ? forwards : backwards;
            ASSERT_EQ(run.microbatch.value, next++);
            ASSERT_LE(backwards, forwards);
          }
          ASSERT_EQ(forwards, microbatches);
          ASSERT_EQ(backwards, kind == ScheduleKind::Inference ? 0 : microbatches);
        }
      }
    }
  }
}

TEST(Schedules, TakeMicrobatchesPlusStagesMinusOneTicksPerPass) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int microbatches = 1; microbatches <= 20; ++microbatches) {
      const auto clocks = static_cast<std::size_t>(microbatches + stages - 1);
      EXPECT_EQ(ticks(draw(make_schedule(ScheduleKind::OneFOneB, line_of(stages), microbatches))), 2 * clocks);
      EXPECT_EQ(ticks(draw(make_schedule(ScheduleKind::GPipe, line_of(stages), microbatches))), 2 * clocks);
      EXPECT_EQ(ticks(draw(make_schedule(ScheduleKind::Inference, line_of(stages), microbatches))), clocks);
    }
  }
}

TEST(OneFOneB, KeepsAtMostStagesMinusIndexInFlight) {
  for (int stages = 1; stages <= 8; ++stages) {
    for (int microbatches = 1; microbatches <= 20; ++microbatches) {
      const Schedule schedule = make_schedule(ScheduleKind::OneFOneB, line_of(stages), microbatches);
      for (int s = 0; s < stages; ++s) {
        EXPECT_EQ(largest_in_flight(schedule[static_cast<std::size_t>(s)]), std::min(stages - s, microbatches));
        EXPECT_EQ(in_flight(ScheduleKind::OneFOneB, stages - 1 - s, microbatches), std::min(stages - s, microbatches));
      }
    }
  }
}

TEST(GPipe, KeepsAllMicrobatchesInFlight) {
  for (const auto& runs : make_schedule(ScheduleKind::GPipe, line_of(4), 7)) EXPECT_EQ(largest_in_flight(runs), 7);
  EXPECT_EQ(in_flight(ScheduleKind::GPipe, 1, 7), 7);
  EXPECT_EQ(in_flight(ScheduleKind::Inference, 1, 7), 1);
}

TEST(Schedules, AreFoundByTheirNames) {
  for (const ScheduleKind kind : kKinds) EXPECT_EQ(schedule_from_name(name_of(kind)), kind);
}

TEST(Schedules, AnUnknownNameIsTheCallersFaultAndNamesTheNearest) {
  const std::string says = refusal([] { (void)schedule_from_name("1f1c"); });
  EXPECT_NE(says.find("unknown schedule '1f1c'; the nearest known are 1f1b"), std::string::npos) << says;
}

TEST(Schedules, AnOrderThatWaitsForEverCannotBeDrawn) {
  const Schedule crossed = {{{Pass::Backward, MicrobatchId(0)}, {Pass::Forward, MicrobatchId(0)}}};
  EXPECT_THROW((void)draw(crossed), InternalError);
}

}  // namespace
}  // namespace meshwright::schedule_test
