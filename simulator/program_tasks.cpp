// SPDX-License-Identifier: Apache-2.0
#include "simulator/program_tasks.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright {

// --- tasks ---

TaskKind kind_of(const StageExecutable& executable) {
  switch (executable.phase) {
    case Phase::Forward:
      return TaskKind::Forward;
    case Phase::Backward:
      return TaskKind::Backward;
    case Phase::Update:
      return TaskKind::Update;
  }
  throw InternalError("a phase without a kind of task");
}

std::size_t ProgramTasks::Hash::operator()(const TaskClass& key) const {
  std::uint64_t hash = 0;
  const auto mix = [&](std::int64_t value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  };
  for (const std::int64_t value : {static_cast<std::int64_t>(key.kind), std::int64_t{key.stage.value}, key.duration.ps,
                                   std::int64_t{key.route}, key.latency.ps, key.memory_at_begin, key.memory_at_end})
    mix(value);
  return static_cast<std::size_t>(hash);
}

bool ProgramTasks::Equal::operator()(const TaskClass& a, const TaskClass& b) const {
  return a.kind == b.kind && a.stage == b.stage && a.duration == b.duration && a.route == b.route &&
         a.latency == b.latency && a.memory_at_begin == b.memory_at_begin && a.memory_at_end == b.memory_at_end;
}

ProgramTasks::ProgramTasks(const Program& of, const ProgramTimes& their_times, const ProgramGraphOptions& wanted)
    : program(of),
      times(their_times),
      options(wanted),
      folded(wanted.folded != nullptr ? *wanted.folded : unfolded(of)),
      channels_(find_channels(of)),
      channel_(static_cast<std::size_t>(channels_.count)),
      latest_class_(static_cast<std::size_t>(channels_.count)),
      message_(of.transfers.size(), -1) {
  MW_CHECK(times.executable.size() == program.executables.size() && times.transfer.size() == program.transfers.size(),
           "{} and {} times for {} executables and {} transfers", times.executable.size(), times.transfer.size(),
           program.executables.size(), program.transfers.size());
  MW_CHECK(options.steps >= 1, "{} steps", options.steps);
  MW_CHECK(options.folded == nullptr || (options.flows == nullptr && !options.controller),
           "devices that share links or an issuer are not alike");
  MW_CHECK(options.flows == nullptr || options.flows->transfer.size() == program.transfers.size(),
           "{} flows for {} transfers", options.flows->transfer.size(), program.transfers.size());
  recent_.fill(-1);
  made.graph.devices = static_cast<int>(program.devices.size());
  if (options.flows != nullptr) made.graph.links = options.flows->links;
  std::size_t instructions = 0;
  for (std::size_t d = 0; d < program.devices.size(); ++d)
    if (folded.representative[d].index() == d) instructions += program.devices[d].size();
  const std::size_t tasks =
      static_cast<std::size_t>(options.steps) * (instructions + (options.folded ? 0 : program.transfers.size()));
  made.graph.reserve(tasks, 2 * tasks);
  made.of.reserve(tasks);
}

StreamId ProgramTasks::add_stream(Stream::Kind kind, DeviceId device, DeviceId peer) {
  made.graph.streams.push_back({kind, device, peer});
  return StreamId(static_cast<int>(made.graph.streams.size()) - 1);
}

TaskClassId ProgramTasks::class_for(const TaskClass& wanted) {
  const std::int64_t mixed = wanted.duration.ps + 3 * wanted.memory_at_end + 5 * wanted.memory_at_begin;
  int& recent = recent_[static_cast<std::size_t>(mixed) % recent_.size()];
  if (recent >= 0 && Equal()(made.graph.classes[static_cast<std::size_t>(recent)], wanted)) return TaskClassId(recent);
  const auto [known, is_new] = classes_.try_emplace(wanted, static_cast<int>(made.graph.classes.size()));
  if (is_new) made.graph.classes.push_back(wanted);
  recent = known->second;
  return TaskClassId(recent);
}

TaskId ProgramTasks::add(TaskClassId task_class, StreamId stream, MicrobatchId microbatch,
                         const std::vector<TaskId>& after, const ProgramTask& of) {
  made.of.push_back(of);
  return made.graph.add(task_class, stream, microbatch, after);
}

void ProgramTasks::begin_step() { std::fill(message_.begin(), message_.end(), -1); }

std::optional<TaskId> ProgramTasks::send(int transfer, int instruction, const std::vector<TaskId>& after,
                                         std::int64_t memory_at_end) {
  const auto t = static_cast<std::size_t>(transfer);
  if (folded.message[t] != transfer) return std::nullopt;
  const Transfer& sent = program.transfers[t];
  const auto channel = static_cast<std::size_t>(channels_.of_transfer[t]);
  if (!channel_[channel]) channel_[channel] = add_stream(Stream::Kind::Channel, sent.source, sent.destination);
  TaskClass wanted{TaskKind::Message, program.buffers[sent.source_buffer.index()].stage, times.transfer[t]};
  wanted.memory_at_end = memory_at_end;
  if (options.flows != nullptr && options.flows->transfer[t].route != TaskClass::kNoRoute) {
    const SharedFlow& flow = options.flows->transfer[t];
    wanted.route = flow.route;
    wanted.latency = flow.latency;
    wanted.duration = flow.duration;
  }
  std::optional<TaskClassId>& latest = latest_class_[channel];
  if (!latest || !Equal()(made.graph.classes[latest->index()], wanted)) latest = class_for(wanted);
  const TaskId task =
      add(*latest, *channel_[channel], sent.microbatch, after, {sent.source.value, instruction, transfer, -1});
  message_[t] = task.value;
  return task;
}

