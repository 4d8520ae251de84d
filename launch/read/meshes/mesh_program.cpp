// SPDX-License-Identifier: Apache-2.0
// Python modules for JAX and Alpa: what they assign and call, of which nothing is executed.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/meshes/mesh_parts.h"
#include "launch/read/text_reader.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/python/python_config.h"

namespace meshwright {

namespace {

bool imports(const std::string& text, const char* module) {
  for (const char* how : {"import ", "from "})
    if (const std::string line = std::string(how) + module;
        text.starts_with(line) || text.find("\n" + line) != std::string::npos)
      return true;
  return false;
}

// All calls within a value, the outer ones first.
void calls_of(const ConfigValue& value, std::vector<const ConfigValue*>& found, int depth = 0) {
  if (depth > kMaxLaunchDepth) return;
  if (value.is_map() && !value.text.empty()) found.push_back(&value);
  for (const ConfigValue& item : value.items) calls_of(item, found, depth + 1);
  for (const auto& [key, member] : value.members) calls_of(member, found, depth + 1);
}

constexpr const char* kMeshCalls[] = {"Mesh",
                                      "make_mesh",
                                      "create_device_mesh",
                                      "PartitionSpec",
                                      "P",
                                      "PipeshardParallel",
                                      "ShardParallel",
                                      "DataParallel",
                                      "Zero2Parallel",
                                      "Zero3Parallel",
                                      "AutoStageOption",
                                      "UniformStageOption",
                                      "ManualStageOption",
                                      "AutoLayerOption",
                                      "ManualLayerOption"};

bool is_mesh_call(const std::string& name) {
  return std::any_of(std::begin(kMeshCalls), std::end(kMeshCalls), [&](const char* known) { return name == known; });
}

bool is_constant_name(const std::string& name) {
  return !name.empty() && name.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos;
}

}  // namespace

bool is_mesh_program(const std::string& text, const std::string& target) {
  if (target == "jax" || target == "alpa") return true;
  if (!target.empty()) return false;
  const bool meshes = text.find("jax.sharding") != std::string::npos || text.find("make_mesh") != std::string::npos;
  return imports(text, "alpa") || (imports(text, "jax") && meshes);
}

// Constants become settings of their names, calls of meshes and methods settings of theirs ("PipeshardParallel()").
void TextReader::mesh_program(const GivenFile& file) {
  const std::string place = place_of(file);
  set_target(imports(file.text, "alpa") ? "alpa" : "jax");
  text_.program = place;
  text_.variant = "Python";
  // Values by which a name in a call is meant.
  std::map<std::string, ConfigValue> named;
  const std::vector<PythonValue> values = values_from_python(file.text, place);
  for (const PythonValue& one : values)
    if (!one.name.empty()) named[one.name] = one.value;
  const auto resolved = [&](const ConfigValue& value) {
    if (!value.is_scalar() || value.quoted) return value;
    const auto known = named.find(value.text);
    return known == named.end() ? value : known->second;
  };
  for (const PythonValue& one : values) {
    const std::string at = fmt::format("{}:{}", place, one.line);
    if (one.name == "STAGES") {
      text_.settings.add(one.name, one.name, one.value, at);
      continue;
    }
    if (is_constant_name(one.name) && !(one.value.is_map() && !one.value.text.empty()))
      text_.settings.add(one.name, one.name, one.value, at);
    std::vector<const ConfigValue*> calls;
    calls_of(one.value, calls);
    for (const ConfigValue* call : calls) {
      const std::string name = last_name(call->text);
      if (!is_mesh_call(name)) continue;
      if (name == "P" || name == "PartitionSpec") {
        text_.settings.add("(spec)", one.name.empty() ? name : one.name, *call, at);
        continue;
      }
      for (const auto& [key, value] : call->members) {
        ConfigValue own = resolved(value);
        text_.settings.add(name + "." + key, name + " " + key,
                           own.is_map() && !own.text.empty() ? ConfigValue::scalar(own.text, own.line) : own, at);
      }
      text_.settings.add(name + "()", name, ConfigValue::scalar(name, one.line), at);
    }
  }
}

}  // namespace meshwright
