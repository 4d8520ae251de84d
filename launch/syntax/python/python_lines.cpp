// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/python/python_lines.h"

#include <algorithm>
#include <cctype>

#include "core/base/text.h"
#include "launch/syntax/python/python_syntax.h"

namespace meshwright {

namespace {

using LineKind = PythonLine::Kind;

bool has_word(const std::string& text, std::string_view word) {
  return text.starts_with(word) && (text.size() == word.size() || !is_python_name_part(text[word.size()]));
}

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Calls `at(i)` for every character that stands in no bracket and no text, until it returns false.
template <class At>
void outside(const std::string& text, std::size_t from, At at) {
  int open = 0;
  char quote = '\0';
  for (std::size_t i = from; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != '\0') {
      if (c == '\\') ++i;
      if (c == quote) quote = '\0';
      continue;
    }
    if (c == '"' || c == '\'') quote = c;
    const bool opens = c == '(' || c == '[' || c == '{', closes = c == ')' || c == ']' || c == '}';
    if (closes) --open;
    if (open == 0 && quote == '\0' && !opens && !closes && !at(i)) return;
    if (opens) ++open;
  }
}

std::size_t first_outside(const std::string& text, std::size_t from, char wanted) {
  std::size_t found = std::string::npos;
  outside(text, from, [&](std::size_t i) {
    if (text[i] == wanted) found = i;
    return found == std::string::npos;
  });
  return found;
}

constexpr std::pair<std::string_view, LineKind> kHeaders[] = {
    {"if", LineKind::If},        {"elif", LineKind::Elif},     {"else", LineKind::Else},
    {"for", LineKind::For},      {"while", LineKind::While},   {"with", LineKind::With},
    {"try", LineKind::Try},      {"except", LineKind::Except}, {"finally", LineKind::Finally},
    {"def", LineKind::Function}, {"class", LineKind::Class}};
constexpr std::pair<std::string_view, LineKind> kSimple[] = {
    {"return", LineKind::Return}, {"raise", LineKind::Raise},      {"assert", LineKind::Assert},
    {"del", LineKind::Delete},    {"from", LineKind::Import},      {"import", LineKind::Import},
    {"pass", LineKind::Pass},     {"global", LineKind::Pass},      {"nonlocal", LineKind::Pass},
    {"break", LineKind::Break},   {"continue", LineKind::Continue}};

// Positions of "=" that assign, and whether the last one is of "+=" or its like.
std::vector<std::size_t> assignments_of(const std::string& text, std::string& sign) {
  std::vector<std::size_t> found;
  outside(text, 0, [&](std::size_t i) {
    if (text[i] != '=') return true;
    const char before = i > 0 ? text[i - 1] : ' ', after = i + 1 < text.size() ? text[i + 1] : ' ';
    if (after == '=' || before == '=' || before == '!' || before == ':') return true;
    const bool shifts = (before == '<' || before == '>') && i > 1 && text[i - 2] == before;
    if ((before == '<' || before == '>') && !shifts) return true;
    if (std::string_view("+-*/%|&^@").find(before) != std::string_view::npos || shifts) {
      std::size_t begin = i - 1;
      if (begin > 0 && text[begin - 1] == before) --begin;
      sign = text.substr(begin, i - begin);
    }
    found.push_back(i);
    return true;
  });
  return found;
}

LineKind kind_of(const std::string& text) {
  for (const auto& [word, kind] : kHeaders)
    if (has_word(text, word)) return kind;
  for (const auto& [word, kind] : kSimple)
    if (has_word(text, word)) return kind;
  const bool unread = has_word(text, "async") || has_word(text, "match") || has_word(text, "case");
  if (unread && text.ends_with(':')) return LineKind::Other;
  if (text[0] == '@') return LineKind::Decorator;
  std::string sign;
  if (!assignments_of(text, sign).empty()) return sign.empty() ? LineKind::Assign : LineKind::Augment;
  if (text[0] == '"' || text[0] == '\'') return LineKind::Pass;
  return LineKind::Call;
}

bool is_header(LineKind kind) { return kind >= LineKind::If && kind <= LineKind::Class; }

}  // namespace

