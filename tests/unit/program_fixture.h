// SPDX-License-Identifier: Apache-2.0
// A small language for Programs made by hand, and the pipeline Program of any schedule in it.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/program.h"
#include "core/schedule/schedule.h"
#include "simulator/simulate.h"

namespace meshwright {

enum class Kept { PerMicrobatch, Always };
enum class Collectives { None, Some };

class ProgramBuilder {
 public:
  explicit ProgramBuilder(int microbatches = 1) { program.microbatches = microbatches; }

  StageId stage(int devices = 1) {
    const StageId id(static_cast<int>(program.stages.size()));
    LogicalMesh mesh{{1, devices}, {MeshAxis{devices, 1, {}, {}}}};
    program.stages.push_back({std::move(mesh), {}, {}, {}, {}, {}});
    for (int i = 0; i < devices; ++i) {
      program.stages.back().devices.emplace_back(static_cast<int>(program.devices.size()));
      program.devices.emplace_back();
      program.stage_of_device.push_back(id);
      program.persistent_bytes.emplace_back(0.0);
    }
    return id;
  }

  // A vector of 4-byte numbers. REQUIRES: 4 divides `bytes`.
  BufferId buffer(StageId stage, const std::string& name, int bytes, Kept kept = Kept::PerMicrobatch) {
    const BufferId id(static_cast<int>(program.buffers.size()));
    const bool persistent = kept == Kept::Always;
    program.buffers.push_back(
        {id, stage, {TensorId(id.value), DType::F32, replicated_vector(), {bytes / 4}}, persistent, name});
    if (persistent)
      for (const DeviceId device : program.stages[stage.index()].devices)
        program.persistent_bytes[device.index()] += Bytes(bytes);
    return id;
  }

  // Without temporaries: what it needs on top of its inputs is what it writes.
  int executable(StageId stage, Phase phase, const std::vector<BufferId>& reads, const std::vector<BufferId>& writes,
                 Collectives collectives = Collectives::None) {
    StageExecutable made{stage, phase, {}, {}, Bytes(0.0)};
    for (const BufferId buffer : reads) made.slots.push_back(slot(buffer, true, false));
    for (const BufferId buffer : writes) {
      made.slots.push_back(slot(buffer, false, true));
      if (!program.buffers[buffer.index()].persistent) made.peak_extra += program.buffers[buffer.index()].local.bytes();
    }
    if (collectives == Collectives::Some) {
      LocalOp op;
      op.kind = LocalOp::Kind::Reshard;
      op.step = ReshardStep{ReshardStep::Kind::AllReduce, 0, -1, -1, replicated_vector()};
      op.inputs = op.outputs = {0};
      made.ops.push_back(op);
    }
    program.executables.push_back(std::move(made));
    return static_cast<int>(program.executables.size()) - 1;
  }

  // The whole of `from`, which must be as large as `to`.
  int transfer(int source, int destination, BufferId from, BufferId to, int microbatch = 0) {
    const LocalTensor& local = program.buffers[from.index()].local;
    Transfer made{DeviceId(source), DeviceId(destination), from, to, MicrobatchId(microbatch), {0}, {0}, local.shape};
    made.bytes = local.bytes();
    program.transfers.push_back(std::move(made));
    return static_cast<int>(program.transfers.size()) - 1;
  }

  // What follows is appended to this device's list.
  ProgramBuilder& on(int device) {
    device_ = static_cast<std::size_t>(device);
    return *this;
  }
  ProgramBuilder& run(int executable, int microbatch = 0) {
    return append({Instruction::Kind::Run, executable, MicrobatchId(microbatch), {}, {}, {}});
  }
  // Defines every buffer it receives into that is not persistent.
  ProgramBuilder& exchange(std::vector<int> sends, std::vector<int> receives) {
    std::vector<BufferId> defined;
    for (const int t : receives) {
      const BufferId buffer = program.transfers[static_cast<std::size_t>(t)].destination_buffer;
      const bool named = std::find(defined.begin(), defined.end(), buffer) != defined.end();
      if (!named && !program.buffers[buffer.index()].persistent) defined.push_back(buffer);
    }
    return append(
        {Instruction::Kind::Exchange, -1, MicrobatchId(0), std::move(sends), std::move(receives), std::move(defined)});
  }
  ProgramBuilder& free(std::vector<BufferId> buffers, int microbatch = 0) {
    return append({Instruction::Kind::Free, -1, MicrobatchId(microbatch), {}, {}, std::move(buffers)});
  }

