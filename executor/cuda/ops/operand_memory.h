// SPDX-License-Identifier: Apache-2.0
// Where operands and results of ops that run together lie: blocks of those that ran first may be those of later ones.
// Internal to executor/cuda.
#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/cuda/cuda_kernel_table.h"

namespace meshwright {

[[nodiscard]] inline std::size_t bytes_in(const CudaOperands& o, std::size_t i) {
  return static_cast<std::size_t>(o.elements(i) * size_of(o.input_types[i]));
}
[[nodiscard]] inline std::size_t bytes_out(const CudaOperands& o, std::size_t i = 0) {
  return static_cast<std::size_t>(o.out_elements(i) * size_of(o.output_types[i]));
}

[[nodiscard]] inline bool lie_apart(const void* x, std::size_t x_size, const void* y, std::size_t y_size) {
  const auto x_begin = reinterpret_cast<std::uintptr_t>(x), y_begin = reinterpret_cast<std::uintptr_t>(y);
  return x_begin + x_size <= y_begin || y_begin + y_size <= x_begin;
}

// The operand that an Add adds to what the op before it leaves in its other one.
[[nodiscard]] inline std::size_t added_operand(const CudaOperands& add, const void* left) {
  return add.inputs[0] == left ? 1 : 0;
}

}  // namespace meshwright
