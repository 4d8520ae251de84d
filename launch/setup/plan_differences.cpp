// SPDX-License-Identifier: Apache-2.0
#include "launch/setup/plan_differences.h"

#include <map>
#include <optional>

#include "core/base/text.h"

namespace meshwright {

namespace {

std::string masks_text(const std::map<std::string, AxisMask>& axes) {
  std::vector<std::string> texts;
  for (const auto& [name, mask] : axes) texts.push_back(name + " over " + ShardingSpec{{mask}, 0}.to_text());
  return texts.empty() ? "whole" : join(texts, ", ");
}

std::string decision_text(const OpSharding& sharding) {
  return fmt::format("{} ({})", sharding.result.to_text(), masks_text(sharding.axes));
}
std::string decision_text(const ParameterSharding& sharding) {
  return fmt::format("{} with state {}{}", sharding.weight.to_text(), sharding.state.to_text(),
                     sharding.eager ? ", summed in every micro-batch" : "");
}
std::string decision_text(const ShardingSpec& spec) { return spec.to_text(); }
std::string decision_text(const FanOut& fan_out) {
  return fmt::format("copies of {} and gradients of {}", fan_out.copy.to_text(), fan_out.gradient.to_text());
}
std::string decision_text(CrossMesh form) { return name_of(form); }

template <class Key, class Decision>
void add(std::vector<std::string>& found, const std::map<Key, Decision>& plan, const std::map<Key, Decision>& launched,
         std::size_t stage, const char* what, const std::string& framework) {
  std::size_t others = 0;
  std::string first;
  const auto note = [&](const Key& key, const Decision* own, const Decision* other) {
    if (own != nullptr && other != nullptr && *own == *other) return;
    const auto text = [](const Decision* of) { return of == nullptr ? std::string("usual") : decision_text(*of); };
    if (others++ == 0)
      first = fmt::format("stage {} has {} {} as {}, and the job of {} as {}", stage, what, key, text(own), framework,
                          text(other));
  };
  for (const auto& [key, own] : plan) {
    const auto other = launched.find(key);
    note(key, &own, other == launched.end() ? nullptr : &other->second);
  }
  for (const auto& [key, other] : launched)
    if (!plan.contains(key)) note(key, nullptr, &other);
  if (others > 0) found.push_back(others == 1 ? first : fmt::format("{} (the first of {})", first, others));
}

}  // namespace

std::vector<std::string> plan_differences(const Plan& plan, const Plan& launched, const std::string& framework) {
  if (plan.stages.size() != launched.stages.size())
    return {fmt::format("the plan has {} stages, and the job of {} has {}", plan.stages.size(), framework,
                        launched.stages.size())};
  std::vector<std::string> found;
  if (plan.schedule != launched.schedule && plan.training.microbatches > 1)
    found.push_back(fmt::format("the plan has schedule {}, and the job of {} runs {}", name_of(plan.schedule),
                                framework, name_of(launched.schedule)));
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StagePlan &own = plan.stages[s], &other = launched.stages[s];
    if (own.logical_shape != other.logical_shape || own.devices != other.devices) {
      found.push_back(fmt::format("stage {} is on the devices {} as a mesh of {}, and that of {} on {} as {}", s,
                                  fmt::join(own.devices, ", "), fmt::join(own.logical_shape, " x "), framework,
                                  fmt::join(other.devices, ", "), fmt::join(other.logical_shape, " x ")));
      continue;
    }
    add(found, own.ops, other.ops, s, "the operator", framework);
    add(found, own.parameters, other.parameters, s, "the parameter", framework);
    add(found, own.inputs, other.inputs, s, "what it receives,", framework);
    add(found, own.fan_outs, other.fan_outs, s, "the result", framework);
    add(found, own.cross_mesh, other.cross_mesh, s, "messages from stage", framework);
  }
  return found;
}

}  // namespace meshwright
