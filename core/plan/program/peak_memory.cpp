// SPDX-License-Identifier: Apache-2.0
#include "core/plan/program/peak_memory.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright {

namespace {

using InstructionKind = Instruction::Kind;

// The buffers that are live on one device, as its instructions make and free them.
class LiveBuffers {
 public:
  LiveBuffers(const Program& program, DeviceId device)
      : program_(program), count_(program.buffers.size(), 0), bytes_(program.persistent_bytes[device.index()]) {}

  // Calls visit(bytes at the most, whether these are within the Run) for what the instruction needs, then does it.
  template <class Visit>
  void apply(const Instruction& instruction, const Visit& visit) {
    switch (instruction.kind) {
      case InstructionKind::Run: {
        const StageExecutable& executable = program_.executables[static_cast<std::size_t>(instruction.executable)];
        visit(bytes_ + executable.peak_extra, true);
        for (const BufferId buffer : defined_by(executable)) add(buffer, 1);
        break;
      }
      case InstructionKind::Exchange:
        for (const BufferId buffer : instruction.buffers)
          if (!program_.buffers[buffer.index()].persistent) add(buffer, 1);
        break;
      case InstructionKind::Free:
        for (const BufferId buffer : instruction.buffers) add(buffer, -1);
        break;
      case InstructionKind::Await:
        break;
    }
    visit(bytes_, false);
  }
  [[nodiscard]] int count(BufferId buffer) const { return count_[buffer.index()]; }

 private:
  // A buffer that the executable also reads is overwritten in place.
  std::vector<BufferId> defined_by(const StageExecutable& executable) const {
    std::vector<BufferId> read, defined;
    const auto has = [](const std::vector<BufferId>& list, BufferId buffer) {
      return std::find(list.begin(), list.end(), buffer) != list.end();
    };
    for (const StageExecutable::Slot& slot : executable.slots)
      if (slot.buffer && slot.input) read.push_back(*slot.buffer);
    for (const StageExecutable::Slot& slot : executable.slots)
      if (slot.buffer && slot.output && !program_.buffers[slot.buffer->index()].persistent &&
          !has(read, *slot.buffer) && !has(defined, *slot.buffer))
        defined.push_back(*slot.buffer);
    return defined;
  }
  void add(BufferId buffer, int times) {
    if (program_.buffers[buffer.index()].on_host) return;
    count_[buffer.index()] += times;
    bytes_ += static_cast<double>(times) * program_.buffers[buffer.index()].local.bytes();
  }

  const Program& program_;
  std::vector<int> count_;  // [buffer] of microbatches; 0 of persistent ones
  Bytes bytes_;
};

// Where the peak is first reached.
struct Place {
  Bytes peak{0.0};
  int instruction = -1;
  bool in_run = false;
};

// [slot] whether it takes memory of its own when the executable holds most (executable_lifetimes.cpp counts the same).
std::vector<bool> slots_at_peak(const StageExecutable& executable) {
  const std::size_t slots = executable.slots.size();
  std::vector<bool> made(slots, false), live(slots, false), allocated(slots, false), at_peak;
  for (const LocalOp& op : executable.ops)
    for (const int s : op.outputs) made[static_cast<std::size_t>(s)] = true;
  const auto temporary = [&](std::size_t s) { return !executable.slots[s].buffer && !executable.slots[s].alias_of; };
  Bytes bytes(0.0), peak(0.0);
  for (std::size_t s = 0; s < slots; ++s) {
    if (!temporary(s) || made[s]) continue;
    live[s] = true;
    bytes += executable.slots[s].local.bytes();
  }
  at_peak = live, peak = bytes;
  for (std::size_t o = 0; o < executable.ops.size(); ++o) {
    for (const int output : executable.ops[o].outputs) {
      const auto s = static_cast<std::size_t>(output);
      const StageExecutable::Slot& result = executable.slots[s];
      if (result.input || result.alias_of || result.on_host || allocated[s]) continue;
      allocated[s] = live[s] = true;
      bytes += result.local.bytes();
    }
    if (peak < bytes) at_peak = live, peak = bytes;
    for (std::size_t s = 0; s < slots; ++s) {
      if (!temporary(s) || !live[s] || executable.slots[s].last_use != static_cast<int>(o)) continue;
      live[s] = false;
      bytes -= executable.slots[s].local.bytes();
    }
  }
  MW_CHECK(peak == executable.peak_extra, "slots of {} B are live at a peak of {} B", peak.si(),
           executable.peak_extra.si());
  return at_peak;
}

void add_slots(const StageExecutable& executable, PeakMemory& memory) {
  const std::vector<bool> at_peak = slots_at_peak(executable);
  for (std::size_t s = 0; s < at_peak.size(); ++s) {
    const StageExecutable::Slot& slot = executable.slots[s];
    if (at_peak[s])
      memory.parts.push_back(
          {MemoryPart::Kind::Temporary, executable.stage, slot.local.tensor, "", slot.local.bytes(), 1});
  }
}

}  // namespace

PeakMemory peak_memory(const Program& program, DeviceId device) {
  const std::vector<Instruction>& list = program.devices[device.index()];
  Place place{program.persistent_bytes[device.index()]};
  LiveBuffers all(program, device);
  for (std::size_t i = 0; i < list.size(); ++i)
    all.apply(list[i], [&](Bytes bytes, bool in_run) {
      if (place.peak < bytes) place = {bytes, static_cast<int>(i), in_run};
    });
  // Once more, up to there. A Run's own results are not live before it.
  LiveBuffers there(program, device);
  for (int i = 0; i < place.instruction + (place.in_run ? 0 : 1); ++i)
    there.apply(list[static_cast<std::size_t>(i)], [](Bytes, bool) {});
  PeakMemory memory{place.peak, place.instruction, {}};
  for (const Buffer& buffer : program.buffers) {
    if (!program.lies_on(buffer.stage, device)) continue;
    const auto kind = buffer.persistent ? MemoryPart::Kind::Persistent : MemoryPart::Kind::Kept;
    const int always = buffer.on_host ? 0 : 1;
    memory.parts.push_back({kind, buffer.stage, buffer.local.tensor, buffer.name, buffer.local.bytes(),
                            buffer.persistent ? always : there.count(buffer.id)});
  }
  if (place.in_run) {
    const Instruction& run = list[static_cast<std::size_t>(place.instruction)];
    add_slots(program.executables[static_cast<std::size_t>(run.executable)], memory);
  }
  return memory;
}

}  // namespace meshwright
