// SPDX-License-Identifier: Apache-2.0
#include "simulator/program/program_tasks.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright {

// --- tasks ---

TaskKind kind_of(const StageExecutable& executable) {
  switch (executable.phase) {
    case Phase::Forward:
      return TaskKind::Forward;
    case Phase::Backward:
      if (executable.backward_part == Pass::BackwardInput) return TaskKind::BackwardInput;
      return executable.backward_part == Pass::BackwardWeight ? TaskKind::BackwardWeight : TaskKind::Backward;
    case Phase::Update:
      return TaskKind::Update;
  }
  throw InternalError("a phase without a kind of task");
}

std::size_t ProgramTasks::Hash::operator()(const TaskClass& key) const {
  std::uint64_t hash = 0;
  // The golden ratio in 64 bits spreads small numbers over all bits (D. Knuth, TAOCP 3, 6.4).
  const auto mix = [&](std::int64_t value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  };
  for (const std::int64_t value :
       {static_cast<std::int64_t>(key.kind), std::int64_t{key.stage.value}, key.duration.ps, std::int64_t{key.route},
        key.latency.ps, key.memory_at_begin, key.memory_at_end, static_cast<std::int64_t>(key.part_of)})
    mix(value);
  return static_cast<std::size_t>(hash);
}

bool ProgramTasks::Equal::operator()(const TaskClass& a, const TaskClass& b) const {
  return a.kind == b.kind && a.stage == b.stage && a.duration == b.duration && a.route == b.route &&
         a.latency == b.latency && a.memory_at_begin == b.memory_at_begin && a.memory_at_end == b.memory_at_end &&
         a.part_of == b.part_of;
}

ProgramTasks::ProgramTasks(const Program& of, const ProgramTimes& their_times, const ProgramGraphOptions& wanted)
    : program(of), times(their_times), options(wanted), channels_(find_channels(of)) {
  MW_CHECK(times.executable.size() == program.executables.size() && times.transfer.size() == program.transfers.size(),
           "{} and {} times for {} executables and {} transfers", times.executable.size(), times.transfer.size(),
           program.executables.size(), program.transfers.size());
  MW_CHECK(options.steps >= 1, "{} steps", options.steps);
  MW_CHECK(options.folded == nullptr || !options.controller, "devices that share an issuer are not alike");
  MW_CHECK(options.flows == nullptr || options.flows->transfer.size() == program.transfers.size(),
           "{} flows for {} transfers", options.flows->transfer.size(), program.transfers.size());
  MW_CHECK(options.flows == nullptr || options.flows->along.empty() ||
               options.flows->along.size() == program.transfers.size(),
           "{} leaders for {} transfers", options.flows->along.size(), program.transfers.size());
  channel_stream_.assign(static_cast<std::size_t>(channels_.count), -1);
  latest_class_.assign(static_cast<std::size_t>(channels_.count), -1);
  recent_.fill(-1);
  made.graph.devices = static_cast<int>(program.devices.size());
  if (options.flows != nullptr) made.graph.links = options.flows->links;
}

StreamId ProgramTasks::add_stream(Stream::Kind kind, DeviceId device, DeviceId peer) {
  made.graph.streams.push_back({kind, device, peer});
  return StreamId(static_cast<int>(made.graph.streams.size()) - 1);
}

TaskClassId ProgramTasks::class_for(const TaskClass& wanted) {
  // A small cache in front of the hash map: neighbouring tasks ask for few classes again and again.
  const std::int64_t mixed = wanted.duration.ps + 3 * wanted.memory_at_end + 5 * wanted.memory_at_begin;
  int& recent = recent_[static_cast<std::size_t>(mixed) % recent_.size()];
  if (recent >= 0 && Equal()(made.graph.classes[static_cast<std::size_t>(recent)], wanted)) return TaskClassId(recent);
  const auto [known, is_new] = classes_.try_emplace(wanted, static_cast<int>(made.graph.classes.size()));
  if (is_new) made.graph.classes.push_back(wanted);
  recent = known->second;
  return TaskClassId(recent);
}

