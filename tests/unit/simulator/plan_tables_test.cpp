// SPDX-License-Identifier: Apache-2.0
// The rows say nothing that the Program does not: their sums are its own figures.
#include "simulator/report/plan_tables.h"

#include <gtest/gtest.h>

#include "core/plan/lowering/collective_op.h"
#include "tests/unit/planning_fixture.h"

namespace meshwright::plan_tables_test {
namespace {

struct Made {
  Planned result;
  std::unique_ptr<CostModel> costs;
  ProgramTimes times;
};

Made make(PlanRequest request) {
  Made made;
  made.costs = make_analytic_cost_model(request.cluster);
  SimulatedStep evaluator(*made.costs);
  made.result = with_program(make_plan(request, *made.costs, evaluator), *made.costs);
  MW_CHECK(made.result.plan.has_value(), "no plan: {}", made.result.reason);
  made.times = program_costs(made.result.program, *made.costs).times;
  return made;
}

PlanRequest with_schedule(PlanRequest request, ScheduleKind schedule) {
  request.search.schedule = schedule;
  return request;
}

PlanRequest with_recompute(PlanRequest request, Recompute recompute) {
  request.search.recompute = recompute;
  return request;
}

constexpr const char* kModel = "gpt:layers=4,hidden=64,heads=4,seq=32,vocab=128";

// Every kind of buffer, collective and message: pipelines, shardings, recomputation, several stages on a rank, halves
// of a backward, serving.
std::vector<PlanRequest> requests() {
  return {ask("mlp:layers=3,hidden=32", "cpu:4", "data"),
          ask(kModel, "cpu:4"),
          ask(kModel, "cpu:4", "zero3"),
          ask(kModel, "cpu:4", "zero1"),
          ask(kModel, "cpu:8", "megatron:tp=2,pp=2"),
          with_recompute(ask(kModel, "cpu:4", "megatron:tp=2,pp=2"), Recompute::Full),
          with_schedule(ask(kModel, "cpu:4", "megatron:tp=2,pp=2,vpp=2"), ScheduleKind::Interleaved),
          with_schedule(ask(kModel, "cpu:4", "megatron:tp=2,pp=2"), ScheduleKind::ZeroBubbleH1),
          with_schedule(ask(kModel, "cpu:4", "megatron:tp=2,pp=2"), ScheduleKind::GPipe),
          with_schedule(ask(kModel, "cpu:4", "megatron:tp=2,pp=2"), ScheduleKind::Inference)};
}

TEST(PlanTables, MemoryRowsAddUpToThePeakOfEveryDevice) {
  for (const PlanRequest& request : requests()) {
    const Made made = make(request);
    const Program& program = made.result.program;
    for (std::size_t d = 0; d < program.devices.size(); ++d) {
      Bytes sum(0.0);
      for (const MemoryRow& row : memory_rows(program, made.result.graph, DeviceId(static_cast<int>(d)))) {
        EXPECT_EQ(row.bytes_at_peak, static_cast<double>(row.at_peak) * row.bytes) << row.buffer;
        sum += row.bytes_at_peak;
      }
      EXPECT_EQ(sum, made.result.check.peak_memory[d]) << request.search.method.text << ", device " << d;
    }
  }
}

TEST(PlanTables, MemoryRowsNameWhatOutlivesTheStep) {
  const Made made = make(ask("mlp:layers=2,hidden=16", "cpu:1", "shard", 16, 2));
  Bytes parameters(0.0), all(0.0);
  for (const MemoryRow& row : memory_rows(made.result.program, made.result.graph, DeviceId(0))) {
    if (row.kind == "parameter") parameters += row.bytes_at_peak;
    if (row.kind == "parameter" || row.kind == "optimizer state" || row.kind == "gradient accumulator")
      all += row.bytes_at_peak;
  }
  // Adam in f32: two moments and an accumulator beside each weight.
  EXPECT_EQ(parameters, Bytes(4.0 * static_cast<double>(parameter_count(made.result.graph))));
  EXPECT_EQ(all, 4.0 * parameters);
  EXPECT_EQ(all, made.result.program.persistent_bytes[0]);
}

TEST(PlanTables, DataParallelismSumsEveryGradientOnce) {
  const Made made = make(ask("mlp:layers=2,hidden=16", "cpu:4", "data", 16, 2));
  auto rows = collective_rows(made.result.program, made.result.graph, *made.costs);
  std::erase_if(rows, [](const CollectiveRow& row) { return row.term == StepTerm::Collectives; });  // of the loss
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].phase, "update");
  EXPECT_EQ(rows[0].term, StepTerm::GradientSync);
  EXPECT_EQ(rows[0].kind, CollectiveKind::AllReduce);
  EXPECT_EQ(rows[0].group, 4);
  EXPECT_EQ(rows[0].runs, 1);
  EXPECT_EQ(rows[0].bytes, Bytes(4.0 * static_cast<double>(parameter_count(made.result.graph))));
}

