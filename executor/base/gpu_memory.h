// SPDX-License-Identifier: Apache-2.0
// The memory of a GPU beside the tensors that a plan counts.
#pragma once

#include "core/base/units.h"

namespace meshwright {

// Of a logical device on a GPU.
struct GpuMemory {
  Bytes workspace{0.0};  // what its kernels and libraries hold beside its tensors
  Bytes in_use{0.0};     // on its GPU as the driver says: of all devices on it, of CUDA itself and of other programs
};

}  // namespace meshwright
