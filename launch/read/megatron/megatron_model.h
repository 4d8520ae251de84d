// SPDX-License-Identifier: Apache-2.0
// The model that Megatron-LM's flags describe.
#pragma once

#include "launch/read/readers.h"

namespace meshwright {

// REQUIRES: degrees are read, as tp pads the vocabulary. Throws InputError where a size is missing, or no model has all
// of them.
[[nodiscard]] ModelConfig megatron_model(ReadingJob& job);

}  // namespace meshwright
