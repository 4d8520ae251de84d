// SPDX-License-Identifier: Apache-2.0
#include "executor/base/work_names.h"

#include <gtest/gtest.h>

#include "core/sharding/op_ranges.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::work_names_test {
namespace {

TEST(WorkNames, AreWhatReadersOfRecordingsTakeThemFor) {
  const Planned planned =
      meshwright::planned(ask("gpt:layers=2,hidden=16,heads=4,seq=8,vocab=32", "dgx-a100:1", "megatron:tp=4", 16, 2));
  ASSERT_TRUE(planned.plan.has_value()) << planned.reason;
  int ops = 0, collectives = 0;
  for (const StageExecutable& executable : planned.program.executables)
    for (const LocalOp& op : executable.ops) {
      const ProgramStage& stage = planned.program.stages[executable.stage.index()];
      const std::string name = work_name(stage, executable, op);
      if (op.kind == LocalOp::Kind::Reshard && op.step->kind == ReshardStep::Kind::Slice) {
        EXPECT_EQ(name, "");
        continue;
      }
      const MarkedRange range = range_from_text(name).value();
      if (op.kind == LocalOp::Kind::Compute) {
        EXPECT_EQ(std::get<OpRange>(range), (OpRange{op.work.flops, op.work.bytes, op.work.signature}));
        ++ops;
        continue;
      }
      const auto& collective = std::get<CollectiveRange>(range);
      EXPECT_EQ(collective.ranks, stage.mesh.shape()[static_cast<std::size_t>(op.step->axis)]);
      EXPECT_EQ(collective.hosts, 1);
      EXPECT_GT(collective.size_bytes, 0);
      ++collectives;
    }
  EXPECT_GT(ops, 50);
  EXPECT_GT(collectives, 4);
}

}  // namespace
}  // namespace meshwright::work_names_test
