// SPDX-License-Identifier: Apache-2.0
// Read lowering.h first: it says what each of the three steps below leaves for the next.
#include "core/plan/lowering/lower.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/errors.h"
#include "core/plan/lowering/lowering.h"

namespace meshwright {

namespace {

// Stages with their meshes and devices; the devices' own numbers follow from the stages' lists.
void add_stages(LoweringState& state) {
  const Plan& plan = state.plan;
  Program& program = state.program;
  program.schedule = plan.schedule;
  std::map<int, DeviceId> numbers;  // by the cluster's number of a device: the program's
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlan& stage = plan.stages[s];
    ProgramStage own{mesh_of(stage, plan.cluster), {}, {}, {}, {}, {}};
    for (const int number : stage.devices) {
      // Stages of one rank have the same devices, which are numbered once.
      const auto [known, is_new] = numbers.emplace(number, DeviceId(static_cast<int>(numbers.size())));
      own.devices.push_back(known->second);
      if (is_new) program.stage_of_device.emplace_back(static_cast<int>(s));
    }
    own.stages_after = state.stages.feeding.stages_after[s];
    program.stages.push_back(std::move(own));
    const auto alike = std::find_if(plan.stages.begin(), plan.stages.end(), [&](const StagePlan& other) {
      return other.submesh == stage.submesh && other.logical_shape == stage.logical_shape &&
             other.contexts == stage.contexts;
    });
    state.like_mesh.push_back(static_cast<int>(alike - plan.stages.begin()));
  }
}

void add_persistent_bytes(Program& program) {
  std::vector<Bytes> of_rank(program.stages.size(), Bytes(0)), on_host = of_rank;  // [first stage of a rank]
  for (const Buffer& buffer : program.buffers)
    if (buffer.persistent)
      (buffer.on_host ? on_host : of_rank)[program.first_of_rank(buffer.stage).index()] += buffer.local.bytes();
  for (const StageId first : program.stage_of_device) program.persistent_bytes.push_back(of_rank[first.index()]);
  const bool any = std::any_of(program.buffers.begin(), program.buffers.end(), [](const auto& b) { return b.on_host; });
  if (!any) return;
  for (const StageId first : program.stage_of_device) program.host_bytes.push_back(on_host[first.index()]);
}

// The most that values of microbatches have on the host of each device at a time, beside what is always there. A buffer
// is there from the Run that writes it to the Free.
void add_waiting_bytes(Program& program) {
  if (program.host_bytes.empty()) return;
  std::vector<std::vector<BufferId>> written;  // [executable]
  for (const StageExecutable& executable : program.executables) {
    std::vector<BufferId>& list = written.emplace_back();
    for (const StageExecutable::Slot& slot : executable.slots)
      if (slot.buffer && slot.output && slot.on_host && !program.buffers[slot.buffer->index()].persistent)
        list.push_back(*slot.buffer);
  }
  const auto bytes = [&](BufferId buffer) { return program.buffers[buffer.index()].local.bytes(); };
  for (std::size_t d = 0; d < program.devices.size(); ++d) {
    Bytes live(0.0), most(0.0);
    for (const Instruction& instruction : program.devices[d]) {
      if (instruction.kind == Instruction::Kind::Run)
        for (const BufferId buffer : written[static_cast<std::size_t>(instruction.executable)]) live += bytes(buffer);
      if (instruction.kind == Instruction::Kind::Free)
        for (const BufferId buffer : instruction.buffers)
          if (program.buffers[buffer.index()].on_host) live -= bytes(buffer);
      most = std::max(most, live);
    }
    program.host_bytes[d] += most;
  }
}

}  // namespace

struct LoweredStages::State {
  StageAssignment stages;
  LoweringState lowering;

  State(const Plan& plan, const Graph& graph, const CostModel& costs)
      : stages(assign_stages(plan, graph)), lowering{plan, graph, costs, stages, {}, {}, {}, {}, {}, {}} {}

  int microbatches() const { return static_cast<int>(lowering.plan.training.microbatches); }
};

LoweredStages::LoweredStages(const Plan& plan, const Graph& graph, const CostModel& costs)
    : state_(std::make_unique<State>(plan, graph, costs)) {
  LoweringState& state = state_->lowering;
  add_stages(state);
  declare_buffers(state);
  // From here the set of buffers is fixed; executables only bind to them.
  for (std::size_t s = 0; s < plan.stages.size(); ++s) build_executables(state, static_cast<int>(s));
  add_persistent_bytes(state.program);
}

LoweredStages::~LoweredStages() = default;

namespace {

// A program lists what each device does for each micro-batch: a kilobyte each, and more.
void require_size(const Plan& plan, std::size_t devices) {
  constexpr double kMaxRuns = 1 << 21;
  const double runs = static_cast<double>(plan.training.microbatches) * static_cast<double>(devices);
  require(
      runs <= kMaxRuns,
      "{} micro-batches on {} devices make a program of {} parts; at most {} can be held. Give fewer micro-batches.",
      plan.training.microbatches, devices, runs, kMaxRuns);
}

}  // namespace

Program LoweredStages::take_program() && {
  require_size(state_->lowering.plan, state_->lowering.program.stage_of_device.size());
  (void)build_instructions(state_->lowering, state_->microbatches());
  add_waiting_bytes(state_->lowering.program);
  return std::move(state_->lowering.program);
}

const Program& LoweredStages::of_one_microbatch() {
  const Plan& plan = state_->lowering.plan;
  const int ranks = static_cast<int>(plan.stages.size()) / chunks_of(plan);
  int fewest = 1;
  while (unmet_by(plan.schedule, ranks, fewest)) ++fewest;
  (void)build_instructions(state_->lowering, fewest);
  return state_->lowering.program;
}

PartialProgram LoweredStages::take_part(const KeptPart& part) && {
  require_size(state_->lowering.plan, 1);
  std::vector<int> like = build_instructions(state_->lowering, state_->microbatches(), &part);
  add_waiting_bytes(state_->lowering.program);
  return {std::move(state_->lowering.program), std::move(like)};
}

Program lower(const Plan& plan, const Graph& graph, const CostModel& costs) {
  return LoweredStages(plan, graph, costs).take_program();
}

}  // namespace meshwright
