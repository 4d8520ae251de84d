// SPDX-License-Identifier: Apache-2.0
// The tests of `[ ... ]` and `[[ ... ]]`: of texts and numbers, joined by and, or and not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/syntax/shell_words.h"

namespace meshwright {

// Yes, no, or not known without running the script.
using Truth = std::optional<bool>;
[[nodiscard]] Truth negated(Truth truth);

// `parts`: expanded words between the brackets. Files, and what holds an unresolved part, are not known.
[[nodiscard]] Truth condition_of(const std::vector<std::string>& parts, ShellWords& words);

}  // namespace meshwright
