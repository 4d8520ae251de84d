// SPDX-License-Identifier: Apache-2.0
// Who uses the buffers of each device, so that what waits for what follows from what is read and written.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "simulator/program/program_tasks.h"

namespace meshwright {

class BufferUses {
 public:
  // The streams of a device, each of which runs one task at a time: waiting for the latest is waiting for all.
  enum Side : std::size_t { kCompute, kPasses, kGradients, kHost };
  static constexpr std::size_t kSides = 4;
  // A buffer on a device whose values of the buffer's stage are those from `first` on. A persistent buffer is the same
  // in every microbatch.
  struct At {
    std::size_t first;
    BufferId buffer;
    MicrobatchId microbatch;
  };

  explicit BufferUses(const ProgramTasks& tasks);
  // REQUIRES: the device is one of the stage's.
  [[nodiscard]] std::size_t first_of(DeviceId device, StageId stage) const;

  // Adds to `after` who wrote it and which messages brought it; for a writer, who has read and sent it since, too.
  void wait_to_read(const At& at, std::vector<TaskId>& after) const;
  void wait_to_write(const At& at, std::vector<TaskId>& after) const;

  void read(const At& at, Side side, TaskId task);
  void write(const At& at, TaskId task);
  void send(const At& at, TaskId message);
  void receive(const At& at, TaskId message);

 private:
  struct Value {
    std::int32_t wrote = -1;  // task
    // Since then:
    std::array<std::int32_t, kSides> read = {-1, -1, -1, -1};
    std::int32_t messages = -1;  // in messages_
  };
  struct Messages {
    std::vector<TaskId> in, out;
  };
  // Values of a stage: persistent ones, then those of each microbatch side by side, as a pass uses them.
  struct Place {
    std::size_t first, stride;  // by microbatch
  };
  [[nodiscard]] std::size_t index_of(const At& at) const {
    const Place& place = place_[at.buffer.index()];
    return at.first + place.first + place.stride * at.microbatch.index();
  }
  Messages& messages_of(Value& value);

  const ProgramTasks& tasks_;
  std::vector<Place> place_;                                               // [buffer]
  std::vector<std::vector<std::pair<StageId, std::size_t>>> first_value_;  // [device] of each of its stages
  std::vector<Value> values_;
  std::vector<Messages> messages_;
};

}  // namespace meshwright
