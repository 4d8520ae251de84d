// SPDX-License-Identifier: Apache-2.0
// Flags of Megatron-LM that change nothing of a plan.
#pragma once

#include <string>

namespace meshwright {

// Data, logging, checkpoints, schedules of the learning rate, initialisation, choices of kernels that do the same work,
// and what is accepted and does nothing. `key`: without dashes in front, "log-interval".
[[nodiscard]] bool changes_no_plan(const std::string& key);

}  // namespace meshwright
