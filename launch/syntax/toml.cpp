// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/toml.h"

#include <set>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/syntax/numbers.h"

namespace meshwright {

namespace {

class TomlReader {
 public:
  TomlReader(const std::string& text, const std::string& place) : text_(text), place_(place) {
    expect(text.size() <= kMaxLaunchFile, "the file is larger than 4 MB; launch files are shorter");
  }

  ConfigValue document() {
    ConfigValue root = ConfigValue::map(1);
    std::vector<std::string> table;
    for (skip_lines(); !done(); skip_lines()) {
      if (peek() == '[') {
        table = header(root);
      } else {
        ConfigValue* into = find_table(root, table);
        key_and_value(*into, 0);
      }
      skip_blanks();
      if (peek() == '#') skip_comment();
      expect(done() || peek() == '\n', "more stands behind a value; begin a new line");
    }
    return root;
  }

 private:
  void expect(bool sound, const std::string& sentence) const {
    if (!sound) throw InputError(fmt::format("{}:{}: {}.", place_, line_, sentence));
  }
  [[nodiscard]] bool done() const { return at_ >= text_.size(); }
  [[nodiscard]] char peek() const { return done() ? '\0' : text_[at_]; }
  [[nodiscard]] bool starts_with(std::string_view part) const { return text_.compare(at_, part.size(), part) == 0; }
  void next() {
    if (text_[at_++] == '\n') ++line_;
  }
  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\r') next();
  }
  void skip_comment() {
    while (!done() && peek() != '\n') next();
  }
  void skip_lines() {
    for (;;) {
      skip_blanks();
      if (peek() == '#') skip_comment();
      if (peek() != '\n') return;
      next();
    }
  }
  ConfigValue count(ConfigValue value) {
    expect(++values_ <= kMaxLaunchValues, "the file has too many values");
    return value;
  }

  std::string bare_or_quoted() {
    skip_blanks();
    if (peek() == '"' || peek() == '\'') return string();
    std::string name;
    while (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '_' || peek() == '-') {
      name += peek();
      next();
    }
    expect(!name.empty(), "a key is missing; write key = value");
    return name;
  }
  std::vector<std::string> dotted() {
    std::vector<std::string> names = {bare_or_quoted()};
    for (skip_blanks(); peek() == '.'; skip_blanks()) {
      next();
      names.push_back(bare_or_quoted());
      expect(names.size() < static_cast<std::size_t>(kMaxLaunchDepth), "keys are nested too deeply");
    }
    return names;
  }

  // The table of this name, made where there is none; of an array of tables the last one.
  ConfigValue* find_table(ConfigValue& root, const std::vector<std::string>& names) {
    ConfigValue* table = &root;
    for (const std::string& name : names) {
      if (table->find(name) == nullptr) table->set(name, count(ConfigValue::map(line_)));
      ConfigValue* inner = nullptr;
      for (auto& [key, value] : table->members)
        if (key == name) inner = &value;
      if (inner->is_list() && !inner->items.empty()) inner = &inner->items.back();
      expect(inner->is_map(), fmt::format("'{}' is a value, not a table", name));
      table = inner;
    }
    return table;
  }

  // "[a.b]" or "[[a.b]]"; the names.
  std::vector<std::string> header(ConfigValue& root) {
    const bool array = starts_with("[[");
    next();
    if (array) next();
    std::vector<std::string> names = dotted();
    expect(peek() == ']', "']' is missing behind the name of a table");
    next();
    if (array) {
      expect(peek() == ']', "']]' is missing behind the name of an array of tables");
      next();
      // Tables within one element may stand in the next one, too.
      const std::string within = join(names, ".") + ".";
      std::erase_if(tables_, [&](const std::string& name) { return name.starts_with(within); });
      const std::string last = names.back();
      ConfigValue* outer = find_table(root, {names.begin(), names.end() - 1});
      if (outer->find(last) == nullptr) outer->set(last, ConfigValue::list(line_));
      for (auto& [key, value] : outer->members)
        if (key == last) {
          expect(value.is_list(), fmt::format("'{}' is not an array of tables", last));
          value.items.push_back(count(ConfigValue::map(line_)));
        }
      return names;
    }
    const std::string shown = join(names, ".");
    expect(tables_.insert(shown).second, fmt::format("the table [{}] is given twice", shown));
    find_table(root, names);
    return names;
  }

