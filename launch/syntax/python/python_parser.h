// SPDX-License-Identifier: Apache-2.0
// Parses Python's expressions by descent, one function for each level of binding (python_tree.cpp), down to names,
// numbers, texts and what stands in brackets (python_atoms.cpp).
#pragma once

#include <cctype>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "launch/syntax/python/python_tree.h"

namespace meshwright {

class ExpressionParser {
 public:
  using Found = std::optional<PythonExpression>;

  ExpressionParser(const std::string& text, std::size_t at, int depth) : text_(text), at_(at), depth_(depth) {}

  Found whole() {
    peek();
    Found found = tuple(at_);
    if (peek() != '\0') return std::nullopt;
    return found;
  }

 private:
  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  [[nodiscard]] char ahead(std::size_t by) const { return at_ + by < text_.size() ? text_[at_ + by] : '\0'; }
  bool skip(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  bool skip_word(std::string_view word) {
    peek();
    if (text_.compare(at_, word.size(), word) != 0 || is_python_name_part(ahead(word.size()))) return false;
    at_ += word.size();
    return true;
  }
  bool skip_sign(std::string_view sign) {
    peek();
    if (text_.compare(at_, sign.size(), sign) != 0) return false;
    at_ += sign.size();
    return true;
  }
  PythonExpression node(PythonExpression::Kind kind, std::size_t begin, std::string text = {}) const {
    std::size_t end = std::min(at_, text_.size());
    while (end > begin && std::isspace(static_cast<unsigned char>(text_[end - 1])) != 0) --end;
    PythonExpression made;
    made.kind = kind;
    made.text = std::move(text);
    made.begin = begin;
    made.end = end;
    return made;
  }
  PythonExpression pair(PythonExpression::Kind kind, std::string text, PythonExpression left,
                        PythonExpression right) const {
    PythonExpression made = node(kind, left.begin, std::move(text));
    made.parts.push_back(std::move(left));
    made.parts.push_back(std::move(right));
    return made;
  }
  // What stands between commas up to the end of the text, without brackets.
  Found tuple(std::size_t begin);
  Found starred();
  Found choice();
  Found logic(const char* word);
  Found negation();
  std::string comparing();
  Found comparison();
  Found joined(Found (ExpressionParser::*inner)(), std::initializer_list<const char*> signs);
  Found bits();
  Found sum();
  Found product();
  Found unary();
  Found power();
  Found postfix();
  Found atom();
  Found number(std::size_t begin);
  [[nodiscard]] std::size_t prefix_of_text() const;
  bool starts_text();
  // Texts that stand one after another are one.
  Found texts();
  static void add_part(PythonExpression& to, PythonExpression part, std::string name);
  // What stands in a text is shown as the whole text.
  void place_within(PythonExpression& part, std::size_t begin) const;
  // The texts and values of f"...{value!r:>8}...".
  bool fill(PythonExpression& all, const std::string& own) const;
  // An element or argument: what is of another form is skipped up to the comma or bracket behind it.
  PythonExpression item();
  bool is_for();
  Found list(char end, PythonExpression::Kind kind);
  // Behind what each makes, up to the bracket.
  Found comprehension(PythonExpression value, char end);
  Found braces();
  Found call(PythonExpression callee);
  Found subscript(PythonExpression of);

  const std::string& text_;
  std::size_t at_;
  int depth_ = 0;
};

}  // namespace meshwright
