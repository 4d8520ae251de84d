// SPDX-License-Identifier: Apache-2.0
#include "launch/syntax/python/python_config.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/syntax/python/python_reader.h"
#include "launch/syntax/python/python_syntax.h"

namespace meshwright {

namespace {

// The names of `NAME, NAME = value` or `NAME: type = value`, whose value begins at `begin`; none: the statement assigns
// to no names alone.
std::vector<std::string> assigned_names(const std::string& line, std::size_t& begin) {
  std::vector<std::string> names;
  std::size_t end = 0;
  const auto skip = [&](std::string_view blanks) { end = std::min(line.size(), line.find_first_not_of(blanks, end)); };
  do {
    if (!names.empty()) skip(", ");
    const std::size_t from = end;
    while (end < line.size() && is_python_name_part(line[end])) ++end;
    if (end == from) return {};
    names.push_back(line.substr(from, end - from));
    skip(" ");
  } while (end < line.size() && line[end] == ',');
  const bool has_type = names.size() == 1 && end < line.size() && line[end] == ':';
  if (has_type && names[0] != "else" && names[0] != "try") end = std::min(line.size(), line.find('=', end));
  if (end + 1 >= line.size() || line[end] != '=' || line[end + 1] == '=') return {};
  begin = end + 1;
  return names;
}

std::vector<std::string> names_of(const std::vector<PythonLine>& lines, bool with_imports) {
  std::vector<std::string> names;
  for (const PythonLine& line : lines)
    if (line.indent == 0 && line.kind == PythonLine::Kind::Function) names.push_back(defined_name(line.text));
  if (!names.empty() || !with_imports) return names;
  for (const PythonLine& line : lines) {
    if (line.indent > 0 || line.kind != PythonLine::Kind::Import) continue;
    for (const PythonImport& one : imports_of(line.text))
      if (!one.name.empty() && one.name != "*") names.push_back(one.alias);
  }
  return names;
}

// Modules that come with Python: nobody has them as further files.
bool is_of_python(const std::string& module) {
  for (const char* known : {"collections", "contextlib", "copy",    "dataclasses", "datetime", "enum",    "functools",
                            "itertools",   "json",       "logging", "math",        "operator", "os",      "pathlib",
                            "random",      "re",         "sys",     "time",        "typing",   "warnings"})
    if (module == known || module.starts_with(std::string(known) + ".")) return true;
  return false;
}

// What it holds, and of what it is made.
void take_result(PythonConfig& config, const PythonObject& result, int line, const std::string& place) {
  const bool holds = result.kind == PythonObject::Kind::Object || result.kind == PythonObject::Kind::Dict ||
                     (result.kind == PythonObject::Kind::Unknown && !result.entries.empty());
  if (!holds) return;
  ConfigValue values = config_value_of(result, line, place);
  if (!values.is_map()) return;
  if (result.kind == PythonObject::Kind::Object && !result.is_given && result.module == nullptr)
    config.base = values.text;
  if (config.base.empty()) config.name_of_model = result.begun_with;
  values.text.clear();
  std::erase_if(values.members, [](const auto& member) { return member.first == "(of)"; });
  config.values = std::move(values);
}

}  // namespace

PythonConfig config_from_python(const std::string& text, const std::string& name, const std::string& place,
                                const PythonSurroundings& around) {
  PythonConfig config;
  config.values = ConfigValue::map(1);
  PythonModules modules(around);
  PythonHeap heap(place);
  PythonReader reader(config, modules, heap, around);
  PythonModule& module = modules.add({around.path.empty() ? place : around.path, place, text});
  const std::vector<std::string> names = names_of(module.lines, false);
  if (name.empty() && names.empty()) {
    // Without a function the statements of the file, whose configuration is called c.
    if (const PythonObject* result = reader.run_as_function(module, "c")) take_result(config, *result, 1, place);
  } else {
    PythonObject* function = reader.lookup(module, name.empty() ? names.back() : name);
    if (function == nullptr || function->kind != PythonObject::Kind::Function)
      throw InputError(fmt::format("{}:1: has no function '{}'; it has {}.", place, name,
                                   names.empty() ? "none" : join(names, ", ")));
    config.function = function->text;
    const int line = function->module->lines[function->statement].line;
    if (const PythonObject* result = reader.call(*function, {}, true)) take_result(config, *result, line, place);
  }
  for (const auto& [missing, called] : reader.missing_)
    if (!is_of_python(missing))
      config.missing.push_back(fmt::format("{} ({})", missing, join({called.begin(), called.end()}, ", ")));
  for (const PythonModule& one : modules.all())
    if (&one != &module) config.modules.push_back(one.file.place);
  return config;
}

std::vector<std::string> functions_of_python(const std::string& text, const std::string& place) {
  return names_of(python_lines(text, place), true);
}

std::vector<PythonValue> values_from_python(const std::string& text, const std::string& place) {
  std::vector<PythonValue> values;
  for (const PythonStatement& statement : python_statements(text, place)) {
    const std::string& line = statement.text;
    std::size_t begin = 0;
    std::vector<std::string> names = assigned_names(line, begin);
    if (names.empty() && line.starts_with("return ")) begin = 7;
    if (names.empty() && line.starts_with("@")) begin = 1;
    auto value = python_value(line, statement.line, begin);
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
