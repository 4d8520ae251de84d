// SPDX-License-Identifier: Apache-2.0
// MaxText: run configurations inherit from others, and the shapes are in those of models.
#include "core/base/errors.h"
#include "launch/read/text_reader.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/yaml.h"

namespace meshwright {

void TextReader::maxtext_file(const ConfigValue& root, const std::string& place) {
  set_target("maxtext");
  add_maxtext(root, place, 0);
  for (std::size_t i = 1; i < input_.files.size(); ++i) {
    const std::string name = file_name(input_.files[i].path);
    if (ends_with_any(name, {".yml", ".yaml"}) && !text_.settings.has("from " + name)) {
      ConfigValue more = value_from_yaml(input_.files[i].text, name);
      add_missing(more, name);
    }
  }
  count_maxtext();
}

void TextReader::add_missing(const ConfigValue& map, const std::string& place) {
  ConfigValue fresh = ConfigValue::map(map.line);
  for (const auto& [key, value] : map.members)
    if (!text_.settings.has(key)) fresh.set(key, value);
  text_.settings.add_all(fresh, "", place);
}

void TextReader::add_maxtext(const ConfigValue& root, const std::string& place, int depth) {
  require(depth < 16, "{}: its base_config files inherit from one another without end.", place);
  add_missing(root, place);
  inherit(root, place, depth);
}

void TextReader::inherit(const ConfigValue& root, const std::string& place, int depth) {
  for (const char* key : {"base_config", "model_name"}) {
    const ConfigValue* named = root.find(key);
    if (named == nullptr || !named->is_scalar() || named->text.empty()) continue;
    const bool model = std::string(key) == "model_name";
    const auto found = file_named(model ? named->text + ".yml" : named->text);
    if (found)
      add_maxtext(value_from_yaml(*found, file_name(named->text)), file_name(named->text) + (model ? ".yml" : ""),
                  depth + 1);
    else if (!model && file_name(named->text) != "base.yml")
      text_.notes.push_back(
          fmt::format("{}:{}: {} is not there; give it as a further file", place, named->line, named->text));
  }
}

void TextReader::count_maxtext() {
  const auto product = [&](const char* group) {
    std::optional<std::int64_t> all;
    for (const Setting& setting : text_.settings.all()) {
      if (!setting.key.starts_with(group) || !setting.key.ends_with("_parallelism") || !setting.value.is_scalar())
        continue;
      const auto number = whole_number(setting.value.text);
      if (!number || *number < 1 || *number > 1 << 20 || all.value_or(1) > 1 << 20)
        return std::optional<std::int64_t>{};
      all = all.value_or(1) * *number;
    }
    return all;
  };
  text_.hosts = product("dcn_");
  if (text_.hosts) text_.devices_per_host = product("ici_");
}

}  // namespace meshwright
