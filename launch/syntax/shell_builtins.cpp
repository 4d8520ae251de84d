// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/shell_builtins.h"

#include <cctype>
#include <optional>
#include <vector>

namespace meshwright {

namespace {

struct Change {
  std::string name, expression;
  bool by_step_after = false;  // "N++", whose value is the one before
};

// "N = 3" and "N += 1" as the name and the expression of its new value; nullopt: nothing is changed.
std::optional<Change> change_of(std::string text) {
  std::erase_if(text, [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; });
  for (const char* step : {"++", "--"}) {
    const std::string sign(1, step[0]);
    if (text.size() < 3 || (!text.starts_with(step) && !text.ends_with(step))) continue;
    const std::string name = text.starts_with(step) ? text.substr(2) : text.substr(0, text.size() - 2);
    return Change{name, name + sign + "1", text.ends_with(step)};
  }
  const std::size_t equal = text.find('=');
  if (equal == std::string::npos || equal == 0 || (equal + 1 < text.size() && text[equal + 1] == '=') ||
      std::string("<>!=").find(text[equal - 1]) != std::string::npos)
    return std::nullopt;
  std::string name = text.substr(0, equal), expression = text.substr(equal + 1);
  if (std::string("+-*/%").find(name.back()) != std::string::npos) {
    const char op = name.back();
    name.pop_back();
    expression = name + op + "(" + expression + ")";
  }
  return Change{name, expression};
}

}  // namespace

Truth counted(const std::string& text, int line, ShellWords& words) {
  const auto change = change_of(text);
  const auto value = words.arithmetic(change ? change->expression : text, line);
  if (change)
    words.set(change->name,
              value ? std::to_string(*value) : std::string(1, kUnresolved) + "{value_of_" + change->name + "}", line);
  if (!value) return std::nullopt;
  const bool adds = change && change->expression.ends_with("+1");
  return (change && change->by_step_after ? *value + (adds ? -1 : 1) : *value) != 0;
}

Truth read_into(const ShellCommand& command, ShellWords& words) {
  std::vector<std::string> names;
  bool whole = false, listed = false;
  for (std::size_t i = 1; i < command.words.size(); ++i) {
    const std::string& word = command.words[i].text;
    if (!word.starts_with('-')) {
      names.push_back(word);
      continue;
    }
    listed = listed || word.find('a') != std::string::npos;
    const char option = word.back();
    if (option == 'd') whole = i + 1 < command.words.size() && command.words[i + 1].text.empty();
    if (std::string("dnpstu").find(option) != std::string::npos) ++i;  // its value
  }
  if (command.input.empty()) return std::nullopt;
  const auto found = words.variables.find("IFS");
  const std::string separators =
      found == words.variables.end() || found->second.values.empty() ? " \t\n" : found->second.values[0].text;
  std::string rest = whole ? command.input : command.input.substr(0, command.input.find('\n'));
  while (whole && rest.ends_with('\n')) rest.pop_back();
  if (listed && !names.empty()) {
    ShellVariable list{{}, true, false};
    while (!rest.empty()) {
      const std::size_t end = rest.find_first_of(separators);
      if (end != 0) list.values.push_back({rest.substr(0, end), command.line});
      rest = end == std::string::npos ? "" : rest.substr(end + 1);
    }
    words.variables[names[0]] = std::move(list);
    return true;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::size_t end = i + 1 < names.size() ? rest.find_first_of(separators) : std::string::npos;
    words.set(names[i], rest.substr(0, end), command.line);
    rest = end == std::string::npos ? "" : rest.substr(end + 1);
  }
  words.variables.erase("IFS");
  return whole ? Truth{false} : Truth{true};  // it ends at the end of its input, which is no success
}

}  // namespace meshwright
