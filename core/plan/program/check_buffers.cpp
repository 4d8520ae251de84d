// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>

#include "core/base/indexed_vector.h"
#include "core/plan/program/program_walks.h"

namespace meshwright {

namespace {

using Kind = Instruction::Kind;

// Which buffers are live on one device, and how many bytes they take. Persistent buffers are always live.
class BufferWalk {
 public:
  BufferWalk(const Program& program, Findings& findings) : program_(program), findings_(findings) {
    std::vector<std::size_t> states(program.stages.size(), 0);  // [first stage of a rank] one per buffer and microbatch
    for (const Buffer& buffer : program.buffers) {
      std::size_t& of_rank = states[program.first_of_rank(buffer.stage).index()];
      size_.push_back(buffer.on_host ? Bytes(0.0) : buffer.local.bytes());
      first_state_.push_back(of_rank);
      of_rank += buffer.persistent ? 1 : static_cast<std::size_t>(program.microbatches);
    }
    for (const StageExecutable& executable : program.executables) uses_.push_back(uses_of(executable));
    std::size_t largest = 0;
    for (const std::size_t count : states) largest = std::max(largest, count);
    live_.assign(largest, false);
    coming_.assign(largest, 0);
    on_its_way_.assign(program.transfers.size(), false);
    received_.assign(program.buffers.size(), {});
  }

  Bytes peak_of(DeviceId device) {
    device_ = device;
    live_bytes_ = program_.persistent_bytes[device.index()];
    peak_ = live_bytes_;
    const std::vector<Instruction>& instructions = program_.devices[device.index()];
    for (index_ = 0; static_cast<std::size_t>(index_) < instructions.size(); ++index_) {
      const Instruction& instruction = instructions[static_cast<std::size_t>(index_)];
      switch (instruction.kind) {
        case Kind::Run:
          run(instruction);
          break;
        case Kind::Exchange:
          exchange(instruction);
          break;
        case Kind::Await:
          for (const int t : instruction.receives) await(t);
          break;
        case Kind::Free:
          for (const BufferId buffer : instruction.buffers) release(buffer, instruction.microbatch);
          break;
      }
    }
    report_not_awaited(instructions);
    report_leaks();
    return peak_;
  }

 private:
  struct Uses {
    std::vector<BufferId> reads, defines;  // not persistent
    std::vector<BufferId> kept;            // persistent
    Bytes peak_extra{0.0};
  };
  struct ReceivedBuffer {
    std::optional<int> at;  // index of the Exchange that defines the buffer
    std::optional<MicrobatchId> microbatch;
    std::int64_t elements = 0;
  };
  // A buffer of which the Exchange that defines it receives a part; others bring the rest.
  struct Part {
    std::vector<std::int64_t> offset, extent;
  };
  struct Incomplete {
    int at;  // index of that Exchange
    std::int64_t elements;
    std::vector<Part> parts = {};
  };

  // A buffer that the executable also reads is overwritten in place, not defined anew.
  Uses uses_of(const StageExecutable& executable) const {
    Uses uses;
    uses.peak_extra = executable.peak_extra;
    IndexedVector<BufferId, bool> met(program_.buffers.size(), false);
    const auto add = [&](std::vector<BufferId>& list, BufferId buffer) {
      if (!met[buffer]) (persistent(buffer) ? uses.kept : list).push_back(buffer);
      met[buffer] = true;
    };
    for (const StageExecutable::Slot& slot : executable.slots)
      if (slot.buffer && slot.input) add(uses.reads, *slot.buffer);
    for (const StageExecutable::Slot& slot : executable.slots)
      if (slot.buffer && slot.output) add(uses.defines, *slot.buffer);
    return uses;
  }

  std::size_t state_of(BufferId buffer, MicrobatchId microbatch) const {
    // A persistent buffer has one state for all microbatches.
    return first_state_[buffer] + (persistent(buffer) ? 0 : microbatch.index());
  }
  std::vector<bool>::reference live(BufferId buffer, MicrobatchId microbatch) {
    return live_[state_of(buffer, microbatch)];
  }
  const Transfer& transfer_of(int t) const { return program_.transfers[static_cast<std::size_t>(t)]; }
  bool persistent(BufferId buffer) const { return program_.buffers[buffer.index()].persistent; }
  std::string describe_buffer(BufferId buffer, MicrobatchId microbatch) const {
    return fmt::format("buffer '{}' of microbatch {}", program_.buffers[buffer.index()].name, microbatch.value);
  }

  void run(const Instruction& instruction) {
    const Uses& uses = uses_[instruction.executable];
    for (const BufferId buffer : uses.reads) {
      read(buffer, instruction.microbatch, "reads");
      expect_complete(buffer, instruction.microbatch);
    }
    // A persistent buffer is always live, but transfers into it may be on their way.
    if (on_their_way_ > 0)
      for (const BufferId buffer : uses.kept) has_come(buffer, instruction.microbatch, "uses");
    peak_ = std::max(peak_, live_bytes_ + uses.peak_extra);
    for (const BufferId buffer : uses.defines) define(buffer, instruction.microbatch);
  }

