// SPDX-License-Identifier: Apache-2.0
#include "launch/setup/launch_target.h"

#include <algorithm>
#include <map>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

const std::vector<LaunchTarget>& launch_targets() {
  static const std::vector<LaunchTarget> targets = {
      {"megatron", "Megatron-LM core 0.20", "megatron"},
      {"megatron-bridge", "Megatron-Bridge 26.08", "megatron"},
      {"torchtitan", "torchtitan 0.2.2", "torchtitan"},
      {"deepspeed", "DeepSpeed 0.19", "deepspeed"},
      {"fsdp2", "PyTorch FSDP2", "fsdp"},
      {"accelerate", "accelerate 1.x", "fsdp"},
      {"maxtext", "MaxText of 2026", "maxtext"},
      {.name = "jax", .release = "JAX 0.5 and later", .framework = "", .own_shardings = true},
      {.name = "alpa", .release = "Alpa 0.2", .framework = "alpa", .own_shardings = true},
      {"nnscaler", "nnScaler 0.8", "nnscaler"},
      {.name = "flagscale", .release = "FlagScale of November 2025", .framework = "megatron", .own_stages = true},
  };
  return targets;
}

const LaunchTarget& find_launch_target(const std::string& name) {
  std::vector<std::string> names;
  for (const LaunchTarget& target : launch_targets()) {
    if (target.name == name) return target;
    names.push_back(target.name);
  }
  throw InputError(unknown_name("launch target", name, names, "Files are written for these."));
}

Framework framework_of(const LaunchTarget& target) {
  Framework framework = find_framework(target.framework);
  if (target.name == "accelerate") framework.zero = {2, 3};
  if (target.name == "flagscale") {
    framework.schedules = {ScheduleKind::OneFOneB};
    framework.recompute = {Recompute::None, Recompute::Full};
    framework.contexts = framework.whole_experts = false;
    framework.further = Framework::FurtherTokens::Never;
  }
  return framework;
}

std::vector<std::string> names_of_planned_frameworks() {
  std::vector<std::string> names = framework_names();
  for (const LaunchTarget& target : launch_targets())
    if (!target.framework.empty() && std::find(names.begin(), names.end(), target.name) == names.end())
      names.push_back(target.name);
  return names;
}

const Framework& find_planned_framework(const std::string& name) {
  static const std::map<std::string, Framework> all = [] {
    std::map<std::string, Framework> made;
    for (const LaunchTarget& target : launch_targets())
      if (!target.framework.empty()) made.emplace(target.name, framework_of(target));
    for (const std::string& own : framework_names()) made.insert_or_assign(own, find_framework(own));
    return made;
  }();
  const auto found = all.find(name);
  if (found == all.end())
    throw InputError(
        unknown_name("framework", name, names_of_planned_frameworks(), "These are the frameworks that are known."));
  return found->second;
}

}  // namespace meshwright
