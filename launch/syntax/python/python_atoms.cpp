// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/python/python_parser.h"

#include <algorithm>
#include <cctype>

#include "launch/syntax/config_value.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

using Tree = PythonExpression::Kind;
using Found = std::optional<PythonExpression>;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

Found ExpressionParser::atom() {
  const char c = peek();
  const std::size_t begin = at_;
  if (c == '[') return list(']', Tree::List);
  if (c == '{') return braces();
  if (c == '(') {
    Found inner = list(')', Tree::Tuple);
    // One expression in brackets is that expression, but for "(x,)", which ends with a comma.
    if (!inner || inner->kind != Tree::Tuple || inner->parts.size() != 1 || inner->text == ",") return inner;
    PythonExpression only = std::move(inner->parts.front());
    only.begin = inner->begin;
    only.end = inner->end;
    return only;
  }
  if (starts_text()) return texts();
  if (is_digit(c) || (c == '.' && is_digit(ahead(1)))) return number(begin);
  std::string word;
  while (is_python_name_part(ahead(0))) word += text_[at_++];
  if (word.empty() || word == "lambda" || word == "await" || word == "yield") return std::nullopt;
  return node(Tree::Name, begin, word);
}

Found ExpressionParser::number(std::size_t begin) {
  std::string word;
  const bool other_base = ahead(0) == '0' && std::isalpha(static_cast<unsigned char>(ahead(1))) != 0;
  while (is_python_name_part(ahead(0)) || ahead(0) == '.' ||
         (!other_base && !word.empty() && (word.back() == 'e' || word.back() == 'E') &&
          (ahead(0) == '-' || ahead(0) == '+')))
    word += text_[at_++];
  return node(Tree::Number, begin, decimal_text(word));
}

std::size_t ExpressionParser::prefix_of_text() const {
  std::size_t letters = 0;
  while (letters < 3 && std::isalpha(static_cast<unsigned char>(ahead(letters))) != 0) ++letters;
  const std::string_view prefix = std::string_view(text_).substr(at_, letters);
  return letters < 3 && prefix.find_first_not_of("rRbBuUfF") == std::string_view::npos ? letters : std::string::npos;
}

bool ExpressionParser::starts_text() {
  const std::size_t letters = prefix_of_text();
  return letters != std::string::npos && (ahead(letters) == '"' || ahead(letters) == '\'');
}

Found ExpressionParser::texts() {
  const std::size_t begin = at_;
  PythonExpression all = node(Tree::Text, begin);
  while (peek() != '\0' && starts_text()) {
    const std::size_t letters = prefix_of_text();
    const std::string_view prefix = std::string_view(text_).substr(at_, letters);
    const bool filled = prefix.find_first_of("fF") != std::string_view::npos;
    at_ += letters;
    const char quote = text_[at_];
    std::string own;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      own += text_[at_];
    }
    if (at_ >= text_.size()) return std::nullopt;
    ++at_;
    if (filled && all.kind == Tree::Text) {
      PythonExpression before = all;
      all.kind = Tree::Format;
      all.text.clear();
      add_part(all, std::move(before), "");
    }
    if (filled && !fill(all, own)) return std::nullopt;
    if (filled) continue;
    PythonExpression plain = node(Tree::Text, begin, own);
    if (all.kind == Tree::Text)
      all.text += own;
    else
      add_part(all, std::move(plain), "");
  }
  all.end = at_;
  return all;
}

void ExpressionParser::add_part(PythonExpression& to, PythonExpression part, std::string name) {
  to.parts.push_back(std::move(part));
  to.names.push_back(std::move(name));
}

void ExpressionParser::place_within(PythonExpression& part, std::size_t begin) const {
  part.begin = begin;
  part.end = at_;
  for (PythonExpression& inner : part.parts) place_within(inner, begin);
}

bool ExpressionParser::fill(PythonExpression& all, const std::string& own) const {
  std::string plain;
  const auto end_plain = [&] {
    if (plain.empty()) return;
    add_part(all, node(Tree::Text, all.begin, plain), "");
    plain.clear();
  };
  for (std::size_t i = 0; i < own.size(); ++i) {
    const char c = own[i];
    if ((c == '{' || c == '}') && i + 1 < own.size() && own[i + 1] == c) {
      plain += own[i++];
      continue;
    }
    if (c != '{') {
      plain += c;
      continue;
    }
    end_plain();
    std::size_t end = i + 1;
    int open = 0;
    for (; end < own.size(); ++end) {
      const char d = own[end];
      if (open == 0 && (d == '}' || d == ':' || (d == '!' && end + 1 < own.size() && own[end + 1] != '='))) break;
      open += d == '(' || d == '[' || d == '{' ? 1 : d == ')' || d == ']' || d == '}' ? -1 : 0;
    }
    const std::size_t close = own.find('}', end);
    if (close == std::string::npos) return false;
    const std::string value = own.substr(i + 1, end - i - 1);
    Found inner = ExpressionParser(value, 0, depth_ + 1).whole();
    PythonExpression part = inner ? *std::move(inner) : PythonExpression{};
    place_within(part, all.begin);
    add_part(all, std::move(part), close == end ? "=" : "!");
    i = close;
  }
  end_plain();
  return true;
}

