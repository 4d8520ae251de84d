// SPDX-License-Identifier: Apache-2.0
// Numbers and truth values as Python, YAML and the frameworks' argument parsers read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace meshwright {

// "4096", "10_000", "2e8", "1.0" where it is whole; nullopt: anything else, or beyond 10^15.
[[nodiscard]] std::optional<std::int64_t> whole_number(const std::string& text);
// "1e-5", "1.e-05", ".01", "9_765.5"; nullopt: anything else, or not finite.
[[nodiscard]] std::optional<double> real_number(const std::string& text);
// In decimal digits where it is a literal of another base, "0x1F", "0o17" or "-0b11", of up to 48 bits; otherwise as it
// is.
[[nodiscard]] std::string decimal_text(const std::string& text);
// true, True, yes, on, 1 and their opposites; nullopt: anything else.
[[nodiscard]] std::optional<bool> truth_value(const std::string& text);

}  // namespace meshwright
