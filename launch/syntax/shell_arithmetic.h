// SPDX-License-Identifier: Apache-2.0
// Arithmetic of the shell, "$((...))", in whole numbers of 64 bits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace meshwright {

using ShellLookup = std::function<std::optional<std::int64_t>(const std::string& name)>;

// As bash computes it, of names by `lookup`; nullopt: another form, beyond 64 bits, or a name that is not known.
[[nodiscard]] std::optional<std::int64_t> shell_arithmetic(const std::string& text, const ShellLookup& lookup);

}  // namespace meshwright
