// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/python_syntax.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

bool is_python_name_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

namespace {

// Lines joined where a bracket is open or a backslash stands at the end; comments left out.
class Statements {
 public:
  Statements(const std::string& text, const std::string& place) : text_(text), place_(place) {}

  std::vector<PythonStatement> read() {
    std::vector<PythonStatement> found;
    while (at_ < text_.size()) {
      PythonStatement statement{"", line_, 0};
      while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) {
        ++statement.indent;
        ++at_;
      }
      logical_line(statement.text);
      while (!statement.text.empty() && std::isspace(static_cast<unsigned char>(statement.text.back())) != 0)
        statement.text.pop_back();
      if (!statement.text.empty()) found.push_back(std::move(statement));
    }
    return found;
  }

 private:
  void logical_line(std::string& out) {
    int open = 0;
    const int first = line_;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        ++at_;
        if (open == 0) return;
        out += ' ';
        continue;
      }
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
        continue;
      }
      if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
        at_ += 2;
        ++line_;
        out += ' ';
        continue;
      }
      if (c == '"' || c == '\'') {
        quoted(out, c);
        continue;
      }
      if (c == '(' || c == '[' || c == '{') ++open;
      if (c == ')' || c == ']' || c == '}') --open;
      out += c;
      ++at_;
    }
    if (open > 0) throw InputError(fmt::format("{}:{}: a bracket is open until the end of the file.", place_, first));
  }

  void quoted(std::string& out, char quote) {
    const int first = line_;
    const std::string triple(3, quote);
    const bool three = text_.compare(at_, 3, triple) == 0;
    const std::string end = three ? triple : std::string(1, quote);
    out += quote;
    at_ += end.size();
    for (;;) {
      if (at_ >= text_.size() || (!three && text_[at_] == '\n'))
        throw InputError(fmt::format("{}:{}: the text that begins here has no end.", place_, first));
      if (text_.compare(at_, end.size(), end) == 0) break;
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) out += text_[at_++];
      if (text_[at_] == quote) out += '\\';
      out += text_[at_] == '\n' ? ' ' : text_[at_];
      ++at_;
    }
    at_ += end.size();
    out += quote;
  }

  const std::string& text_;
  const std::string& place_;
  std::size_t at_ = 0;
  int line_ = 1;
};

// An expression of one statement; nullopt where it is of another form.
class Expression {
 public:
  Expression(const std::string& text, int line, std::size_t at) : text_(text), line_(line), at_(at) {}

  std::optional<ConfigValue> tuple() {
    std::optional<ConfigValue> first = sum(0);
    if (!first || !skip(',')) return at_end(std::move(first));
    ConfigValue list = ConfigValue::list(line_);
    list.items.push_back(*std::move(first));
    while (peek() != '\0') {
      std::optional<ConfigValue> next = sum(0);
      if (!next) return std::nullopt;
      list.items.push_back(*std::move(next));
      if (!skip(',')) break;
    }
    return at_end(std::move(list));
  }

