// SPDX-License-Identifier: Apache-2.0
#include "launch/read/maxtext/maxtext_axes.h"

#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

using Names = std::set<std::string>;

// configs/base.yml and configs/custom_mesh_and_rule of MaxText e591f30c.
const Names kUsual = {"fsdp", "fsdp_transpose", "context", "context_usp_ulysses", "sequence", "expert"};
const std::map<std::string, Names>& rule_files() {
  static const std::map<std::string, Names> all = {{"pure-fsdp", {"fsdp"}},
                                                   {"ep-as-dp", {"fsdp", "fsdp_transpose"}},
                                                   {"ep-as-cp", {"fsdp", "expert"}},
                                                   {"cp-as-ep", {"fsdp", "context", "expert"}},
                                                   {"pipeline-large-moe", {"fsdp", "expert"}},
                                                   {"shard-exp-on-fsdp", {"fsdp", "context", "expert"}}};
  return all;
}

// Rules of weights alone leave everything else as base.yml has it.
bool is_of_weights(const std::string& name) {
  for (const char* weight : {"embed", "embed_vocab", "embed_moe", "q_lora", "kv_lora"})
    if (name == weight) return true;
  return false;
}

// "expert", or [fsdp, expert].
Names axes_of(const ConfigValue& value, const std::string& where) {
  Names names;
  if (value.is_scalar()) names.insert(value.text);
  require(value.kind != ConfigValue::Kind::Map, "{}: the axes of a rule are a name or a list of names.", where);
  for (const ConfigValue& item : value.items) {
    require(item.is_scalar(), "{}: the axes of a rule are a name or a list of names.", where);
    names.insert(item.text);
  }
  return names;
}

}  // namespace

WeightAxes weight_axes(ReadingJob& job) {
  Settings& settings = job.settings();
  WeightAxes axes{kUsual};
  const std::string file = settings.text("custom_mesh_and_rule").value_or("");
  if (!file.empty() && file != "default") {
    axes.others_change = true;
    const auto known = rule_files().find(file);
    if (known != rule_files().end())
      axes.names = known->second;
    else
      job.broken(fmt::format("custom_mesh_and_rule {} is no rule file of MaxText", file));
  }
  const bool alone = settings.flag("override_logical_axis_rules");
  const Setting* given = settings.take("logical_axis_rules");
  if (given == nullptr || given->value.kind == ConfigValue::Kind::Null) return axes;
  const std::string where = settings.where("logical_axis_rules");
  require(given->value.is_list(), "{}: a list of rules [name, [axes]] is expected.", where);
  // Rules of base.yml with a name that the file has are gone, all with it.
  bool found = false;
  for (const ConfigValue& rule : given->value.items) {
    require(rule.is_list() && rule.items.size() == 2 && rule.items[0].is_scalar(), "{}: {} is no rule [name, [axes]].",
            where, to_text(rule));
    const std::string& name = rule.items[0].text;
    const Names own = axes_of(rule.items[1], where);
    axes.others_change = axes.others_change || !is_of_weights(name);
    if (name != "embed" || found) continue;  // the first of a name holds
    axes.names = own;
    found = true;
  }
  if (alone && !found) axes.names = {};
  return axes;
}

std::int64_t weight_parts(const WeightAxes& axes, const std::map<std::string, std::int64_t>& degrees) {
  std::int64_t parts = 1;
  for (const std::string& name : axes.names) {
    const auto degree = degrees.find(name);
    if (degree != degrees.end()) parts = std::min(kMaxDegree, parts * std::max<std::int64_t>(1, degree->second));
  }
  return parts;
}

}  // namespace meshwright
