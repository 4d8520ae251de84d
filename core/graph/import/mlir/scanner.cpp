// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/mlir/scanner.h"

#include <algorithm>
#include <charconv>

#include "core/base/errors.h"
#include "core/graph/import/names.h"

namespace meshwright::mlir {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool in_word(char c) { return is_letter(c) || is_digit(c) || c == '$' || c == '.'; }

constexpr std::string_view kOpening = "([{<", kClosing = ")]}>";

}  // namespace

void Scanner::space() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r')
      ++at_;
    else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/')
      at_ = std::min(text_.find('\n', at_), text_.size());
    else
      return;
  }
}

bool Scanner::done() {
  space();
  return at_ == text_.size();
}

char Scanner::peek() { return done() ? '\0' : text_[at_]; }

std::size_t Scanner::position() {
  space();
  return at_;
}

bool Scanner::at(std::string_view text) {
  space();
  return text_.substr(at_, text.size()) == text;
}

bool Scanner::accept(std::string_view text) {
  if (!at(text)) return false;
  at_ += text.size();
  return true;
}

bool Scanner::accept_word(std::string_view word) {
  if (!at(word) || (at_ + word.size() < text_.size() && in_word(text_[at_ + word.size()]))) return false;
  at_ += word.size();
  return true;
}

void Scanner::expect(std::string_view text) {
  if (!accept(text)) fail(fmt::format("'{}' is expected", text));
}

bool Scanner::at_word() { return is_letter(peek()); }

std::string_view Scanner::word() {
  if (!at_word()) fail("a name is expected");
  const std::size_t begin = at_;
  while (at_ < text_.size() && in_word(text_[at_])) ++at_;
  return between(begin, at_);
}

void Scanner::quoted() {
  const std::size_t begin = at_++;
  for (;;) {
    // Constants are strings of megabytes: no walk over single characters.
    at_ = text_.find('"', at_);
    if (at_ == std::string_view::npos) {
      at_ = begin;
      fail("a string that begins here has no end");
    }
    std::size_t escapes = 0;
    while (text_[at_ - 1 - escapes] == '\\') ++escapes;
    ++at_;
    if (escapes % 2 == 0) return;
  }
}

std::string_view Scanner::string() {
  if (peek() != '"') fail("a string is expected");
  const std::size_t begin = at_;
  quoted();
  return between(begin + 1, at_ - 1);
}

std::string_view Scanner::symbol() {
  expect("@");
  return at_ < text_.size() && text_[at_] == '"' ? string() : word();
}

Use Scanner::use() {
  expect("%");
  const std::size_t begin = at_;
  while (at_ < text_.size() && (in_word(text_[at_]) || text_[at_] == '-')) ++at_;
  if (at_ == begin) fail("a value's name is expected");
  Use use{between(begin, at_)};
  if (at_ < text_.size() && text_[at_] == '#') {
    ++at_;
    use.element = integer();
  }
  return use;
}

std::optional<std::int64_t> Scanner::maybe_integer() {
  space();
  std::int64_t value = 0;
  const char* end = text_.data() + text_.size();
  const auto [rest, error] = std::from_chars(text_.data() + at_, end, value);
  if (error == std::errc::result_out_of_range) fail("a number of at most 63 bits is expected");
  if (error != std::errc{}) return std::nullopt;
  at_ = static_cast<std::size_t>(rest - text_.data());
  return value;
}

std::int64_t Scanner::integer() {
  const std::optional<std::int64_t> value = maybe_integer();
  if (!value) fail("a whole number is expected");
  return *value;
}

