// SPDX-License-Identifier: Apache-2.0
// Random numbers for kernels to work on.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/elementwise/random.h"

namespace meshwright::kernels {

// Uniform in low..high, the same for the same key.
template <class T>
std::vector<T> numbers(std::int64_t n, std::uint64_t key, double low = -1.0, double high = 1.0) {
  std::vector<T> values(static_cast<std::size_t>(n));
  fill_uniform(values.data(), n, key, 0, low, high);
  return values;
}

}  // namespace meshwright::kernels
