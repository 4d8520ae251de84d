// SPDX-License-Identifier: Apache-2.0
// Captures what the devices of a run are asked for in one step, and does all of it again in one go, as often as it is
// asked to: what is the same in every step is then issued once. A backend that can do so makes one (Backend).
//
// What is captured keeps its addresses: the memory it uses must stay what it is. What differs from step to step is the
// number of the step, and what lies in the host memory that feed() gives.
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

  // What `issue` asks `device`, its groups and its messages for is captured, and not done; it must not wait for the
  // device. REQUIRES: the devices are idle. Throws where it cannot be captured: the run cannot go on.
  virtual void capture(int number, Device& device, const std::function<void()>& issue) = 0;
  // Within capture: host memory whose `size` bytes each replay brings to `to`. To be written while no replay runs.
  [[nodiscard]] virtual void* feed(Device& device, void* to, std::size_t size) = 0;

  // Queues what was captured last, for all devices; `step` is the number of the step (OpMoment::step). What was to be
  // read later is read, and, `with_marks`, the marks of the capture can be asked for, as if all had been asked for
  // now.
  virtual void replay(int number, Device& device, std::int64_t step, bool with_marks) = 0;

  // What was captured last: "a CUDA graph of 120 nodes".
  [[nodiscard]] virtual std::string description() const = 0;
};

}  // namespace meshwright
