// SPDX-License-Identifier: Apache-2.0
// How a step of Megatron-LM computes: what its backward makes again, in which types, and how tokens get to experts.
#pragma once

#include <cstdint>

#include "launch/read/readers.h"

namespace meshwright {

// `layers`: of the model.
void read_recompute(ReadingJob& job, std::int64_t layers);
void read_precision(ReadingJob& job);
void read_token_dispatch(ReadingJob& job);

}  // namespace meshwright
