// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4).
#pragma once

#include <string>
#include <string_view>

namespace meshwright {

// 32 bytes.
[[nodiscard]] std::string sha256(std::string_view bytes);

}  // namespace meshwright
