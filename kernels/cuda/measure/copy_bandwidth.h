// SPDX-License-Identifier: Apache-2.0
// How fast a device moves its own memory: what kernels that compute little are held against.
#pragma once

#include <cstddef>

#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda {

// As cuda::copy within a device, by a kernel. REQUIRES: both are 16-byte aligned, and are the same or do not
// overlap.
void copy_by_kernel(Stream stream, const void* from, void* to, std::size_t size);

// Bytes read and written per second by copies of `size` bytes: the median of several, each long enough to be timed,
// once the clocks have risen. Allocates 2 x size; `size` should be a multiple of the L2 (facts_of) to leave it behind.
// REQUIRES: size > 0.
[[nodiscard]] double copy_bandwidth(std::size_t size);

}  // namespace meshwright::kernels::cuda
