// SPDX-License-Identifier: Apache-2.0
// Patterns of the shell: "*", "?" and "[...]" as in names of files.
#pragma once

#include <string>

namespace meshwright {

[[nodiscard]] bool matches_glob(const std::string& pattern, const std::string& text);
// Without the shortest or longest part at its front or back that matches; the text itself where none does, or where it
// is longer than 4 KB.
[[nodiscard]] std::string without_match(const std::string& value, const std::string& pattern, bool front, bool longest);
// The first part, or each, that matches becomes `by`; of texts up to 4 KB.
[[nodiscard]] std::string replaced(const std::string& value, const std::string& pattern, const std::string& by,
                                   bool all);

}  // namespace meshwright
