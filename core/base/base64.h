// SPDX-License-Identifier: Apache-2.0
// Bytes as letters: base64 of RFC 4648, with padding.
#pragma once

#include <string>
#include <string_view>

namespace meshwright {

[[nodiscard]] std::string to_base64(std::string_view bytes);

}  // namespace meshwright
