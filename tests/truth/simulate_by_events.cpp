// SPDX-License-Identifier: Apache-2.0
#include "core/base/errors.h"
#include "tests/truth/event_queue.h"
#include "tests/truth/instruction_engines.h"
#include "tests/truth/span_log.h"

namespace meshwright {

namespace {

using Kind = Instruction::Kind;

// An event is the end of a device's Run (its number) or the arrival of a message (number of devices + transfer).
class EventEngine {
 public:
  EventEngine(const Program& program, const ProgramTimes& times)
      : program_(program),
        times_(times),
        channels_(find_channels(program)),
        channel_free_(static_cast<std::size_t>(channels_.count)),
        message_(program.transfers.size(), Message::Expected),
        devices_(program.devices.size()),
        arrived_(program.stages.size(), 0),
        log_(program) {
    for (const StageExecutable& executable : program.executables) collective_.push_back(executable.has_collectives());
  }

  SimulationResult run() {
    const int devices = static_cast<int>(devices_.size());
    for (int d = 0; d < devices; ++d) advance(DeviceId(d));
    while (!queue_.empty()) {
      const Event event = queue_.pop();
      now_ = event.time;
      if (event.what < devices) {
        ++devices_[static_cast<std::size_t>(event.what)].next;
        advance(DeviceId(event.what));
      } else {
        arrive(event.what - devices);
      }
    }
    for (std::size_t d = 0; d < devices_.size(); ++d)
      MW_CHECK(devices_[d].next == program_.devices[d].size(),
               "device {} waits for ever at #{}: the program is not sound", d, devices_[d].next);
    return log_.finish();
  }

 private:
  enum class Message : std::uint8_t { Expected, Posted, Arrived };  // Posted: its receiver waits for it
  struct Device {
    std::size_t next = 0;   // its next or current instruction
    int missing = 0;        // messages that its Exchange still waits for
    SimTime waiting_since;  // in that Exchange, or for the other devices of its stage
  };

  // Performs instructions of the device at the time now_ until one of them takes time.
  void advance(DeviceId device) {
    const std::vector<Instruction>& instructions = program_.devices[device.index()];
    Device& state = devices_[device.index()];
    for (; state.next < instructions.size(); ++state.next) {
      const Instruction& instruction = instructions[state.next];
      if (instruction.kind == Kind::Run) return start(device, instruction);
      if (instruction.kind == Kind::Exchange)
        for (const int t : instruction.sends) send(static_cast<std::size_t>(t));
      if (waits(instruction) && !has_all(state, instruction)) return;
    }
  }

  void start(DeviceId device, const Instruction& run) {
    if (!collective_[static_cast<std::size_t>(run.executable)]) return occupy(device, run);
    devices_[device.index()].waiting_since = now_;
    const StageId stage = program_.executables[static_cast<std::size_t>(run.executable)].stage;
    const std::vector<DeviceId>& members = program_.stages[stage.index()].devices;
    if (++arrived_[stage.index()] < members.size()) return;
    arrived_[stage.index()] = 0;
    for (const DeviceId member : members) {
      const Device& state = devices_[member.index()];
      const Instruction& its_run = program_.devices[member.index()][state.next];
      MW_CHECK(its_run.executable == run.executable, "device {} meets device {} in another executable", member.value,
               device.value);
      log_.wait(member, its_run, state.waiting_since, now_);
      occupy(member, its_run);
    }
  }

  void occupy(DeviceId device, const Instruction& run) {
    const SimTime end = now_ + times_.executable[static_cast<std::size_t>(run.executable)];
    log_.run(device, run, now_, end);
    queue_.push(end, device.value);
  }

  static bool waits(const Instruction& instruction) {
    return instruction.kind == Kind::Await || (instruction.kind == Kind::Exchange && instruction.waits);
  }

  // Whether everything the instruction receives has arrived already.
  bool has_all(Device& state, const Instruction& instruction) {
    state.waiting_since = now_;
    state.missing = 0;
    for (const int t : instruction.receives) {
      Message& message = message_[static_cast<std::size_t>(t)];
      if (message == Message::Arrived) continue;
      message = Message::Posted;
      ++state.missing;
    }
    return state.missing == 0;
  }

  void send(std::size_t transfer) {
    SimTime& free = channel_free_[static_cast<std::size_t>(channels_.of_transfer[transfer])];
    const SimTime begin = std::max(now_, free);
    free = begin + times_.transfer[transfer];
    log_.send(program_.transfers[transfer], begin, free);
    queue_.push(free, static_cast<std::int32_t>(devices_.size() + transfer));
  }

  void arrive(int transfer) {
    Message& message = message_[static_cast<std::size_t>(transfer)];
    const bool awaited = message == Message::Posted;
    message = Message::Arrived;
    if (!awaited) return;
    const DeviceId device = program_.transfers[static_cast<std::size_t>(transfer)].destination;
    Device& state = devices_[device.index()];
    if (--state.missing > 0) return;
    log_.wait(device, program_.devices[device.index()][state.next], state.waiting_since, now_);
    ++state.next;
    advance(device);
  }

  const Program& program_;
  const ProgramTimes& times_;
  Channels channels_;
  std::vector<bool> collective_;       // [executable]
  std::vector<SimTime> channel_free_;  // [channel] end of its latest message
  std::vector<Message> message_;       // [transfer]
  std::vector<Device> devices_;        // [device]
  std::vector<std::size_t> arrived_;   // [stage] devices that stand at a Run with collectives
  SimTime now_{0};
  EventQueue queue_;
  SpanLog log_;
};

}  // namespace

SimulationResult simulate_by_events(const Program& program, const ProgramTimes& times) {
  MW_CHECK(times.executable.size() == program.executables.size() && times.transfer.size() == program.transfers.size(),
           "{} and {} times for {} executables and {} transfers", times.executable.size(), times.transfer.size(),
           program.executables.size(), program.transfers.size());
  return EventEngine(program, times).run();
}

}  // namespace meshwright
