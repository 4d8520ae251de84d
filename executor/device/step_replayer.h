// SPDX-License-Identifier: Apache-2.0
// Captures the work of one step of all devices, and replays it as a whole: work that is the same in every step is
// issued only once. Backend::make_replayer makes one if the backend can.
//
// Captured work keeps its addresses, so the memory it uses must stay allocated to the same values. Only the number of
// the step, and the contents of the host memory that feed() returns, differ from replay to replay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "executor/device/backend.h"

namespace meshwright {

// Each device's thread calls the same functions in the same order; all meet in capture() and in replay(). Devices are
// numbered from 0 on.
class StepReplayer {
 public:
  virtual ~StepReplayer() = default;

  // Captures the work that `issue` gives to `device`, its groups and its messages, without doing it; `issue` must not
  // wait for the device. REQUIRES: the devices are idle. Throws if the work cannot be captured: the run cannot go on.
  virtual void capture(int number, Device& device, const std::function<void()>& issue) = 0;
  // Within capture: host memory whose `size` bytes each replay copies to `to`. Write to it only while no replay runs.
  [[nodiscard]] virtual void* feed(Device& device, void* to, std::size_t size) = 0;

  // Queues the last captured work of all devices; `step` is the number of the step (OpMoment::step). Scalars are read
  // as in the capture (Device::read_later); `with_marks`, so are its marks (Device::time_of).
  virtual void replay(int number, Device& device, std::int64_t step, bool with_marks) = 0;

  // The last captured work: "a CUDA graph of 120 nodes".
  [[nodiscard]] virtual std::string description() const = 0;
};

}  // namespace meshwright
