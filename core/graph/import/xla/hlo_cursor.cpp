// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/xla/hlo_cursor.h"

#include <cctype>
#include <charconv>

#include "core/base/errors.h"

namespace meshwright::xla {

namespace {

constexpr int kMaxTypeDepth = 32;  // of tuples in tuples
constexpr std::size_t kMaxRank = 64;

bool is_letter(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '.' || letter == '-';
}
bool is_space(char letter) { return letter == ' ' || letter == '\n' || letter == '\t' || letter == '\r'; }
bool opens(char letter) { return letter == '(' || letter == '{' || letter == '['; }
bool closes(char letter) { return letter == ')' || letter == '}' || letter == ']'; }

// The end of the string or bracket that begins at `from`, or text.size(). "->" and "<=" close nothing.
std::size_t end_of_group(std::string_view text, std::size_t from) {
  if (text[from] == '"') {
    for (std::size_t i = from + 1; i < text.size(); ++i) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '"')
        return i + 1;
    }
    return text.size();
  }
  int depth = 0;
  for (std::size_t i = from; i < text.size(); ++i) {
    if (text[i] == '"') {
      i = end_of_group(text, i) - 1;
      continue;
    }
    if (opens(text[i])) ++depth;
    if (closes(text[i]) && --depth == 0) return i + 1;
  }
  return text.size();
}

}  // namespace

void HloCursor::fail(const std::string& why) const {
  throw InputError(fmt::format("{}:{}: {}; give the text that XLA printed, unchanged.", place_, line_, why));
}

void HloCursor::advance(std::size_t count) {
  const std::size_t end = std::min(at_ + count, text_.size());
  line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                       text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
  at_ = end;
}

void HloCursor::skip_space() {
  while (!at_end()) {
    if (is_space(text_[at_])) {
      advance(1);
    } else if (text_.compare(at_, 2, "/*") == 0) {
      const std::size_t end = text_.find("*/", at_ + 2);
      advance(end == std::string_view::npos ? text_.size() - at_ : end + 2 - at_);
    } else if (text_.compare(at_, 2, "//") == 0) {
      skip_line();
    } else {
      return;
    }
  }
}

void HloCursor::skip_line() {
  const std::size_t end = text_.find('\n', at_);
  advance(end == std::string_view::npos ? text_.size() - at_ : end + 1 - at_);
}

bool HloCursor::take(std::string_view word) {
  if (text_.compare(at_, word.size(), word) != 0) return false;
  advance(word.size());
  return true;
}

std::string_view HloCursor::name() {
  if (peek() == '%') advance(1);
  const std::size_t begin = at_;
  if (peek() == '"') {
    advance(end_of(at_) - at_);
    return text_.substr(begin, at_ - begin);
  }
  while (at_ < text_.size() && is_letter(text_[at_])) ++at_;
  return text_.substr(begin, at_ - begin);
}

std::size_t HloCursor::end_of(std::size_t from) const { return end_of_group(text_, from); }

std::string_view HloCursor::balanced() {
  const std::size_t begin = at_, end = end_of(at_);
  advance(end - begin);
  if (end == text_.size() && (end - begin < 2 || !closes(text_[end - 1]))) fail("the text ends inside brackets");
  return text_.substr(begin + 1, end - begin - 2);
}

std::string_view HloCursor::value() {
  const std::size_t begin = at_;
  std::size_t i = at_;
  while (i < text_.size() && text_[i] != ',' && text_[i] != '\n' && !closes(text_[i]))
    i = opens(text_[i]) || text_[i] == '"' ? end_of(i) : i + 1;
  advance(i - begin);
  return trimmed(text_.substr(begin, i - begin));
}

Type HloCursor::type(int depth) {
  if (depth > kMaxTypeDepth) fail("a type has too many tuples in tuples");
  Type found;
  skip_space();
  if (take("(")) {
    for (skip_space(); !take(")"); skip_space()) {
      if (at_end()) fail("the text ends inside a type");
      found.parts.push_back(type(depth + 1));
      skip_space();
      if (peek() != ')' && !take(",")) fail("a tuple's type lacks a comma");
    }
    return found;
  }
  const std::string_view element = name();
  if (element.empty() || element.size() > 16) fail("a type is expected, such as f32[16,2048]");
  found.element = std::string(element);
  if (peek() != '[') fail(fmt::format("'{}' lacks its sizes in brackets", found.element));
  for (std::string_view size : pieces_of(balanced())) {
    if (size.starts_with("<=")) size.remove_prefix(2);  // a bound
    std::int64_t number = 0;
    if (!integer_of(size, number) || number < 0 || found.sizes.size() == kMaxRank)
      fail("the sizes of a type are not numbers from 0 on");
    found.sizes.push_back(number);
  }
  if (peek() == '{') (void)balanced();  // the layout
  return found;
}

std::vector<std::string_view> pieces_of(std::string_view list) {
  std::vector<std::string_view> pieces;
  std::size_t begin = 0, i = 0;
  const auto add = [&](std::size_t end) {
    const std::string_view piece = trimmed(list.substr(begin, end - begin));
    if (!piece.empty()) pieces.push_back(piece);
    begin = end + 1;
  };
  while (i < list.size()) {
    if (list[i] == ',') {
      add(i++);
    } else if (list[i] == '/' && list.compare(i, 2, "/*") == 0) {  // /*index=5*/
      const std::size_t end = list.find("*/", i);
      i = end == std::string_view::npos ? list.size() : end + 2;
      if (trimmed(list.substr(begin, i - begin)).starts_with("/*")) begin = i;
    } else {
      i = opens(list[i]) || list[i] == '"' ? end_of_group(list, i) : i + 1;
    }
  }
  add(list.size());
  return pieces;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

bool integer_of(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

std::vector<std::int64_t> integers_of(std::string_view list) {
  if (list.size() >= 2 && list.front() == '{') list = list.substr(1, list.size() - 2);
  std::vector<std::int64_t> numbers;
  std::int64_t number = 0;
  for (const std::string_view piece : pieces_of(list))
    if (integer_of(piece, number)) numbers.push_back(number);
  return numbers;
}

}  // namespace meshwright::xla
