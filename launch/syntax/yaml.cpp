// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/yaml.h"

#include <map>

#include "core/base/errors.h"
#include "launch/syntax/shell.h"

namespace meshwright {

namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

void append_utf8(std::string& text, unsigned code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xc0 | (code >> 6));
    text += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    text += static_cast<char>(0xe0 | (code >> 12));
    text += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    text += static_cast<char>(0x80 | (code & 0x3f));
  }
}

class YamlReader {
 public:
  YamlReader(const std::string& text, const std::string& place) : text_(text), place_(place) {
    expect(text.size() <= kMaxLaunchFile, "the file is larger than 4 MB; launch files are shorter");
  }

  ConfigValue document() {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
    start_ = at_;
    skip_blank_lines();
    while (peek() == '%') skip_line();
    if (starts_with("---")) {
      at_ += 3;
      skip_blank_lines();
    }
    ConfigValue value;
    if (!done() && !starts_with("...")) value = node(column(), 0);
    skip_blank_lines();
    if (starts_with("...")) return value;
    expect(!starts_with("---"), "a second document begins; give a file with one");
    expect(done(), "this belongs to nothing before it; its indentation, or a bracket before it, is wrong");
    return value;
  }

 private:
  void expect(bool sound, const std::string& sentence) const {
    if (!sound) throw InputError(fmt::format("{}:{}: {}.", place_, line_, sentence));
  }
  [[nodiscard]] bool done() const { return at_ >= text_.size(); }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  [[nodiscard]] bool starts_with(std::string_view part) const { return text_.compare(at_, part.size(), part) == 0; }
  [[nodiscard]] bool ends_word(std::size_t ahead) const {
    const char c = peek(ahead);
    return at_ + ahead >= text_.size() || is_blank(c) || c == '\n';
  }
  [[nodiscard]] int column() const { return static_cast<int>(at_ - start_); }
  void next() {
    if (text_[at_++] != '\n') return;
    ++line_;
    start_ = at_;
  }
  void skip_line() {
    while (!done() && peek() != '\n') next();
    if (!done()) next();
  }
  void skip_blanks() {
    while (is_blank(peek())) next();
  }
  // Blanks, comments and ends of lines.
  void skip_blank_lines() {
    for (;;) {
      skip_blanks();
      if (peek() == '#')
        while (!done() && peek() != '\n') next();
      if (peek() != '\n') return;
      next();
    }
  }
  // What follows a value on its line.
  void end_line() {
    skip_blanks();
    expect(done() || peek() == '\n' || peek() == '#', "more stands behind a value; quote it, or begin a new line");
    skip_blank_lines();
  }
  ConfigValue count(ConfigValue value) {
    expect(++values_ <= kMaxLaunchValues, "the file has too many values");
    return value;
  }

  // A key from here to its colon, on this line.
  [[nodiscard]] bool at_key() const {
    std::size_t i = at_;
    if (text_[i] == '"' || text_[i] == '\'') {
      const char quote = text_[i++];
      while (i < text_.size() && text_[i] != quote && text_[i] != '\n') i += text_[i] == '\\' && quote == '"' ? 2 : 1;
      if (i >= text_.size() || text_[i] != quote) return false;
      ++i;
      while (i < text_.size() && is_blank(text_[i])) ++i;
      return i < text_.size() && text_[i] == ':' &&
             (i + 1 >= text_.size() || is_blank(text_[i + 1]) || text_[i + 1] == '\n');
    }
    for (; i < text_.size() && text_[i] != '\n'; ++i) {
      if (text_[i] == '#' && i > at_ && is_blank(text_[i - 1])) return false;
      if (text_[i] == ':' && (i + 1 >= text_.size() || is_blank(text_[i + 1]) || text_[i + 1] == '\n')) return true;
    }
    return false;
  }

  std::string key() {
    std::string name;
    if (peek() == '"' || peek() == '\'') {
      name = quoted();
      skip_blanks();
    } else {
      while (!(peek() == ':' && ends_word(1))) {
        name += peek();
        next();
      }
      while (!name.empty() && is_blank(name.back())) name.pop_back();
    }
    expect(peek() == ':', fmt::format("':' is missing behind the key '{}'", name));
    next();
    return name;
  }

  // The node whose first character is here; lines of a block node begin in this column.
  ConfigValue node(int col, int depth) {
    expect(depth < kMaxLaunchDepth, "values are nested too deeply");
    if (peek() == '-' && ends_word(1)) return block_list(col, depth);
    expect(!(peek() == '?' && ends_word(1)), "keys that are not plain text are not read");
    if (peek() != '{' && peek() != '[' && peek() != '|' && peek() != '>' && peek() != '&' && peek() != '*' && at_key())
      return block_map(col, depth);
    return inline_value(col - 1, depth);
  }

  ConfigValue block_list(int col, int depth) {
    ConfigValue list = count(ConfigValue::list(line_));
    while (!done() && column() == col && peek() == '-' && ends_word(1)) {
      next();
      list.items.push_back(after_mark(col, depth, false));
    }
    expect(done() || column() <= col, "this line is indented deeper than the list it stands in");
    return list;
  }

