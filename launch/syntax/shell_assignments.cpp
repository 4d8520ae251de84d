// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/shell_assignments.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace meshwright {

namespace {

// NAME[index]=value: of an array, or of one whose elements have names.
void assign_element(ShellWords& words, const std::string& name, const std::string& index, ShellWord value,
                    bool append) {
  constexpr std::int64_t kMaxElements = 10'000;
  if (words.variables[name].named) {
    const std::string key = words.text({index, value.line});
    ShellVariable& variable = words.variables[name];
    const auto found = std::find(variable.names.begin(), variable.names.end(), key);
    if (found != variable.names.end()) {
      ShellWord& known = variable.values[static_cast<std::size_t>(found - variable.names.begin())];
      known.text = append ? known.text + value.text : value.text;
    } else if (std::ssize(variable.names) < kMaxElements) {
      variable.names.push_back(key);
      variable.values.push_back(value);
    }
    return;
  }
  const auto at = words.arithmetic(index, value.line);
  if (!at || *at < 0 || *at > kMaxElements) return;
  ShellVariable& variable = words.variables[name];
  variable.array = true;
  if (variable.values.size() <= static_cast<std::size_t>(*at))
    variable.values.resize(static_cast<std::size_t>(*at) + 1);
  ShellWord& known = variable.values[static_cast<std::size_t>(*at)];
  if (append) value.text = known.text + value.text;
  known = std::move(value);
}

void assign_array(ShellWords& words, const ShellNode::Assignment& made) {
  std::vector<ShellWord> values;
  std::vector<std::pair<std::string, ShellWord>> placed;  // "[index]=value"
  for (const RawWord& item : made.items) {
    const std::size_t close = item.text.starts_with('[') ? item.text.find("]=") : std::string::npos;
    if (close != std::string::npos) {
      const RawWord value{item.text.substr(close + 2), item.line};
      placed.emplace_back(item.text.substr(1, close - 1), ShellWord{words.text(value), item.line});
      continue;
    }
    for (ShellWord& field : words.fields(item)) values.push_back(std::move(field));
  }
  ShellVariable& variable = words.variables[made.name];
  if (!made.append) {
    variable.values.clear();
    variable.names.clear();
  }
  variable.array = true;
  if (!variable.named) variable.values.insert(variable.values.end(), values.begin(), values.end());
  for (const auto& [index, value] : placed) assign_element(words, made.name, index, value, false);
}

}  // namespace

void assign(const ShellNode::Assignment& made, ShellWords& words) {
  if (made.array) return assign_array(words, made);
  ShellWord value{words.text(made.value), made.value.line};
  if (!made.index.empty()) return assign_element(words, made.name, made.index, std::move(value), made.append);
  ShellVariable& again = words.variables[made.name];
  if (made.append && !again.values.empty())
    again.values[0].text += value.text;
  else
    again = {{value}, false};
}

}  // namespace meshwright
