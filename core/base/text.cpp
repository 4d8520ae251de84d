// SPDX-License-Identifier: Apache-2.0
#include "core/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>

#include "core/base/errors.h"

namespace meshwright {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

namespace {

constexpr std::uint32_t kNoCharacter = 0xffffffff;

struct Character {
  std::uint32_t code;  // kNoCharacter: a byte that begins no character of UTF-8
  std::size_t bytes;
};

// The first character of a text that is not empty; neither overlong forms nor surrogates are characters.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (lead < 0xc0 || lead > 0xf4 || text.size() < bytes) return {kNoCharacter, 1};
  std::uint32_t code = lead & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {kNoCharacter, 1};
    code = code << 6 | (byte(i) & 0x3fu);
  }
  const bool valid = code >= kSmallest[bytes] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return valid ? Character{code, bytes} : Character{kNoCharacter, 1};
}

bool steers(std::uint32_t code) {
  const auto within = [code](std::uint32_t low, std::uint32_t high) { return low <= code && code <= high; };
  return code < 0x20 || within(0x7f, 0x9f) || within(0x200e, 0x200f) || within(0x2028, 0x202e) ||
         within(0x2066, 0x2069) || code == 0xfeff;
}

// Characters for which `is_kept` holds stay; others are escaped.
template <class Kept>
std::string escaped(std::string_view text, Kept is_kept) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    if (character.code == kNoCharacter)
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    else if (is_kept(character.code))
      shown += text.substr(0, character.bytes);
    else
      shown +=
          character.code < 0x80 ? fmt::format("\\x{:02x}", character.code) : fmt::format("\\u{{{:x}}}", character.code);
    text.remove_prefix(character.bytes);
  }
  return shown;
}

}  // namespace

std::string printable(std::string_view text) {
  return escaped(text, [](std::uint32_t code) { return !steers(code); });
}

std::string printable_lines(std::string_view text) {
  return escaped(text, [](std::uint32_t code) { return code == '\n' || !steers(code); });
}

std::string escaped_bytes(std::string_view text) {
  return escaped(text, [](std::uint32_t) { return true; });
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Character character = first_character(text);
    if (character.code == kNoCharacter) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  std::size_t end = most;
  while (end > 0 && end + 4 > most && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

void require_printable(std::string_view name, std::string_view place) {
  // Graphs have many thousands of names, of which hardly one is more than plain text.
  if (std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~'; })) return;
  const std::string shown = printable(name);
  require(shown == name, "{}: the name '{}' holds a control character or bytes that are not UTF-8; leave them out.",
          place, shortened(shown));
}

std::string lower_case(std::string_view text) {
  std::string lowered(text);
  for (char& c : lowered) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lowered;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& known) {
  std::vector<std::pair<std::size_t, std::string>> ranked;
  for (const std::string& candidate : known) ranked.emplace_back(edit_distance(name, candidate), candidate);
  std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, ranked.size()); ++i) names.push_back(ranked[i].second);
  return names;
}

std::string unknown_name(std::string_view what, std::string_view name, const std::vector<std::string>& known,
                         std::string_view how_to_list) {
  return fmt::format("unknown {} '{}'; the nearest known are {}. {}", what, name,
                     join(nearest_names(name, known), ", "), how_to_list);
}

long parse_integer(std::string_view text, std::string_view place, long low, long high) {
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(error != std::errc::result_out_of_range, "{}: {} is out of range; give a number from {} to {}.", place, text,
          low, high);
  require(error == std::errc() && end == text.data() + text.size() && !text.empty(),
          "{}: '{}' is not a whole number; give a number from {} to {}.", place, text, low, high);
  require(value >= low && value <= high, "{}: {} is out of range; give a number from {} to {}.", place, value, low,
          high);
  return value;
}

std::string human_bytes(Bytes bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = bytes.si();
  int unit = 0;
  while (std::abs(value) >= 1024.0 && unit < 5) value /= 1024.0, ++unit;
  return unit == 0 ? fmt::format("{:.0f} B", value) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string human_seconds(Seconds time) {
  const double s = time.si();
  if (std::abs(s) >= 1.0) return fmt::format("{:.3f} s", s);
  if (std::abs(s) >= 1e-3) return fmt::format("{:.3f} ms", s * 1e3);
  return fmt::format("{:.3f} us", s * 1e6);
}

std::uint64_t stable_hash(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ull;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 1099511628211ull;
  }
  return hash;
}

}  // namespace meshwright