  Program program;

 private:
  static ShardingSpec replicated_vector() { return {{0}, 0}; }
  StageExecutable::Slot slot(BufferId buffer, bool input, bool output) const {
    return {program.buffers[buffer.index()].local, buffer, input, output, std::nullopt, -1};
  }
  ProgramBuilder& append(Instruction instruction) {
    program.devices[device_].push_back(std::move(instruction));
    return *this;
  }

  std::size_t device_ = 0;
};

// Sizes in bytes of what a stage of pipeline_program keeps: one decade each, so that sums decode by eye.
constexpr int kWeightBytes = 1000000, kSavedBytes = 10000, kActivationBytes = 100, kGradientBytes = 4;

// The pipeline of `kind`, every stage on `width` devices that work in step (device i of a stage sends to device i of
// the next). Sends wait until the device's next Exchange: before every Run one Exchange with the sends of the Run
// before and the receives of the Run to come, and a last one with the sends that are left. Everything is freed as soon
// as nobody needs it.
class PipelineProgram {
 public:
  PipelineProgram(ScheduleKind kind, int stages, int microbatches, int width = 1,
                  Collectives collectives = Collectives::None)
      : stages_(stages),
        microbatches_(microbatches),
        width_(width),
        trains_(kind != ScheduleKind::Inference),
        builder_(microbatches) {
    builder_.program.schedule = kind;
    for (int s = 0; s < stages; ++s) add_stage(s, collectives);
    for (int s = 0; s + 1 < stages; ++s) add_transfers(s);
    const Schedule schedule = make_schedule(kind, stages, microbatches);
    for (int s = 0; s < stages; ++s)
      for (int i = 0; i < width; ++i) add_device(s, i, schedule[static_cast<std::size_t>(s)]);
  }

  [[nodiscard]] Program take() { return std::move(builder_.program); }

 private:
  struct Stage {
    std::vector<BufferId> activation_in, activation_out, gradient_in, gradient_out, saved;  // none or one each
    int forward = 0, backward = 0, update = 0;
  };

  void add_stage(int s, Collectives collectives) {
    const StageId id = builder_.stage(width_);
    const bool first = s == 0, last = s + 1 == stages_;
    Stage stage;
    const std::vector<BufferId> weight = {builder_.buffer(id, "weight", kWeightBytes, Kept::Always)};
    if (!first) stage.activation_in = {builder_.buffer(id, "activation_in", kActivationBytes)};
    if (!last) stage.activation_out = {builder_.buffer(id, "activation_out", kActivationBytes)};
    if (!last && trains_) stage.gradient_in = {builder_.buffer(id, "gradient_in", kGradientBytes)};
    if (!first && trains_) stage.gradient_out = {builder_.buffer(id, "gradient_out", kGradientBytes)};
    if (trains_) stage.saved = {builder_.buffer(id, "saved", kSavedBytes)};
    const auto both = [](std::vector<BufferId> a, const std::vector<BufferId>& b) {
      a.insert(a.end(), b.begin(), b.end());
      return a;
    };
    ProgramStage& made = builder_.program.stages.back();
    stage.forward = builder_.executable(id, Phase::Forward, both(weight, stage.activation_in),
                                        both(stage.saved, stage.activation_out), collectives);
    made.forward = stage.forward;
    if (trains_) {
      stage.backward = builder_.executable(id, Phase::Backward, both(stage.saved, stage.gradient_in),
                                           stage.gradient_out, collectives);
      stage.update = builder_.executable(id, Phase::Update, weight, weight, collectives);
      made.backward = stage.backward;
      made.update = stage.update;
    }
    stage_.push_back(std::move(stage));
  }