ProgramTasks::Message ProgramTasks::message(int transfer, std::int64_t memory_at_end) {
  const auto t = static_cast<std::size_t>(transfer);
  const Transfer& sent = program.transfers[t];
  const auto channel = static_cast<std::size_t>(channels_.of_transfer[t]);
  int& stream = channel_stream_[channel];
  if (stream < 0) stream = add_stream(Stream::Kind::Channel, sent.source, sent.destination).value;
  TaskClass wanted{TaskKind::Message, program.buffers[sent.source_buffer.index()].stage, times.transfer[t]};
  wanted.memory_at_end = memory_at_end;
  // A copy on one device does not use the network.
  if (options.flows != nullptr && sent.source != sent.destination) {
    const SharedFlow& flow = options.flows->transfer[t];
    wanted.duration = flow.duration;
    wanted.route = flow.route;
    if (flow.route != TaskClass::kNoRoute) wanted.latency = flow.latency;
  }
  // Messages of one channel are alike as a rule.
  int& latest = latest_class_[channel];
  if (latest < 0 || !Equal()(made.graph.classes[static_cast<std::size_t>(latest)], wanted))
    latest = class_for(wanted).value;
  return {TaskClassId(latest), StreamId(stream), sent.microbatch};
}

// --- the walk ---

ProgramWalk::ProgramWalk(ProgramTasks& tasks)
    : tasks_(tasks),
      issuer_(tasks),
      members_(tasks.program.stages.size(), 0),
      arrived_(tasks.program.stages.size()),
      device_(tasks.program.devices.size()),
      queue_(tasks.program.devices.size(), DeviceId(0)) {
  for (const Buffer& buffer : tasks_.program.buffers)
    bytes_.push_back(buffer.persistent || buffer.on_host ? 0 : static_cast<std::int64_t>(buffer.local.bytes().si()));
  for (const StageExecutable& executable : tasks_.program.executables) meets_.push_back(executable.has_collectives());
  // Folded devices are left out: one of their class stands for them.
  for (int d = 0; d < device_.count(); ++d)
    if (tasks_.represents_itself(DeviceId(d))) devices_.emplace_back(d);
  for (int s = 0; s < members_.count(); ++s)
    for (const DeviceId device : tasks_.program.stages[StageId(s).index()].devices)
      members_[StageId(s)] += static_cast<std::size_t>(tasks_.represents_itself(device));
}

void ProgramWalk::build() {
  ProgramGraph& made = tasks_.made;
  made.first_of_step = {0};
  for (int step = 0; step < tasks_.options.steps; ++step) {
    issuer_.begin_step();
    walk_step();
    if (tasks_.options.controller) {
      std::vector<std::vector<TaskId>> last(device_.size());
      for (const DeviceId device : devices_) add_last(device, last[device.index()]);
      issuer_.end_step(step, last);
    }
    made.first_of_step.push_back(static_cast<std::int32_t>(made.graph.size()));
    end_step();
  }
}

// Reads the instruction lists, which are large, one after the other. The walk, which jumps between devices, then needs
// only the stops found here.
void ProgramWalk::find_stops() {
  stops_.clear();
  sends_.clear();
  receives_.clear();
  members_met_ = 0;
  std::size_t instructions = 1;
  for (const DeviceId device : devices_) instructions += tasks_.program.devices[device.index()].size();
  stops_.reserve(instructions);
  for (const DeviceId device : devices_) {
    const std::vector<Instruction>& list = tasks_.program.devices[device.index()];
    const int first = static_cast<int>(stops_.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      const Instruction& instruction = list[i];
      if (instruction.kind == Instruction::Kind::Free) continue;
      Stop stop{Stop::Kind::Exchange,
                static_cast<int>(i),
                instruction.executable,
                instruction.microbatch,
                static_cast<std::uint32_t>(sends_.size()),
                static_cast<std::uint32_t>(receives_.size())};
      if (instruction.kind == Instruction::Kind::Run) {
        const bool meets = meets_[static_cast<std::size_t>(instruction.executable)];
        stop.kind = meets ? Stop::Kind::Meeting : Stop::Kind::Run;
        members_met_ += static_cast<std::size_t>(meets);
      } else {
        if (instruction.kind == Instruction::Kind::Await) stop.kind = Stop::Kind::Await;
        for (const int t : instruction.sends)
          if (tasks_.message_for(t) == t) sends_.push_back(t);
        // An Exchange that does not wait leaves what it receives to an Await.
        if (instruction.waits)
          receives_.insert(receives_.end(), instruction.receives.begin(), instruction.receives.end());
      }
      stops_.push_back(stop);
    }
    device_[device] = {first, static_cast<int>(stops_.size()), 0, false};
    prepare(device, first);
  }
  // A stop after the last: stops_[i + 1] tells where the sends and receives of stop i end.
  stops_.push_back({Stop::Kind::Run, -1, -1, MicrobatchId(0), static_cast<std::uint32_t>(sends_.size()),
                    static_cast<std::uint32_t>(receives_.size())});
  prepared();
}

