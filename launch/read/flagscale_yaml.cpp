// SPDX-License-Identifier: Apache-2.0
// FlagScale: an experiment file and the training file that it names.
#include <algorithm>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "launch/read/text_reader.h"
#include "launch/syntax/interpolation.h"
#include "launch/syntax/numbers.h"
#include "launch/syntax/yaml.h"

namespace meshwright {

void TextReader::flagscale(const ConfigValue& root, const std::string& place) {
  set_target("flagscale");
  const ConfigValue* train = &root;
  ConfigValue other;
  std::string of = place;
  if (const ConfigValue* experiment = root.find("experiment")) {
    flagscale_runner(*experiment);
    if (root.find("system") == nullptr) {
      const std::string name = train_of(root);
      // Hydra's "defaults: - train: NAME" is train/NAME.yaml.
      std::optional<std::string> found = file_named("train/" + name + ".yaml");
      of = name + ".yaml";
      for (std::size_t i = 1; !found && i < input_.files.size(); ++i) {
        found = input_.files[i].text;
        of = file_name(input_.files[i].path);
      }
      require(found.has_value(), "{}: names the training file '{}'; give it as a further file.", place, name);
      other = value_from_yaml(*found, of);
      resolve_interpolations(other);
      train = &other;
    }
  } else {
    for (std::size_t i = 1; i < input_.files.size(); ++i)
      if (const ConfigValue more = value_from_yaml(input_.files[i].text, file_name(input_.files[i].path));
          more.find("experiment") != nullptr)
        flagscale_runner(*more.find("experiment"));
  }
  for (const auto& [group, value] : train->members)
    if (group == "system" || group == "model" || group == "data") add_flag_map(value, of);
  if (text_.settings.has("hetero-process-meshes")) count_meshes();
}

void TextReader::count_meshes() {
  std::vector<std::int64_t> numbers;
  for (const Setting& setting : text_.settings.all())
    if (setting.key == "hetero-process-meshes")
      for (const ConfigValue& item : setting.value.items) numbers.push_back(whole_number(item.text).value_or(0));
  std::int64_t ranks = 0;
  for (std::size_t m = 0; m + 4 < numbers.size() && ranks < 1 << 20; m += 5)
    ranks += std::clamp<std::int64_t>(numbers[m], 0, 4096) * std::clamp<std::int64_t>(numbers[m + 1], 0, 4096) *
             std::clamp<std::int64_t>(numbers[m + 3], 0, 4096) * std::clamp<std::int64_t>(numbers[m + 4], 0, 4096);
  if (!text_.hosts && ranks >= 1 && ranks <= 1 << 20) text_.devices = ranks;
}

std::string TextReader::train_of(const ConfigValue& root) {
  const ConfigValue* defaults = root.find("defaults");
  if (defaults != nullptr)
    for (const ConfigValue& item : defaults->items)
      if (item.find("train") != nullptr) return item.find("train")->text;
  return "train";
}

void TextReader::flagscale_runner(const ConfigValue& experiment) {
  if (const ConfigValue* task = experiment.find("task"))
    if (const ConfigValue* program = task->find("entrypoint"); program != nullptr && !program->text.empty())
      text_.program += ": " + file_name(program->text);
  if (const ConfigValue* runner = experiment.find("runner")) {
    if (const ConfigValue* hosts = runner->find("nnodes")) text_.hosts = whole_number(hosts->text);
    if (const ConfigValue* devices = runner->find("nproc_per_node"))
      text_.devices_per_host = whole_number(devices->text);
  }
  const ConfigValue* environment = experiment.find("envs");
  if (environment == nullptr) return;
  for (const auto& [key, value] : environment->members)
    if (value.is_scalar()) text_.environment[key] = value.text;
  const ConfigValue* visible = environment->find("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr && !text_.devices_per_host)
    text_.devices_per_host = static_cast<std::int64_t>(split(visible->text, ',').size());
}

}  // namespace meshwright
