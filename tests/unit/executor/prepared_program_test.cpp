// SPDX-License-Identifier: Apache-2.0
// What is known of a Program before it runs.
#include "executor/runner/prepared_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tests/unit/planning_fixture.h"

namespace meshwright::prepared_program_test {
namespace {

Planned plan_of(const std::string& model, const std::string& method, Recompute recompute) {
  PlanRequest request = ask(model, "dgx-a100:1", method, 16, 2);
  request.cluster = take_part(request.cluster, 1, 4);
  request.search.recompute = recompute;
  Planned planned = meshwright::planned(request);
  EXPECT_TRUE(planned.plan.has_value()) << planned.reason;
  return planned;
}

// Whether the op after `i` reads what it leaves, and nothing else ever does.
bool only_next_reads(const StageExecutable& executable, std::size_t i) {
  const LocalOp& op = executable.ops[i];
  if (op.kind != LocalOp::Kind::Compute || op.outputs.size() != 1 || i + 1 == executable.ops.size()) return false;
  const int result = op.outputs[0];
  if (executable.slots[static_cast<std::size_t>(result)].buffer) return false;
  for (const auto& slot : executable.slots)
    if (slot.alias_of == result) return false;
  if (executable.slots[static_cast<std::size_t>(result)].alias_of) return false;
  for (std::size_t k = 0; k < executable.ops.size(); ++k) {
    const std::vector<int>& inputs = executable.ops[k].inputs;
    const bool reads = std::find(inputs.begin(), inputs.end(), result) != inputs.end();
    if (reads != (k == i + 1)) return false;
  }
  return executable.ops[i + 1].kind == LocalOp::Kind::Compute;
}

// The forward ops whose results only the next one reads.
std::set<std::string> left_to_the_next(const Planned& planned) {
  std::set<std::string> names;
  for (const StageExecutable& executable : planned.program.executables) {
    const PreparedExecutable prepared = prepare(planned.graph, executable);
    for (std::size_t i = 0; i < executable.ops.size(); ++i) {
      const bool said = prepared.ops[i].call && prepared.ops[i].call->only_next_reads;
      const std::string name =
          executable.ops[i].kind == LocalOp::Kind::Compute ? planned.graph.op(executable.ops[i].op).name : "";
      EXPECT_EQ(said, only_next_reads(executable, i) && prepared.loss_op != static_cast<int>(i)) << name;
      if (said && executable.phase == Phase::Forward) names.insert(name);
    }
  }
  return names;
}

constexpr const char* kGpt = "gpt:layers=2,hidden=16,heads=4,seq=8,vocab=32";

TEST(PreparedProgram, KnowsWhatOnlyTheNextOpReads) {
  const std::set<std::string> names = left_to_the_next(plan_of(kGpt, "data", Recompute::None));
  for (const char* product : {"blk0.attn.qkv", "blk0.mlp.up", "blk1.mlp.down", "head.logits"})
    EXPECT_TRUE(names.contains(product)) << product;
  // The backward of GELU reads what it is applied to.
  EXPECT_FALSE(names.contains("blk0.mlp.up.bias_add"));
  EXPECT_FALSE(names.contains("blk0.mlp.gelu"));
}

TEST(PreparedProgram, LeavesMoreToTheNextOpWhereTheBackwardComputesItAgain) {
  const std::set<std::string> names = left_to_the_next(plan_of(kGpt, "data", Recompute::Full));
  EXPECT_TRUE(names.contains("blk0.mlp.up.bias_add"));
  EXPECT_TRUE(names.contains("blk0.mlp.gelu"));
}

TEST(PreparedProgram, SaysSoOfNothingElseInAnyKindOfPlan) {
  for (const char* method : {"megatron:tp=2", "pipeshard", "zero3"})
    EXPECT_FALSE(left_to_the_next(plan_of(kGpt, method, Recompute::None)).empty());
  EXPECT_FALSE(left_to_the_next(plan_of("mlp:layers=4,hidden=16", "shard", Recompute::None)).empty());
}

// Ops whose first result one other op reads, once, and that does not outlive the Run.
TEST(PreparedProgram, KnowsWhatOneLaterOpReads) {
  for (const char* method : {"data", "megatron:tp=2", "pipeshard"}) {
    const Planned planned = plan_of(kGpt, method, Recompute::None);
    int norms = 0;
    for (const StageExecutable& executable : planned.program.executables) {
      const PreparedExecutable prepared = prepare(planned.graph, executable);
      for (std::size_t i = 0; i < executable.ops.size(); ++i) {
        const auto& call = prepared.ops[static_cast<int>(i)].call;
        if (!call) continue;
        const int result = executable.ops[i].outputs[0];
        const auto& slot = executable.slots[static_cast<std::size_t>(result)];
        std::ptrdiff_t reads = 0;
        for (const LocalOp& op : executable.ops) reads += std::count(op.inputs.begin(), op.inputs.end(), result);
        const bool shared = slot.alias_of || std::any_of(executable.slots.begin(), executable.slots.end(),
                                                         [&](const auto& other) { return other.alias_of == result; });
        const bool is_loss = prepared.loss_op == static_cast<int>(i);
        EXPECT_EQ(call->one_reader, reads == 1 && !slot.buffer && !shared && !is_loss)
            << planned.graph.op(executable.ops[i].op).name;
        norms += call->kind == OpKind::LayerNormBackward && call->one_reader ? 1 : 0;
      }
    }
    EXPECT_GE(norms, 4) << method;
  }
}

}  // namespace
}  // namespace meshwright::prepared_program_test