  void add_transfers(int s) {
    const Stage &from = stage_[static_cast<std::size_t>(s)], &to = stage_[static_cast<std::size_t>(s) + 1];
    for (int m = 0; m < microbatches_; ++m) {
      for (int i = 0; i < width_; ++i) {
        const int here = s * width_ + i, there = here + width_;
        activations_.push_back(builder_.transfer(here, there, from.activation_out[0], to.activation_in[0], m));
        if (trains_) gradients_.push_back(builder_.transfer(there, here, to.gradient_out[0], from.gradient_in[0], m));
      }
    }
  }

  // The transfer between stages s and s + 1.
  std::vector<int> transfer_between(const std::vector<int>& transfers, int s, int microbatch, int i) const {
    if (s < 0 || s + 1 >= stages_) return {};
    return {transfers[static_cast<std::size_t>((s * microbatches_ + microbatch) * width_ + i)]};
  }

  void add_device(int s, int i, const std::vector<ScheduledRun>& runs) {
    const Stage& stage = stage_[static_cast<std::size_t>(s)];
    builder_.on(s * width_ + i);
    std::vector<int> pending;
    std::vector<BufferId> sent;  // freed once `pending` is sent
    int sent_microbatch = 0;
    const auto exchange = [&](const std::vector<int>& receives) {
      if (!pending.empty() || !receives.empty()) builder_.exchange(std::exchange(pending, {}), receives);
      if (!sent.empty()) builder_.free(std::exchange(sent, {}), sent_microbatch);
    };
    for (const ScheduledRun& run : runs) {
      const int m = run.microbatch.value;
      const bool forward = run.pass == ScheduledRun::Pass::Forward;
      exchange(forward ? transfer_between(activations_, s - 1, m, i) : transfer_between(gradients_, s, m, i));
      builder_.run(forward ? stage.forward : stage.backward, m);
      std::vector<BufferId> used = forward ? stage.activation_in : stage.gradient_in;
      if (!forward) used.insert(used.end(), stage.saved.begin(), stage.saved.end());
      if (!used.empty()) builder_.free(used, m);
      pending = forward ? transfer_between(activations_, s, m, i) : transfer_between(gradients_, s - 1, m, i);
      if (!pending.empty()) sent = forward ? stage.activation_out : stage.gradient_out;
      sent_microbatch = m;
    }
    exchange({});
    if (trains_) builder_.run(stage.update);
  }

  int stages_, microbatches_, width_;
  bool trains_;
  ProgramBuilder builder_;
  std::vector<Stage> stage_;
  std::vector<int> activations_, gradients_;  // [stage boundary][microbatch][device of the stage]
};

// Every executable and transfer of a PipelineProgram takes what `times` says of its stage.
inline ProgramTimes program_times(const Program& program, const PipelineTimes& times) {
  ProgramTimes made;
  for (const StageExecutable& executable : program.executables) {
    const std::vector<SimTime>& of_phase = executable.phase == Phase::Forward    ? times.forward
                                           : executable.phase == Phase::Backward ? times.backward
                                                                                 : times.update;
    made.executable.push_back(of_phase[executable.stage.index()]);
  }
  for (const Transfer& transfer : program.transfers) {
    const std::size_t from = program.stage_of_device[transfer.source.index()].index();
    const std::size_t to = program.stage_of_device[transfer.destination.index()].index();
    made.transfer.push_back(from < to ? times.send_forward[from] : times.send_backward[to]);
  }
  return made;
}

// Every stage and every message the same.
inline PipelineTimes equal_stages(int stages, SimTime forward, SimTime backward, SimTime send = {0},
                                  SimTime update = {0}) {
  const auto n = static_cast<std::size_t>(stages);
  using Times = std::vector<SimTime>;
  return {Times(n, forward), Times(n, backward), Times(n, update), Times(n - 1, send), Times(n - 1, send)};
}

}  // namespace meshwright