void ProgramWalk::walk_step() {
  find_stops();
  // [transfer] its task, or below kNotSent the head of the list of devices that wait for it (all_sent).
  message_.assign(tasks_.program.transfers.size(), kNotSent);
  waiting_.clear();
  for (const DeviceId device : devices_) enqueue(device);
  // A device is in the queue once at most: it enters again when nothing that it waits for is missing.
  while (queued_ > 0) {
    const DeviceId device = queue_[first_];
    first_ = first_ + 1 == queue_.size() ? 0 : first_ + 1;
    --queued_;
    advance(device);
  }
  for (const DeviceId device : devices_) {
    const Device& state = device_[device];
    MW_CHECK(state.next == state.end, "device {} waits for ever at #{}: the program is not sound", device.value,
             at({device, state.next}).instruction);
  }
}

void ProgramWalk::enqueue(DeviceId device) {
  const std::size_t place = first_ + queued_++;
  queue_[place < queue_.size() ? place : place - queue_.size()] = device;
}

void ProgramWalk::advance(DeviceId device) {
  Device& state = device_[device];
  while (state.next < state.end) {
    const AtStop place{device, state.next};
    switch (at(place).kind) {
      case Stop::Kind::Meeting:
        meet(place);
        return;
      case Stop::Kind::Run:
        run({&place, 1});
        ++state.next;
        // One Run a turn: the devices advance side by side.
        enqueue(device);
        return;
      case Stop::Kind::Exchange:
      case Stop::Kind::Await:
        if (!state.posted) {
          post(place);
          state.posted = true;
          // sent() puts the device into the queue when the last message has its task.
          if (!all_sent(place)) return;
        }
        arrive(place);
        state.posted = false;
        ++state.next;
        break;
    }
  }
  end(device);
}

bool ProgramWalk::all_sent(const AtStop& exchange) {
  int& missing = device_[exchange.device].missing;
  missing = 0;
  for (const int t : receives(exchange.stop)) {
    std::int32_t& message = message_[tasks_.message_for(t)];
    if (message >= 0) continue;
    // The list of devices that wait for a message begins at the place where its task will be written, below kNotSent.
    waiting_.push_back({exchange.device, message});
    message = kNotSent - static_cast<std::int32_t>(waiting_.size());
    ++missing;
  }
  return missing == 0;
}

std::optional<TaskId> ProgramWalk::goes_along_with(int transfer) const {
  const int leader = tasks_.leader_of(transfer);
  if (leader == transfer) return std::nullopt;
  MW_CHECK(message_[leader] >= 0, "transfer {} goes along with {}, which is not sent", transfer, leader);
  return message_of(leader);
}

void ProgramWalk::sent(int transfer, TaskId task) {
  std::int32_t& message = message_[transfer];
  for (std::int32_t next = message; next < kNotSent;) {
    const Waiting& waiting = waiting_[static_cast<std::size_t>(kNotSent - next) - 1];
    // The device that sends is not among those that wait.
    if (--device_[waiting.device].missing == 0) enqueue(waiting.device);
    next = waiting.next;
  }
  message = task.value;
}

void ProgramWalk::meet(const AtStop& place) {
  const int executable = at(place).executable;
  const StageId stage = tasks_.program.executables[static_cast<std::size_t>(executable)].stage;
  std::vector<AtStop>& arrived = arrived_[stage];
  arrived.push_back(place);
  if (arrived.size() < members_[stage]) return;
  // By device, not by arrival: the numbers of tasks must not depend on the order of the walk.
  std::sort(arrived.begin(), arrived.end(), [](const AtStop& a, const AtStop& b) { return a.device < b.device; });
  for (const AtStop& member : arrived)
    MW_CHECK(at(member).executable == executable, "device {} meets device {} in another executable",
             member.device.value, place.device.value);
  run(arrived);
  for (const AtStop& member : arrived) {
    ++device_[member.device].next;
    enqueue(member.device);
  }
  arrived.clear();
}

}  // namespace meshwright
