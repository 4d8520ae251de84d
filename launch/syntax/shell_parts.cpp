// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/shell_parts.h"

#include <algorithm>
#include <cctype>

#include "launch/syntax/config_value.h"

namespace meshwright {

bool is_shell_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool ends_word_at(char c) {
  return is_shell_blank(c) || c == '\n' || c == ';' || c == '&' || c == '|' || c == '<' || c == '>' || c == '(' ||
         c == ')' || c == '\0';
}

bool skip_bracket(const std::string& text, std::size_t& at, char open, char close, int depth) {
  int level = 1;
  while (at < text.size()) {
    if (text[at] == close && --level == 0) {
      ++at;
      return true;
    }
    if (text[at] == close) {
      ++at;
      continue;
    }
    if (text[at] == open) {
      ++level;
      ++at;
      continue;
    }
    if (!skip_part(text, at, depth + 1)) return false;
  }
  return false;
}

bool skip_part(const std::string& text, std::size_t& at, int depth) {
  if (depth > kMaxLaunchDepth) return false;
  const char c = text[at];
  if (c == '\\') {
    at = std::min(at + 2, text.size());
    return true;
  }
  if (c == '\'') {
    const std::size_t end = text.find('\'', at + 1);
    at = end == std::string::npos ? text.size() : end + 1;
    return end != std::string::npos;
  }
  if (c == '`') {
    for (++at; at < text.size() && text[at] != '`'; ++at)
      if (text[at] == '\\') ++at;
    if (at >= text.size()) return false;
    ++at;
    return true;
  }
  if (c == '"') {
    for (++at; at < text.size() && text[at] != '"';) {
      if (text[at] == '\'') {
        ++at;
        continue;
      }
      if (!skip_part(text, at, depth + 1)) return false;
    }
    if (at >= text.size()) return false;
    ++at;
    return true;
  }
  if (c == '$' && at + 1 < text.size() && (text[at + 1] == '(' || text[at + 1] == '{' || text[at + 1] == '[')) {
    const char open = text[at + 1];
    at += 2;
    return skip_bracket(text, at, open, open == '(' ? ')' : open == '{' ? '}' : ']', depth);
  }
  ++at;
  return true;
}

// Whether a file's name may follow a ">": a line's end and a flag are none.
static bool goes_to_file(const std::string& text, std::size_t at) {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t' || text.compare(at, 2, "\\\n") == 0))
    at += text[at] == '\\' ? 2 : 1;
  return at < text.size() && text[at] != '\n' && text[at] != '-';
}

std::size_t placeholder_end(const std::string& text, std::size_t at) {
  if (at + 2 >= text.size() || text[at] != '<' || std::isalpha(static_cast<unsigned char>(text[at + 1])) == 0)
    return at;
  const std::size_t end = text.find_first_of("<>|&;$`'\"\\\n", at + 1);
  if (end == std::string::npos || text[end] != '>' || is_shell_blank(text[end - 1])) return at;
  const std::string inner = text.substr(at + 1, end - at - 1);
  // One word in small letters is the name of a file.
  const bool says = inner.find_first_of(" -_") != std::string::npos ||
                    std::any_of(inner.begin(), inner.end(), [](unsigned char c) { return std::isupper(c) != 0; });
  const char next = end + 1 < text.size() ? text[end + 1] : '\0';
  const bool ends = next == '\0' || next == '\n' || next == '/' || next == '"' || next == '\\' || is_shell_blank(next);
  return ends && (says || !goes_to_file(text, end + 1)) ? end + 1 : at;
}

}  // namespace meshwright
