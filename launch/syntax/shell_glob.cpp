// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/shell_glob.h"

namespace meshwright {

bool matches_glob(const std::string& pattern, const std::string& text) {
  std::size_t p = 0, t = 0, star = std::string::npos, after = 0;
  while (t < text.size()) {
    bool fits = false;
    std::size_t step = 1;
    if (p < pattern.size() && pattern[p] == '[') {
      const std::size_t close = pattern.find(']', p + 2);
      if (close != std::string::npos) {
        const bool negated = pattern[p + 1] == '!' || pattern[p + 1] == '^';
        bool in = false;
        for (std::size_t i = p + (negated ? 2 : 1); i < close; ++i) {
          if (i + 2 < close && pattern[i + 1] == '-') {
            in = in || (pattern[i] <= text[t] && text[t] <= pattern[i + 2]);
            i += 2;
          } else {
            in = in || pattern[i] == text[t];
          }
        }
        fits = in != negated;
        step = close + 1 - p;
      }
    } else {
      if (p + 1 < pattern.size() && pattern[p] == '\\') {
        fits = pattern[p + 1] == text[t];
        step = 2;
      } else {
        fits = p < pattern.size() && pattern[p] != '*' && (pattern[p] == text[t] || pattern[p] == '?');
      }
    }
    if (fits) {
      p += step;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after = t;
    } else if (star != std::string::npos) {
      p = star + 1;
      t = ++after;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

// The shortest or longest part at the front or back of `value` that matches is taken away.
std::string without_match(const std::string& value, const std::string& pattern, bool front, bool longest) {
  if (value.size() > 4096) return value;
  const std::size_t size = value.size();
  for (std::size_t i = 0; i <= size; ++i) {
    const std::size_t length = longest ? size - i : i;
    const std::string part = front ? value.substr(0, length) : value.substr(size - length);
    if (matches_glob(pattern, part)) return front ? value.substr(length) : value.substr(0, size - length);
  }
  return value;
}

std::string replaced(const std::string& value, const std::string& pattern, const std::string& by, bool all) {
  if (pattern.empty() || value.size() > 4096) return value;
  std::string text;
  for (std::size_t at = 0; at < value.size();) {
    std::size_t length = value.size() - at;
    while (length > 0 && !matches_glob(pattern, value.substr(at, length))) --length;
    if (length == 0) {
      text += value[at++];
      continue;
    }
    text += by;
    at += length;
    if (!all) return text + value.substr(at);
  }
  return text;
}

}  // namespace meshwright