std::optional<TaskId> ProgramTasks::message_of(int transfer) const {
  const int task = message_[static_cast<std::size_t>(folded.message[static_cast<std::size_t>(transfer)])];
  if (task < 0) return std::nullopt;
  return TaskId(task);
}

// --- the walk ---

ProgramWalk::ProgramWalk(ProgramTasks& tasks)
    : tasks_(tasks),
      members_(tasks.program.stages.size(), 0),
      arrived_(tasks.program.stages.size()),
      device_(tasks.program.devices.size()),
      first_waiting_(tasks.program.transfers.size(), -1) {
  for (const StageExecutable& executable : tasks_.program.executables) meets_.push_back(executable.has_collectives());
  for (std::size_t d = 0; d < device_.size(); ++d)
    if (tasks_.represents_itself(DeviceId(static_cast<int>(d)))) devices_.emplace_back(static_cast<int>(d));
  for (std::size_t s = 0; s < members_.size(); ++s)
    for (const DeviceId device : tasks_.program.stages[s].devices)
      members_[s] += static_cast<std::size_t>(tasks_.represents_itself(device));
}

void ProgramWalk::walk_step() {
  tasks_.begin_step();
  for (const DeviceId device : devices_) {
    device_[device.index()] = {};
    queue_.push_back(device);
  }
  while (!queue_.empty()) {
    const DeviceId device = queue_.front();
    queue_.pop_front();
    advance(device);
  }
  for (const DeviceId device : devices_) {
    const auto done = static_cast<std::size_t>(device_[device.index()].next);
    MW_CHECK(done == tasks_.program.devices[device.index()].size(),
             "device {} waits for ever at #{}: the program is not sound", device.value, done);
  }
  waiting_.clear();
}

void ProgramWalk::advance(DeviceId device) {
  const std::vector<Instruction>& instructions = tasks_.program.devices[device.index()];
  Device& state = device_[device.index()];
  while (static_cast<std::size_t>(state.next) < instructions.size()) {
    const AtInstruction place{device, state.next};
    const Instruction& instruction = tasks_.at(place);
    switch (instruction.kind) {
      case Instruction::Kind::Run:
        if (meets_[static_cast<std::size_t>(instruction.executable)]) {
          meet(place);
          return;
        }
        alone_.assign(1, place);
        run(alone_);
        ++state.next;
        queue_.push_back(device);
        return;
      case Instruction::Kind::Exchange:
        if (!state.posted) {
          post(place);
          notify(instruction);
          state.posted = true;
          if (!all_sent(device, instruction)) return;
        }
        arrive(place);
        state.posted = false;
        ++state.next;
        break;
      case Instruction::Kind::Free:
        free(place);
        ++state.next;
        break;
    }
  }
  end(device);
}

bool ProgramWalk::all_sent(DeviceId device, const Instruction& exchange) {
  int& missing = device_[device.index()].missing;
  missing = 0;
  for (const int t : exchange.receives) {
    if (tasks_.message_of(t)) continue;
    int& first = first_waiting_[static_cast<std::size_t>(tasks_.folded.message[static_cast<std::size_t>(t)])];
    waiting_.push_back({device, first});
    first = static_cast<int>(waiting_.size()) - 1;
    ++missing;
  }
  return missing == 0;
}

void ProgramWalk::notify(const Instruction& exchange) {
  for (const int t : exchange.sends) {
    int& first = first_waiting_[static_cast<std::size_t>(t)];
    for (; first >= 0; first = waiting_[static_cast<std::size_t>(first)].next) {
      const DeviceId device = waiting_[static_cast<std::size_t>(first)].device;
      if (--device_[device.index()].missing == 0) queue_.push_back(device);
    }
  }
}

void ProgramWalk::meet(const AtInstruction& place) {
  const Instruction& instruction = tasks_.at(place);
  const StageId stage = tasks_.executable_of(instruction).stage;
  std::vector<AtInstruction>& arrived = arrived_[stage.index()];
  arrived.push_back(place);
  if (arrived.size() < members_[stage.index()]) return;
  std::sort(arrived.begin(), arrived.end(),
            [](const AtInstruction& a, const AtInstruction& b) { return a.device < b.device; });
  for (const AtInstruction& member : arrived)
    MW_CHECK(tasks_.at(member).executable == instruction.executable, "device {} meets device {} in another executable",
             member.device.value, place.device.value);
  run(arrived);
  for (const AtInstruction& member : arrived) {
    ++device_[member.device.index()].next;
    queue_.push_back(member.device);
  }
  arrived.clear();
}

}  // namespace meshwright
