// SPDX-License-Identifier: Apache-2.0
#include "launch/write/script.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/text.h"

namespace meshwright {

std::string commented(const std::vector<std::string>& lines, const std::string& mark) {
  std::string text;
  for (const std::string& line : lines) {
    std::string row = mark + line;
    // A name from a file may hold anything; a comment is one line.
    std::replace_if(
        row.begin(), row.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
    while (!row.empty() && row.back() == ' ') row.pop_back();
    text += row + "\n";
  }
  return text;
}

std::string shell_word(const std::string& text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string("_-./:=,+@%").find(c) != std::string::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return text;
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

std::string indented(const std::string& text, int columns) {
  std::string made;
  for (const std::string& line : split(text.ends_with('\n') ? text.substr(0, text.size() - 1) : text, '\n'))
    made += line.empty() ? "\n" : std::string(static_cast<std::size_t>(columns), ' ') + line + "\n";
  return made;
}

std::string bash_arrays(const std::vector<FlagGroup>& groups) {
  std::string text;
  for (const FlagGroup& group : groups) {
    if (group.flags.empty()) continue;
    if (!group.comment.empty()) text += "# " + group.comment + "\n";
    text += group.array + "=(\n";
    for (const auto& [flag, value] : group.flags)
      text += "  " + flag + (value.empty() ? "" : " " + shell_word(value)) + "\n";
    text += ")\n\n";
  }
  return text;
}

std::string expanded(const std::vector<FlagGroup>& groups) {
  std::string text;
  for (const FlagGroup& group : groups)
    if (!group.flags.empty()) text += fmt::format(" \\\n  \"${{{}[@]}}\"", group.array);
  return text;
}

std::string decimal(double value) {
  std::string text = fmt::format("{}", value);
  // YAML takes 1e-05 for a text.
  const std::size_t exponent = text.find('e');
  if (text.find_first_of(".n") == std::string::npos) text.insert(std::min(exponent, text.size()), ".0");
  return text;
}

}  // namespace meshwright
