// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/plan/program/program_walks.h"

namespace meshwright {

std::string describe_transfer(const Program& program, int transfer) {
  const Transfer& t = program.transfers[static_cast<std::size_t>(transfer)];
  return fmt::format("transfer {} ('{}' of microbatch {}, device {} to {})", transfer,
                     program.buffers[t.source_buffer.index()].name, t.microbatch.value, t.source.value,
                     t.destination.value);
}

namespace {

using Kind = Instruction::Kind;

bool within(int value, std::size_t size) { return 0 <= value && static_cast<std::size_t>(value) < size; }

class ReferenceCheck {
 public:
  ReferenceCheck(const Program& program, Findings& findings) : program_(program), findings_(findings) {}

  bool all_resolve() {
    // Each step uses as indices what the step before has found sound, so the first findings end the check.
    if (!check_devices()) return false;
    check_buffers_and_executables();
    if (!findings_.empty()) return false;
    for (std::size_t t = 0; t < program_.transfers.size(); ++t) check_transfer(static_cast<int>(t));
    if (!findings_.empty()) return false;
    sent_.assign(program_.transfers.size(), 0);
    received_ = awaited_ = sent_;
    for (std::size_t d = 0; d < program_.devices.size(); ++d)
      for (std::size_t i = 0; i < program_.devices[d].size(); ++i)
        check_instruction(DeviceId(static_cast<int>(d)), static_cast<int>(i), program_.devices[d][i]);
    if (!findings_.empty()) return false;
    return check_ends();
  }

 private:
  bool check_devices() {
    const std::size_t devices = program_.devices.size();
    if (program_.stage_of_device.size() != devices || program_.persistent_bytes.size() != devices) {
      findings_.add("{} devices have instructions, {} a stage and {} persistent bytes; there must be as many of each",
                    devices, program_.stage_of_device.size(), program_.persistent_bytes.size());
      return false;
    }
    if (program_.microbatches < 1) findings_.add("the program has {} microbatches", program_.microbatches);
    std::vector<bool> placed(devices, false);
    for (std::size_t s = 0; s < program_.stages.size(); ++s) {
      const std::vector<DeviceId>& listed = program_.stages[s].devices;
      // Stages of one rank have the same devices, which are checked with the first of them.
      if (is_on_devices_of_another(s)) continue;
      for (const DeviceId device : listed) {
        if (!within(device.value, devices) || program_.stage_of_device[device.index()].index() != s ||
            placed[device.index()])
          findings_.add("stage {} lists device {}, which is not a device of that stage alone", s, device.value);
        else
          placed[device.index()] = true;
      }
    }
    for (std::size_t d = 0; d < devices; ++d)
      if (!placed[d]) findings_.add("device {} belongs to no stage", d);
    for (std::size_t s = 0; s < program_.stages.size() && findings_.empty(); ++s)
      if (program_.stages[s].devices.empty()) findings_.add("stage {} has no devices", s);
    return findings_.empty();
  }

  // Whether stage `s` has just the devices of an earlier stage, which they name as theirs.
  bool is_on_devices_of_another(std::size_t s) const {
    const std::vector<DeviceId>& listed = program_.stages[s].devices;
    if (listed.empty() || !within(listed.front().value, program_.stage_of_device.size())) return false;
    const StageId first = program_.stage_of_device[listed.front().index()];
    return 0 <= first.value && first.index() < s && program_.stages[first.index()].devices == listed;
  }

  void check_buffers_and_executables() {
    for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
      const Buffer& buffer = program_.buffers[b];
      if (buffer.id.index() != b || !within(buffer.stage.value, program_.stages.size()))
        findings_.add("buffer {} ('{}') calls itself {} of stage {}", b, buffer.name, buffer.id.value,
                      buffer.stage.value);
    }
    for (std::size_t e = 0; e < program_.executables.size(); ++e) {
      const StageExecutable& executable = program_.executables[e];
      if (!within(executable.stage.value, program_.stages.size()))
        findings_.add("executable {} belongs to stage {} of {}", e, executable.stage.value, program_.stages.size());
      for (const StageExecutable::Slot& slot : executable.slots)
        if (slot.buffer && !is_buffer_of(*slot.buffer, executable.stage))
          findings_.add("executable {} uses buffer {}, which is not a buffer of stage {}", e, slot.buffer->value,
                        executable.stage.value);
    }
  }

  bool is_buffer_of(BufferId buffer, StageId stage) const {
    return within(buffer.value, program_.buffers.size()) && program_.buffers[buffer.index()].stage == stage;
  }

  bool is_buffer_on(BufferId buffer, DeviceId device) const {
    return within(buffer.value, program_.buffers.size()) &&
           program_.lies_on(program_.buffers[buffer.index()].stage, device);
  }

  bool is_tile(const LocalTensor& local, const std::vector<std::int64_t>& offset,
               const std::vector<std::int64_t>& extent) const {
    if (offset.size() != local.shape.size() || extent.size() != local.shape.size()) return false;
    for (std::size_t i = 0; i < extent.size(); ++i)
      if (offset[i] < 0 || extent[i] < 1 || offset[i] + extent[i] > local.shape[i]) return false;
    return true;
  }

