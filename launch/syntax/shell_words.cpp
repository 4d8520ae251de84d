// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/shell_words.h"

#include <algorithm>

#include "core/base/errors.h"
#include "launch/syntax/config_value.h"
#include "launch/syntax/shell_arithmetic.h"
#include "launch/syntax/shell_glob.h"
#include "launch/syntax/shell_parts.h"

namespace meshwright {

namespace {

// All words together; scripts of some kilobytes stay far below, doubling variables do not.
constexpr std::size_t kMaxGrown = 32'000'000;

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Stands for what a command prints, or for a sum of unknown numbers: one word, whatever is in it.
std::string name_of_unknown(const char* kind, const std::string& inner) {
  std::string name;
  for (const char c : inner) {
    if (is_name_char(c))
      name += c;
    else if (!name.empty() && name.back() != '_' && *kind == 'v')
      name += '_';
    else if (!name.empty())
      break;
    if (name.size() >= 40) break;
  }
  return kind + name;
}

}  // namespace

void ShellWords::add_unknown(const char* kind, const std::string& inner, int line, Quotes quotes, Growing& into) {
  const std::string plain = name_of_unknown(kind, inner);
  std::string name = plain;
  for (int of_name = 2; commands_by_mark_.emplace(name, inner).first->second != inner; ++of_name)
    name = fmt::format("{}_{}", plain, of_name);
  if (const auto told = variables.find(name); told != variables.end())
    return add_value(told->second.values, false, quotes, line, into);
  const std::string mark = fmt::format("{}{{{}}}", kUnresolved, name);
  into.text += mark;
  grow(mark.size());
  if (!into.begun) into.line = line;
  into.begun = true;
}

std::string joined_words(const std::vector<ShellWord>& words) {
  std::string text;
  for (const ShellWord& word : words) {
    if (&word != words.data()) text += ' ';
    text += word.text;
  }
  return text;
}

void ShellWords::grow(std::size_t more) {
  grown_ += more;
  require(grown_ <= kMaxGrown, "{}: its variables expand to more than {} MB; launch scripts are shorter.", place_,
          kMaxGrown / 1'000'000);
}

void ShellWords::set(const std::string& name, const std::string& value, int line) {
  variables[name] = {{{value, line}}, false};
}

std::vector<ShellWord> ShellWords::unset(const std::string& name, int line) {
  result_.unresolved.emplace(name, line);
  return {{std::string(1, kUnresolved) + "{" + name + "}", line}};
}

// [@] and [*] are all elements; no index is the first.
std::vector<ShellWord> ShellWords::values_of(const std::string& name, const std::string& index, int line,
                                             bool& is_set) {
  is_set = true;
  if (name == "@" || name == "*") return arguments;
  if (name == "#") return {{fmt::format("{}", arguments.size()), line}};
  if (!name.empty() && std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
      name.size() < 4) {
    const std::size_t number = std::stoul(name);
    if (number == 0) return {{called.empty() ? place_ : called, line}};
    if (number <= arguments.size()) return {arguments[number - 1]};
  }
  if (name == "BASH_SOURCE" && (index.empty() || index == "0")) return {{source.empty() ? place_ : source, line}};
  const auto found = variables.find(name);
  if (found == variables.end() || (found->second.values.empty() && index.empty())) {
    is_set = found != variables.end() && !found->second.values.empty();
    if (found != variables.end()) return {};
    return {};
  }
  const std::vector<ShellWord>& values = found->second.values;
  if (index == "@" || index == "*") return values;
  if (index.empty() && !found->second.named) return {values.front()};
  if (found->second.named) {
    const std::string key = text_at_depth(index, line, 0);
    const std::vector<std::string>& names = found->second.names;
    const auto at = std::find(names.begin(), names.end(), key);
    is_set = at != names.end();
    return is_set ? std::vector{values[static_cast<std::size_t>(at - names.begin())]} : std::vector<ShellWord>{};
  }
  const auto at = arithmetic(index, line);
  const std::int64_t from_end = at && *at < 0 ? *at + static_cast<std::int64_t>(values.size()) : at.value_or(-1);
  if (from_end < 0 || from_end >= static_cast<std::int64_t>(values.size())) {
    is_set = false;
    return {};
  }
  return {values[static_cast<std::size_t>(from_end)]};
}

std::optional<std::int64_t> ShellWords::arithmetic(const std::string& expression, int line) {
  if (expression.size() > 4096) return std::nullopt;
  Growing whole;
  expand(expression, line, Quotes::Document, whole, 0);
  if (!is_resolved(whole.text)) return std::nullopt;
  const std::string text = whole.text;
  int depth = 0;
  const std::function<std::optional<std::int64_t>(const std::string&)> lookup =
      [&](const std::string& name) -> std::optional<std::int64_t> {
    const auto found = variables.find(name);
    if (found == variables.end()) {
      (void)unset(name, line);
      return std::nullopt;
    }
    if (found->second.values.empty() || found->second.values[0].text.empty()) return 0;
    if (++depth > 16) return std::nullopt;
    const std::string value = found->second.values[0].text;
    const auto number = shell_arithmetic(value, lookup);
    --depth;
    return number;
  };
  return shell_arithmetic(text, lookup);
}

void ShellWords::add_split(const std::string& value, int line, Growing& into) {
  for (const char c : value) {
    if (is_space(c) && into.splits) {
      if (into.begun) into.done.push_back({into.text, into.line});
      into.text.clear();
      into.begun = false;
      continue;
    }
    if (!into.begun) into.line = line;
    into.begun = true;
    into.text += c;
  }
}

void ShellWords::add_value(const std::vector<ShellWord>& values, bool each, Quotes quotes, int line, Growing& into) {
  for (const ShellWord& value : values) grow(value.text.size() + 1);
  if (quotes != Quotes::None && !(each && into.splits)) {
    into.text += joined_words(values);
    into.begun = true;
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) {
      if (into.begun && into.splits) into.done.push_back({into.text, into.line});
      if (into.splits) {
        into.text.clear();
        into.begun = false;
      } else {
        into.text += ' ';
      }
    }
    const int of = values[i].line > 0 ? values[i].line : line;
    if (quotes == Quotes::None) {
      add_split(values[i].text, of, into);
    } else {
      if (!into.begun) into.line = of;
      into.text += values[i].text;
      into.begun = true;
    }
  }
}

