// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/numbers.h"

#include <charconv>
#include <cmath>
#include <cstdint>

#include "core/base/errors.h"
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

std::string decimal_text(const std::string& text) {
  const bool negative = text.starts_with('-');
  const std::size_t begin = negative || text.starts_with('+') ? 1 : 0;
  if (text.size() < begin + 3 || text[begin] != '0') return text;
  const char letter = text[begin + 1];
  const int base = letter == 'x' || letter == 'X'   ? 16
                   : letter == 'o' || letter == 'O' ? 8
                   : letter == 'b' || letter == 'B' ? 2
                                                    : 0;
  std::string digits = text.substr(begin + 2);
  if (base == 0 || digits.front() == '_' || digits.back() == '_') return text;
  std::erase(digits, '_');
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (digits.front() == '-' || error != std::errc() || end != digits.data() + digits.size() || value >> 48 != 0)
    return text;
  return fmt::format("{}{}", negative ? "-" : "", value);
}

std::optional<bool> truth_value(const std::string& text) {
  const std::string word = lower_case(text);
  if (word == "true" || word == "yes" || word == "on" || word == "1") return true;
  if (word == "false" || word == "no" || word == "off" || word == "0") return false;
  return std::nullopt;
}

}  // namespace meshwright
