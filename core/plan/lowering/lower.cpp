// SPDX-License-Identifier: Apache-2.0
// Read lowering.h first: it says what each of the three steps below leaves for the next.
#include "core/plan/lowering/lower.h"

#include "core/base/errors.h"
#include "core/plan/lowering/lowering.h"

namespace meshwright {

namespace {

PartialProgram lower(const Plan& plan, const Graph& graph, const CostModel& costs, const KeptPart* part) {
  const StageAssignment stages = assign_stages(plan, graph);
  LoweringState state{plan, graph, costs, stages, {}, {}, {}, {}, {}, {}};
  state.part = part;
  Program& program = state.program;
  program.microbatches = static_cast<int>(plan.training.microbatches);
  program.schedule = plan.schedule;
  std::map<int, DeviceId> numbers;  // by the cluster's number of a device: the program's
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlan& stage = plan.stages[s];
    ProgramStage own{make_logical_mesh(plan.cluster, stage.submesh, stage.logical_shape), {}, {}, {}, {}, {}};
    for (const int number : stage.devices) {
      // Stages of one rank have the same devices, which are numbered once.
      const auto [known, is_new] = numbers.emplace(number, DeviceId(static_cast<int>(numbers.size())));
      own.devices.push_back(known->second);
      if (is_new) program.stage_of_device.emplace_back(static_cast<int>(s));
    }
    own.stages_after = stages.feeding.stages_after[s];
    program.stages.push_back(std::move(own));
  }
  program.devices.resize(program.stage_of_device.size());

  declare_buffers(state);
  // From here the set of buffers is fixed; executables only bind to them.
  for (std::size_t s = 0; s < plan.stages.size(); ++s) build_executables(state, static_cast<int>(s));
  build_instructions(state);

  for (const StageId first : program.stage_of_device) {
    Bytes persistent(0);
    for (const Buffer& buffer : program.buffers)
      if (program.first_of_rank(buffer.stage) == first && buffer.persistent) persistent += buffer.local.bytes();
    program.persistent_bytes.push_back(persistent);
  }
  return {std::move(state.program), std::move(state.like)};
}

}  // namespace

Program lower(const Plan& plan, const Graph& graph, const CostModel& costs) {
  return lower(plan, graph, costs, nullptr).program;
}

PartialProgram lower_part(const Plan& plan, const Graph& graph, const CostModel& costs, const KeptPart& part) {
  return lower(plan, graph, costs, &part);
}

}  // namespace meshwright
