// SPDX-License-Identifier: Apache-2.0
#include "cli/manual/manual.h"

namespace meshwright {

namespace {

const char* name_of_paths(ValueKind::Paths paths) {
  switch (paths) {
    case ValueKind::Paths::None:
      return "none";
    case ValueKind::Paths::Files:
      return "files";
    case ValueKind::Paths::Folders:
      return "folders";
  }
  return "";
}

Json options_json(const std::vector<ManualOption>& options) {
  Json list = Json::array();
  for (const ManualOption& option : options) {
    list.push_back({{"name", option.name},
                    {"meaning", option.meaning},
                    {"required", option.required},
                    {"repeatable", option.repeatable}});
    if (!option.takes_value) continue;
    list.back()["value"] = option.value.shown;
    list.back()["words"] = option.value.words;
    list.back()["paths"] = name_of_paths(option.value.paths);
    if (!option.usual.empty()) list.back()["default"] = option.usual;
  }
  return list;
}

}  // namespace

Json to_json(const Manual& manual) {
  Json verbs = Json::array();
  for (const ManualVerb& verb : manual.verbs)
    verbs.push_back({{"name", verb.name},
                     {"summary", verb.summary},
                     {"arguments", options_json(verb.positionals)},
                     {"options", options_json(verb.options)}});
  return {{"program", manual.name}, {"version", manual.version}, {"verb", "manual"}, {"verbs", std::move(verbs)}};
}

}  // namespace meshwright
