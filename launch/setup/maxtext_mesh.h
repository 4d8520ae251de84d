// SPDX-License-Identifier: Apache-2.0
// The axes of MaxText's mesh, within the hosts and between them.
#pragma once

#include <vector>

#include "launch/setup/launch_setup.h"

namespace meshwright {

struct MaxtextAxis {
  const char* name;  // "tensor", of ici_tensor_parallelism and dcn_tensor_parallelism
  int within = 1, between = 1;
};

// Every axis lies within the hosts as far as their devices reach, those that talk most first; the rest is between them.
[[nodiscard]] std::vector<MaxtextAxis> maxtext_axes(const LaunchSetup& setup);

}  // namespace meshwright
