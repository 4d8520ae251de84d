// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/numbers.h"

#include <charconv>
#include <cmath>

#include "core/base/text.h"

namespace meshwright {

std::optional<double> real_number(const std::string& text) {
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    if (text[i] == '_' && i > 0 && digit(i - 1) && digit(i + 1)) continue;
    if (text[i] == '+' && i == 0) continue;
    digits += text[i];
  }
  if (digits.empty() || digits.size() > 64) return std::nullopt;
  for (const char c : digits)  // no "inf", "nan" or hexadecimal digits
    if ((c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E') return std::nullopt;
  double value = 0.0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<std::int64_t> whole_number(const std::string& text) {
  const std::optional<double> value = real_number(text);
  if (!value || std::fabs(*value) > 1e15 || std::floor(*value) != *value) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::optional<bool> truth_value(const std::string& text) {
  const std::string word = lower_case(text);
  if (word == "true" || word == "yes" || word == "on" || word == "1") return true;
  if (word == "false" || word == "no" || word == "off" || word == "0") return false;
  return std::nullopt;
}

}  // namespace meshwright
