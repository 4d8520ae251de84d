// SPDX-License-Identifier: Apache-2.0
// Where the quoted and bracketed parts of a script end, before anything is parsed or expanded.
#pragma once

#include <string>

namespace meshwright {

[[nodiscard]] bool is_shell_blank(char c);
[[nodiscard]] bool ends_word_at(char c);  // '\0': the end of the text

// Moves `at` behind the quoted or bracketed part that begins there ('...', "...", `...`, $(...), ${...}, $((...))), or
// behind one character. Returns false where the part has no end.
[[nodiscard]] bool skip_part(const std::string& text, std::size_t& at, int depth = 0);
// Behind the end of a bracketed part, in which other parts may stand; `at` is behind its `open`.
[[nodiscard]] bool skip_bracket(const std::string& text, std::size_t& at, char open, char close, int depth);

// Behind a "<PATH TO DATA>" or "<your_path>" that stands for what the reader of a script is to fill in, and begins at
// `at`; `at` itself where none does. bash would read from a file, and write to the next word.
[[nodiscard]] std::size_t placeholder_end(const std::string& text, std::size_t at);

}  // namespace meshwright