std::string ShellWords::text_at_depth(const std::string& raw, int line, int depth) {
  Growing whole;
  whole.splits = false;
  expand(raw, line, Quotes::None, whole, depth + 1);
  return whole.text;
}

// "%pattern", "##pattern", "/pattern/by", ",,", ":offset:length" behind a parameter's name.
std::string ShellWords::cut(std::string text, const std::string& rest, int line, int depth) {
  const char op = rest[0];
  const bool twice = rest.size() > 1 && rest[1] == rest[0];
  if (op == '%' || op == '#')
    return without_match(text, text_at_depth(rest.substr(twice ? 2 : 1), line, depth), op == '#', twice);
  if (op == '/') {
    const std::size_t slash = rest.find('/', twice ? 2 : 1);
    const std::string pattern = text_at_depth(rest.substr(twice ? 2 : 1, slash - (twice ? 2 : 1)), line, depth);
    const std::string by = slash == std::string::npos ? "" : text_at_depth(rest.substr(slash + 1), line, depth);
    return replaced(text, pattern, by, twice);
  }
  if (op == ',' || op == '^') {
    for (char& c : text) {
      const auto code = static_cast<unsigned char>(c);
      c = static_cast<char>(op == ',' ? std::tolower(code) : std::toupper(code));
      if (!twice) break;
    }
    return text;
  }
  if (op != ':') return text;
  const std::size_t second = rest.find(':', 1);
  const auto from = arithmetic(rest.substr(1, second == std::string::npos ? second : second - 1), line);
  const auto count =
      second == std::string::npos ? std::optional<std::int64_t>{} : arithmetic(rest.substr(second + 1), line);
  if (!from || (second != std::string::npos && !count)) return text;
  const auto size = static_cast<std::int64_t>(text.size());
  const std::int64_t begin = std::clamp<std::int64_t>(*from < 0 ? std::max(*from, -size) + size : *from, 0, size);
  std::int64_t end = size;
  if (count)
    end = std::clamp<std::int64_t>(*count < 0 ? size + std::max(*count, -size) : begin + std::min(*count, size), begin,
                                   size);
  return text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

// The inside of "${...}".
void ShellWords::parameter(const std::string& inner, int line, Quotes quotes, Growing& into, int depth) {
  std::size_t at = 0;
  const bool length = inner.size() > 1 && inner[0] == '#';
  const bool indirect = inner.size() > 1 && inner[0] == '!';
  if (length || indirect) ++at;
  std::string name;
  if (at < inner.size() && (inner[at] == '@' || inner[at] == '*' || inner[at] == '#' || inner[at] == '?'))
    name = inner[at++];
  else
    while (at < inner.size() && is_name_char(inner[at])) name += inner[at++];
  std::string index;
  if (at < inner.size() && inner[at] == '[') {
    const std::size_t close = inner.find(']', at);
    if (close != std::string::npos) {
      index = inner.substr(at + 1, close - at - 1);
      at = close + 1;
    }
  }
  bool is_set = false;
  std::vector<ShellWord> values = values_of(name, index, line, is_set);
  if (indirect && (index == "@" || index == "*")) {  // the names of its elements
    const auto found = variables.find(name);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i].text = found->second.named ? found->second.names[i] : fmt::format("{}", i);
  } else if (indirect && is_set && values.size() == 1) {
    name = values[0].text;
    values = values_of(name, "", line, is_set);
  }
  const bool each = index == "@" || name == "@";
  const bool all = each || index == "*" || name == "*";
  std::string rest = inner.substr(std::min(at, inner.size()));
  if (length) {
    if (!is_set && !all) (void)unset(name, line);
    const std::size_t size = all ? values.size() : values.empty() ? 0 : values[0].text.size();
    return add_value({{fmt::format("{}", size), line}}, false, quotes, line, into);
  }
  const bool colon = rest.size() > 1 && rest[0] == ':' && std::string("-=+?").find(rest[1]) != std::string::npos;
  const char op = rest.empty() ? '\0' : colon ? rest[1] : rest[0];
  if (op == '-' || op == '=' || op == '+' || op == '?') {
    const bool empty = !is_set || values.empty() || (colon && joined_words(values).empty());
    const std::string word = rest.substr(colon ? 2 : 1);
    if (op == '+' && empty) return;
    if (op != '+' && !empty) return add_value(values, each, quotes, line, into);
    if (op == '?') return add_value(unset(name, line), false, quotes, line, into);
    if (op == '=') set(name, text_at_depth(word, line, depth), line);
    if (quotes == Quotes::None) return expand(word, line, Quotes::None, into, depth + 1);
    return add_value({{text_at_depth(word, line, depth), line}}, false, quotes, line, into);
  }
  if (!is_set && !all) values = unset(name, line);
  for (ShellWord& value : values)
    if (!rest.empty() && is_resolved(value.text)) value.text = cut(value.text, rest, line, depth);
  add_value(values, each, quotes, line, into);
}

