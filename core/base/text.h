// SPDX-License-Identifier: Apache-2.0
// Small text helpers: splitting, joining, the nearest known name for a mistyped one, and numbers for people.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/units.h"

namespace meshwright {

[[nodiscard]] std::vector<std::string> split(std::string_view text, char separator);
[[nodiscard]] std::string join(const std::vector<std::string>& parts, std::string_view separator);

[[nodiscard]] std::string lower_case(std::string_view text);  // ASCII letters

// The known names nearest to `name` by edit distance, best first, at most three.
[[nodiscard]] std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& known);

// "unknown model 'gpt-2.7b'; the nearest are gpt-2.6b, gpt-6.7b. `meshwright models` lists all." ready to be thrown.
[[nodiscard]] std::string unknown_name(std::string_view what, std::string_view name,
                                       const std::vector<std::string>& known, std::string_view how_to_list);

// Reads a whole decimal integer; throws InputError naming `place` when the text is anything else or out of [low, high].
[[nodiscard]] long parse_integer(std::string_view text, std::string_view place, long low, long high);

[[nodiscard]] std::string human_bytes(Bytes bytes);     // "21.4 GiB"
[[nodiscard]] std::string human_seconds(Seconds time);  // "12.3 ms"

// Hash of a text that is the same on every platform and in every run (FNV-1a, 64 bits).
[[nodiscard]] std::uint64_t stable_hash(std::string_view text);

}  // namespace meshwright
