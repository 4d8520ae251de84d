// SPDX-License-Identifier: Apache-2.0
// All files of a launch folder.
#pragma once

#include <vector>

#include "launch/write/launch_job.h"

namespace meshwright {

// The framework's files, the launcher's, and a README.md with what is predicted and how to measure it. Throws
// InputError where the target cannot be told (launch/rules/launch_rules.h: all that is broken, in one sentence), and
// for a launcher other than torchrun where the framework starts its processes itself.
[[nodiscard]] std::vector<LaunchFile> launch_files(const LaunchJob& job);

}  // namespace meshwright
