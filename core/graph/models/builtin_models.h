// SPDX-License-Identifier: Apache-2.0
// The published models that are built in, by name and size.
#pragma once

#include <cstdint>
#include <span>

namespace meshwright {

struct BuiltInModel {
  const char* name;
  const char* sizes;       // "family:key=number,..."
  const char* also = "";   // other names of the same sizes, with spaces between them
  std::int64_t batch = 0;  // 0: the family's
};
// Those of builtin_models.cpp, then those of hub_models.cpp.
[[nodiscard]] std::span<const BuiltInModel> builtin_sizes();
[[nodiscard]] std::span<const BuiltInModel> hub_models();

}  // namespace meshwright
