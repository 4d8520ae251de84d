// SPDX-License-Identifier: Apache-2.0
// No profiler of NVIDIA's sees what happens here.
#include "kernels/cuda/runtime/activity.h"
#include "kernels/cuda/runtime/ranges.h"

namespace meshwright::kernels::cuda {

void begin_range(const char* name) { note_begin_of_range(name); }
void end_range() { note_end_of_range(); }

}  // namespace meshwright::kernels::cuda
