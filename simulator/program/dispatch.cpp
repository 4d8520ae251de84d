// SPDX-License-Identifier: Apache-2.0
#include "simulator/program/dispatch.h"

#include <algorithm>

#include "core/base/errors.h"
#include "simulator/program/program_tasks.h"

namespace meshwright {

const char* name_of(Controller::Kind kind) {
  switch (kind) {
    case Controller::Kind::Single:
      return "single";
    case Controller::Kind::Multi:
      return "multi";
  }
  throw InternalError("a kind of controller without a name");
}

Controller alpa_controller() {
  Controller made;
  made.per_call = Seconds(2.5e-3);
  made.fetch = Seconds(5e-3);
  return made;
}

// A Run that takes longer than its launches begins with the first of them; of a shorter one the last launch is the end.
Issue issue_of(SimTime call, SimTime launches, SimTime run) {
  return {call + std::max(SimTime{0}, launches - run), std::min(launches, run)};
}

Bytes batch_bytes(const StageExecutable& executable) {
  std::vector<bool> made(executable.slots.size(), false);
  for (const LocalOp& op : executable.ops)
    for (const int s : op.outputs) made[static_cast<std::size_t>(s)] = true;
  // What neither a buffer nor an op fills: the samples, which the controller sends along.
  Bytes sum(0.0);
  for (std::size_t s = 0; s < executable.slots.size(); ++s) {
    const StageExecutable::Slot& slot = executable.slots[s];
    if (!slot.buffer && !slot.alias_of && !made[s]) sum += slot.local.bytes();
  }
  return sum;
}

std::vector<int> hosts_of(const Program& program) {
  // Without a cluster each stage has hosts of its own, with as many devices as its mesh says.
  std::vector<int> host(program.devices.size(), -1);
  int hosts = 0;
  for (const ProgramStage& stage : program.stages) {
    const std::size_t on_each = std::max<std::size_t>(1, static_cast<std::size_t>(stage.mesh.of.devices_per_host));
    if (host[stage.devices.front().index()] >= 0) continue;  // a further stage of devices that have one already
    for (std::size_t i = 0; i < stage.devices.size(); ++i)
      host[stage.devices[i].index()] = hosts + static_cast<int>(i / on_each);
    hosts += static_cast<int>((stage.devices.size() + on_each - 1) / on_each);
  }
  return host;
}

Issuer::Issuer(ProgramTasks& tasks) : tasks_(tasks) {
  if (!tasks.options.controller) return;
  controller_ = &*tasks.options.controller;
  const Program& program = tasks.program;
  const std::vector<int> host = tasks.options.host.empty() ? hosts_of(program) : tasks.options.host;
  MW_CHECK(host.size() == program.devices.size(), "{} hosts for {} devices", host.size(), program.devices.size());
  for (std::size_t d = 0; d < host.size(); ++d) {
    MW_CHECK(host[d] >= 0, "device {} is on host {}", d, host[d]);
    const auto h = static_cast<std::size_t>(host[d]);
    if (hosts_.size() <= h) hosts_.resize(h + 1);
    if (!hosts_[h].first) hosts_[h].first = DeviceId(static_cast<int>(d));
    devices_.push_back({host[d]});
  }
  for (const ProgramStage& stage : program.stages)
    if (stage.stages_after == 0)
      hosts_[static_cast<std::size_t>(host[stage.devices.front().index()])].loss.push_back(stage.devices.front());
}

StreamId Issuer::own_stream_of(int host) {
  Host& own = hosts_[static_cast<std::size_t>(host)];
  if (!own.stream) own.stream = tasks_.add_stream(Stream::Kind::Controller, *own.first, *own.first);
  return *own.stream;
}

StreamId Issuer::stream_of(int host) {
  if (controller_->kind == Controller::Kind::Multi) return own_stream_of(host);
  if (!single_) single_ = tasks_.add_stream(Stream::Kind::Controller, DeviceId(0), DeviceId(0));
  return *single_;
}

TaskId Issuer::add(StreamId stream, SimTime duration, const AtInstruction* place, const std::vector<TaskId>& after) {
  TaskClass wanted{TaskKind::Dispatch};
  wanted.duration = duration;
  MicrobatchId microbatch(0);
  if (place != nullptr) {
    const Instruction& instruction = tasks_.at(*place);
    wanted.stage = instruction.kind == Instruction::Kind::Run ? tasks_.executable_of(instruction).stage
                                                              : tasks_.program.stage_of_device[place->device.index()];
    microbatch = instruction.microbatch;
  }
  return tasks_.add(tasks_.class_for(wanted), stream, microbatch, after, ProgramTask());
}

void Issuer::begin_step() {
  if (controller_ == nullptr) return;
  issued_.clear();
  for (Device& device : devices_) device = {device.host};
  if (controller_->per_call == Seconds(0.0)) return;
  for (std::size_t h = 0; h < hosts_.size(); ++h)
    if (hosts_[h].first)
      hosts_[h].call = add(stream_of(static_cast<int>(h)), to_sim_time(controller_->per_call), nullptr, {});
}

void Issuer::issue(const AtInstruction& place, std::vector<TaskId>& after) {
  if (controller_ == nullptr) return;
  Device& device = devices_[place.device.index()];
  Host& host = hosts_[static_cast<std::size_t>(device.host)];
  // Its later instructions come after its first.
  if (!device.called && host.call) after.push_back(*host.call);
  device.called = true;
  const Instruction& instruction = tasks_.at(place);
  const bool runs = instruction.kind == Instruction::Kind::Run;
  device.exchanges = runs ? 0 : device.exchanges + 1;
  device.runs += static_cast<int>(runs);
  // One call tells all devices of a stage on one host: they agree in the number of Runs and of Exchanges since the
  // last.
  const std::tuple key(device.host, tasks_.program.stage_of_device[place.device.index()].value, device.runs,
                       device.exchanges);
  if (const auto known = issued_.find(key); known != issued_.end()) {
    after.push_back(known->second);
    return;
  }
  Seconds call = controller_->per_instruction;
  SimTime launches{0}, duration{0};
  if (runs) {
    const StageExecutable& executable = tasks_.executable_of(instruction);
    duration = tasks_.times.executable[static_cast<std::size_t>(instruction.executable)];
    launches = to_sim_time(static_cast<double>(executable.ops.size()) * controller_->launch);
    if (controller_->arguments && executable.phase == Phase::Forward)
      call += batch_bytes(executable) / *controller_->arguments;
  }
  // What takes no time needs no task.
  if (to_sim_time(call).ps == 0 && launches.ps == 0) return;
  const bool single = controller_->kind == Controller::Kind::Single;
  std::vector<TaskId> told;
  if (host.call) told.push_back(*host.call);
  std::optional<TaskId> issued;
  // A single controller tells the hosts, whose launches are tasks of their own; of several, a host's task has both.
  if (single && to_sim_time(call).ps > 0) {
    issued = add(stream_of(device.host), to_sim_time(call), &place, {});
    told = {*issued};
  }
  if (!single || launches.ps > 0) {
    const Issue issue = issue_of(single ? SimTime{0} : to_sim_time(call), launches, duration);
    issued = add(own_stream_of(device.host), issue.before, &place, told);
    // Launches that the Run does not wait for still keep the host busy.
    if (issue.after.ps > 0) (void)add(own_stream_of(device.host), issue.after, &place, {});
  }
  issued_.emplace(key, *issued);
  after.push_back(*issued);
}

void Issuer::end_step(int step, const std::vector<std::vector<TaskId>>& done) {
  if (controller_ == nullptr || controller_->fetch_every == 0 || (step + 1) % controller_->fetch_every != 0) return;
  for (std::size_t h = 0; h < hosts_.size(); ++h)
    // The loss is read from the last stages' first devices, when those have ended the step.
    for (const DeviceId device : hosts_[h].loss)
      (void)add(stream_of(static_cast<int>(h)), to_sim_time(controller_->fetch), nullptr, done[device.index()]);
}

}  // namespace meshwright