  void read(BufferId buffer, MicrobatchId microbatch, const char* verb) {
    if (!persistent(buffer) && !live(buffer, microbatch))
      findings_.add("device {} at #{} {} {}, which is not defined there", device_.value, index_, verb,
                    describe_buffer(buffer, microbatch));
    has_come(buffer, microbatch, verb);
  }

  void has_come(BufferId buffer, MicrobatchId microbatch, const char* verb) {
    if (coming_[state_of(buffer, microbatch)] > 0)
      findings_.add("device {} at #{} {} {}, which it has not awaited", device_.value, index_, verb,
                    describe_buffer(buffer, microbatch));
  }

  void define(BufferId buffer, MicrobatchId microbatch) {
    if (live(buffer, microbatch)) {
      findings_.add("device {} at #{} defines {} again while it is live", device_.value, index_,
                    describe_buffer(buffer, microbatch));
      return;
    }
    live(buffer, microbatch) = true;
    ++live_count_;
    live_bytes_ += size_[buffer];
    peak_ = std::max(peak_, live_bytes_);
  }

  void release(BufferId buffer, MicrobatchId microbatch) {
    if (persistent(buffer)) {
      findings_.add("device {} at #{} frees the persistent {}", device_.value, index_,
                    describe_buffer(buffer, microbatch));
    } else if (!live(buffer, microbatch)) {
      findings_.add("device {} at #{} frees {}, which is not live", device_.value, index_,
                    describe_buffer(buffer, microbatch));
    } else {
      has_come(buffer, microbatch, "frees");
      expect_complete(buffer, microbatch);
      live(buffer, microbatch) = false;
      --live_count_;
      live_bytes_ -= size_[buffer];
    }
  }

  void exchange(const Instruction& instruction) {
    for (const int t : instruction.sends) {
      const Transfer& transfer = transfer_of(t);
      read(transfer.source_buffer, transfer.microbatch, "sends");
      expect_part(t);
    }
    // The buffers that this Exchange defines: its receives have to fill each of them.
    for (const BufferId buffer : instruction.buffers) received_[buffer] = {index_, std::nullopt, 0};
    for (const int t : instruction.receives) receive(transfer_of(t));
    for (const BufferId buffer : instruction.buffers) {
      const ReceivedBuffer& received = received_[buffer];
      if (received.elements != elements_of(buffer)) {
        if (received.microbatch && received.elements < elements_of(buffer) && !persistent(buffer))
          note_parts(instruction, buffer);
        else
          report_incomplete(index_, buffer, received.elements);
      }
      received_[buffer].at.reset();
    }
    // An Exchange that does not wait leaves its receives on their way until their Await.
    if (instruction.waits) return;
    for (const int t : instruction.receives) {
      const Transfer& transfer = transfer_of(t);
      on_its_way_[t] = true;
      ++coming_[state_of(transfer.destination_buffer, transfer.microbatch)];
      ++on_their_way_;
    }
  }

  void await(int t) {
    if (!on_its_way_[t]) {
      findings_.add("device {} at #{} awaits {}, which is not on its way there", device_.value, index_,
                    describe_transfer(program_, t));
      return;
    }
    const Transfer& transfer = transfer_of(t);
    on_its_way_[t] = false;
    --coming_[state_of(transfer.destination_buffer, transfer.microbatch)];
    --on_their_way_;
  }

  void report_not_awaited(const std::vector<Instruction>& instructions) {
    for (const Instruction& instruction : instructions) {
      if (instruction.kind != Kind::Exchange || instruction.waits) continue;
      for (const int t : instruction.receives) {
        if (!on_its_way_[t]) continue;
        findings_.add("device {} never awaits {}", device_.value, describe_transfer(program_, t));
        // Nothing may be on its way when the next device begins.
        await(t);
      }
    }
  }

  void receive(const Transfer& transfer) {
    const BufferId buffer = transfer.destination_buffer;
    ReceivedBuffer& received = received_[buffer];
    // The buffer is there already: this receives a part of it, or adds to it.
    if (received.at != index_) {
      read(buffer, transfer.microbatch, "receives into");
      if (const auto found = incomplete_.find(state_of(buffer, transfer.microbatch)); found != incomplete_.end())
        add_part(found->second, transfer);
      return;
    }
    if (!received.microbatch) {
      received.microbatch = transfer.microbatch;
      if (!persistent(buffer)) define(buffer, transfer.microbatch);
    } else if (*received.microbatch != transfer.microbatch) {
      findings_.add("device {} at #{} defines buffer '{}' for two microbatches at once", device_.value, index_,
                    program_.buffers[buffer.index()].name);
    }
    // What is added defines no elements.
    if (transfer.accumulate) return;
    received.elements += elements_of(transfer.extent);
  }