PythonExpression ExpressionParser::item() {
  peek();
  const std::size_t from = at_;
  const int depth = depth_;
  if (Found value = starred()) {
    const char after = peek();
    if (after == ',' || after == ')' || after == ']' || after == '}' || after == ':' || is_for())
      return *std::move(value);
  }
  depth_ = depth;
  at_ = from;
  int open = 0;
  char quote = '\0';
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (quote != '\0') {
      if (c == '\\') ++at_;
      if (c == quote) quote = '\0';
      continue;
    }
    if (c == '"' || c == '\'') quote = c;
    if (c == '(' || c == '[' || c == '{') ++open;
    const bool closes = c == ')' || c == ']' || c == '}';
    if (open == 0 && (closes || c == ',')) break;
    if (closes) --open;
  }
  at_ = std::min(at_, text_.size());
  PythonExpression other = node(Tree::Other, from);
  other.text = text_.substr(other.begin, other.end - other.begin);
  return other;
}

bool ExpressionParser::is_for() {
  peek();
  return (text_.compare(at_, 3, "for") == 0 && !is_python_name_part(ahead(3))) ||
         (text_.compare(at_, 6, "async ") == 0);
}

Found ExpressionParser::list(char end, Tree kind) {
  const std::size_t begin = at_++;
  if (++depth_ > kMaxLaunchDepth) return std::nullopt;
  PythonExpression value = node(kind, begin);
  while (peek() != end) {
    value.parts.push_back(item());
    if (value.parts.size() == 1 && is_for()) {
      value.text = end == ']' ? "[" : end == '}' ? "{" : "(";
      return comprehension(std::move(value), end);
    }
    if (skip(',')) {
      value.text = ",";
      continue;
    }
    if (peek() != end) return std::nullopt;
    if (value.parts.size() == 1) value.text.clear();
  }
  --depth_;
  ++at_;
  value.end = at_;
  return value;
}

Found ExpressionParser::comprehension(PythonExpression value, char end) {
  value.kind = Tree::Comprehension;
  value.names.assign(value.parts.size(), "");
  while (peek() != end) {
    if (skip_word("if")) {
      Found condition = logic("or");
      if (!condition) return std::nullopt;
      add_part(value, *std::move(condition), "if");
      continue;
    }
    if (!skip_word("for")) return std::nullopt;
    peek();
    const std::size_t begin = at_;
    PythonExpression target = node(Tree::Tuple, begin);
    do {
      if (skip_word("in")) {
        at_ -= 2;
        break;
      }
      Found name = postfix();
      if (!name) return std::nullopt;
      target.parts.push_back(*std::move(name));
    } while (skip(','));
    if (target.parts.empty() || !skip_word("in")) return std::nullopt;
    if (target.parts.size() == 1) target = PythonExpression(target.parts.front());
    Found from = logic("or");
    if (!from) return std::nullopt;
    add_part(value, std::move(target), "for");
    add_part(value, *std::move(from), "in");
  }
  --depth_;
  ++at_;
  value.end = at_;
  return value;
}

Found ExpressionParser::braces() {
  const std::size_t begin = at_;
  ++at_;
  if (++depth_ > kMaxLaunchDepth) return std::nullopt;
  PythonExpression value = node(Tree::Dict, begin);
  while (peek() != '}') {
    if (skip_sign("**")) {  // all members of another
      value.parts.push_back(node(Tree::Starred, at_));
      value.parts.push_back(item());
    } else {
      PythonExpression key = item();
      if (key.kind == Tree::Other) return std::nullopt;
      if (value.parts.empty() && peek() != ':') {
        at_ = begin;
        --depth_;
        return list('}', Tree::Set);
      }
      if (!skip(':')) return std::nullopt;
      value.parts.push_back(std::move(key));
      value.parts.push_back(item());
      if (value.parts.size() == 2 && is_for()) {
        value.text = "{:";
        return comprehension(std::move(value), '}');
      }
    }
    if (!skip(',') && peek() != '}') return std::nullopt;
  }
  --depth_;
  ++at_;
  value.end = at_;
  return value;
}

Found ExpressionParser::call(PythonExpression callee) {
  const std::size_t begin = callee.begin;
  PythonExpression value = node(Tree::Call, begin);
  value.parts.push_back(std::move(callee));
  ++at_;
  if (++depth_ > kMaxLaunchDepth) return std::nullopt;
  while (peek() != ')') {
    const std::size_t from = at_;
    std::string key;
    while (is_python_name_part(ahead(0))) key += text_[at_++];
    if (!key.empty() && peek() == '=' && ahead(1) != '=') {
      ++at_;
    } else {
      at_ = from;
      key = skip_sign("**") ? "**" : "";
    }
    PythonExpression argument = item();
    if (key.empty() && argument.kind == Tree::Starred) {
      key = "*";
      argument = PythonExpression(argument.parts.front());
    }
    if (key.empty() && value.parts.size() == 1 && is_for()) {
      PythonExpression made = node(Tree::Comprehension, argument.begin, "(");
      made.parts.push_back(std::move(argument));
      Found all = comprehension(std::move(made), ')');
      if (!all) return std::nullopt;
      --at_;
      all->end = at_;
      ++depth_;
      argument = *std::move(all);
    }
    value.parts.push_back(std::move(argument));
    value.names.push_back(std::move(key));
    if (!skip(',') && peek() != ')') return std::nullopt;
  }
  --depth_;
  ++at_;
  value.end = at_;
  return value;
}

Found ExpressionParser::subscript(PythonExpression of) {
  const std::size_t begin = of.begin;
  Found which = list(']', Tree::Tuple);
  if (!which || which->parts.empty()) return std::nullopt;
  PythonExpression value = node(Tree::Subscript, begin);
  const bool one = which->kind == Tree::Tuple && which->parts.size() == 1 && which->text != ",";
  value.parts.push_back(std::move(of));
  value.parts.push_back(one ? PythonExpression(which->parts.front()) : *which);
  return value;
}

}  // namespace meshwright
