// SPDX-License-Identifier: Apache-2.0
// Sums of products in layouts that are no matrix product, on the device: as kernels/cpu/products/gemm.h has them.
#pragma once

#include "kernels/cpu/products/gemm.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

// c = sum over the loops absent from c of a b. `loops` are of the host. T: float, double, Bf16, F16; sums are kept
// in Wide<T>, in an order that sizes and strides alone decide. Throws Failure where more than 12 loops are left once
// those that are walked like one are merged.
//
// One thread per element of c, or a warp where c has few and sums are long. Operands are read once per product: for
// layouts that cuBLASLt does not know, and for products too small to be worth a launch each.
template <class T>
void contract_strided(Stream stream, const LoopNest& loops, const T* a, const T* b, T* c);

}  // namespace meshwright::kernels::cuda
