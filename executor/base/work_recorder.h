// SPDX-License-Identifier: Apache-2.0
// Who sees what the devices of a Backend do.
#pragma once

#include <string>

#include "core/sharding/work_recording.h"

namespace meshwright {

class WorkRecorder {
 public:
  virtual ~WorkRecorder() = default;
  [[nodiscard]] virtual std::string describe() const = 0;  // what records, with its version
  // Records all work that begins from now on. A recording that was never stopped is discarded. Throws
  // SystemError where it cannot be.
  virtual void start() = 0;
  // REQUIRES: started, and every device is done.
  [[nodiscard]] virtual WorkRecording stop() = 0;
};

}  // namespace meshwright
