// SPDX-License-Identifier: Apache-2.0
// Which ops the halves of a split backward have, and what the first keeps for the second, by looking at every op.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/plan/lowering/lowering.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::split_backward_test {
namespace {

HandPlan two_stages(ScheduleKind schedule) {
  return by_hand("gpt:layers=3,hidden=16,heads=4,seq=8,vocab=32", "cpu:2", {.batch = 12, .microbatches = 3},
                 {{"", {1}, {}}, {"blk1.ln1", {1}, {}}}, schedule);
}

struct Split {
  const HandPlan made = two_stages(ScheduleKind::ZeroBubbleH1);
  const StageAssignment found = assign_stages(made.plan, made.graph);

  // The backward ops of a stage that read the tensor.
  [[nodiscard]] std::vector<const Op*> readers_on(int stage, TensorId tensor) const {
    std::vector<const Op*> readers;
    for (const Op& op : made.graph.ops())
      if (op.phase == Phase::Backward && found.stage_of(op.id) == stage &&
          std::find(op.inputs.begin(), op.inputs.end(), tensor) != op.inputs.end())
        readers.push_back(&op);
    return readers;
  }
  // Whether another stage reads what the op makes, or what is made of it in its own stage's backward. An accumulator is
  // no value that another stage waits for.
  [[nodiscard]] bool is_waited_for(const Op& op) const {
    const int stage = found.stage_of(op.id);
    for (const Op& reader : made.graph.ops()) {
      if (reader.phase != Phase::Backward || reader.kind == OpKind::Accumulate) continue;
      const bool reads = std::any_of(op.outputs.begin(), op.outputs.end(), [&](TensorId output) {
        return std::find(reader.inputs.begin(), reader.inputs.end(), output) != reader.inputs.end();
      });
      if (reads && (found.stage_of(reader.id) != stage || is_waited_for(reader))) return true;
    }
    return false;
  }
};

}  // namespace

TEST(SplitBackward, HasInItsFirstHalfWhatOtherStagesWaitFor) {
  const Split split;
  int first = 0, second = 0;
  for (const Op& op : split.made.graph.ops()) {
    if (op.phase != Phase::Backward || op.kind == OpKind::Accumulate ||
        !split.found.splits(split.found.stage_of(op.id)))
      continue;
    EXPECT_EQ(split.found.for_weights[op.id.index()], !split.is_waited_for(op)) << op.name;
    ++(split.found.for_weights[op.id.index()] ? second : first);
  }
  EXPECT_GT(first, 0);
  EXPECT_GT(second, 0);
}

TEST(SplitBackward, KeepsForItsSecondHalfWhatThatReadsOfTheFirst) {
  const Split split;
  int kept = 0;
  for (const Tensor& tensor : split.made.graph.tensors()) {
    if (!tensor.producer || split.made.graph.op(*tensor.producer).phase != Phase::Backward) continue;
    const int stage = split.found.stage_of(*tensor.producer);
    if (!split.found.splits(stage)) continue;
    const std::vector<const Op*> readers = split.readers_on(stage, tensor.id);
    const bool crosses = std::any_of(readers.begin(), readers.end(), [&](const Op* reader) {
      return split.found.for_weights[reader->id.index()] && !split.found.for_weights[tensor.producer->index()];
    });
    const auto& noted = split.found.readers[tensor.id.index()];
    EXPECT_EQ(noted.contains({stage, Phase::Backward}), crosses) << tensor.name;
    // What the update or another stage reads, too, is kept in any case.
    const bool alone = crosses && noted.size() == 1;
    if (!noted.empty()) {
      EXPECT_EQ(split.found.between_halves(stage, tensor.id, split.made.graph), alone) << tensor.name;
    }
    // It is made on one stage, and between the halves of that alone.
    EXPECT_FALSE(split.found.between_halves(1 - stage, tensor.id, split.made.graph)) << tensor.name;
    kept += alone;
  }
  EXPECT_GT(kept, 0);
}

}  // namespace meshwright::split_backward_test
