// SPDX-License-Identifier: Apache-2.0
// What the libraries behind kernels/cuda/products/products.h share when they choose algorithms. Internal to kernels.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cuda/products/products.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

constexpr int kTimedAlgorithms = 8;  // of a product, when the fastest is looked for

// "bf16 nt 16384x2048x8192 ld 8192 8192 2048 batch 2 apart 0 16 32 at 256 256 256": the transpositions of a and b
// (n, t), m x n x k, leading dimensions, batch and strides, and the powers of two that the addresses of a, b and c are
// multiples of.
[[nodiscard]] std::string product_key(const Product& product, const std::string& type, std::uint32_t a_alignment,
                                      std::uint32_t b_alignment, std::uint32_t c_alignment);

// "tf32" where floats may be rounded to it.
template <class T>
const char* product_type(bool tensor_float) {
  if constexpr (std::is_same_v<T, double>) return "f64";
  if constexpr (std::is_same_v<T, Bf16>) return "bf16";
  if constexpr (std::is_same_v<T, F16>) return "f16";
  return tensor_float ? "tf32" : "f32";
}

// The median time of each candidate in seconds. `seconds` runs one once; infinity: it does not run. All are run in
// turns, so that clocks that rise or fall meet all of them, after a first round that is not counted; there are five
// rounds, fewer where three take long.
[[nodiscard]] std::vector<double> median_seconds(std::size_t candidates,
                                                 const std::function<double(std::size_t candidate)>& seconds);

// Candidates come with the library's preference first: a later one must be faster by more than 1 %. REQUIRES: not
// empty.
[[nodiscard]] std::size_t fastest(const std::vector<double>& medians);

// Calls measure(timer) with the tuning's timer, or with one that is there meanwhile.
[[nodiscard]] std::vector<double> with_timer(const ProductTuning& tuning,
                                             const std::function<std::vector<double>(const ProductTimer&)>& measure);

// "00ff10" of bytes, and back; false: it is not `size` bytes in this form.
[[nodiscard]] std::string to_hex(const void* data, std::size_t size);
[[nodiscard]] bool from_hex(const std::string& text, void* data, std::size_t size);

}  // namespace meshwright::kernels::cuda