  ConfigValue block_map(int col, int depth) {
    ConfigValue map = count(ConfigValue::map(line_));
    while (!done() && column() == col && !starts_with("...") && !(col == 0 && starts_with("---"))) {
      expect(!(peek() == '-' && ends_word(1)), "a list item stands among the keys of a map");
      expect(at_key(), "expected 'key: value'");
      const std::string name = key();
      ConfigValue value = after_mark(col, depth, true);
      if (name == "<<" && value.is_map()) {
        for (const auto& [merged, of] : value.members)
          if (map.find(merged) == nullptr) map.set(merged, count(of));
      } else {
        map.set(name, std::move(value));
      }
    }
    expect(done() || column() <= col || starts_with("---"), "this line is indented deeper than the map it stands in");
    return map;
  }

  // The value behind "key:" or "-"; ends before the next line that holds something.
  ConfigValue after_mark(int col, int depth, bool of_key) {
    skip_blanks();
    const int line = line_;
    std::string anchor;
    while (peek() == '&' || peek() == '!') {
      const bool names = peek() == '&';
      std::string word;
      next();
      while (!ends_word(0)) {
        word += peek();
        next();
      }
      if (names) anchor = word;
      skip_blanks();
    }
    ConfigValue value;
    value.line = line;
    if (done() || peek() == '\n' || peek() == '#') {
      skip_blank_lines();
      const bool list_at_key = of_key && column() == col && peek() == '-' && ends_word(1);
      if (!done() && (column() > col || list_at_key) && !starts_with("...")) value = node(column(), depth + 1);
    } else if (!of_key && (at_key() || (peek() == '-' && ends_word(1)))) {
      value = node(column(), depth + 1);  // "- key: value": a map that begins here
    } else {
      value = inline_value(col, depth + 1);
    }
    if (!anchor.empty()) anchors_[anchor] = value;
    return value;
  }

  // A flow value, an alias or a scalar that begins here; continuation lines are indented deeper than `col`.
  ConfigValue inline_value(int col, int depth) {
    if (peek() == '{' || peek() == '[') {
      ConfigValue value = flow(depth);
      end_line();
      return value;
    }
    if (peek() == '|' || peek() == '>') return block_scalar(col);
    const int line = line_;
    if (peek() == '"' || peek() == '\'') {
      ConfigValue value = count(ConfigValue::scalar(quoted(), line, true));
      end_line();
      return value;
    }
    if (peek() == '*') {
      next();
      std::string name;
      while (!ends_word(0)) {
        name += peek();
        next();
      }
      end_line();
      return alias(name);
    }
    return plain(col);
  }

  ConfigValue alias(const std::string& name) {
    const auto found = anchors_.find(name);
    expect(found != anchors_.end(), fmt::format("no anchor '&{}' stands before '*{}'", name, name));
    add_values(found->second);
    return found->second;
  }
  void add_values(const ConfigValue& value) {
    expect(++values_ <= kMaxLaunchValues, "the file has too many values");
    for (const ConfigValue& item : value.items) add_values(item);
    for (const auto& [name, member] : value.members) add_values(member);
  }

  ConfigValue plain(int col) {
    ConfigValue value = count(ConfigValue::scalar("", line_));
    for (;;) {
      std::string part;
      while (!done() && peek() != '\n') {
        if (peek() == '#' && (part.empty() || is_blank(part.back()))) break;
        expect(!(peek() == ':' && ends_word(1)), "a second ':' stands on this line; quote the value");
        part += peek();
        next();
      }
      while (!part.empty() && is_blank(part.back())) part.pop_back();
      if (!value.text.empty() && !part.empty()) value.text += ' ';
      value.text += part;
      skip_blank_lines();
      if (done() || column() <= col || starts_with("...") || at_key() || (peek() == '-' && ends_word(1))) break;
    }
    if (value.text == "null" || value.text == "~" || value.text == "Null" || value.text == "NULL") {
      value.kind = ConfigValue::Kind::Null;
      value.text.clear();
    }
    return value;
  }

  // "|" keeps the ends of lines, ">" turns them into blanks.
  ConfigValue block_scalar(int col) {
    ConfigValue value = count(ConfigValue::scalar("", line_, true));
    const char end = peek() == '|' ? '\n' : ' ';
    skip_line();
    int indent = -1;
    while (!done()) {
      const std::size_t from = at_;
      while (peek() == ' ') next();
      if (peek() == '\n' || done()) {
        value.text += end;
        if (!done()) next();
        continue;
      }
      if (indent < 0) indent = column();
      if (column() <= col || column() < indent) {
        at_ = from;
        break;
      }
      value.text.append(static_cast<std::size_t>(column() - indent), ' ');
      while (!done() && peek() != '\n') {
        value.text += peek();
        next();
      }
      value.text += end;
      if (!done()) next();
    }
    skip_blank_lines();
    while (!value.text.empty() && (value.text.back() == ' ' || value.text.back() == '\n')) value.text.pop_back();
    return value;
  }

