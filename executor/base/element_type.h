// SPDX-License-Identifier: Apache-2.0
// What a tensor's elements are while a program runs: every floating-point type becomes the precision of the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/errors.h"
#include "core/graph/graph.h"

namespace meshwright {

[[nodiscard]] inline DType computed_type(DType type, DType precision) { return type == DType::I32 ? type : precision; }

// Calls action(T{}) with T = float, double or int32: the elements of a tensor whose computed_type is `type`.
template <class Action>
decltype(auto) with_element_type(DType type, Action&& action) {
  switch (type) {
    case DType::F32:
      return action(float{});
    case DType::F64:
      return action(double{});
    case DType::I32:
      return action(std::int32_t{});
    case DType::BF16:
    case DType::F16:
      break;
  }
  throw InternalError(fmt::format("nothing is computed in {}", name_of(type)));
}

[[nodiscard]] inline std::size_t storage_size(std::int64_t elements, DType type, DType precision) {
  return static_cast<std::size_t>(elements * size_of(computed_type(type, precision)));
}

// Elements of a tensor in memory of the host, of any type.
[[nodiscard]] std::vector<double> numbers(const void* elements, DType type, std::int64_t count);
// The same elements rounded to another type.
void convert(const void* elements, DType from, std::int64_t count, DType to, void* out);
[[nodiscard]] std::vector<std::byte> converted(const void* elements, DType from, std::int64_t count, DType to);

}  // namespace meshwright
