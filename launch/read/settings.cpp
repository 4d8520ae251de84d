// SPDX-License-Identifier: Apache-2.0
#include "launch/read/settings.h"

#include <algorithm>
#include <map>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/shell.h"

namespace meshwright {

void Settings::add(std::string key, std::string shown, ConfigValue value, std::string place) {
  all_.push_back({std::move(key), std::move(shown), std::move(value), std::move(place)});
}

void Settings::add_all(const ConfigValue& map, const std::string& prefix, const std::string& file) {
  for (const auto& [key, value] : map.members) {
    const std::string name = prefix.empty() ? key : prefix + "." + key;
    const std::string place = fmt::format("{}:{}", value.file.empty() ? file : value.file, value.line);
    if (!value.is_map() || value.members.empty()) {
      add(name, name, value, place);
      continue;
    }
    // What is constructed (Python), beside what it is given.
    if (!value.text.empty()) add(name + "()", name, ConfigValue::scalar(value.text, value.line), place);
    add_all(value, name, file);
  }
}

void Settings::rename(const std::map<std::string, std::string>& names) {
  for (Setting& setting : all_)
    if (const auto other = names.find(setting.key); other != names.end()) setting.key = other->second;
}

void Settings::rename(const std::function<std::string(const Setting& setting)>& name_of) {
  for (Setting& setting : all_)
    if (std::string name = name_of(setting); !name.empty()) setting.key = std::move(name);
}

bool Settings::has(const std::string& key) const {
  return std::any_of(all_.begin(), all_.end(), [&](const Setting& setting) { return setting.key == key; });
}

const Setting* Settings::take(const std::string& key) {
  const Setting* last = nullptr;
  for (Setting& setting : all_) {
    if (setting.key != key) continue;
    setting.state = Setting::State::Understood;
    last = &setting;
  }
  return last;
}

std::string Settings::where(const std::string& key) const {
  std::string found = key;
  for (const Setting& setting : all_)
    if (setting.key == key) found = setting.place + ": " + setting.shown;
  return found;
}

bool is_unknown_variable(const std::string& text) {
  return text.size() > 3 && text[0] == kUnresolved && text[1] == '{' && text.find('}') + 1 == text.size();
}

bool is_printed(const std::string& text) { return is_unknown_variable(text) && text.compare(2, 10, "output_of_") == 0; }

std::string unknown_name(const std::string& text) {
  const std::size_t mark = text.find(kUnresolved);
  if (mark == std::string::npos) return "";
  const std::size_t end = std::min(text.find('}', mark), text.size());
  return text.substr(std::min(mark + 2, text.size()), end - std::min(mark + 2, end));
}

void expect_resolved(const std::string& text, const std::string& where) {
  if (is_resolved(text)) return;
  const std::string name = unknown_name(text);
  const bool argument = !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
  require(!argument, "{}: its value '{}' is an argument of the script; give --args with at least {} words.", where,
          shown(text), name);
  const bool printed = name.starts_with("output_of_") || name.starts_with("value_of_");
  throw InputError(fmt::format("{}: its value '{}' is {}; give --set {}=VALUE{}.", where, shown(text),
                               printed ? "not known without running the script" : "a variable whose value is not known",
                               name, printed ? ", or --set of the variable that holds it" : ""));
}

namespace {

// One word; of a list of one, that.
const ConfigValue& scalar_of(const Setting& setting) {
  const ConfigValue& value = setting.value;
  const bool one = value.is_list() && value.items.size() == 1;
  const ConfigValue& found = one ? value.items[0] : value;
  require(found.is_scalar(), "{}: {} takes one value, not {}.", setting.place, setting.shown,
          value.kind == ConfigValue::Kind::Null ? "none" : shown(to_text(value)));
  return found;
}

}  // namespace

std::optional<std::int64_t> Settings::integer(const std::string& key, std::int64_t low) {
  const Setting* setting = take(key);
  if (setting == nullptr || setting->value.kind == ConfigValue::Kind::Null) return std::nullopt;
  const std::string& text = scalar_of(*setting).text;
  if (text == "None" || text == "null") return std::nullopt;
  expect_resolved(text, setting->place + ": " + setting->shown);
  const auto number = whole_number(text);
  require(number && *number >= low && *number <= 1'000'000'000'000, "{}: {} is '{}'; expected a whole number from {}.",
          setting->place, setting->shown, text, low);
  return number;
}

std::optional<double> Settings::number(const std::string& key) {
  const Setting* setting = take(key);
  if (setting == nullptr || setting->value.kind == ConfigValue::Kind::Null) return std::nullopt;
  const std::string& text = scalar_of(*setting).text;
  expect_resolved(text, setting->place + ": " + setting->shown);
  const auto number = real_number(text);
  require(number.has_value(), "{}: {} is '{}'; expected a number.", setting->place, setting->shown, text);
  return number;
}

std::optional<bool> Settings::boolean(const std::string& key) {
  const Setting* setting = take(key);
  if (setting == nullptr) return std::nullopt;
  if (setting->value.kind == ConfigValue::Kind::Null) return true;
  const std::string& text = scalar_of(*setting).text;
  expect_resolved(text, setting->place + ": " + setting->shown);
  const auto truth = truth_value(text);
  require(truth.has_value(), "{}: {} is '{}'; expected true or false.", setting->place, setting->shown, text);
  return truth;
}

bool Settings::flag(const std::string& key) {
  const Setting* setting = take(key);
  // "--bf16 $MORE": Megatron-LM's flags take no value, so that the variable holds further ones.
  const bool more = setting != nullptr && setting->shown.starts_with("--") && key.find('_') == std::string::npos &&
                    setting->value.is_scalar() && is_unknown_variable(setting->value.text);
  if (!more) return boolean(key).value_or(false);
  const std::string text = setting->value.text;
  if (is_printed(text)) add("(word)", shown(text), ConfigValue::scalar(text, setting->value.line), setting->place);
  return true;
}

std::optional<std::string> Settings::text(const std::string& key) {
  const Setting* setting = take(key);
  if (setting == nullptr || setting->value.kind == ConfigValue::Kind::Null) return std::nullopt;
  const std::string& text = scalar_of(*setting).text;
  expect_resolved(text, setting->place + ": " + setting->shown);
  return text;
}

std::string Settings::text_or_nothing(const std::string& key) {
  const Setting* setting = take(key);
  if (setting == nullptr || !setting->value.is_scalar()) return "";
  expect_resolved(setting->value.text, setting->place + ": " + setting->shown);
  return setting->value.text;
}

std::string Settings::name_or_nothing(const std::string& key) {
  const Setting* setting = take(key);
  if (setting == nullptr || !setting->value.is_scalar()) return "";
  const std::string& text = setting->value.text;
  const std::string name = text.substr(text.rfind('/') + 1);
  return is_resolved(text) ? text : is_resolved(name) ? name : "";
}

std::vector<std::string> Settings::words(const std::string& key) {
  const Setting* setting = take(key);
  std::vector<std::string> found;
  if (setting == nullptr) return found;
  const auto add = [&](const ConfigValue& value) {
    require(value.is_scalar(), "{}: {} holds {}; expected words.", setting->place, setting->shown, to_text(value));
    expect_resolved(value.text, setting->place + ": " + setting->shown);
    for (const std::string& word : split(value.text, ' '))
      if (!word.empty()) found.push_back(word);
  };
  if (setting->value.is_list())
    for (const ConfigValue& item : setting->value.items) add(item);
  else if (setting->value.is_scalar())
    add(setting->value);
  return found;
}

void Settings::no_effect(const std::function<bool(const std::string& key)>& is_one) {
  no_effect_where([&](const Setting& setting) { return is_one(setting.key); });
}

void Settings::no_effect_where(const std::function<bool(const Setting& setting)>& is_one) {
  for (Setting& setting : all_)
    if (setting.state == Setting::State::Unread && is_one(setting)) setting.state = Setting::State::NoEffect;
}

void Settings::no_effect_of_words() {
  no_effect_where([](const Setting& setting) {
    const std::string word = setting.value.is_scalar() ? setting.value.text : "";
    return setting.key == "(word)" && !is_printed(word);
  });
}

std::vector<std::string> Settings::given_twice() const {
  std::map<std::string, const Setting*> first;
  std::vector<std::string> twice;
  for (const Setting& setting : all_) {
    if (setting.key == "(word)") continue;
    const auto [known, is_new] = first.emplace(setting.key, &setting);
    if (!is_new && to_text(known->second->value) != to_text(setting.value))
      twice.push_back(fmt::format("{} ({} and {})", shown(setting.shown), known->second->place, setting.place));
  }
  return twice;
}

int Settings::count(Setting::State state) const {
  return static_cast<int>(
      std::count_if(all_.begin(), all_.end(), [&](const Setting& setting) { return setting.state == state; }));
}

}  // namespace meshwright
