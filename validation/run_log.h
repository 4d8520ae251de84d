// SPDX-License-Identifier: Apache-2.0
// The time of a step, as the log of a training run tells it.
#pragma once

#include <string>

#include "validation/published_runs.h"

namespace meshwright {

// The median of all steps but the first few, which warm up. Lines of Megatron-LM: "elapsed time per iteration (ms):
// 1234.5"; of torchtitan: "tps: 5,762", tokens per second and device, from which the step follows by the batch,
// sequence and devices of `run`. Throws InputError where the text has neither, naming `place`.
[[nodiscard]] Seconds step_of_log(const std::string& text, const PublishedRun& run, const std::string& place);

}  // namespace meshwright
