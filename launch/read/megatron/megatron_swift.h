// SPDX-License-Identifier: Apache-2.0
// ms-swift (26aee6f1) over Megatron-LM: `megatron sft` and `megatron pt`.
#pragma once

#include <string>

#include "launch/read/readers.h"

namespace meshwright {

// A model by its name, all of whose weights are trained; what is not given is as its MegatronArguments have it. Throws
// InputError where a part of the weights is trained.
void read_swift(ReadingJob& job);
// Flags that are ms-swift's own and change nothing of the plan.
[[nodiscard]] bool is_of_swift(const std::string& key);

}  // namespace meshwright
