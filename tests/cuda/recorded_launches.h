// SPDX-License-Identifier: Apache-2.0
// What a device launches, as a recording has it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/cuda/runtime/activity.h"

namespace meshwright::kernels::cuda {

struct Launches {
  std::size_t kernels = 0;
  std::vector<std::string> ranges;  // in which something was launched, in the order in which they were opened
};

// REQUIRES: can_record(); the device is done with all of it when `work` returns.
template <class Work>
Launches launches_of(Work work) {
  start_recording();
  work();
  const Recording recording = stop_recording();
  Launches found;
  std::vector<bool> used(recording.ranges.size(), false);
  for (const Activity& activity : recording.activities) {
    if (activity.kind == Activity::Kind::Kernel) ++found.kernels;
    if (activity.range) used[*activity.range] = true;
  }
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i]) found.ranges.push_back(recording.ranges[i].name);
  return found;
}

}  // namespace meshwright::kernels::cuda
