// SPDX-License-Identifier: Apache-2.0
// YAML of programs that rent machines and run commands there (SkyPilot, dstack, Ray's jobs): a script within it, on as
// many hosts and devices as it asks for.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/readers.h"
#include "launch/read/text_reader.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/yaml.h"

namespace meshwright {

namespace {

constexpr std::int64_t kMaxNamedHosts = 1024;

const ConfigValue* script_of(const ConfigValue& root) {
  const auto any = [&](std::initializer_list<const char*> keys) {
    return std::any_of(keys.begin(), keys.end(), [&](const char* key) { return root.find(key) != nullptr; });
  };
  const ConfigValue *run = root.find("run"), *commands = root.find("commands"), *entry = root.find("entrypoint");
  if (run != nullptr && run->is_scalar() && any({"resources", "num_nodes", "setup", "envs", "workdir"})) return run;
  if (commands != nullptr && commands->is_list() && any({"type"}) && any({"resources", "nodes"})) return commands;
  if (entry != nullptr && entry->is_scalar() && any({"runtime_env", "compute_config", "working_dir", "image_uri"}))
    return entry;
  return nullptr;
}

// "H100:8", "A100-80GB:8", {H100: 8}, ["H100:8", "A100:8"]; of several kinds the first.
void add_devices(LaunchText& text, const ConfigValue& asked) {
  if (asked.is_list() && !asked.items.empty()) return add_devices(text, asked.items.front());
  std::string name, count;
  if (asked.is_map() && !asked.members.empty()) {
    name = asked.members.front().first;
    count = asked.members.front().second.text;
    if (const ConfigValue* of = asked.find("name")) name = of->text;
    if (const ConfigValue* of = asked.find("count")) count = of->text;
  } else if (asked.is_scalar()) {
    name = asked.text.substr(0, asked.text.find(':'));
    const std::size_t colon = asked.text.rfind(':');
    count = colon == std::string::npos ? "1" : asked.text.substr(colon + 1);
  }
  if (const auto number = whole_number(count); number && *number >= 1 && *number <= kMaxDegree)
    text.devices_per_host = number;
  if (text.device.empty()) text.device = name;
}

}  // namespace

bool TextReader::is_wrapped(const ConfigValue& root) { return script_of(root) != nullptr; }

GivenFile TextReader::unwrapped(const ConfigValue& root, const std::string& place) {
  const ConfigValue& script = *script_of(root);
  std::string text(static_cast<std::size_t>(std::max(0, script.line)), '\n');  // so that lines keep their numbers
  if (script.is_scalar()) text += script.text;
  for (const ConfigValue& command : script.items) text += command.text + "\n";
  const auto map_of = [&](const char* key) {
    const ConfigValue* found = root.find(key);
    return found != nullptr && found->is_map() ? found : nullptr;
  };
  if (const ConfigValue* resources = map_of("resources"))
    for (const char* key : {"accelerators", "gpu"})
      if (const ConfigValue* asked = resources->find(key)) add_devices(text_, *asked);
  for (const char* key : {"num_nodes", "nodes"})
    if (const ConfigValue* hosts = root.find(key))
      if (const auto number = whole_number(hosts->text); number && *number >= 1 && *number <= kMaxDegree)
        text_.hosts = number;
  if (!text_.hosts && text_.devices_per_host) text_.hosts = 1;
  for (const char* key : {"envs", "env"}) {
    const ConfigValue* given = root.find(key);
    if (given == nullptr) continue;
    for (const auto& [name, value] : given->members)
      if (value.is_scalar()) given_.emplace(name, value.text);
    for (const ConfigValue& item : given->items)  // "NAME=value"
      if (const std::size_t equal = item.text.find('='); item.is_scalar() && equal != std::string::npos)
        given_.emplace(item.text.substr(0, equal), item.text.substr(equal + 1));
  }
  const auto say = [&](std::initializer_list<const char*> names, const std::optional<std::int64_t>& number) {
    for (const char* name : names)
      if (number) given_.emplace(name, std::to_string(*number));
  };
  say({"SKYPILOT_NUM_NODES", "DSTACK_NODES_NUM"}, text_.hosts);
  say({"SKYPILOT_NUM_GPUS_PER_NODE", "DSTACK_GPUS_PER_NODE"}, text_.devices_per_host);
  std::string addresses;
  for (std::int64_t host = 0; host < std::min<std::int64_t>(text_.hosts.value_or(0), kMaxNamedHosts); ++host)
    addresses += fmt::format("{}host{}", host == 0 ? "" : "\n", host);
  if (text_.hosts.value_or(0) <= kMaxNamedHosts && !addresses.empty())
    for (const char* name : {"SKYPILOT_NODE_IPS", "DSTACK_NODES_IPS"}) given_.emplace(name, addresses);
  say({"SKYPILOT_NODE_RANK", "DSTACK_NODE_RANK"}, 0);
  if (text_.hosts && text_.devices_per_host) say({"DSTACK_GPUS_NUM"}, *text_.hosts * *text_.devices_per_host);
  return {place, text};
}

}  // namespace meshwright
