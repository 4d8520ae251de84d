// SPDX-License-Identifier: Apache-2.0
// Dropout on the device, by the mask of kernels/cpu/elementwise/dropout.h: which elements are kept is the same to the
// bit.
//
// T: float, double, Bf16, F16. One read, one write; the mask is computed, 16 bytes of elements per thread.
#pragma once

#include <cstdint>

#include "kernels/cpu/elementwise/dropout.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

// `part` is of the host and is not kept. out may be x. REQUIRES: at most 16 dimensions are left when those that lie in
// one piece count as one; throws Failure. `step_on_device`: where it says which step it is; null: the mask does.
template <class T>
void dropout(Stream stream, const T* x, T* out, Part part, DropoutMask mask,
             const std::int64_t* step_on_device = nullptr);

}  // namespace meshwright::kernels::cuda