TEST(PlanTables, CollectiveRowsHoldEveryByteOfTheRuns) {
  for (const PlanRequest& request : requests()) {
    const Made made = make(request);
    const Program& program = made.result.program;
    Bytes bytes(0.0), listed(0.0);
    std::int64_t count = 0, rows = 0;
    for (const ProgramStage& stage : program.stages)
      for (const Instruction& instruction : program.devices[stage.devices.front().index()]) {
        if (instruction.kind != Instruction::Kind::Run) continue;
        const StageExecutable& executable = program.executables[static_cast<std::size_t>(instruction.executable)];
        if (&program.stages[executable.stage.index()] != &stage) continue;
        for (const LocalOp& op : executable.ops) {
          if (op.kind != LocalOp::Kind::Reshard || op.step->kind == ReshardStep::Kind::Slice) continue;
          bytes += collective_of(executable, op, stage.mesh).bytes;
          ++count;
        }
      }
    for (const CollectiveRow& row : collective_rows(program, made.result.graph, *made.costs)) {
      listed += row.bytes;
      rows += row.count;
    }
    EXPECT_EQ(listed, bytes) << request.search.method.text;
    EXPECT_EQ(rows, count) << request.search.method.text;
  }
}

// What the rows say of a stage is what its Runs take for collectives in the simulated step.
TEST(PlanTables, CollectiveTimesAreThoseOfTheRuns) {
  for (const PlanRequest& request : requests()) {
    const Made made = make(request);
    const Program& program = made.result.program;
    const auto terms = executable_terms(program, made.result.graph, *made.costs, made.times);
    const auto rows = collective_rows(program, made.result.graph, *made.costs);
    for (std::size_t s = 0; s < program.stages.size(); ++s) {
      double simulated = 0.0, listed = 0.0;
      for (const Instruction& instruction : program.devices[program.stages[s].devices.front().index()]) {
        if (instruction.kind != Instruction::Kind::Run) continue;
        const auto e = static_cast<std::size_t>(instruction.executable);
        if (program.executables[e].stage.index() != s) continue;
        for (const StepTerm term : {StepTerm::Collectives, StepTerm::GradientSync, StepTerm::WeightGathers})
          simulated += to_seconds(terms[e][term]).si();
      }
      for (const CollectiveRow& row : rows)
        if (row.stage == static_cast<int>(s)) listed += row.time.si();
      EXPECT_NEAR(simulated, listed, 1e-9 * listed + 1e-10) << request.search.method.text << ", stage " << s;
    }
  }
}

TEST(PlanTables, ReshardingRowsHoldEveryTransfer) {
  for (const PlanRequest& request : requests()) {
    const Made made = make(request);
    const Program& program = made.result.program;
    Bytes bytes(0.0), listed(0.0);
    std::int64_t count = 0;
    for (const Transfer& transfer : program.transfers)
      if (transfer.source != transfer.destination) bytes += transfer.bytes;
    for (const ReshardingRow& row : resharding_rows(program, made.result.graph)) {
      listed += row.bytes;
      count += row.messages + row.copies;
    }
    EXPECT_EQ(listed, bytes);
    EXPECT_EQ(count, static_cast<std::int64_t>(program.transfers.size()));
  }
}

TEST(PlanTables, LayerRowsShareTheWholeModel) {
  const Made made = make(ask(kModel, "cpu:4"));
  const auto rows = layer_rows(*made.result.plan, made.result.graph);
  std::int64_t parameters = 0;
  int ops = 0;
  Flops flops(0.0);
  for (const LayerRow& row : rows) {
    parameters += row.parameters;
    ops += row.ops;
    flops += row.forward + row.backward;
  }
  EXPECT_EQ(rows.size(), made.result.plan->layer_starts.size());
  EXPECT_EQ(parameters, parameter_count(made.result.graph));
  EXPECT_EQ(ops, static_cast<int>(forward_ops(made.result.graph).size()));
  EXPECT_NEAR(flops / graph_flops(made.result.graph), 1.0, 1e-12);
  EXPECT_EQ(rows.back().boundary_bytes, Bytes(0.0));
}

TEST(PlanTables, LikeDevicesShareAProgram) {
  const Made made = make(ask(kModel, "p3.16xlarge:2", "megatron:tp=8,pp=2"));
  const auto classes = device_classes(made.result.program, made.times);
  ASSERT_EQ(classes.size(), 2u);  // one for each stage
  EXPECT_EQ(to_text(classes[0].devices), "0-7");
  EXPECT_EQ(to_text(classes[1].devices), "8-15");
  const std::string text = program_text(made.result.program, made.times, DeviceId(0));
  EXPECT_EQ(
      std::count(text.begin(), text.end(), '\n') >= static_cast<std::ptrdiff_t>(made.result.program.devices[0].size()),
      true);
  EXPECT_TRUE(text.starts_with("0 run forward of stage 0, micro-batch 0")) << text.substr(0, 80);
}

TEST(PlanTables, NumbersOfDevicesAreWrittenAsRanges) {
  const auto ids = [](const std::vector<int>& numbers) {
    std::vector<DeviceId> devices;
    for (const int number : numbers) devices.emplace_back(number);
    return devices;
  };
  EXPECT_EQ(to_text(ids({})), "");
  EXPECT_EQ(to_text(ids({3})), "3");
  EXPECT_EQ(to_text(ids({0, 1, 2, 5, 7, 8})), "0-2 5 7-8");
}

}  // namespace
}  // namespace meshwright::plan_tables_test
