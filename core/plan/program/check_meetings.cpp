// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "core/base/indexed_vector.h"
#include "core/plan/program/program_walks.h"

namespace meshwright {

namespace {

using Kind = Instruction::Kind;

// Advances every device as far as its peers let it, with a list of devices that may be able to continue. Every Exchange
// waits for its peers here, even if an Await does so later: a program that ends under this rule always ends.
//
// Invariant: a device waits in at most one Exchange, so the unmatched ends on a channel belong to one Exchange of one
// of its two devices; they form a list through next_, and no end of the other side waits there.
class MeetingWalk {
 public:
  MeetingWalk(const Program& program, Findings& findings)
      : program_(program),
        findings_(findings),
        next_(program.transfers.size()),
        end_(program.transfers.size(), End::None),
        devices_(program.devices.size()),
        meetings_(program.stages.size()) {
    Channels channels = find_channels(program);
    waiting_.resize(static_cast<std::size_t>(channels.count));
    channel_ = IndexedVector<int, int>(std::move(channels.of_transfer));
    for (const StageExecutable& executable : program.executables) collective_.push_back(executable.has_collectives());
  }

  std::vector<InstructionRef> order() {
    std::size_t instructions = 0;
    for (const auto& list : program_.devices) instructions += list.size();
    order_.reserve(instructions);
    ready_.reserve(devices_.size());
    // The last one is taken first: device 0 begins, and the order is the same on every run.
    for (int d = devices_.count(); d-- > 0;) ready_.push_back(DeviceId(d));
    while (!ready_.empty()) {
      const DeviceId device = ready_.back();
      ready_.pop_back();
      advance(device);
    }
    if (order_.size() < instructions) report_deadlock();
    return std::move(order_);
  }

 private:
  enum class End : std::uint8_t { None, Send, Receive };
  struct Waiting {  // on one channel
    int first = 0, last = 0, count = 0;
    End end = End::None;
  };
  struct Device {
    int next = 0;         // its next instruction
    bool posted = false;  // that is an Exchange whose ends are all posted
    int unmatched = 0;    // ends of it
  };
  struct Meeting {  // of the devices of one stage
    int executable = 0;
    MicrobatchId microbatch{0};
    std::size_t arrived = 0;
  };

  const Transfer& transfer(int index) const { return program_.transfers[static_cast<std::size_t>(index)]; }
  const Instruction& head(DeviceId device) const {
    return program_.devices[device.index()][static_cast<std::size_t>(devices_[device].next)];
  }
  bool done(DeviceId device) const {
    return static_cast<std::size_t>(devices_[device].next) == program_.devices[device.index()].size();
  }

  void advance(DeviceId device) {
    while (!done(device)) {
      const Instruction& instruction = head(device);
      const bool meets = instruction.kind == Kind::Run && collective_[instruction.executable];
      if (meets) {
        if (!complete_run_together(device, instruction)) return;
        continue;
      }
      if (instruction.kind == Kind::Exchange && !all_matched(device, instruction)) return;
      complete(device);
    }
  }

  void complete(DeviceId device) {
    Device& state = devices_[device];
    order_.push_back({device, state.next++});
    state.posted = false;
  }

  bool all_matched(DeviceId device, const Instruction& exchange) {
    Device& state = devices_[device];
    if (!state.posted) {
      state.posted = true;
      // Copies within a device wait for no other device.
      for (const int t : exchange.sends)
        if (transfer(t).destination != device) post(t, End::Send, device, transfer(t).destination);
      for (const int t : exchange.receives)
        if (transfer(t).source != device) post(t, End::Receive, device, transfer(t).source);
    }
    return state.unmatched == 0;
  }

  void post(int index, End end, DeviceId device, DeviceId peer) {
    Waiting& waiting = waiting_[channel_[index]];
    if (waiting.count == 0 || waiting.end == end) {
      if (waiting.count == 0) {
        waiting.first = index;
      } else {
        next_[waiting.last] = index;
      }
      waiting.last = index;
      waiting.end = end;
      ++waiting.count;
      end_[index] = end;
      ++devices_[device].unmatched;
      return;
    }
    // The other side waits here. Messages of a channel pass in order, so its first end has to be of the same transfer.
    const int other = waiting.first;
    waiting.first = next_[other];
    --waiting.count;
    end_[other] = End::None;
    if (other != index) {
      const bool sends = end == End::Send;
      findings_.add("device {} at #{} {} {} where device {} at #{} {} {}", device.value, devices_[device].next,
                    sends ? "sends" : "receives", describe_transfer(program_, index), peer.value, devices_[peer].next,
                    sends ? "receives" : "sends", describe_transfer(program_, other));
    }
    if (--devices_[peer].unmatched == 0) ready_.push_back(peer);
  }

  // All devices of the stage complete the Run when the last of them arrives. One that stands at another Run can never
  // join.
  bool complete_run_together(DeviceId device, const Instruction& run) {
    const StageId stage = program_.executables[static_cast<std::size_t>(run.executable)].stage;
    const std::vector<DeviceId>& members = program_.stages[stage.index()].devices;
    Meeting& meeting = meetings_[stage];
    // The first device to arrive says which Run the others have to come to.
    if (meeting.arrived == 0) {
      meeting.executable = run.executable;
      meeting.microbatch = run.microbatch;
    }
    if (meeting.executable != run.executable || meeting.microbatch != run.microbatch) return false;
    if (++meeting.arrived < members.size()) return false;
    meeting.arrived = 0;
    for (const DeviceId member : members) {
      complete(member);
      if (member != device) ready_.push_back(member);
    }
    return true;
  }

  std::string describe_head(DeviceId device) const {
    const Instruction& instruction = head(device);
    const std::string at = fmt::format("device {} at #{}", device.value, devices_[device].next);
    if (instruction.kind == Kind::Run) {
      const StageExecutable& executable = program_.executables[static_cast<std::size_t>(instruction.executable)];
      return fmt::format("{} waits for stage {} to run {} of microbatch {}", at, executable.stage.value,
                         name_of(executable.phase), instruction.microbatch.value);
    }
    for (const int t : instruction.sends)
      if (end_[t] == End::Send) return fmt::format("{} waits to send to {}", at, transfer(t).destination.value);
    for (const int t : instruction.receives)
      if (end_[t] == End::Receive) return fmt::format("{} waits to receive from {}", at, transfer(t).source.value);
    return at;
  }

  void report_deadlock() {
    constexpr std::size_t kNamed = 8;
    std::string heads;
    std::size_t blocked = 0;
    for (int d = 0; d < devices_.count(); ++d) {
      const DeviceId device(d);
      if (done(device)) continue;
      if (++blocked <= kNamed) heads += (blocked == 1 ? "" : "; ") + describe_head(device);
    }
    if (blocked > kNamed) heads += fmt::format("; and {} more devices", blocked - kNamed);
    findings_.add("deadlock: {}", heads);
  }

  const Program& program_;
  Findings& findings_;
  IndexedVector<int, int> next_;  // [transfer] in its channel's list
  IndexedVector<int, End> end_;   // [transfer] which end of it waits
  IndexedVector<DeviceId, Device> devices_;
  IndexedVector<StageId, Meeting> meetings_;
  IndexedVector<int, int> channel_;      // [transfer]
  IndexedVector<int, Waiting> waiting_;  // [channel]
  IndexedVector<int, bool> collective_;  // [executable]
  std::vector<DeviceId> ready_;
  std::vector<InstructionRef> order_;
};

}  // namespace

std::vector<InstructionRef> check_meetings(const Program& program, Findings& findings) {
  return MeetingWalk(program, findings).order();
}

}  // namespace meshwright