// What begins with '$' at `at`; the place behind it.
std::size_t ShellWords::dollar(const std::string& raw, std::size_t at, int line, Quotes quotes, Growing& into,
                               int depth) {
  const char c = at + 1 < raw.size() ? raw[at + 1] : '\0';
  std::size_t end = at;
  if (c == '{' || c == '(' || c == '[') {
    if (!skip_part(raw, end)) end = raw.size();
    const std::string inner = end >= at + 3 ? raw.substr(at + 2, end - at - 3) : "";
    if (c == '{') {
      parameter(inner, line, quotes, into, depth);
      return end;
    }
    const bool sum = c == '[' || (inner.size() >= 2 && inner.front() == '(' && inner.back() == ')');
    if (sum) {
      const std::string expression = c == '[' ? inner : inner.substr(1, inner.size() - 2);
      if (const auto value = arithmetic(expression, line)) {
        add_value({{fmt::format("{}", *value), line}}, false, quotes, line, into);
        return end;
      }
    }
    if (const auto known = sum ? std::nullopt : printed(inner, line)) {
      add_value({{*known, line}}, false, quotes, line, into);
      return end;
    }
    add_unknown(sum ? "value_of_" : "output_of_", inner, line, quotes, into);
    return end;
  }
  std::string name;
  ++end;
  if (std::string("@*#?$!-").find(c) != std::string::npos && c != '\0') {
    name = c;
    ++end;
  } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
    name = c;
    ++end;
  } else {
    while (end < raw.size() && is_name_char(raw[end])) name += raw[end++];
  }
  if (name.empty()) {
    into.text += '$';
    into.begun = true;
    return end;
  }
  bool is_set = false;
  std::vector<ShellWord> values = values_of(name, "", line, is_set);
  if (name == "?")
    values = {{"0", line}};
  else if (!is_set && name != "@" && name != "*")
    values = unset(name, line);
  add_value(values, name == "@", quotes, line, into);
  return end;
}

