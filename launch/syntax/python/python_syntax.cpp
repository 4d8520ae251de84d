// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/python/python_syntax.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/syntax/python/python_tree.h"

namespace meshwright {

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

std::optional<std::int64_t> whole(const ConfigValue& value) {
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

// What an expression says without knowing any name.
class PlainValue {
 public:
  PlainValue(const std::string& text, int line) : text_(text), line_(line) {}

  [[nodiscard]] std::optional<ConfigValue> of(const PythonExpression& tree) const {
    switch (tree.kind) {
      case PythonExpression::Kind::Number:
        return ConfigValue::scalar(tree.text, line_);
      case PythonExpression::Kind::Text:
        return ConfigValue::scalar(tree.text, line_, true);
      case PythonExpression::Kind::Name: {
        ConfigValue none;
        none.line = line_;
        return tree.text == "None" ? none : ConfigValue::scalar(tree.text, line_);
      }
      case PythonExpression::Kind::Attribute:
        return attribute(tree);
      case PythonExpression::Kind::Call:
        return call(tree);
      case PythonExpression::Kind::List:
      case PythonExpression::Kind::Tuple:
        return list(tree);
      case PythonExpression::Kind::Dict:
        return dictionary(tree);
      case PythonExpression::Kind::Unary: {
        const auto inner = tree.text == "-" || tree.text == "+" ? of(tree.parts[0]) : std::nullopt;
        if (!inner || !inner->is_scalar() || inner->quoted) return std::nullopt;
        return ConfigValue::scalar(tree.text + inner->text, line_);
      }
      case PythonExpression::Kind::Binary: {
        const auto left = of(tree.parts[0]), right = of(tree.parts[1]);
        return left && right ? combine(*left, *right, tree.text) : std::nullopt;
      }
      case PythonExpression::Kind::Comprehension: {
        if (tree.text != "[") return std::nullopt;
        ConfigValue value = ConfigValue::list(line_);
        value.items.push_back(ConfigValue::scalar(text_.substr(tree.begin + 1, tree.end - tree.begin - 2), line_));
        return value;
      }
      default:
        return std::nullopt;
    }
  }

 private:
  // An element of a list or an argument: what is of another form stays text.
  [[nodiscard]] ConfigValue item(const PythonExpression& tree, const char* before = "") const {
    std::optional<ConfigValue> value = *before == '\0' ? of(tree) : std::nullopt;
    if (value) return *std::move(value);
    return ConfigValue::scalar(before + text_.substr(tree.begin, tree.end - tree.begin), line_);
  }

  [[nodiscard]] std::optional<ConfigValue> combine(const ConfigValue& a, const ConfigValue& b,
                                                   const std::string& op) const {
    const auto left = whole(a), right = whole(b);
    if (!left || !right) return std::nullopt;
    std::int64_t result = 0;
    const bool fits = op == "*"   ? !__builtin_mul_overflow(*left, *right, &result)
                      : op == "+" ? !__builtin_add_overflow(*left, *right, &result)
                      : op == "-" ? !__builtin_sub_overflow(*left, *right, &result)
                                  : (op == "/" || op == "//") && *right != 0;
    if (!fits) return std::nullopt;
    if (op == "/" || op == "//") result = *left / *right;
    return ConfigValue::scalar(fmt::format("{}", result), line_);
  }

  // "a.b"; what is asked of the result of a call: "f(x).g" is g with x's call as its "(of)".
  [[nodiscard]] std::optional<ConfigValue> attribute(const PythonExpression& tree) const {
    std::optional<ConfigValue> whose = of(tree.parts[0]);
    if (!whose || whose->quoted) return std::nullopt;
    if (whose->is_scalar()) return ConfigValue::scalar(whose->text + "." + tree.text, line_);
    if (!whose->is_map() || whose->text.empty()) return std::nullopt;
    ConfigValue value = ConfigValue::map(line_);
    value.text = tree.text;
    value.set("(of)", *std::move(whose));
    return value;
  }

  // Its named arguments; others as "#0", "#1".
  [[nodiscard]] std::optional<ConfigValue> call(const PythonExpression& tree) const {
    const PythonExpression& callee = tree.parts[0];
    if (callee.kind != PythonExpression::Kind::Name && callee.kind != PythonExpression::Kind::Attribute)
      return std::nullopt;
    std::optional<ConfigValue> called = of(callee);
    if (!called || !(called->is_scalar() || called->is_map())) return std::nullopt;
    ConfigValue value = ConfigValue::map(line_);
    value.text = called->text;
    int unnamed = 0;
    for (std::size_t i = 1; i < tree.parts.size(); ++i) {
      const std::string& name = tree.names[i - 1];
      const bool named = !name.empty() && name[0] != '*';
      value.set(named ? name : fmt::format("#{}", unnamed++), item(tree.parts[i], named ? "" : name.c_str()));
    }
    if (const ConfigValue* whose = called->find("(of)")) value.set("(of)", *whose);
    return value;
  }

  [[nodiscard]] std::optional<ConfigValue> list(const PythonExpression& tree) const {
    if (tree.kind == PythonExpression::Kind::Tuple && tree.parts.size() == 1 && text_[tree.begin] == '(')
      return item(tree.parts[0]);
    ConfigValue value = ConfigValue::list(line_);
    for (const PythonExpression& part : tree.parts) value.items.push_back(item(part));
    return value;
  }

  [[nodiscard]] std::optional<ConfigValue> dictionary(const PythonExpression& tree) const {
    ConfigValue value = ConfigValue::map(line_);
    int unnamed = 0;
    for (std::size_t i = 0; i + 1 < tree.parts.size(); i += 2) {
      const bool all = tree.parts[i].kind == PythonExpression::Kind::Starred;
      const std::optional<ConfigValue> key = all ? std::nullopt : of(tree.parts[i]);
      if (!all && !key) return std::nullopt;
      value.set(all ? fmt::format("#{}", unnamed++) : key->text, item(tree.parts[i + 1]));
    }
    return value;
  }

  const std::string& text_;
  int line_;
};

}  // namespace

std::vector<PythonStatement> python_statements(const std::string& text, const std::string& place) {
  require(text.size() <= kMaxLaunchFile, "{}:1: the file is larger than 4 MB; launch files are shorter.", place);
  return Statements(text, place).read();
}

std::optional<ConfigValue> python_value(const std::string& text, int line, std::size_t from) {
  const std::optional<PythonExpression> tree = python_expression(text, from);
  return tree ? PlainValue(text, line).of(*tree) : std::nullopt;
}

}  // namespace meshwright