std::string defined_name(const std::string& text) {
  std::size_t at = text.find(' ');
  at = at == std::string::npos ? at : text.find_first_not_of(' ', at);
  std::string name;
  while (at < text.size() && is_python_name_part(text[at])) name += text[at++];
  return name;
}

std::vector<PythonLine> python_lines(const std::string& text, const std::string& place) {
  std::vector<PythonLine> lines;
  const auto add = [&](std::string own, int line, int indent) {
    own = trimmed(own);
    if (own.empty()) return;
    PythonLine made;
    made.kind = kind_of(own);
    made.text = std::move(own);
    made.line = line;
    made.indent = indent;
    lines.push_back(std::move(made));
  };
  const auto add_simple = [&](const std::string& several, int line, int indent) {
    std::size_t begin = 0;
    while (begin < several.size()) {
      const std::size_t end = std::min(first_outside(several, begin, ';'), several.size());
      add(several.substr(begin, end - begin), line, indent);
      begin = end + 1;
    }
  };
  for (PythonStatement& statement : python_statements(text, place)) {
    if (!is_header(kind_of(statement.text))) {
      add_simple(statement.text, statement.line, statement.indent);
      continue;
    }
    const std::size_t colon = first_outside(statement.text, 0, ':');
    if (colon == std::string::npos || colon + 1 >= statement.text.size()) {
      add(statement.text, statement.line, statement.indent);
      continue;
    }
    add(statement.text.substr(0, colon + 1), statement.line, statement.indent);
    add_simple(statement.text.substr(colon + 1), statement.line, statement.indent + 1);
  }
  // The end of each block: of all that are open where a line stands further left.
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    while (!open.empty() && lines[open.back()].indent >= lines[i].indent) {
      lines[open.back()].end = i;
      open.pop_back();
    }
    open.push_back(i);
  }
  for (const std::size_t i : open) lines[i].end = lines.size();
  return lines;
}

namespace {

void parse_parameters(PythonLine& line) {
  const std::size_t begin = line.text.find('(');
  if (begin == std::string::npos) return;
  std::size_t end = begin + 1;
  const std::string inner = [&] {
    int open = 1;
    char quote = '\0';
    for (; end < line.text.size(); ++end) {
      const char c = line.text[end];
      if (quote != '\0') {
        if (c == '\\') ++end;
        if (c == quote) quote = '\0';
        continue;
      }
      if (c == '"' || c == '\'') quote = c;
      open += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
      if (open == 0) break;
    }
    return line.text.substr(begin + 1, std::min(end, line.text.size()) - begin - 1);
  }();
  std::size_t at = 0;
  while (at < inner.size()) {
    const std::size_t comma = std::min(first_outside(inner, at, ','), inner.size());
    const std::string one = trimmed(inner.substr(at, comma - at));
    at = comma + 1;
    std::string sign;
    const std::vector<std::size_t> equal = assignments_of(one, sign);
    const std::size_t colon = first_outside(one, 0, ':');
    const std::string name = trimmed(one.substr(0, std::min(colon, equal.empty() ? one.size() : equal.front())));
    if (name.empty() || name == "*" || name == "/") continue;
    line.parameters.push_back({name, equal.empty() ? std::nullopt : python_expression(one, equal.front() + 1)});
  }
}

// "x: int" without its type.
std::string without_type(const std::string& target) {
  const std::size_t colon = first_outside(target, 0, ':');
  return trimmed(target.substr(0, colon));
}

void parse_for(PythonLine& line) {
  std::size_t in = std::string::npos;
  outside(line.text, 3, [&](std::size_t i) {
    if (line.text.compare(i, 4, " in ") == 0) in = i;
    return in == std::string::npos;
  });
  if (in == std::string::npos) return;
  if (auto target = python_expression(line.text.substr(3, in - 3), 0)) line.targets.push_back(*std::move(target));
  const std::string body = line.text.substr(0, line.text.size() - (line.text.ends_with(':') ? 1 : 0));
  line.value = python_expression(body, in + 4);
}

}  // namespace