// What stands behind a backslash.
void ShellWords::add_escaped(char c, int line, Quotes quotes, Growing& into) {
  if (c == '\n') return;
  const bool special =
      quotes == Quotes::None || c == '$' || c == '`' || c == '\\' || (c == '"' && quotes == Quotes::Double);
  if (!into.begun) into.line = line;
  if (!special) into.text += '\\';
  into.text += c;
  into.begun = true;
}

// The place behind the quoted part that begins at `at`. "" is a word of its own; "${empty[@]}" is none.
std::size_t ShellWords::double_quoted(const std::string& raw, std::size_t at, int line, Growing& into, int depth) {
  std::size_t end = at;
  if (!skip_part(raw, end)) end = raw.size();
  const std::string inner = end > at + 1 ? raw.substr(at + 1, end - at - 2) : "";
  if (!into.begun) into.line = line;
  const std::size_t before = into.done.size();
  const bool begun = into.begun;
  expand(inner, line, Quotes::Double, into, depth + 1);
  const bool list = inner.ends_with("[@]}") || (inner == "$@" && arguments.empty());
  if (into.done.size() == before && !begun && !list) into.begun = true;
  return end;
}

void ShellWords::expand(const std::string& raw, int line, Quotes quotes, Growing& into, int depth) {
  require(depth < kMaxLaunchDepth, "{}:{}: expansions are nested too deeply.", place_, line);
  grow(raw.size());
  for (std::size_t at = 0; at < raw.size();) {
    const char c = raw[at];
    if (c == '\n' && quotes == Quotes::None) ++line;
    if (c == '$' && at + 1 < raw.size() && raw[at + 1] == '\'' && quotes == Quotes::None) {
      ++at;
      continue;
    }
    if (c == '$') {
      at = dollar(raw, at, line, quotes, into, depth);
      continue;
    }
    if (c == '`') {
      std::size_t end = at;
      if (!skip_part(raw, end)) end = raw.size();
      const std::string inner = end > at + 1 ? raw.substr(at + 1, end - at - 2) : "";
      at = end;
      if (const auto known = inner.find('\\') == std::string::npos ? printed(inner, line) : std::nullopt) {
        add_value({{*known, line}}, false, quotes, line, into);
        continue;
      }
      add_unknown("output_of_", inner, line, quotes, into);
      continue;
    }
    if (c == '\\' && at + 1 < raw.size()) {
      add_escaped(raw[at + 1], line, quotes, into);
      at += 2;
      continue;
    }
    if (c == '\'' && quotes == Quotes::None) {
      const std::size_t end = std::min(raw.find('\'', at + 1), raw.size());
      if (!into.begun) into.line = line;
      into.text += raw.substr(at + 1, end - at - 1);
      into.begun = true;
      at = std::min(end + 1, raw.size());
      continue;
    }
    if (c == '"' && quotes == Quotes::None) {
      at = double_quoted(raw, at, line, into, depth);
      continue;
    }
    if (!into.begun) into.line = line;
    into.text += c;
    into.begun = true;
    ++at;
  }
}

std::vector<ShellWord> ShellWords::fields(const RawWord& word) {
  Growing whole;
  whole.line = word.line;
  expand(word.text, word.line, Quotes::None, whole, 0);
  if (whole.begun) whole.done.push_back({whole.text, whole.line});
  return std::move(whole.done);
}

std::string ShellWords::text(const RawWord& word) {
  Growing whole;
  whole.splits = false;
  expand(word.text, word.line, Quotes::None, whole, 0);
  return whole.text;
}

std::vector<std::string> ShellWords::state() const {
  std::vector<std::string> texts;
  for (const auto& [name, variable] : variables) {
    texts.push_back(name);
    for (const ShellWord& value : variable.values) texts.push_back("=" + value.text);
  }
  for (const ShellWord& argument : arguments) texts.push_back("$" + argument.text);
  return texts;
}

std::string ShellWords::document(const std::string& body, int line) {
  Growing whole;
  whole.splits = false;
  expand(body, line, Quotes::Document, whole, 0);
  return whole.text;
}

}  // namespace meshwright
