// SPDX-License-Identifier: Apache-2.0
// The same job for torchtitan's trees of 2026, whose configurations are Python functions and count tokens.
#pragma once

#include <string>
#include <vector>

#include "launch/write/launch_job.h"

namespace meshwright {

// What the TOML file and the Python configuration say alike.
struct TorchtitanParts {
  std::string flavor;  // of llama3 ("70B"); "": torchtitan's tables lack the sizes
  std::string schedule;
  bool schedule_from_csv = false;
  std::vector<std::vector<std::string>> modules = {};  // [stage] names, with those of v0.2.2; empty: one stage
  bool compiled = false;
};

// Why those trees cannot be told the job, as a sentence; "": they can.
[[nodiscard]] std::string why_no_python(const LaunchSetup& setup);

// plan.py, whose function `plan` returns the job's configuration. Where torchtitan's tables lack the model's sizes, it
// changes what the user's own `plan_model` returns. REQUIRES: why_no_python(job.setup) is "".
[[nodiscard]] LaunchFile torchtitan_python(const LaunchJob& job, const Decoder& decoder, const TorchtitanParts& parts);

}  // namespace meshwright