void parse_line(std::vector<PythonLine>& lines, std::size_t at) {
  PythonLine& line = lines[at];
  if (line.is_parsed) return;
  line.is_parsed = true;
  const std::string body = line.text.ends_with(':') ? line.text.substr(0, line.text.size() - 1) : line.text;
  switch (line.kind) {
    case LineKind::Assign:
    case LineKind::Augment: {
      const std::vector<std::size_t> equal = assignments_of(line.text, line.sign);
      std::size_t begin = 0;
      for (const std::size_t one : equal) {
        const std::string target = without_type(line.text.substr(begin, one - begin - line.sign.size()));
        if (auto tree = python_expression(target, 0)) line.targets.push_back(*std::move(tree));
        begin = one + 1;
      }
      if (line.targets.size() != equal.size()) line.targets.clear();
      line.value = python_expression(line.text, begin);
      return;
    }
    case LineKind::Call:
      line.value = python_expression(line.text, 0);
      return;
    case LineKind::Return:
      if (line.text.size() > 7) line.value = python_expression(line.text, 6);
      return;
    case LineKind::Assert: {
      const std::size_t comma = first_outside(line.text, 6, ',');
      line.value = python_expression(line.text.substr(0, comma), 6);
      return;
    }
    case LineKind::Delete:
      line.value = python_expression(line.text, 3);
      return;
    case LineKind::If:
      line.value = python_expression(body, 2);
      return;
    case LineKind::Elif:
      line.value = python_expression(body, 4);
      return;
    case LineKind::While:
      line.value = python_expression(body, 5);
      return;
    case LineKind::For:
      parse_for(line);
      return;
    case LineKind::Decorator:
      line.value = python_expression(line.text, 1);
      return;
    case LineKind::Class:
      line.value = python_expression(body, 5);
      return;
    case LineKind::Function:
      parse_parameters(line);
      for (std::size_t i = at + 1; i < line.end && !line.makes_a_sequence; ++i)
        line.makes_a_sequence = has_word(lines[i].text, "yield") || lines[i].text.find("= yield") != std::string::npos;
      return;
    default:
      return;
  }
}

std::vector<PythonImport> imports_of(const std::string& text) {
  std::vector<PythonImport> found;
  const auto words_of = [](const std::string& part) {
    std::vector<std::string> words;
    for (const std::string& word : split(part, ' '))
      if (!word.empty()) words.push_back(word);
    return words;
  };
  PythonImport from;
  std::string names = text.substr(std::min<std::size_t>(text.size(), 7));
  const bool is_from = has_word(text, "from");
  if (is_from) {
    const std::size_t import = text.find(" import", 4);
    if (import == std::string::npos) return found;
    std::string module = trimmed(text.substr(5, import - 5));
    while (module.starts_with('.')) {
      ++from.dots;
      module = trimmed(module.substr(1));
    }
    from.module = module;
    names = text.substr(import + 7);
    std::erase_if(names, [](char c) { return c == '(' || c == ')'; });
  }
  for (const std::string& part : split(names, ',')) {
    const std::vector<std::string> words = words_of(part);
    if (words.empty() || (words.size() != 1 && (words.size() != 3 || words[1] != "as"))) continue;
    PythonImport one = from;
    if (is_from) {
      one.name = words[0];
      one.alias = words.back();
    } else if (words.size() == 3) {
      one.module = words[0];
      one.alias = words[2];
    } else {
      // "import a.b": what is called here is a.
      one.module = words[0].substr(0, words[0].find('.'));
      one.alias = one.module;
    }
    found.push_back(std::move(one));
  }
  return found;
}

}  // namespace meshwright