  std::string quoted() {
    const char quote = peek();
    const int line = line_;
    std::string text;
    next();
    for (;;) {
      if (done()) {
        line_ = line;
        expect(false, fmt::format("the text that begins here with {} has no end", quote));
      }
      const char c = peek();
      if (c == quote) {
        next();
        if (quote == '\'' && peek() == '\'') {
          text += '\'';
          next();
          continue;
        }
        return text;
      }
      if (c == '\\' && quote == '"') {
        next();
        escape(text);
        continue;
      }
      if (c == '\n') {
        while (!text.empty() && is_blank(text.back())) text.pop_back();
        next();
        skip_blanks();
        text += ' ';
        continue;
      }
      text += c;
      next();
    }
  }

  void escape(std::string& text) {
    const char c = peek();
    if (done()) return;
    next();
    switch (c) {
      case 'n':
        text += '\n';
        return;
      case 't':
        text += '\t';
        return;
      case '\n':
        skip_blanks();
        return;
      case 'x':
      case 'u': {
        unsigned code = 0;
        for (int digits = c == 'x' ? 2 : 4; digits > 0; --digits) {
          expect(std::isxdigit(static_cast<unsigned char>(peek())) != 0, "\\u is followed by four hexadecimal digits");
          const char digit = peek();
          code = 16 * code + static_cast<unsigned>(digit <= '9' ? digit - '0' : (digit | 0x20) - 'a' + 10);
          next();
        }
        append_utf8(text, code);
        return;
      }
      default:
        text += c;
    }
  }

  ConfigValue flow(int depth) {
    expect(depth < kMaxLaunchDepth, "values are nested too deeply");
    skip_blank_lines();
    if (peek() == '{') return flow_map(depth);
    if (peek() == '[') return flow_list(depth);
    const int line = line_;
    if (peek() == '"' || peek() == '\'') return count(ConfigValue::scalar(quoted(), line, true));
    ConfigValue value = count(ConfigValue::scalar("", line));
    // "${a.b}" and "${x:y}" are one word.
    int braces = 0;
    while (!done() && peek() != '\n' && peek() != ',' && peek() != ']' && (braces > 0 || peek() != '}') &&
           !(peek() == '#' && (value.text.empty() || is_blank(value.text.back()))) &&
           !(peek() == ':' && (ends_word(1) || peek(1) == ','))) {
      if (peek(1) == '{' && (peek() == '$' || peek() == kUnresolved)) ++braces;
      if (peek() == '}') --braces;
      value.text += peek();
      next();
    }
    while (!value.text.empty() && is_blank(value.text.back())) value.text.pop_back();
    expect(!value.text.empty() || peek() == ':', "a value is missing");
    if (value.text.starts_with('*')) return alias(value.text.substr(1));
    if (value.text == "null" || value.text == "~") value.kind = ConfigValue::Kind::Null;
    return value;
  }

  ConfigValue flow_list(int depth) {
    ConfigValue list = count(ConfigValue::list(line_));
    next();
    for (;;) {
      skip_blank_lines();
      expect(!done(), fmt::format("the list that begins at line {} has no ']'", list.line));
      if (peek() == ']') break;
      list.items.push_back(flow(depth + 1));
      skip_blank_lines();
      if (peek() == ',') {
        next();
        continue;
      }
      expect(peek() == ']', fmt::format("',' or ']' is missing in the list that begins at line {}", list.line));
    }
    next();
    return list;
  }

  ConfigValue flow_map(int depth) {
    ConfigValue map = count(ConfigValue::map(line_));
    next();
    for (;;) {
      skip_blank_lines();
      expect(!done(), fmt::format("the map that begins at line {} has no '}}'", map.line));
      if (peek() == '}') break;
      const ConfigValue name = flow(depth + 1);
      expect(name.is_scalar(), "keys that are not plain text are not read");
      skip_blank_lines();
      ConfigValue value;  // {a, b: 1}: a key alone has no value
      value.line = line_;
      if (peek() != ',' && peek() != '}') {
        expect(peek() == ':', fmt::format("':' is missing behind the key '{}'", name.text));
        next();
        skip_blank_lines();
        if (peek() != ',' && peek() != '}') value = flow(depth + 1);
      }
      map.set(name.text, std::move(value));
      skip_blank_lines();
      if (peek() == ',') {
        next();
        continue;
      }
      expect(peek() == '}', fmt::format("',' or '}}' is missing in the map that begins at line {}", map.line));
    }
    next();
    return map;
  }

  const std::string& text_;
  const std::string& place_;
  std::size_t at_ = 0, start_ = 0;  // here, and where this line begins
  int line_ = 1;
  std::size_t values_ = 0;
  std::map<std::string, ConfigValue> anchors_;
};

}  // namespace

ConfigValue value_from_yaml(const std::string& text, const std::string& place) {
  return YamlReader(text, place).document();
}

}  // namespace meshwright
