// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/python/python_tree.h"

#include <algorithm>
#include <cctype>

#include "launch/syntax/config_value.h"
#include "launch/syntax/python/python_parser.h"

namespace meshwright {

namespace {

using Tree = PythonExpression::Kind;
using Found = std::optional<PythonExpression>;

}  // namespace

bool is_python_name_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

Found ExpressionParser::tuple(std::size_t begin) {
  Found first = starred();
  if (!first || !skip(',')) return first;
  PythonExpression list = node(Tree::Tuple, begin);
  list.parts.push_back(*std::move(first));
  while (peek() != '\0') {
    Found next = starred();
    if (!next) return std::nullopt;
    list.parts.push_back(*std::move(next));
    if (!skip(',')) break;
  }
  list.end = std::min(at_, text_.size());
  return list;
}

Found ExpressionParser::starred() {
  if (peek() != '*') return choice();
  const std::size_t begin = at_++;
  Found of = choice();
  if (!of) return std::nullopt;
  PythonExpression made = node(Tree::Starred, begin);
  made.parts.push_back(*std::move(of));
  return made;
}

Found ExpressionParser::choice() {
  if (++depth_ > kMaxLaunchDepth) return std::nullopt;
  Found value = logic("or");
  if (value && skip_word("if")) {
    Found condition = logic("or");
    if (!condition || !skip_word("else")) return std::nullopt;
    Found other = choice();
    if (!other) return std::nullopt;
    PythonExpression made = node(Tree::Choice, value->begin);
    for (Found* part : {&value, &condition, &other}) made.parts.push_back(*std::move(*part));
    value = std::move(made);
  }
  --depth_;
  return value;
}

Found ExpressionParser::logic(const char* word) {
  const bool any = word[0] == 'o';
  Found left = any ? logic("and") : negation();
  while (left && skip_word(word)) {
    Found right = any ? logic("and") : negation();
    if (!right) return std::nullopt;
    left = pair(Tree::Binary, word, *std::move(left), *std::move(right));
  }
  return left;
}

Found ExpressionParser::negation() {
  peek();
  const std::size_t begin = at_;
  if (!skip_word("not")) return comparison();
  if (++depth_ > kMaxLaunchDepth) return std::nullopt;
  Found of = negation();
  --depth_;
  if (!of) return std::nullopt;
  PythonExpression made = node(Tree::Unary, begin, "not");
  made.parts.push_back(*std::move(of));
  return made;
}

std::string ExpressionParser::comparing() {
  for (const char* sign : {"==", "!=", "<=", ">="})
    if (skip_sign(sign)) return sign;
  for (const char sign : {'<', '>'})
    if (peek() == sign && ahead(1) != sign) {
      ++at_;
      return std::string(1, sign);
    }
  if (skip_word("in")) return "in";
  if (skip_word("is")) return skip_word("not") ? "is not" : "is";
  const std::size_t before = at_;
  if (skip_word("not") && skip_word("in")) return "not in";
  at_ = before;
  return "";
}

Found ExpressionParser::comparison() {
  Found first = bits();
  if (!first) return std::nullopt;
  const std::size_t begin = first->begin;
  std::vector<PythonExpression> parts;
  std::vector<std::string> names;
  for (std::string sign = comparing(); !sign.empty(); sign = comparing()) {
    Found next = bits();
    if (!next) return std::nullopt;
    if (parts.empty()) parts.push_back(*std::move(first));
    parts.push_back(*std::move(next));
    names.push_back(std::move(sign));
  }
  if (parts.empty()) return first;
  PythonExpression made = node(Tree::Compare, begin);
  made.parts = std::move(parts);
  made.names = std::move(names);
  return made;
}

Found ExpressionParser::joined(Found (ExpressionParser::*inner)(), std::initializer_list<const char*> signs) {
  Found left = (this->*inner)();
  while (left) {
    peek();
    const char* sign = nullptr;
    for (const char* one : signs)
      if (sign == nullptr && text_.compare(at_, std::string_view(one).size(), one) == 0) sign = one;
    if (sign == nullptr) return left;
    at_ += std::string_view(sign).size();
    Found right = (this->*inner)();
    if (!right) return std::nullopt;
    left = pair(Tree::Binary, sign, *std::move(left), *std::move(right));
  }
  return left;
}

Found ExpressionParser::bits() { return joined(&ExpressionParser::sum, {"|", "&", "^", "<<", ">>"}); }

Found ExpressionParser::sum() { return joined(&ExpressionParser::product, {"+", "-"}); }

Found ExpressionParser::product() { return joined(&ExpressionParser::unary, {"//", "/", "*", "%"}); }

Found ExpressionParser::unary() {
  const char c = peek();
  if (c != '-' && c != '+' && c != '~') return power();
  if (++depth_ > kMaxLaunchDepth) return std::nullopt;
  const std::size_t begin = at_++;
  Found of = unary();
  --depth_;
  if (!of) return std::nullopt;
  PythonExpression made = node(Tree::Unary, begin, std::string(1, c));
  made.parts.push_back(*std::move(of));
  return made;
}

Found ExpressionParser::power() {
  Found base = postfix();
  if (!base || peek() != '*' || ahead(1) != '*') return base;
  at_ += 2;
  Found exponent = unary();
  if (!exponent) return std::nullopt;
  return pair(Tree::Binary, "**", *std::move(base), *std::move(exponent));
}

Found ExpressionParser::postfix() {
  Found value = atom();
  for (int asked = 0; value; ++asked) {
    const char c = peek();
    if (c != '.' && c != '(' && c != '[') return value;
    if (depth_ + asked > kMaxLaunchDepth) return std::nullopt;
    const std::size_t begin = value->begin;
    if (c == '(') {
      value = call(*std::move(value));
    } else if (c == '[') {
      value = subscript(*std::move(value));
    } else {
      ++at_;
      std::string name;
      while (is_python_name_part(ahead(0))) name += text_[at_++];
      if (name.empty()) return std::nullopt;
      PythonExpression made = node(Tree::Attribute, begin, std::move(name));
      made.parts.push_back(*std::move(value));
      value = std::move(made);
    }
  }
  return value;
}

std::optional<PythonExpression> python_expression(const std::string& text, std::size_t from) {
  return ExpressionParser(text, from, 0).whole();
}

}  // namespace meshwright
