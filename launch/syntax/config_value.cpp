// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/config_value.h"

namespace meshwright {

const ConfigValue* ConfigValue::find(const std::string& key) const {
  for (const auto& [name, value] : members)
    if (name == key) return &value;
  return nullptr;
}

void ConfigValue::set(const std::string& key, ConfigValue value) {
  for (auto& [name, held] : members) {
    if (name != key) continue;
    held = std::move(value);
    return;
  }
  members.emplace_back(key, std::move(value));
}

ConfigValue ConfigValue::scalar(std::string text, int line, bool quoted) {
  ConfigValue value;
  value.kind = Kind::Scalar;
  value.text = std::move(text);
  value.quoted = quoted;
  value.line = line;
  return value;
}

ConfigValue ConfigValue::map(int line) {
  ConfigValue value;
  value.kind = Kind::Map;
  value.line = line;
  return value;
}

ConfigValue ConfigValue::list(int line) {
  ConfigValue value;
  value.kind = Kind::List;
  value.line = line;
  return value;
}

namespace {

constexpr std::size_t kMaxShown = 100;

void append(std::string& text, const ConfigValue& value) {
  if (text.size() > kMaxShown) return;
  bool first = true;
  const auto separate = [&] {
    if (!first) text += ", ";
    first = false;
  };
  if (value.is_scalar()) {
    text += value.text;
  } else if (value.is_list()) {
    text += '[';
    for (const ConfigValue& item : value.items) {
      separate();
      append(text, item);
    }
    text += ']';
  } else if (value.is_map()) {
    text += value.text.empty() ? "{" : value.text + "(";
    for (const auto& [key, member] : value.members) {
      separate();
      text += key + ": ";
      append(text, member);
    }
    text += value.text.empty() ? '}' : ')';
  } else {
    text += "null";
  }
}

}  // namespace

std::string to_text(const ConfigValue& value) {
  std::string text;
  append(text, value);
  if (text.size() > kMaxShown) text = text.substr(0, kMaxShown) + "...";
  return text;
}

}  // namespace meshwright
