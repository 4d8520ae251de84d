// SPDX-License-Identifier: Apache-2.0
#include "core/plan/program/check_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/unit/program_fixture.h"

namespace meshwright::check_program_test {
namespace {

using Sentences = std::vector<std::string>;

// Stage 0 makes `left` for two microbatches and sends it to `right` on stage 1, which reads it.
struct TwoStages {
  ProgramBuilder builder{2};
  StageId producer = builder.stage(), consumer = builder.stage();
  BufferId left = builder.buffer(producer, "left", 8), right = builder.buffer(consumer, "right", 8);
  int make = builder.executable(producer, Phase::Forward, {}, {left});
  int read = builder.executable(consumer, Phase::Forward, {right}, {});
  int first = builder.transfer(0, 1, left, right, 0), second = builder.transfer(0, 1, left, right, 1);

  TwoStages& produce_both() {
    builder.on(0).run(make, 0).run(make, 1).exchange({first, second}, {}).free({left}, 0).free({left}, 1);
    return *this;
  }
  TwoStages& consume(int microbatch) {
    builder.on(1).exchange({}, {microbatch == 0 ? first : second}).run(read, microbatch).free({right}, microbatch);
    return *this;
  }
  Sentences violations() const { return check_program(builder.program).violations; }
};

TEST(CheckProgram, OrdersASoundProgramByCompletion) {
  TwoStages two;
  two.produce_both().consume(0).consume(1);
  const ProgramCheck check = check_program(two.builder.program);
  EXPECT_EQ(check.violations, Sentences{});
  const auto position = [&](int device, int index) {
    return std::find(check.order.begin(), check.order.end(), InstructionRef{DeviceId(device), index}) -
           check.order.begin();
  };
  EXPECT_EQ(check.order.size(), 11u);
  // Device 0's Exchange (#2) ends only when device 1 has taken the second message (#3), and frees come after it.
  EXPECT_LT(position(0, 1), position(1, 0));
  EXPECT_LT(position(1, 2), position(0, 2));
  EXPECT_LT(position(0, 2), position(0, 3));
}

TEST(CheckProgram, AnEmptyProgramIsSound) {
  const ProgramCheck check = check_program(Program{});
  EXPECT_EQ(check.violations, Sentences{});
  EXPECT_EQ(check.largest_peak(), Bytes(0.0));
}

TEST(CheckProgram, FlagsADroppedReceive) {
  TwoStages two;
  two.produce_both().consume(0);
  EXPECT_EQ(two.violations(), (Sentences{"transfer 1 ('left' of microbatch 1, device 0 to 1) is never received",
                                         "deadlock: device 0 at #2 waits to send to 1"}));
}

TEST(CheckProgram, FlagsADroppedSend) {
  TwoStages two;
  two.builder.on(0).run(two.make, 0).exchange({two.first}, {}).free({two.left}, 0);
  two.consume(0).consume(1);
  EXPECT_EQ(two.violations(), (Sentences{"transfer 1 ('left' of microbatch 1, device 0 to 1) is never sent",
                                         "deadlock: device 1 at #3 waits to receive from 0"}));
}

TEST(CheckProgram, FlagsSwappedReceives) {
  TwoStages two;
  two.produce_both().consume(1).consume(0);
  EXPECT_EQ(two.violations(),
            (Sentences{
                "device 1 at #0 receives transfer 1 ('left' of microbatch 1, device 0 to 1) where device 0 at #2 sends "
                "transfer 0 ('left' of microbatch 0, device 0 to 1)",
                "device 1 at #3 receives transfer 0 ('left' of microbatch 0, device 0 to 1) where device 0 at #2 sends "
                "transfer 1 ('left' of microbatch 1, device 0 to 1)"}));
}

TEST(CheckProgram, FlagsATransferSentTwice) {
  TwoStages two;
  two.produce_both().consume(0).consume(1);
  two.builder.on(0).exchange({two.first}, {});
  EXPECT_EQ(two.violations(),
            (Sentences{"device 0 at #5 sends transfer 0 ('left' of microbatch 0, device 0 to 1) a second time"}));
}

TEST(CheckProgram, FlagsASendByADeviceThatDoesNotHoldIt) {
  TwoStages two;
  two.produce_both();
  two.builder.on(1).exchange({two.first}, {});
  EXPECT_EQ(two.violations().front(), "device 1 at #0 sends transfer 0 ('left' of microbatch 0, device 0 to 1)");
}

// Each device sends around the ring before it receives: with blocking sends nobody ever gets to its receive.
TEST(CheckProgram, FlagsABlockingRing) {
  ProgramBuilder ring;
  std::vector<BufferId> own, got;
  for (int d = 0; d < 3; ++d) {
    const StageId stage = ring.stage();
    own.push_back(ring.buffer(stage, "own", 4, Kept::Always));
    got.push_back(ring.buffer(stage, "got", 4, Kept::Always));
  }
  std::vector<int> to_next;
  for (std::size_t d = 0; d < 3; ++d)
    to_next.push_back(ring.transfer(static_cast<int>(d), static_cast<int>((d + 1) % 3), own[d], got[(d + 1) % 3]));
  ProgramBuilder blocking = ring;
  for (std::size_t d = 0; d < 3; ++d) {
    blocking.on(static_cast<int>(d)).exchange({to_next[d]}, {}).exchange({}, {to_next[(d + 2) % 3]});
    ring.on(static_cast<int>(d)).exchange({to_next[d]}, {to_next[(d + 2) % 3]});
  }
  EXPECT_EQ(check_program(blocking.program).violations,
            (Sentences{"deadlock: device 0 at #0 waits to send to 1; device 1 at #0 waits to send to 2; "
                       "device 2 at #0 waits to send to 0"}));
  EXPECT_EQ(check_program(ring.program).violations, Sentences{}) << "one Exchange per device makes the ring sound";
}

TEST(CheckProgram, FlagsDevicesOfAStageThatRunCollectivesInDifferentOrders) {
  ProgramBuilder builder(2);
  const StageId stage = builder.stage(2);
  const int run = builder.executable(stage, Phase::Forward, {builder.buffer(stage, "weight", 4, Kept::Always)}, {},
                                     Collectives::Some);
  builder.on(0).run(run, 0).run(run, 1);
  builder.on(1).run(run, 1).run(run, 0);
  EXPECT_EQ(check_program(builder.program).violations,
            (Sentences{"deadlock: device 0 at #0 waits for stage 0 to run forward of microbatch 0; "
                       "device 1 at #0 waits for stage 0 to run forward of microbatch 1"}));
}

TEST(CheckProgram, NamesEightDevicesOfADeadlockAndCountsTheRest) {
  ProgramBuilder builder;
  const StageId stage = builder.stage(11);
  const int run = builder.executable(stage, Phase::Forward, {builder.buffer(stage, "weight", 4, Kept::Always)}, {},
                                     Collectives::Some);
  for (int d = 0; d < 10; ++d) builder.on(d).run(run);
  const Sentences violations = check_program(builder.program).violations;
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_NE(violations[0].find("device 7 at #0 waits for stage 0 to run forward of microbatch 0; and 2 more devices"),
            std::string::npos)
      << violations[0];
}

// One device with buffer "x" of 8 bytes, made and read by runs.
struct OneStage {
  ProgramBuilder builder{1};
  StageId stage = builder.stage();
  BufferId x = builder.buffer(stage, "x", 8), weight = builder.buffer(stage, "weight", 16, Kept::Always);
  int make = builder.executable(stage, Phase::Forward, {weight}, {x});
  int read = builder.executable(stage, Phase::Backward, {x}, {weight});
  Sentences violations() const { return check_program(builder.program).violations; }
};

TEST(CheckProgram, FlagsAUseBeforeTheDefinition) {
  OneStage one;
  one.builder.on(0).run(one.read).run(one.make).free({one.x});
  EXPECT_EQ(one.violations(),
            (Sentences{"device 0 at #0 reads buffer 'x' of microbatch 0, which is not defined there"}));
}

TEST(CheckProgram, FlagsAUseAfterTheFree) {
  OneStage one;
  one.builder.on(0).run(one.make).free({one.x}).run(one.read);
  EXPECT_EQ(one.violations(),
            (Sentences{"device 0 at #2 reads buffer 'x' of microbatch 0, which is not defined there"}));
}

TEST(CheckProgram, FlagsADoubleFree) {
  OneStage one;
  one.builder.on(0).run(one.make).free({one.x}).free({one.x});
  EXPECT_EQ(one.violations(), (Sentences{"device 0 at #2 frees buffer 'x' of microbatch 0, which is not live"}));
}

TEST(CheckProgram, FlagsTheFreeOfAPersistentBuffer) {
  OneStage one;
  one.builder.on(0).free({one.weight});
  EXPECT_EQ(one.violations(), (Sentences{"device 0 at #0 frees the persistent buffer 'weight' of microbatch 0"}));
}

TEST(CheckProgram, FlagsALeak) {
  OneStage one;
  one.builder.on(0).run(one.make).run(one.read);
  EXPECT_EQ(one.violations(), (Sentences{"device 0 never frees buffer 'x' of microbatch 0"}));
}

TEST(CheckProgram, FlagsASecondDefinition) {
  OneStage one;
  one.builder.on(0).run(one.make).run(one.make).free({one.x});
  EXPECT_EQ(one.violations(), (Sentences{"device 0 at #1 defines buffer 'x' of microbatch 0 again while it is live"}));
}

TEST(CheckProgram, FlagsASendOfWhatIsNotDefined) {
  TwoStages two;
  two.builder.on(0).run(two.make, 0).exchange({two.first, two.second}, {}).free({two.left}, 0);
  two.consume(0).consume(1);
  EXPECT_EQ(two.violations(),
            (Sentences{"device 0 at #1 sends buffer 'left' of microbatch 1, which is not defined there"}));
}

// --- messages that are awaited ---

// Both messages are on their way before the first is read.
struct Awaiting : TwoStages {
  Awaiting() {
    produce_both();
    builder.on(1).exchange({}, {first}, false).exchange({}, {second}, false);
  }
  void finish() {
    for (const int m : {0, 1}) builder.on(1).free({right}, m);
  }
};

TEST(CheckProgram, TakesAMessageThatIsAwaitedBeforeItIsRead) {
  Awaiting two;
  two.builder.on(1).await({two.first}).run(two.read, 0).await({two.second}).run(two.read, 1);
  two.finish();
  const ProgramCheck check = check_program(two.builder.program);
  EXPECT_EQ(check.violations, Sentences{});
  // Both are there from the moment on at which the device receives them.
  EXPECT_EQ(check.peak_memory, (std::vector<Bytes>{Bytes(16), Bytes(16)}));
}

TEST(CheckProgram, FlagsAReadOfWhatIsNotAwaited) {
  Awaiting two;
  two.builder.on(1).await({two.first}).run(two.read, 1).await({two.second}).run(two.read, 0);
  two.finish();
  EXPECT_EQ(two.violations(),
            Sentences{"device 1 at #3 reads buffer 'right' of microbatch 1, which it has not awaited"});
}

TEST(CheckProgram, FlagsAMessageThatIsNeverAwaited) {
  Awaiting two;
  two.builder.on(1).await({two.first}).run(two.read, 0);
  two.finish();
  EXPECT_EQ(two.violations(),
            (Sentences{"device 1 at #5 frees buffer 'right' of microbatch 1, which it has not awaited",
                       "device 1 never awaits transfer 1 ('left' of microbatch 1, device 0 to 1)"}));
}

TEST(CheckProgram, FlagsAnAwaitOfWhatIsNotOnItsWay) {
  TwoStages two;
  two.produce_both();
  two.builder.on(1).await({two.first}).exchange({}, {two.first}, false).run(two.read, 0).free({two.right}, 0);
  two.consume(1);
  EXPECT_EQ(two.violations().front(),
            "device 1 at #0 awaits transfer 0 ('left' of microbatch 0, device 0 to 1), which is not on its way there");
}

TEST(CheckProgram, FlagsASecondAwait) {
  Awaiting two;
  two.builder.on(1).await({two.first}).run(two.read, 0).await({two.second, two.first}).run(two.read, 1);
  two.finish();
  EXPECT_EQ(two.violations(), Sentences{"device 1 at #4 awaits transfer 0 ('left' of microbatch 0, device 0 to 1) a "
                                        "second time"});
}

TEST(CheckProgram, FlagsTheUseOfWeightsThatAreNotAwaited) {
  ProgramBuilder builder{2};
  const StageId owner = builder.stage(), other = builder.stage();
  const BufferId weight = builder.buffer(owner, "weight", 8, Kept::Always);
  const BufferId copy = builder.buffer(other, "weight@1", 8, Kept::Always);
  const int use = builder.executable(other, Phase::Update, {copy}, {});
  const int sent = builder.transfer(0, 1, weight, copy);
  builder.on(0).exchange({sent}, {});
  builder.on(1).exchange({}, {sent}, false).run(use).await({sent});
  builder.program.devices[1][0].buffers = {copy};
  EXPECT_EQ(check_program(builder.program).violations,
            Sentences{"device 1 at #1 uses buffer 'weight@1' of microbatch 0, which it has not awaited"});
}

TEST(CheckProgram, FlagsABufferReceivedOnlyInPart) {
  TwoStages two;
  two.produce_both().consume(0).consume(1);
  two.builder.program.transfers[1].extent = {1};
  EXPECT_EQ(two.violations(), (Sentences{"device 1 at #3 defines buffer 'right' from 1 of its 2 elements"}));
}

TEST(CheckProgram, FlagsATileOutsideItsBuffer) {
  TwoStages two;
  two.produce_both().consume(0).consume(1);
  two.builder.program.transfers[1].source_offset = {1};
  EXPECT_EQ(two.violations(),
            (Sentences{"transfer 1 ('left' of microbatch 1, device 0 to 1) reaches outside its buffers"}));
}

TEST(CheckProgram, FlagsReferencesThatPointNowhere) {
  OneStage one;
  one.builder.on(0).run(7).run(one.make, 3).exchange({}, {}).free({BufferId(9)});
  one.builder.program.devices[0][2].sends = {4};
  EXPECT_EQ(one.violations(),
            (Sentences{"device 0 at #0 runs executable 7, which is not one of stage 0",
                       "device 0 at #1 names microbatch 3 of 1", "device 0 at #2 sends transfer 4, but there are 0",
                       "device 0 at #3 names buffer 9, which is not a buffer of stage 0"}));
}

TEST(CheckProgram, FlagsADeviceThatBelongsToNoStage) {
  OneStage one;
  one.builder.program.stages[0].devices.clear();
  EXPECT_EQ(one.violations(), (Sentences{"device 0 belongs to no stage"}));
}

TEST(CheckProgram, ReportsTwentyViolationsAndCountsTheRest) {
  OneStage one;
  for (int i = 0; i < 25; ++i) one.builder.on(0).free({one.x});
  const Sentences violations = one.violations();
  ASSERT_EQ(violations.size(), 21u);
  EXPECT_EQ(violations.back(), "and 5 more violations");
}

// weight 16 always; the run needs 8 for x and 100 of temporaries; afterwards x stays.
TEST(PeakMemory, CountsPersistentBuffersLiveBuffersAndWhatTheRunNeeds) {
  OneStage one;
  one.builder.program.executables[0].peak_extra = Bytes(108.0);
  one.builder.program.executables[1].peak_extra = Bytes(1000.0);
  one.builder.on(0).run(one.make).run(one.read).free({one.x});
  EXPECT_EQ(check_program(one.builder.program).peak_memory, std::vector<Bytes>{Bytes(16 + 8 + 1000)});
  one.builder.program.executables[1].peak_extra = Bytes(0.0);
  EXPECT_EQ(check_program(one.builder.program).peak_memory, std::vector<Bytes>{Bytes(16 + 108)});
}

// Weights 1 000 000, saved 10 000 per microbatch in flight. In the forward, the activation that came in and the one
// that goes out are 100 each; the ends of the pipeline lack one of them, and stage 0 then meets the 4 of its first
// gradient.
TEST(PeakMemory, Under1F1BHoldsOneMicrobatchLessPerStage) {
  const ProgramCheck check = check_program(PipelineProgram(ScheduleKind::OneFOneB, 4, 6).take());
  ASSERT_EQ(check.violations, Sentences{});
  EXPECT_EQ(check.peak_memory, (std::vector<Bytes>{Bytes(1040104), Bytes(1030200), Bytes(1020200), Bytes(1010100)}));
  EXPECT_EQ(check.largest_peak(), Bytes(1040104));
}

TEST(PeakMemory, UnderGPipeHoldsEveryMicrobatch) {
  const ProgramCheck check = check_program(PipelineProgram(ScheduleKind::GPipe, 4, 6).take());
  ASSERT_EQ(check.violations, Sentences{});
  EXPECT_EQ(check.peak_memory, (std::vector<Bytes>{Bytes(1060104), Bytes(1060200), Bytes(1060200), Bytes(1060100)}));
}

TEST(Pipelines, AreSoundUnderEverySchedule) {
  for (const ScheduleKind kind : {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::Inference}) {
    for (int stages = 1; stages <= 8; ++stages) {
      for (int microbatches = 1; microbatches <= 20; ++microbatches) {
        const Program program = PipelineProgram(kind, stages, microbatches).take();
        const ProgramCheck check = check_program(program);
        ASSERT_EQ(check.violations, Sentences{}) << name_of(kind) << " " << stages << " stages, " << microbatches;
        for (int s = 0; s < stages && kind != ScheduleKind::Inference; ++s) {
          const double peak = check.peak_memory[static_cast<std::size_t>(s)].si();
          ASSERT_EQ(static_cast<int>((peak - kWeightBytes) / kSavedBytes),
                    in_flight(kind, stages - 1 - s, microbatches));
        }
      }
    }
  }
}

// Branches, joins, stages that are skipped, several ends: a stage keeps as much as there are stages after it.
TEST(Pipelines, AreSoundWhereStagesBranch) {
  std::mt19937 random(7);
  for (int round = 0; round < 600; ++round) {
    const ScheduleKind kind = round % 3 == 0   ? ScheduleKind::OneFOneB
                              : round % 3 == 1 ? ScheduleKind::GPipe
                                               : ScheduleKind::Inference;
    const int stages = 2 + round % 9, microbatches = 1 + round % 20;
    const std::vector<StageEdge> edges = random_edges(random, stages);
    const std::vector<int> after = stages_after(stages, edges);
    const ProgramCheck check = check_program(PipelineProgram(kind, stages, edges, microbatches).take());
    ASSERT_EQ(check.violations, Sentences{}) << name_of(kind) << " round " << round;
    for (std::size_t s = 0; s < after.size() && kind != ScheduleKind::Inference; ++s)
      ASSERT_EQ(static_cast<int>((check.peak_memory[s].si() - kWeightBytes) / kSavedBytes),
                in_flight(kind, after[s], microbatches));
  }
}

// Stage 0 also feeds stage 4 past the three between: the last stage does not read a second activation before stage 0
// has its first gradient, for which it must run five forwards. Sent at once, the second activation waits for ever.
TEST(Pipelines, DeadlockWhenAMessagePastStagesLeavesAtOnce) {
  std::vector<StageEdge> edges = edges_of_line(5);
  edges.push_back({0, 4});
  const auto violations = [&](ScheduleKind kind, Leaves leaves) {
    return check_program(PipelineProgram(kind, 5, edges, 8, 1, Collectives::None, leaves).take()).violations;
  };
  EXPECT_EQ(violations(ScheduleKind::OneFOneB, Leaves::InStep), Sentences{});
  EXPECT_EQ(violations(ScheduleKind::GPipe, Leaves::AtOnce), Sentences{});
  const Sentences blocked = violations(ScheduleKind::OneFOneB, Leaves::AtOnce);
  ASSERT_EQ(blocked.size(), 1u);
  EXPECT_EQ(blocked[0].rfind("deadlock: ", 0), 0u) << blocked[0];
}

TEST(Pipelines, AreSoundWithSeveralDevicesPerStageAndCollectives) {
  for (const ScheduleKind kind : {ScheduleKind::OneFOneB, ScheduleKind::GPipe, ScheduleKind::Inference})
    EXPECT_EQ(check_program(PipelineProgram(kind, 4, 7, 3, Collectives::Some).take()).violations, Sentences{})
        << name_of(kind);
}

// The merged Exchange is what makes 1F1B sound: the same instructions with a send and a receive one after the other
// deadlock.
TEST(Pipelines, DeadlockWhenSendsBlock) {
  Program program = PipelineProgram(ScheduleKind::OneFOneB, 2, 3).take();
  for (std::vector<Instruction>& list : program.devices) {
    std::vector<Instruction> split;
    for (Instruction& instruction : list) {
      if (instruction.kind == Instruction::Kind::Exchange && !instruction.sends.empty() &&
          !instruction.receives.empty()) {
        split.push_back(
            {Instruction::Kind::Exchange, -1, MicrobatchId(0), std::exchange(instruction.sends, {}), {}, {}});
      }
      split.push_back(std::move(instruction));
    }
    list = std::move(split);
  }
  const Sentences violations = check_program(program).violations;
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].rfind("deadlock: device 0 at #", 0), 0u) << violations[0];
}

}  // namespace
}  // namespace meshwright::check_program_test
