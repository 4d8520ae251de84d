// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/python_config.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

bool is_name_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

struct Statement {
  std::string text;
  int line, indent;
};

// Lines joined where a bracket is open or a backslash stands at the end; comments left out.
class Statements {
 public:
  Statements(const std::string& text, const std::string& place) : text_(text), place_(place) {}

  std::vector<Statement> read() {
    std::vector<Statement> found;
    while (at_ < text_.size()) {
      Statement statement{"", line_, 0};
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
           (is_name_part(text_[at_]) || text_[at_] == '.' ||
            ((text_[at_] == '-' || text_[at_] == '+') && word.size() > 1 &&
             std::isdigit(static_cast<unsigned char>(word[0])) != 0 && (word.back() == 'e' || word.back() == 'E'))))
      word += text_[at_++];
    if (word.empty()) return std::nullopt;
    if (peek() == '(') return call(word, depth);
    if (word == "None") {
      ConfigValue none;
      none.line = line_;
      return none;
    }
    return ConfigValue::scalar(decimal_text(word), line_);
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
    while (peek() != '}') {
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
      while (at_ < text_.size() && is_name_part(text_[at_])) key += text_[at_++];
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

class FunctionReader {
 public:
  // `root`: the name that the function returns; "": it returns what it constructs.
  FunctionReader(PythonConfig& config, const std::string& place, std::string root)
      : config_(config), place_(place), root_(std::move(root)) {
    config_.values = ConfigValue::map(1);
  }

  // Members of `more` in the place of those of the same name.
  static void merge(ConfigValue& into, const ConfigValue& more) {
    for (const auto& [key, value] : more.members) {
      ConfigValue* held = nullptr;
      for (auto& [name, member] : into.members)
        if (name == key) held = &member;
      if (held != nullptr && held->is_map() && value.is_map() && value.text.empty())
        merge(*held, value);
      else
        into.set(key, value);
    }
  }

  void read(const Statement& statement) {
    const std::string& text = statement.text;
    if (text.starts_with("return ")) {
      const auto result = Expression(text, statement.line, 7).tuple();
      if (result && result->is_map())
        merge(config_.values, with_locals(*result, 0));
      else if (!result)
        ignore(statement);
      return;
    }
    if (text.starts_with("from ") || text.starts_with("import ") || text.starts_with("\"") || text == "pass") return;
    const std::size_t equal = assignment_of(text);
    if (equal == std::string::npos) return ignore(statement);
    std::vector<std::string> targets = split(text.substr(0, equal), ',');
    for (std::string& target : targets) {
      std::erase_if(target, [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; });
      if (const std::size_t type = target.find(':'); type != std::string::npos) target.resize(type);
    }
    const auto value = Expression(text, statement.line, equal + 1).tuple();
    if (!value) return ignore(statement);
    if (targets.size() == 1) return assign(targets[0], with_locals(*value, 0), statement);
    if (!value->is_list() || value->items.size() != targets.size()) return ignore(statement);
    for (std::size_t i = 0; i < targets.size(); ++i) assign(targets[i], value->items[i], statement);
  }

 private:
  // Names of values in the place of which these stand.
  ConfigValue with_locals(ConfigValue value, int depth) const {
    if (depth > kMaxLaunchDepth) return value;
    if (value.is_scalar() && !value.quoted) {
      const auto known = locals_.find(value.text);
      return known == locals_.end() || locals_used_ > 1000 ? value : (++locals_used_, known->second);
    }
    for (ConfigValue& item : value.items) item = with_locals(std::move(item), depth + 1);
    for (auto& [key, member] : value.members) member = with_locals(std::move(member), depth + 1);
    return value;
  }

  static std::size_t assignment_of(const std::string& text) {
    int open = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '(' || text[i] == '[' || text[i] == '"' || text[i] == '\'') ++open;
      if (open > 0) return std::string::npos;
      if (text[i] == '=' && (i + 1 >= text.size() || text[i + 1] != '=')) {
        const char before = i > 0 ? text[i - 1] : ' ';
        return before == ' ' || is_name_part(before) ? i : std::string::npos;
      }
    }
    return std::string::npos;
  }

  void ignore(const Statement& statement) {
    config_.ignored.push_back(fmt::format("{}:{}: {}", place_, statement.line, statement.text.substr(0, 80)));
  }

  // "c.parallelism.tensor_parallel_degree", of which the first name is the configuration or stands for a part of it.
  void assign(const std::string& target, const ConfigValue& value, const Statement& statement) {
    std::vector<std::string> names = split(target, '.');
    if (names.size() == 1) return name_value(target, value);
    const auto known = parts_.find(names[0]);
    if (known == parts_.end()) return ignore(statement);
    std::vector<std::string> path = known->second;
    path.insert(path.end(), names.begin() + 1, names.end());
    if (path.size() > static_cast<std::size_t>(kMaxLaunchDepth)) return ignore(statement);
    ConfigValue* table = &config_.values;
    for (std::size_t i = 0; i + 1 < path.size(); ++i) {
      ConfigValue* inner = nullptr;
      for (auto& [name, member] : table->members)
        if (name == path[i]) inner = &member;
      if (inner == nullptr || !inner->is_map()) {
        table->set(path[i], ConfigValue::map(statement.line));
        for (auto& [name, member] : table->members)
          if (name == path[i]) inner = &member;
      }
      table = inner;
    }
    table->set(path.back(), value);
  }

  // A name for the whole configuration (what a function returns), or for a part of it.
  void name_value(const std::string& name, const ConfigValue& value) {
    if (name != root_ && !(value.is_scalar() && parts_.contains(split(value.text, '.')[0]))) {
      locals_[name] = value;
      return;
    }
    if (value.is_map() && !value.text.empty()) {
      parts_[name] = {};
      if (value.members.empty())
        config_.base = value.text;
      else
        merge(config_.values, value);
      return;
    }
    const std::vector<std::string> names = split(value.text, '.');
    const auto known = value.is_scalar() ? parts_.find(names[0]) : parts_.end();
    if (known == parts_.end()) return;  // a number or text of its own
    std::vector<std::string> path = known->second;
    path.insert(path.end(), names.begin() + 1, names.end());
    if (path.size() < static_cast<std::size_t>(kMaxLaunchDepth)) parts_[name] = path;
  }

  PythonConfig& config_;
  const std::string& place_;
  std::string root_;
  std::map<std::string, std::vector<std::string>> parts_;
  std::map<std::string, ConfigValue> locals_;
  mutable int locals_used_ = 0;
};

std::string function_name(const std::string& text) {
  if (!text.starts_with("def ")) return "";
  std::size_t end = 4;
  while (end < text.size() && is_name_part(text[end])) ++end;
  return text.substr(4, end - 4);
}

}  // namespace

