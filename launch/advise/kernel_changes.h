// SPDX-License-Identifier: Apache-2.0
// What a job's software could do otherwise with the same plan: attend by a fused kernel, take the loss in chunks, move
// tokens to experts in another way.
#pragma once

#include <string>
#include <vector>

#include "launch/setup/launch_setup.h"

namespace meshwright {

struct KernelChange {
  std::string to;  // as the framework writes it: "attn_implementation: flash_attention_2"
  LaunchSetup setup;
};

// The file's framework has a setting for each, and the job does without it.
[[nodiscard]] std::vector<KernelChange> kernel_changes(const LaunchSetup& now);

}  // namespace meshwright
