// SPDX-License-Identifier: Apache-2.0
// Memory that an op's kernels on a GPU take for their own time, by formulas that need no CUDA. A build with CUDA asks
// the kernels themselves (kernels/cuda); tests hold both against each other.
#pragma once

#include <functional>

#include "core/base/units.h"
#include "executor/ops/op_kernels.h"

namespace meshwright {

// In which type a tensor of a type is stored.
using StoredType = std::function<DType(DType)>;

// Bytes at most, whichever of our kernels and of the libraries' algorithms runs. What cuBLASLt may use is not in it:
// that is the device's (kernels/cuda/products/products.h).
[[nodiscard]] Bytes gpu_workspace(const OpCallPlan& call, const StoredType& stored);

// Whether its kernels call cuBLASLt.
[[nodiscard]] bool multiplies_by_library(OpKind kind);

}  // namespace meshwright
