// SPDX-License-Identifier: Apache-2.0
// The same job for torchtitan 0.3.0 and the trees of August 2026 (b5bcd76c), whose configurations are Python functions.
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

// Why these cannot be told the job, as a sentence; "": they can.
[[nodiscard]] std::string why_no_python(const LaunchSetup& setup);

// plan.py, whose functions `plan` and, with the batch in tokens, `plan_in_tokens` return the job's configuration. Where
// torchtitan's tables lack the model's sizes, it changes what the user's own `plan_model` returns. REQUIRES:
// why_no_python(job.setup) is "".
[[nodiscard]] LaunchFile torchtitan_python(const LaunchJob& job, const Decoder& decoder, const TorchtitanParts& parts);

}  // namespace meshwright
