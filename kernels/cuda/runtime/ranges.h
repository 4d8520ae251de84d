// SPDX-License-Identifier: Apache-2.0
// Names for what the calling thread launches, in the recordings of NVIDIA's profilers (NVTX) and in our own
// (kernels/cuda/runtime/activity.h). They cost next to nothing where nobody records.
#pragma once

namespace meshwright::kernels::cuda {

void begin_range(const char* name);  // inside the one that is open, if any
void end_range();

}  // namespace meshwright::kernels::cuda
