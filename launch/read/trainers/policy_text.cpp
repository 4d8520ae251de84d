// SPDX-License-Identifier: Apache-2.0
// Files and commands of verl, NeMo RL and prime-rl: over which other files they stand, their devices, and what trains.
#include <map>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/readers.h"
#include "launch/read/text_reader.h"
#include "launch/syntax/interpolation.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/yaml.h"

namespace meshwright {

namespace {

// The last value of each name.
std::map<std::string, std::string> last_values(const Settings& settings) {
  std::map<std::string, std::string> values;
  for (const Setting& setting : settings.all())
    if (setting.value.is_scalar()) values[setting.key] = setting.value.text;
  return values;
}

std::optional<std::int64_t> count_of(const std::map<std::string, std::string>& values, const std::string& key) {
  const auto found = values.find(key);
  const auto number = found == values.end() ? std::nullopt : whole_number(found->second);
  return number && *number >= 1 && *number <= kMaxDegree ? number : std::nullopt;
}

bool is_true(const std::map<std::string, std::string>& values, const std::string& key) {
  const auto found = values.find(key);
  return found != values.end() && truth_value(found->second).value_or(false);
}

// Members of `over` in the place of those of `under`, map by map.
ConfigValue merged(const ConfigValue& under, const ConfigValue& over) {
  if (!under.is_map() || !over.is_map()) return over;
  ConfigValue all = under;
  for (const auto& [key, value] : over.members) {
    const ConfigValue* known = under.find(key);
    all.set(key, known == nullptr ? value : merged(*known, value));
  }
  return all;
}

}  // namespace

void TextReader::verl_actor(const ConfigValue& root, const std::string& place) {
  text_.variant = "verl actor";
  text_.settings.add_all(root, "", place);
  settle_verl();
}

void TextReader::settle_verl() {
  const auto values = last_values(text_.settings);
  bool megatron = false;
  for (const char* key : {"config-name", "config_name", "actor_rollout_ref.actor.strategy", "model_engine", "engine"})
    if (const auto found = values.find(key); found != values.end())
      megatron = megatron || found->second.find("megatron") != std::string::npos;
  set_target(megatron ? "megatron" : "accelerate");
  if (text_.variant != "verl actor") return;
  const auto asked = [&](const char* key, std::int64_t usual) -> std::optional<std::int64_t> {
    return values.contains(key) ? count_of(values, key) : usual;
  };
  text_.devices = std::nullopt;
  text_.hosts = asked("trainer.nnodes", 1);
  text_.devices_per_host = asked("trainer.n_gpus_per_node", 8);
  if (!text_.hosts) text_.open_hosts = text_.settings.where("trainer.nnodes");
}

void TextReader::nemo_rl(ConfigValue root, const std::string& place) {
  constexpr int kMaxDepth = 8;
  std::string folder;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    const ConfigValue* below = root.find("defaults");
    if (below == nullptr) break;
    const std::vector<ConfigValue> names = below->is_list() ? below->items : std::vector<ConfigValue>{*below};
    ConfigValue under = ConfigValue::map(1);
    std::string next = folder;
    for (const ConfigValue& name : names) {
      require(name.is_scalar(), "{}:{}: 'defaults' holds {}; expected names of files.", place, name.line,
              to_text(name));
      const std::string path = folder + name.text;
      const auto text = file_named(path);
      require(text.has_value(), "{}:{}: is over the file '{}', which is not beside it; give it as a further file.",
              place, name.line, shown(path));
      under = merged(under, value_from_yaml(*text, file_name(path)));
      next = path.substr(0, path.rfind('/') + 1);
    }
    std::erase_if(root.members, [](const auto& member) { return member.first == "defaults"; });
    root = merged(under, root);
    folder = next;
  }
  resolve_environment(root, variables());
  resolve_interpolations(root);
  text_.variant = "NeMo RL";
  text_.settings.add_all(root, "", place);
  settle_nemo_rl();
}

void TextReader::settle_nemo_rl() {
  const auto values = last_values(text_.settings);
  if (input_.as.empty()) text_.target = is_true(values, "policy.megatron_cfg.enabled") ? "megatron" : "accelerate";
  text_.hosts = count_of(values, "cluster.num_nodes").value_or(1);
  text_.devices_per_host = count_of(values, "cluster.gpus_per_node").value_or(1);
  const std::string apart = "policy.generation.colocated.";
  if (!values.contains(apart + "enabled") || is_true(values, apart + "enabled")) return;
  // Devices that make the samples train nothing.
  const auto hosts = count_of(values, apart + "resources.num_nodes"),
             of_host = count_of(values, apart + "resources.gpus_per_node");
  if (*text_.hosts > 1 && hosts && *hosts < *text_.hosts)
    text_.hosts = *text_.hosts - *hosts;
  else if (*text_.hosts == 1 && of_host && *of_host < *text_.devices_per_host)
    text_.devices_per_host = *text_.devices_per_host - *of_host;
  else
    return;
  text_.notes.push_back(fmt::format("{}: {} x {} devices train, beside those that make samples", text_.program,
                                    *text_.hosts, *text_.devices_per_host));
}

void TextReader::prime_rl(const ConfigValue& root, const std::string& place) {
  fsdp_trainer(root, place, "prime-rl");
  count_prime_rl();
}

void TextReader::count_prime_rl() {
  const auto values = last_values(text_.settings);
  const auto type = values.find("deployment.type");
  const bool several = type != values.end() && type->second == "multi_node";
  const auto number = [&](const char* key, std::int64_t otherwise) {
    return count_of(values, fmt::format("deployment.{}", key)).value_or(otherwise);
  };
  text_.hosts = several ? number("num_train_nodes", 2) : 1;
  text_.devices_per_host = several ? number("gpus_per_node", 8) : number("num_train_gpus", 1);
}

}  // namespace meshwright
