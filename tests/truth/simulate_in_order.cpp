// SPDX-License-Identifier: Apache-2.0
// A longest path: in the canonical order an instruction comes after everything it waits for, so each is timed once.
//
// An Exchange completes only after its peers have posted theirs (rendezvous), which they do when their instruction
// before it has completed. So when an Exchange is reached, each sender's clock is final for its current Exchange, and
// its messages can be timed even where that Exchange itself completes later.
#include <algorithm>

#include "core/base/errors.h"
#include "tests/truth/instruction_engines.h"
#include "tests/truth/span_log.h"

namespace meshwright {

namespace {

using Kind = Instruction::Kind;

class OrderedPass {
 public:
  OrderedPass(const Program& program, const ProgramTimes& times)
      : program_(program),
        times_(times),
        channels_(find_channels(program)),
        channel_free_(static_cast<std::size_t>(channels_.count)),
        arrival_(program.transfers.size()),
        sent_(program.transfers.size(), false),
        devices_(program.devices.size()),
        meetings_(program.stages.size()),
        log_(program) {
    for (const StageExecutable& executable : program.executables) collective_.push_back(executable.has_collectives());
  }

  void complete(const InstructionRef& ref) {
    Device& device = devices_[ref.device.index()];
    MW_CHECK(ref.index == device.next, "the order has #{} of device {} where #{} is next", ref.index, ref.device.value,
             device.next);
    const Instruction& instruction = program_.devices[ref.device.index()][static_cast<std::size_t>(ref.index)];
    if (instruction.kind == Kind::Run) run(ref.device, instruction);
    if (instruction.kind == Kind::Exchange) post(ref.device);
    if (instruction.kind == Kind::Await || (instruction.kind == Kind::Exchange && instruction.waits))
      receive(ref.device, instruction);
    ++device.next;
    device.posted = false;
  }

  SimulationResult finish() { return log_.finish(); }

 private:
  struct Device {
    int next = 0;
    bool posted = false;  // the messages of its next instruction are timed
    SimTime clock;        // end of the instruction before
  };
  struct Meeting {  // of the devices of one stage in a Run with collectives
    std::size_t expected = 0;
    SimTime begin;
  };

  void run(DeviceId id, const Instruction& instruction) {
    Device& device = devices_[id.index()];
    const auto executable = static_cast<std::size_t>(instruction.executable);
    const SimTime begin = collective_[executable] ? meet(program_.executables[executable].stage) : device.clock;
    log_.wait(id, instruction, device.clock, begin);
    device.clock = begin + times_.executable[executable];
    log_.run(id, instruction, begin, device.clock);
  }

  // The devices of a stage complete such a Run one after the other in the order: the first finds all of them ready for
  // it.
  SimTime meet(StageId stage) {
    Meeting& meeting = meetings_[stage.index()];
    if (meeting.expected == 0) {
      meeting.begin = SimTime{0};
      for (const DeviceId member : program_.stages[stage.index()].devices)
        meeting.begin = std::max(meeting.begin, devices_[member.index()].clock);
      meeting.expected = program_.stages[stage.index()].devices.size();
    }
    --meeting.expected;
    return meeting.begin;
  }

  void receive(DeviceId id, const Instruction& instruction) {
    Device& device = devices_[id.index()];
    SimTime end = device.clock;
    for (const int t : instruction.receives) {
      const auto transfer = static_cast<std::size_t>(t);
      if (!sent_[transfer]) post(program_.transfers[transfer].source);
      MW_CHECK(sent_[transfer], "transfer {} is received before it is sent: the order is not the program's", t);
      end = std::max(end, arrival_[transfer]);
    }
    log_.wait(id, instruction, device.clock, end);
    device.clock = end;
  }

  void post(DeviceId id) {
    Device& device = devices_[id.index()];
    const std::vector<Instruction>& instructions = program_.devices[id.index()];
    if (device.posted || static_cast<std::size_t>(device.next) == instructions.size()) return;
    const Instruction& instruction = instructions[static_cast<std::size_t>(device.next)];
    if (instruction.kind != Kind::Exchange) return;
    device.posted = true;
    for (const int t : instruction.sends) {
      const auto transfer = static_cast<std::size_t>(t);
      SimTime& free = channel_free_[static_cast<std::size_t>(channels_.of_transfer[transfer])];
      const SimTime begin = std::max(device.clock, free);
      free = begin + times_.transfer[transfer];
      arrival_[transfer] = free;
      sent_[transfer] = true;
      log_.send(program_.transfers[transfer], begin, free);
    }
  }

  const Program& program_;
  const ProgramTimes& times_;
  Channels channels_;
  std::vector<bool> collective_;       // [executable]
  std::vector<SimTime> channel_free_;  // [channel] end of its latest message
  std::vector<SimTime> arrival_;       // [transfer] where sent_
  std::vector<bool> sent_;             // [transfer]
  std::vector<Device> devices_;        // [device]
  std::vector<Meeting> meetings_;      // [stage]
  SpanLog log_;
};

}  // namespace

SimulationResult simulate_in_order(const Program& program, const std::vector<InstructionRef>& order,
                                   const ProgramTimes& times) {
  MW_CHECK(times.executable.size() == program.executables.size() && times.transfer.size() == program.transfers.size(),
           "{} and {} times for {} executables and {} transfers", times.executable.size(), times.transfer.size(),
           program.executables.size(), program.transfers.size());
  std::size_t instructions = 0;
  for (const auto& list : program.devices) instructions += list.size();
  MW_CHECK(order.size() == instructions, "an order of {} instructions for a program of {}: it is not sound",
           order.size(), instructions);

  OrderedPass pass(program, times);
  for (const InstructionRef& ref : order) pass.complete(ref);
  return pass.finish();
}

}  // namespace meshwright
