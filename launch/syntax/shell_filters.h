// SPDX-License-Identifier: Apache-2.0
// Programs between pipes that change text and nothing else, computed here and never started.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace meshwright {

// What `words` ({"tr", "A-Z", "a-z"}, {"sed", "s/-.*//"}, {"cut", "-d-", "-f2"}, {"grep", "-q", "x"}) make of `input`;
// nullopt for other programs, and for options and patterns beyond sets of characters, one substitution without groups,
// one field and the lines of one pattern.
[[nodiscard]] std::optional<std::string> filtered(const std::vector<std::string>& words, const std::string& input);

}  // namespace meshwright
