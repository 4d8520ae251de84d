// SPDX-License-Identifier: Apache-2.0
// The times of ops, collectives and devices in a recording of training steps (core/sharding/work_recording.h).
//
// Times come about as those of an imported recording do (nsight_export.h): work belongs to the innermost range with a
// name of ours around its launch; an occurrence of an op is one range on one device, its time that of the union of its
// kernels, memsets and copies; figures are medians over occurrences. Copies between devices that were launched in no
// such range are transfers within a host.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/sharding/work_recording.h"
#include "costmodel/recorded_work.h"

namespace meshwright {

struct RecordedSteps {
  RecordedTimes times;
  std::vector<TransferProfile> transfers;  // by size

  struct Work {
    std::int64_t count = 0;
    Seconds time{0.0};  // the sum of theirs
  };
  std::map<std::string, Work> of_no_range;  // by name of the kernel, or "copy", "clear"
  std::map<int, Seconds> busy;              // by device
};

// Throws InputError quoting a range that begins with "mw:" and names neither an op nor a collective, SystemError where
// activities were lost: ops would seem to take less than they do.
[[nodiscard]] RecordedSteps recorded_steps(const WorkRecording& recording);

}  // namespace meshwright
