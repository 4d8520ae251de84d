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

// What files and options hold is printed by people's terminals: it may neither steer one nor end a line. Control
// characters, line breaks, marks that turn the direction of writing, and bytes that are not UTF-8 become "\x1b" or
// "\u{202e}"; all else stays.
[[nodiscard]] std::string printable(std::string_view text);
// The same for a document of our own: its line breaks stay.
[[nodiscard]] std::string printable_lines(std::string_view text);

[[nodiscard]] bool is_utf8(std::string_view text);
// Bytes that are not UTF-8 become "\xff"; all else stays.
[[nodiscard]] std::string escaped_bytes(std::string_view text);

// The beginning of a text for an error's sentence, whole characters of at most `most` bytes, and "..." when it goes on.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t most = 40);

// Throws InputError unless `name`, which reports show, is printable as it is.
void require_printable(std::string_view name, std::string_view place);

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