void Scanner::bracket() {
  const std::size_t begin = at_;
  std::string open;  // not a recursion: a text may be nothing but brackets
  do {
    if (done()) {
      at_ = begin;
      fail(fmt::format("a '{}' that begins here has no end", text_[begin]));
    }
    const char c = text_[at_];
    if (c == '"') {
      quoted();
      continue;
    }
    // "->", ">=" and "<=" are no brackets.
    if (at("->") || at(">=") || at("<=")) {
      at_ += 2;
      continue;
    }
    if (const std::size_t kind = kOpening.find(c); kind != std::string_view::npos) {
      open += kClosing[kind];
    } else if (kClosing.find(c) != std::string_view::npos) {
      if (open.back() != c) fail(fmt::format("'{}' is expected", open.back()));
      open.pop_back();
    }
    ++at_;
  } while (!open.empty());
}

void Scanner::piece() {
  const char c = text_[at_];
  if (c == '"')
    quoted();
  else if (text_.substr(at_, 2) == "->")
    at_ += 2;
  else if (kOpening.find(c) != std::string_view::npos)
    bracket();
  else
    ++at_;
}

std::string_view Scanner::value() {
  const std::size_t begin = position();
  std::size_t end = begin;
  for (;;) {
    if (done()) fail("a value is expected");
    if (kOpening.find(text_[at_]) != std::string_view::npos) {
      bracket();
    } else if (text_[at_] == '"') {
      quoted();
    } else {
      const std::size_t word = at_;
      while (at_ < text_.size() &&
             (in_word(text_[at_]) || std::string_view("#@!%+-").find(text_[at_]) != std::string_view::npos) &&
             text_.substr(at_, 2) != "->")
        ++at_;
      if (at_ == word) fail("a value is expected");
      // The parameters of a type or an attribute stand directly behind its name: "dense<0>".
      if (at_ < text_.size() && text_[at_] == '<') bracket();
    }
    end = at_;
    if (accept("->")) continue;
    space();
    // "[0] x [1]", "[b, f]x[i, o]"
    if (at_ + 1 < text_.size() && text_[at_] == 'x' && (text_[at_ + 1] == '[' || text_.substr(at_, 3) == "x [")) {
      ++at_;
      continue;
    }
    return between(begin, end);
  }
}

std::string_view Scanner::until(std::string_view ends) {
  const std::size_t begin = position();
  std::size_t end = begin;
  while (!done() && ends.find(text_[at_]) == std::string_view::npos) {
    piece();
    end = at_;
  }
  return between(begin, end);
}

std::string_view Scanner::rest_of_op() {
  const std::size_t begin = at_;
  while (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '}') {
    if (text_[at_] == '/' && text_.substr(at_, 2) == "//") break;
    piece();
  }
  return between(begin, at_);
}

void Scanner::skip_past(std::string_view mark) {
  const std::size_t found = text_.find(mark, at_);
  at_ = found == std::string_view::npos ? text_.size() : found + mark.size();
}

int Scanner::line() {
  space();
  // A text is read from front to back, but for the beginning of what has no end.
  if (at_ < counted_) {
    counted_line_ -= static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                                 text_.begin() + static_cast<std::ptrdiff_t>(counted_), '\n'));
  } else {
    counted_line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(counted_),
                                                 text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n'));
  }
  counted_ = at_;
  return counted_line_;
}

void Scanner::fail(std::string_view sentence) {
  const int line_number = line();
  std::string_view found = text_.substr(at_, 24);
  found = found.substr(0, found.find_first_of("\r\n"));
  throw InputError(fmt::format("{}:{}: {}{}; the text is damaged or cut off, print the module again.", place_,
                               line_number, sentence,
                               found.empty() ? std::string(", not the end of the text")
                                             : fmt::format(", not '{}'", printable(std::string(found)))));
}

std::string unescaped(std::string_view text) {
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      plain += text[i];
      continue;
    }
    const char next = text[++i];
    if (i + 1 < text.size() && digit(next) >= 0 && digit(text[i + 1]) >= 0) {
      plain += static_cast<char>(digit(next) * 16 + digit(text[++i]));
    } else {
      plain += next == 'n' ? '\n' : next == 't' ? '\t' : next;
    }
  }
  return plain;
}

}  // namespace meshwright::mlir
