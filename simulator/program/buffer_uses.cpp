// SPDX-License-Identifier: Apache-2.0
#include "simulator/program/buffer_uses.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright {

BufferUses::BufferUses(const ProgramTasks& tasks) : tasks_(tasks), first_value_(tasks.program.devices.size()) {
  const Program& program = tasks.program;
  // The values of a stage on one device: its persistent buffers, then all others of microbatch 0, of microbatch 1, and
  // so on.
  std::vector<std::size_t> persistent(program.stages.size(), 0), others(program.stages.size(), 0);
  for (const Buffer& buffer : program.buffers) {
    std::size_t& next = (buffer.persistent ? persistent : others)[buffer.stage.index()];
    place_.push_back({next++, 0});
  }
  std::vector<std::size_t> values;
  for (std::size_t s = 0; s < program.stages.size(); ++s)
    values.push_back(persistent[s] + others[s] * static_cast<std::size_t>(program.microbatches));
  for (const Buffer& buffer : program.buffers) {
    if (buffer.persistent) continue;
    Place& place = place_[buffer.id.index()];
    place.first += persistent[buffer.stage.index()];
    place.stride = others[buffer.stage.index()];
  }
  std::size_t first = 0;
  for (std::size_t s = 0; s < program.stages.size(); ++s)
    for (const DeviceId device : program.stages[s].devices) {
      if (!tasks.represents_itself(device)) continue;
      first_value_[device.index()].emplace_back(static_cast<int>(s), first);
      first += values[s];
    }
  values_.resize(first);
}

std::size_t BufferUses::first_of(DeviceId device, StageId stage) const {
  const auto& stages = first_value_[device.index()];
  const auto first = std::find_if(stages.begin(), stages.end(), [&](const auto& own) { return own.first == stage; });
  MW_CHECK(first != stages.end(), "stage {} on device {}", stage.value, device.value);
  return first->second;
}

BufferUses::Messages& BufferUses::messages_of(Value& value) {
  // Few values travel: their lists are kept apart, so that a Value stays small.
  if (value.messages < 0) {
    value.messages = static_cast<std::int32_t>(messages_.size());
    messages_.emplace_back();
  }
  return messages_[static_cast<std::size_t>(value.messages)];
}

void BufferUses::wait_to_read(const At& at, std::vector<TaskId>& after) const {
  const Value& value = values_[index_of(at)];
  if (value.wrote >= 0) after.emplace_back(value.wrote);
  if (value.messages < 0) return;
  const std::vector<TaskId>& in = messages_[static_cast<std::size_t>(value.messages)].in;
  after.insert(after.end(), in.begin(), in.end());
}

void BufferUses::wait_to_write(const At& at, std::vector<TaskId>& after) const {
  wait_to_read(at, after);
  const Value& value = values_[index_of(at)];
  // One reader for each side: a stream runs its tasks in order, so that its latest reader stands for the earlier ones.
  for (const std::int32_t reader : value.read)
    if (reader >= 0) after.emplace_back(reader);
  if (value.messages < 0) return;
  const std::vector<TaskId>& out = messages_[static_cast<std::size_t>(value.messages)].out;
  after.insert(after.end(), out.begin(), out.end());
}

void BufferUses::read(const At& at, Side side, TaskId task) { values_[index_of(at)].read[side] = task.value; }

void BufferUses::write(const At& at, TaskId task) {
  Value& value = values_[index_of(at)];
  // The writer has waited for all of these: whoever waits for it waits for them.
  if (value.messages >= 0) messages_[static_cast<std::size_t>(value.messages)] = {};
  value.wrote = task.value;
  value.read.fill(-1);
}

void BufferUses::send(const At& at, TaskId message) { messages_of(values_[index_of(at)]).out.push_back(message); }

void BufferUses::receive(const At& at, TaskId message) {
  Messages& messages = messages_of(values_[index_of(at)]);
  // What came in the step before is of no interest to those who read this.
  if (!messages.in.empty() && messages.in.back().value < tasks_.made.first_of_step.back()) messages.in.clear();
  messages.in.push_back(message);
}

}  // namespace meshwright