  void check_transfer(int index) {
    const Transfer& t = program_.transfers[static_cast<std::size_t>(index)];
    // A transfer within a device goes from one buffer to another.
    const bool devices_exist = within(t.source.value, program_.devices.size()) &&
                               within(t.destination.value, program_.devices.size()) &&
                               (t.source != t.destination || t.source_buffer != t.destination_buffer);
    if (!devices_exist || !within(t.microbatch.value, static_cast<std::size_t>(program_.microbatches)) ||
        !is_buffer_on(t.source_buffer, t.source) || !is_buffer_on(t.destination_buffer, t.destination)) {
      findings_.add(
          "transfer {} goes from buffer {} of device {} to buffer {} of device {} in microbatch {}: not all of them "
          "exist",
          index, t.source_buffer.value, t.source.value, t.destination_buffer.value, t.destination.value,
          t.microbatch.value);
      return;
    }
    const LocalTensor& from = program_.buffers[t.source_buffer.index()].local;
    const LocalTensor& to = program_.buffers[t.destination_buffer.index()].local;
    if (!is_tile(from, t.source_offset, t.extent) || !is_tile(to, t.destination_offset, t.extent))
      findings_.add("{} reaches outside its buffers", describe_transfer(program_, index));
    else if (from.dtype != to.dtype)
      findings_.add("{} turns {} into {}", describe_transfer(program_, index), name_of(from.dtype), name_of(to.dtype));
  }

  void check_instruction(DeviceId device, int index, const Instruction& instruction) {
    const StageId stage = program_.stage_of_device[device.index()];
    const bool microbatch_exists =
        within(instruction.microbatch.value, static_cast<std::size_t>(program_.microbatches));
    if (instruction.kind != Kind::Exchange && !microbatch_exists)
      findings_.add("device {} at #{} names microbatch {} of {}", device.value, index, instruction.microbatch.value,
                    program_.microbatches);
    if (instruction.kind == Kind::Run &&
        (!within(instruction.executable, program_.executables.size()) ||
         !program_.lies_on(program_.executables[static_cast<std::size_t>(instruction.executable)].stage, device)))
      findings_.add("device {} at #{} runs executable {}, which is not one of stage {}", device.value, index,
                    instruction.executable, stage.value);
    for (const BufferId buffer : instruction.buffers)
      if (!is_buffer_on(buffer, device))
        findings_.add("device {} at #{} names buffer {}, which is not a buffer of stage {}", device.value, index,
                      buffer.value, stage.value);
    const bool awaits = instruction.kind == Kind::Await;
    for (const int t : instruction.sends) count_end(device, index, t, sent_, &Transfer::source, "sends");
    for (const int t : instruction.receives)
      count_end(device, index, t, awaits ? awaited_ : received_, &Transfer::destination,
                awaits ? "awaits" : "receives");
    for (const int t : instruction.sends) {
      if (!within(t, program_.transfers.size())) continue;  // said before
      const bool copies = program_.transfers[static_cast<std::size_t>(t)].destination == device;
      if (copies &&
          std::find(instruction.receives.begin(), instruction.receives.end(), t) == instruction.receives.end())
        findings_.add("device {} at #{} sends {} to itself, but does not receive it there", device.value, index,
                      describe_transfer(program_, t));
    }
  }

  void count_end(DeviceId device, int index, int transfer, std::vector<std::uint8_t>& ends, DeviceId Transfer::*owner,
                 const char* verb) {
    if (!within(transfer, program_.transfers.size()))
      findings_.add("device {} at #{} {} transfer {}, but there are {}", device.value, index, verb, transfer,
                    program_.transfers.size());
    else if (program_.transfers[static_cast<std::size_t>(transfer)].*owner != device)
      findings_.add("device {} at #{} {} {}", device.value, index, verb, describe_transfer(program_, transfer));
    else if (ends[static_cast<std::size_t>(transfer)]++ > 0)
      findings_.add("device {} at #{} {} {} a second time", device.value, index, verb,
                    describe_transfer(program_, transfer));
  }

  // A missing end is reported here by name; the meetings then show who waits for it.
  bool check_ends() {
    for (std::size_t t = 0; t < program_.transfers.size(); ++t) {
      if (sent_[t] == 0) findings_.add("{} is never sent", describe_transfer(program_, static_cast<int>(t)));
      if (received_[t] == 0) findings_.add("{} is never received", describe_transfer(program_, static_cast<int>(t)));
    }
    return true;
  }

  const Program& program_;
  Findings& findings_;
  std::vector<std::uint8_t> sent_, received_, awaited_;  // [transfer] times
};

}  // namespace

bool check_references(const Program& program, Findings& findings) {
  return ReferenceCheck(program, findings).all_resolve();
}

}  // namespace meshwright