  std::int64_t elements_of(BufferId buffer) const { return program_.buffers[buffer.index()].local.elements(); }
  static std::int64_t elements_of(const std::vector<std::int64_t>& extent) {
    std::int64_t elements = 1;
    for (const std::int64_t size : extent) elements *= size;
    return elements;
  }
  void report_incomplete(int at, BufferId buffer, std::int64_t elements) {
    findings_.add("device {} at #{} defines buffer '{}' from {} of its {} elements", device_.value, at,
                  program_.buffers[buffer.index()].name, elements, elements_of(buffer));
  }

  void note_parts(const Instruction& instruction, BufferId buffer) {
    const MicrobatchId microbatch = *received_[buffer].microbatch;
    Incomplete& parts = incomplete_[state_of(buffer, microbatch)] = {index_, 0};
    for (const int t : instruction.receives)
      if (transfer_of(t).destination_buffer == buffer) add_part(parts, transfer_of(t));
  }

  // No element of the parts comes twice: else, as many as there are might leave others out.
  void add_part(Incomplete& into, const Transfer& transfer) {
    for (const Part& part : into.parts)
      if (shared_with(part, transfer.destination_offset, transfer.extent) > 0)
        findings_.add("device {} at #{} receives a part of {} a second time", device_.value, index_,
                      describe_buffer(transfer.destination_buffer, transfer.microbatch));
    into.parts.push_back({transfer.destination_offset, transfer.extent});
    into.elements += elements_of(transfer.extent);
  }
  static std::int64_t shared_with(const Part& part, const std::vector<std::int64_t>& offset,
                                  const std::vector<std::int64_t>& extent) {
    std::int64_t elements = 1;
    for (std::size_t d = 0; d < extent.size(); ++d)
      elements *= std::max<std::int64_t>(
          0, std::min(part.offset[d] + part.extent[d], offset[d] + extent[d]) - std::max(part.offset[d], offset[d]));
    return elements;
  }

  void expect_complete(BufferId buffer, MicrobatchId microbatch) {
    if (incomplete_.empty() || persistent(buffer)) return;
    const auto found = incomplete_.find(state_of(buffer, microbatch));
    if (found == incomplete_.end()) return;
    if (found->second.elements != elements_of(buffer))
      report_incomplete(found->second.at, buffer, found->second.elements);
    incomplete_.erase(found);
  }

  // What is sent of an incomplete buffer has come.
  void expect_part(int t) {
    const Transfer& transfer = transfer_of(t);
    if (incomplete_.empty() || persistent(transfer.source_buffer)) return;
    const auto found = incomplete_.find(state_of(transfer.source_buffer, transfer.microbatch));
    if (found == incomplete_.end()) return;
    std::int64_t come = 0;
    for (const Part& part : found->second.parts) come += shared_with(part, transfer.source_offset, transfer.extent);
    if (come < elements_of(transfer.extent))
      findings_.add("device {} at #{} sends {}, of which {} of {} elements have come", device_.value, index_,
                    describe_transfer(program_, t), come, elements_of(transfer.extent));
  }

  void report_leaks() {
    // All microbatches of all buffers are looked at only where something leaks.
    if (live_count_ == 0) return;
    for (const Buffer& buffer : program_.buffers) {
      if (buffer.persistent || !program_.lies_on(buffer.stage, device_)) continue;
      for (int m = 0; m < program_.microbatches; ++m) {
        if (!live(buffer.id, MicrobatchId(m))) continue;
        findings_.add("device {} never frees {}", device_.value, describe_buffer(buffer.id, MicrobatchId(m)));
        expect_complete(buffer.id, MicrobatchId(m));
        live(buffer.id, MicrobatchId(m)) = false;
      }
    }
    live_count_ = 0;
  }

  const Program& program_;
  Findings& findings_;
  IndexedVector<BufferId, Bytes> size_;
  IndexedVector<BufferId, std::size_t> first_state_;  // where its microbatches, or it alone, begin in live_
  IndexedVector<int, Uses> uses_;                     // [executable]
  IndexedVector<BufferId, ReceivedBuffer> received_;
  IndexedVector<int, bool> on_its_way_;           // [transfer]
  std::map<std::size_t, Incomplete> incomplete_;  // by state_of; of one device, empty between devices
  std::vector<int> coming_;                       // as live_: transfers on their way into it
  std::vector<bool> live_;                        // of one device; all false between devices
  DeviceId device_{0};
  int index_ = 0;
  std::size_t live_count_ = 0, on_their_way_ = 0;
  Bytes live_bytes_{0.0}, peak_{0.0};
};

}  // namespace

std::vector<Bytes> check_buffers(const Program& program, Findings& findings) {
  BufferWalk walk(program, findings);
  std::vector<Bytes> peaks;
  for (std::size_t d = 0; d < program.devices.size(); ++d) peaks.push_back(walk.peak_of(DeviceId(static_cast<int>(d))));
  return peaks;
}

}  // namespace meshwright
