// SPDX-License-Identifier: Apache-2.0
// The writer of each framework: the files that tell it the job, without those of the launchers, and the script that
// starts it on one host. REQUIRES of all: the setup breaks no rule (launch/rules/launch_rules.h).
#pragma once

#include <vector>

#include "launch/write/launcher_files.h"

namespace meshwright {

struct WrittenJob {
  std::vector<LaunchFile> files = {};
  HostScript script = {};                     // without a command: what is written is for the user's own program
  std::vector<std::string> measure = {};      // how the predicted quantities are measured in the framework
  std::vector<std::string> differences = {};  // of what runs from what was planned
};

[[nodiscard]] WrittenJob write_megatron(const LaunchJob& job);
[[nodiscard]] WrittenJob write_megatron_bridge(const LaunchJob& job);
[[nodiscard]] WrittenJob write_torchtitan(const LaunchJob& job);
[[nodiscard]] WrittenJob write_maxtext(const LaunchJob& job);
[[nodiscard]] WrittenJob write_flagscale(const LaunchJob& job);
[[nodiscard]] WrittenJob write_deepspeed(const LaunchJob& job);
[[nodiscard]] WrittenJob write_fsdp2(const LaunchJob& job);
[[nodiscard]] WrittenJob write_accelerate(const LaunchJob& job);
[[nodiscard]] WrittenJob write_jax(const LaunchJob& job);
[[nodiscard]] WrittenJob write_alpa(const LaunchJob& job);
[[nodiscard]] WrittenJob write_nnscaler(const LaunchJob& job);

}  // namespace meshwright