namespace {

// The names of `NAME, NAME = value`, whose value begins at `begin`; none: the statement assigns to no names alone.
std::vector<std::string> assigned_names(const std::string& line, std::size_t& begin) {
  std::vector<std::string> names;
  std::size_t end = 0;
  const auto skip = [&](std::string_view blanks) { end = std::min(line.size(), line.find_first_not_of(blanks, end)); };
  do {
    if (!names.empty()) skip(", ");
    const std::size_t from = end;
    while (end < line.size() && is_name_part(line[end])) ++end;
    if (end == from) return {};
    names.push_back(line.substr(from, end - from));
    skip(" ");
  } while (end < line.size() && line[end] == ',');
  if (end + 1 >= line.size() || line[end] != '=' || line[end + 1] == '=') return {};
  begin = end + 1;
  return names;
}

PythonConfig config_of(const std::vector<Statement>& statements, const std::string& name, const std::string& place,
                       int depth) {
  PythonConfig config;
  std::vector<std::string> functions;
  std::optional<std::size_t> begin;
  for (std::size_t i = 0; i < statements.size(); ++i) {
    const std::string function = function_name(statements[i].text);
    if (function.empty() || statements[i].indent > 0) continue;
    functions.push_back(function);
    if (name.empty() || function == name) {
      begin = i;
      config.function = function;
    }
  }
  if (!begin && !name.empty())
    throw InputError(fmt::format("{}:1: has no function '{}'; it has {}.", place, name,
                                 functions.empty() ? "none" : join(functions, ", ")));
  std::string root = begin ? "" : "c";
  for (std::size_t i = begin.value_or(0) + 1; begin && i < statements.size() && statements[i].indent > 0; ++i)
    if (const std::string& line = statements[i].text; line.starts_with("return "))
      if (std::all_of(line.begin() + 7, line.end(), is_name_part)) root = line.substr(7);
  FunctionReader reader(config, place, root);
  if (!begin) {
    for (const Statement& statement : statements) reader.read(statement);
    return config;
  }
  for (std::size_t i = *begin + 1; i < statements.size() && statements[i].indent > 0; ++i) reader.read(statements[i]);
  // A function of the same file that it begins with.
  if (depth < 8 && config.base != config.function &&
      std::find(functions.begin(), functions.end(), config.base) != functions.end()) {
    PythonConfig changed = config_of(statements, config.base, place, depth + 1);
    FunctionReader::merge(changed.values, config.values);
    changed.function = config.function;
    changed.ignored.insert(changed.ignored.end(), config.ignored.begin(), config.ignored.end());
    if (changed.base.empty()) changed.name_of_model = config.base;
    return changed;
  }
  return config;
}

}  // namespace

PythonConfig config_from_python(const std::string& text, const std::string& name, const std::string& place) {
  require(text.size() <= kMaxLaunchFile, "{}:1: the file is larger than 4 MB; launch files are shorter.", place);
  return config_of(Statements(text, place).read(), name, place, 0);
}

std::vector<PythonValue> values_from_python(const std::string& text, const std::string& place) {
  require(text.size() <= kMaxLaunchFile, "{}:1: the file is larger than 4 MB; launch files are shorter.", place);
  std::vector<PythonValue> values;
  for (const Statement& statement : Statements(text, place).read()) {
    const std::string& line = statement.text;
    std::size_t begin = 0;
    std::vector<std::string> names = assigned_names(line, begin);
    if (names.empty() && line.starts_with("return ")) begin = 7;
    if (names.empty() && line.starts_with("@")) begin = 1;
    auto value = Expression(line, statement.line, begin).tuple();
    if (!value) continue;
    if (names.size() > 1 && value->is_list() && value->items.size() == names.size()) {
      for (std::size_t i = 0; i < names.size(); ++i)
        values.push_back({std::move(names[i]), std::move(value->items[i]), statement.line});
    } else if (names.size() == 1) {
      values.push_back({std::move(names.front()), *std::move(value), statement.line});
    } else if (names.empty() && value->is_map()) {
      values.push_back({"", *std::move(value), statement.line});
    }
  }
  return values;
}

}  // namespace meshwright
