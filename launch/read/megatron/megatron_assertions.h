// SPDX-License-Identifier: Apache-2.0
// Pairs of flags that Megatron-LM asserts after its processes have started, beside what the degrees themselves break.
#pragma once

#include "launch/read/readers.h"

namespace meshwright {

// Says every such pair that the file breaks. REQUIRES: degrees, model, recomputation, precision and batch are read.
// Forks and older releases, which assert other things, are left alone.
void check_flags_together(ReadingJob& job);

}  // namespace meshwright
