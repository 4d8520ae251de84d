// SPDX-License-Identifier: Apache-2.0
// A small language for Programs made by hand, and the pipeline Program of any schedule in it.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/program/pipeline_times.h"
#include "core/plan/program/program.h"
#include "core/schedule/schedule.h"
#include "simulator/program/program_costs.h"

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
  ProgramBuilder& exchange(std::vector<int> sends, std::vector<int> receives, bool waits = true) {
    std::vector<BufferId> defined;
    for (const int t : receives) {
      const BufferId buffer = program.transfers[static_cast<std::size_t>(t)].destination_buffer;
      const bool named = std::find(defined.begin(), defined.end(), buffer) != defined.end();
      if (!named && !program.buffers[buffer.index()].persistent) defined.push_back(buffer);
    }
    return append({Instruction::Kind::Exchange, -1, MicrobatchId(0), std::move(sends), std::move(receives),
                   std::move(defined), waits});
  }
  ProgramBuilder& await(std::vector<int> receives) {
    return append({Instruction::Kind::Await, -1, MicrobatchId(0), {}, std::move(receives), {}});
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

// Stage `from` feeds stage `to`, a later one.
struct StageEdge {
  int from, to;
};
inline std::vector<StageEdge> edges_of_line(int stages) {
  std::vector<StageEdge> edges;
  for (int s = 0; s + 1 < stages; ++s) edges.push_back({s, s + 1});
  return edges;
}
inline std::vector<int> stages_after(int stages, const std::vector<StageEdge>& edges) {
  std::vector<int> after(static_cast<std::size_t>(stages), 0);
  for (int s = stages; s-- > 0;)
    for (const StageEdge& edge : edges)
      if (edge.from == s) {
        int& longest = after[static_cast<std::size_t>(s)];
        longest = std::max(longest, after[static_cast<std::size_t>(edge.to)] + 1);
      }
  return after;
}

// Between any two of the stages with a chance that lets some have several feeders, some none, some feed nobody.
template <class Random>
std::vector<StageEdge> random_edges(Random& random, int stages) {
  std::vector<StageEdge> edges;
  std::uniform_int_distribution<int> any(0, stages);
  for (int from = 0; from < stages; ++from)
    for (int to = from + 1; to < stages; ++to)
      if (any(random) < 2) edges.push_back({from, to});
  return edges;
}

// When a message to a stage that is more than one apart leaves under 1F1B.
enum class Leaves { InStep, AtOnce };

// The pipeline of `kind`, every stage on `width` devices that work in step (device i of a stage sends to device i of
// another). Sends wait until an Exchange of the device: before every Run one Exchange with the receives of the Run to
// come and what leaves then, and a last one with the sends that are left. Everything is freed as soon as nobody needs
// it.
class PipelineProgram {
 public:
  PipelineProgram(ScheduleKind kind, int stages, int microbatches, int width = 1,
                  Collectives collectives = Collectives::None)
      : PipelineProgram(kind, stages, edges_of_line(stages), microbatches, width, collectives) {}
  PipelineProgram(ScheduleKind kind, int stages, std::vector<StageEdge> edges, int microbatches, int width = 1,
                  Collectives collectives = Collectives::None, Leaves leaves = Leaves::InStep)
      : edges_(std::move(edges)),
        after_(stages_after(stages, edges_)),
        microbatches_(microbatches),
        width_(width),
        trains_(kind != ScheduleKind::Inference),
        in_step_(kind == ScheduleKind::OneFOneB && leaves == Leaves::InStep),
        builder_(microbatches) {
    builder_.program.schedule = kind;
    for (int s = 0; s < stages; ++s) add_stage(s, collectives);
    for (const StageEdge& edge : edges_) add_transfers(edge);
    const Schedule schedule = make_schedule(kind, after_, microbatches);
    for (int s = 0; s < stages; ++s)
      for (int i = 0; i < width; ++i) add_device(s, i, schedule[static_cast<std::size_t>(s)]);
  }

  [[nodiscard]] Program take() { return std::move(builder_.program); }

 private:
  struct Stage {
    std::vector<std::size_t> in, out;  // edges
    std::vector<BufferId> activation_in, activation_out, gradient_in, gradient_out, saved;
    int forward = 0, backward = 0, update = 0;
  };
  const Stage& stage_of(int s) const { return stage_[static_cast<std::size_t>(s)]; }

  void add_stage(int s, Collectives collectives) {
    const StageId id = builder_.stage(width_);
    Stage stage;
    for (std::size_t e = 0; e < edges_.size(); ++e) {
      if (edges_[e].to == s) stage.in.push_back(e);
      if (edges_[e].from == s) stage.out.push_back(e);
    }
    const std::vector<BufferId> weight = {builder_.buffer(id, "weight", kWeightBytes, Kept::Always)};
    for (std::size_t n = stage.in.size(); n > 0; --n)
      stage.activation_in.push_back(builder_.buffer(id, "activation_in", kActivationBytes));
    if (!stage.out.empty()) stage.activation_out = {builder_.buffer(id, "activation_out", kActivationBytes)};
    for (std::size_t n = trains_ ? stage.out.size() : 0; n > 0; --n)
      stage.gradient_in.push_back(builder_.buffer(id, "gradient_in", kGradientBytes));
    for (std::size_t n = trains_ ? stage.in.size() : 0; n > 0; --n)
      stage.gradient_out.push_back(builder_.buffer(id, "gradient_out", kGradientBytes));
    if (trains_) stage.saved = {builder_.buffer(id, "saved", kSavedBytes)};
    const auto both = [](std::vector<BufferId> a, const std::vector<BufferId>& b) {
      a.insert(a.end(), b.begin(), b.end());
      return a;
    };
    ProgramStage& made = builder_.program.stages.back();
    made.stages_after = after_[id.index()];
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

  void add_transfers(const StageEdge& edge) {
    const std::size_t e = activations_.size();
    const auto number_in = [e](const std::vector<std::size_t>& edges) {
      return static_cast<std::size_t>(std::find(edges.begin(), edges.end(), e) - edges.begin());
    };
    const Stage &from = stage_of(edge.from), &to = stage_of(edge.to);
    const std::size_t out = number_in(from.out), in = number_in(to.in);
    activations_.emplace_back();
    gradients_.emplace_back();
    for (int m = 0; m < microbatches_; ++m) {
      for (int i = 0; i < width_; ++i) {
        const int here = edge.from * width_ + i, there = edge.to * width_ + i;
        activations_[e].push_back(builder_.transfer(here, there, from.activation_out[0], to.activation_in[in], m));
        if (trains_)
          gradients_[e].push_back(builder_.transfer(there, here, to.gradient_out[in], from.gradient_in[out], m));
      }
    }
  }

  // Of one microbatch and device, over all these edges.
  std::vector<int> transfers_over(const std::vector<std::vector<int>>& transfers, const std::vector<std::size_t>& edges,
                                  int microbatch, int i) const {
    std::vector<int> found;
    for (const std::size_t e : edges) found.push_back(transfers[e][static_cast<std::size_t>(microbatch * width_ + i)]);
    return found;
  }

  // The Exchange (number n is before run n) in which a message of run r goes to stage `to`.
  std::size_t exchange_of(int s, const std::vector<ScheduledRun>& runs, std::size_t r, int to) const {
    std::size_t n = r + 1;
    const int read = tick_of(runs[r], after_[static_cast<std::size_t>(to)]);
    while (in_step_ && n < runs.size() && tick_of(runs[n], after_[static_cast<std::size_t>(s)]) < read) ++n;
    return n;
  }

  void add_device(int s, int i, const std::vector<ScheduledRun>& runs) {
    const Stage& stage = stage_of(s);
    builder_.on(s * width_ + i);
    struct Leaving {
      std::vector<int> transfers;
      std::vector<std::pair<BufferId, int>> freed;  // with its microbatch
    };
    std::vector<Leaving> leaving(runs.size() + 1);
    const auto exchange = [&](std::size_t n, const std::vector<int>& receives) {
      if (!leaving[n].transfers.empty() || !receives.empty()) builder_.exchange(leaving[n].transfers, receives);
      for (const auto& [buffer, microbatch] : leaving[n].freed) builder_.free({buffer}, microbatch);
    };
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const int m = runs[r].microbatch.value;
      const bool forward = runs[r].pass == ScheduledRun::Pass::Forward;
      const auto& received = forward ? stage.in : stage.out;
      const auto& sent = forward ? stage.out : stage.in;
      exchange(r, transfers_over(forward ? activations_ : gradients_, received, m, i));
      builder_.run(forward ? stage.forward : stage.backward, m);
      std::vector<BufferId> used = forward ? stage.activation_in : stage.gradient_in;
      if (!forward) used.insert(used.end(), stage.saved.begin(), stage.saved.end());
      if (!used.empty()) builder_.free(used, m);
      std::size_t last = 0;
      const std::vector<int> transfers = transfers_over(forward ? activations_ : gradients_, sent, m, i);
      for (std::size_t e = 0; e < sent.size(); ++e) {
        const std::size_t n = exchange_of(s, runs, r, forward ? edges_[sent[e]].to : edges_[sent[e]].from);
        leaving[n].transfers.push_back(transfers[e]);
        if (!forward) leaving[n].freed.emplace_back(stage.gradient_out[e], m);
        last = std::max(last, n);
      }
      if (forward && !sent.empty()) leaving[last].freed.emplace_back(stage.activation_out[0], m);
    }
    exchange(runs.size(), {});
    if (trains_) builder_.run(stage.update);
  }

  std::vector<StageEdge> edges_;
  std::vector<int> after_;  // [stage]
  int microbatches_, width_;
  bool trains_, in_step_;
  ProgramBuilder builder_;
  std::vector<Stage> stage_;
  std::vector<std::vector<int>> activations_, gradients_;  // [edge][microbatch, device of the stage]
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
    const int source = program.stage_of_device[transfer.source.index()].value;
    const int destination = program.stage_of_device[transfer.destination.index()].value;
    for (const PipelineTimes::Edge& edge : times.edges) {
      if (edge.from == source && edge.to == destination) made.transfer.push_back(edge.forward);
      if (edge.from == destination && edge.to == source) made.transfer.push_back(edge.backward);
    }
  }
  return made;
}

// Every stage and every message the same.
inline PipelineTimes equal_branches(int stages, const std::vector<StageEdge>& edges, SimTime forward, SimTime backward,
                                    SimTime send = {0}, SimTime update = {0}) {
  const auto n = static_cast<std::size_t>(stages);
  using Times = std::vector<SimTime>;
  PipelineTimes times{Times(n, forward), Times(n, backward), Times(n, update), {}};
  for (const StageEdge& edge : edges) times.edges.push_back({edge.from, edge.to, send, send});
  return times;
}
inline PipelineTimes equal_stages(int stages, SimTime forward, SimTime backward, SimTime send = {0},
                                  SimTime update = {0}) {
  return equal_branches(stages, edges_of_line(stages), forward, backward, send, update);
}

}  // namespace meshwright
