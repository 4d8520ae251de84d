// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/ranges.h"

#include <nvtx3/nvToolsExt.h>

namespace meshwright::kernels::cuda {

void begin_range(const char* name) { nvtxRangePushA(name); }
void end_range() { nvtxRangePop(); }

}  // namespace meshwright::kernels::cuda