 private:
  template <class T>
  std::optional<ConfigValue> at_end(T value) {
    if (peek() != '\0') return std::nullopt;
    return value;
  }
  char peek() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool skip(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  static std::optional<std::int64_t> whole(const ConfigValue& value) {
    if (!value.is_scalar() || value.quoted) return std::nullopt;
    std::string digits = value.text;
    std::erase(digits, '_');
    if (digits.empty() || digits.size() > 18 ||
        !std::all_of(digits.begin() + (digits[0] == '-' ? 1 : 0), digits.end(),
                     [](char c) { return c >= '0' && c <= '9'; }) ||
        digits == "-")
      return std::nullopt;
    return std::stoll(digits);
  }

  std::optional<ConfigValue> combine(const ConfigValue& a, const ConfigValue& b, char op) const {
    const auto left = whole(a), right = whole(b);
    if (!left || !right) return std::nullopt;
    std::int64_t result = 0;
    if ((op == '*' && __builtin_mul_overflow(*left, *right, &result)) ||
        (op == '+' && __builtin_add_overflow(*left, *right, &result)) ||
        (op == '-' && __builtin_sub_overflow(*left, *right, &result)))
      return std::nullopt;
    if (op == '/') {
      if (*right == 0) return std::nullopt;
      result = *left / *right;
    }
    return ConfigValue::scalar(fmt::format("{}", result), line_);
  }

  // An element of a list or an argument: what is of another form stays text, up to the comma or bracket behind it.
  ConfigValue item(int depth) {
    const std::size_t from = at_;
    std::optional<ConfigValue> value = sum(depth);
    const char after = peek();
    if (value && (after == ',' || after == ')' || after == ']' || after == '}')) return *std::move(value);
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
    return ConfigValue::scalar(text_.substr(from, at_ - from), line_);
  }

  std::optional<ConfigValue> sum(int depth) {
    std::optional<ConfigValue> value = product(depth);
    while (value && (peek() == '+' || peek() == '-')) {
      const char op = text_[at_++];
      const auto right = product(depth);
      value = right ? combine(*value, *right, op) : std::nullopt;
    }
    return value;
  }

  std::optional<ConfigValue> product(int depth) {
    std::optional<ConfigValue> value = primary(depth);
    while (value && (peek() == '*' || peek() == '/')) {
      const char op = text_[at_++];
      if (op == '/' && peek() == '/') ++at_;
      const auto right = primary(depth);
      value = right ? combine(*value, *right, op) : std::nullopt;
    }
    return value;
  }

  std::optional<ConfigValue> primary(int depth) {
    if (depth > kMaxLaunchDepth) return std::nullopt;
    const char c = peek();
    if (c == '"' || c == '\'') return string(c);
    if (c == '[') return list(']', depth);
    if (c == '{') return dictionary(depth);
    if (c == '(') {
      std::optional<ConfigValue> inner = list(')', depth);
      if (inner && inner->items.size() == 1) return inner->items.front();
      return inner;
    }
    std::string word;
    if (c == '-' || c == '+') word += text_[at_++];
    peek();
    while (at_ < text_.size() &&
           (is_python_name_part(text_[at_]) || text_[at_] == '.' ||
            ((text_[at_] == '-' || text_[at_] == '+') && word.size() > 1 &&
             std::isdigit(static_cast<unsigned char>(word[0])) != 0 && (word.back() == 'e' || word.back() == 'E'))))
      word += text_[at_++];
    if (word.empty()) return std::nullopt;
    if (peek() == '(') return members_of(call(word, depth), depth);
    if (word == "None") {
      ConfigValue none;
      none.line = line_;
      return none;
    }
    return ConfigValue::scalar(decimal_text(word), line_);
  }

  // What is asked of the result of a call: "f(x).g(y)" is g with x's call as its "(of)".
  std::optional<ConfigValue> members_of(std::optional<ConfigValue> value, int depth) {
    for (int asked = 0; value && peek() == '.'; ++asked) {
      if (depth + asked > kMaxLaunchDepth) return std::nullopt;
      ++at_;
      std::string name;
      while (at_ < text_.size() && is_python_name_part(text_[at_])) name += text_[at_++];
      if (name.empty()) return std::nullopt;
      std::optional<ConfigValue> next = ConfigValue::map(line_);
      next->text = name;
      if (peek() == '(') next = call(name, depth);
      if (next) next->set("(of)", *std::move(value));
      value = std::move(next);
    }
    return value;
  }

  std::optional<ConfigValue> string(char quote) {
    std::string text;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      text += text_[at_];
    }
    if (at_ >= text_.size()) return std::nullopt;
    ++at_;
    return ConfigValue::scalar(text, line_, true);
  }

  std::optional<ConfigValue> list(char end, int depth) {
    ConfigValue value = ConfigValue::list(line_);
    ++at_;
    while (peek() != end) {
      value.items.push_back(item(depth + 1));
      if (!skip(',') && peek() != end) return std::nullopt;
    }
    ++at_;
    return value;
  }

  std::optional<ConfigValue> dictionary(int depth) {
    ConfigValue value = ConfigValue::map(line_);
    ++at_;
    int unnamed = 0;
    while (peek() != '}') {
      if (text_.compare(at_, 2, "**") == 0) {  // all members of another
        at_ += 2;
        value.set(fmt::format("#{}", unnamed++), item(depth + 1));
        if (!skip(',') && peek() != '}') return std::nullopt;
        continue;
      }
      const std::optional<ConfigValue> key = sum(depth + 1);
      if (!key || !skip(':')) return std::nullopt;
      value.set(key->text, item(depth + 1));
      if (!skip(',') && peek() != '}') return std::nullopt;
    }
    ++at_;
    return value;
  }

  // Its named arguments; others as "#0", "#1".
  std::optional<ConfigValue> call(const std::string& name, int depth) {
    ConfigValue value = ConfigValue::map(line_);
    value.text = name;
    ++at_;
    int unnamed = 0;
    while (peek() != ')') {
      const std::size_t from = at_;
      std::string key;
      while (at_ < text_.size() && is_python_name_part(text_[at_])) key += text_[at_++];
      if (key.empty() || peek() != '=' || (at_ + 1 < text_.size() && text_[at_ + 1] == '=')) {
        at_ = from;
        key = fmt::format("#{}", unnamed++);
      } else {
        ++at_;
      }
      value.set(key, item(depth + 1));
      if (!skip(',') && peek() != ')') return std::nullopt;
    }
    ++at_;
    return value;
  }

  const std::string& text_;
  int line_;
  std::size_t at_;
};

}  // namespace

std::vector<PythonStatement> python_statements(const std::string& text, const std::string& place) {
  require(text.size() <= kMaxLaunchFile, "{}:1: the file is larger than 4 MB; launch files are shorter.", place);
  return Statements(text, place).read();
}

std::optional<ConfigValue> python_value(const std::string& text, int line, std::size_t from) {
  return Expression(text, line, from).tuple();
}

}  // namespace meshwright
