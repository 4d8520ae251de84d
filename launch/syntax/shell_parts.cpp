// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/shell_parts.h"

#include <algorithm>

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

}  // namespace meshwright
