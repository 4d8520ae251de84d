// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/runtime/ranges.h"

#include <nvtx3/nvToolsExt.h>

#include "kernels/cuda/runtime/activity.h"

namespace meshwright::kernels::cuda {

void begin_range(const char* name) {
  nvtxRangePushA(name);
  note_begin_of_range(name);
}
void end_range() {
  note_end_of_range();
  nvtxRangePop();
}

}  // namespace meshwright::kernels::cuda