  void key_and_value(ConfigValue& into, int depth) {
    const int line = line_;
    const std::vector<std::string> names = dotted();
    expect(peek() == '=', fmt::format("'=' is missing behind the key '{}'", names.back()));
    next();
    skip_blanks();
    ConfigValue given = value(depth + 1);
    given.line = line;
    ConfigValue* table = find_table(into, {names.begin(), names.end() - 1});
    expect(table->find(names.back()) == nullptr, fmt::format("the key '{}' is given twice", join(names, ".")));
    table->members.emplace_back(names.back(), std::move(given));
  }

  ConfigValue value(int depth) {
    expect(depth < kMaxLaunchDepth, "values are nested too deeply");
    const int line = line_;
    if (peek() == '"' || peek() == '\'') return count(ConfigValue::scalar(string(), line, true));
    if (peek() == '[') return array(depth);
    if (peek() == '{') return inline_table(depth);
    std::string text;
    while (!done() && peek() != '\n' && peek() != ',' && peek() != ']' && peek() != '}' && peek() != '#') {
      text += peek();
      next();
    }
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.pop_back();
    expect(!text.empty(), "a value is missing behind '='");
    const bool number = std::isdigit(static_cast<unsigned char>(text[0])) != 0 || text[0] == '+' || text[0] == '-';
    expect(number || text == "true" || text == "false" || text == "inf" || text == "nan",
           fmt::format("'{}' is no value of TOML; quote text, and write true and false in lower case", text));
    return count(ConfigValue::scalar(decimal_text(text), line));
  }

  ConfigValue array(int depth) {
    ConfigValue list = count(ConfigValue::list(line_));
    next();
    for (;;) {
      skip_lines();
      expect(!done(), fmt::format("the array that begins at line {} has no ']'", list.line));
      if (peek() == ']') break;
      list.items.push_back(value(depth + 1));
      skip_lines();
      if (peek() == ',') {
        next();
        continue;
      }
      expect(peek() == ']', fmt::format("',' or ']' is missing in the array that begins at line {}", list.line));
    }
    next();
    return list;
  }

  ConfigValue inline_table(int depth) {
    ConfigValue table = count(ConfigValue::map(line_));
    next();
    for (;;) {
      skip_lines();
      expect(!done(), fmt::format("the table that begins at line {} has no '}}'", table.line));
      if (peek() == '}') break;
      key_and_value(table, depth);
      skip_lines();
      if (peek() == ',') {
        next();
        continue;
      }
      expect(peek() == '}', fmt::format("',' or '}}' is missing in the table that begins at line {}", table.line));
    }
    next();
    return table;
  }

  std::string string() {
    const char quote = peek();
    const std::string triple(3, quote);
    const bool multiline = starts_with(triple);
    const int line = line_;
    for (int i = 0; i < (multiline ? 3 : 1); ++i) next();
    if (multiline && peek() == '\n') next();
    std::string text;
    for (;;) {
      if (done() || (!multiline && peek() == '\n')) {
        line_ = line;
        expect(false, fmt::format("the text that begins here with {} has no end", quote));
      }
      if (multiline ? starts_with(triple) : peek() == quote) break;
      if (peek() == '\\' && quote == '"') {
        next();
        const char c = peek();
        if (c == '\n') {
          while (peek() == ' ' || peek() == '\t' || peek() == '\n') next();
          continue;
        }
        text += c == 'n' ? '\n' : c == 't' ? '\t' : c;
        if (!done()) next();
        continue;
      }
      text += peek();
      next();
    }
    for (int i = 0; i < (multiline ? 3 : 1); ++i) next();
    return text;
  }

  const std::string& text_;
  const std::string& place_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::size_t values_ = 0;
  std::set<std::string> tables_;
};

}  // namespace

ConfigValue value_from_toml(const std::string& text, const std::string& place) {
  return TomlReader(text, place).document();
}

}  // namespace meshwright
