// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/hf_config.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/hf_families.h"
#include "core/graph/models/families.h"

namespace meshwright {

namespace {

// Python writes numbers that JSON does not have. Outside of texts they become empty arrays, which no member that is
// read may be, of the same length, so that errors keep their columns.
std::string without_python_numbers(std::string text) {
  constexpr std::array<std::string_view, 3> kWords = {"-Infinity", "Infinity", "NaN"};
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (quoted && text[at] == '\\') {
      ++at;
      continue;
    }
    if (text[at] == '"') quoted = !quoted;
    if (quoted) continue;
    for (const std::string_view word : kWords) {
      if (text.compare(at, word.size(), word) != 0) continue;
      std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(at), word.size(), ' ');
      text[at] = '[';
      text[at + word.size() - 1] = ']';
      break;
    }
  }
  return text;
}

const HfFamily& family_of(const HfReader& config) {
  const std::string type = config.text_or("model_type", "");
  require(!type.empty(), "{}: 'model_type' is missing; it names the family, one of {}.", config.place(),
          join(hf_model_types(), ", "));
  for (const HfFamily& family : hf_families())
    if (type == family.model_type) return family;
  throw InputError(fmt::format("{}: models of the family '{}' are not supported; supported are {}.", config.place(),
                               type, join(hf_model_types(), ", ")));
}

DType dtype_of(const HfReader& config) {
  const char* key = config.has("torch_dtype") ? "torch_dtype" : "dtype";
  const std::string name = config.text_or(key, "bfloat16");
  constexpr std::array<std::pair<const char*, DType>, 4> kTypes = {
      {{"bfloat16", DType::BF16}, {"float16", DType::F16}, {"float32", DType::F32}, {"float64", DType::F64}}};
  for (const auto& [known, type] : kTypes)
    if (name == known) return type;
  throw InputError(fmt::format("{}: '{}' is \"{}\"; bfloat16, float16, float32 or float64 was expected.",
                               config.place(), key, name));
}

std::string name_of_file(const std::string& path) {
  std::vector<std::string> parts = split(path, '/');
  if (parts.back() == "config.json") parts.pop_back();
  std::string name =
      parts.empty() || parts.back().empty() || parts.back() == "." || parts.back() == ".." ? "config" : parts.back();
  for (const std::string_view end : {".json", "_config"})
    if (name.size() > end.size() && name.ends_with(end)) name.resize(name.size() - end.size());
  return name;
}

}  // namespace

std::vector<std::string> hf_model_types() {
  std::vector<std::string> types;
  for (const HfFamily& family : hf_families()) types.push_back(family.model_type);
  return types;
}

ModelConfig model_from_hf_text(const std::string& text, const std::string& name, const std::string& place) {
  const Json json = parse_json(without_python_numbers(text), place);
  const HfReader config(json, place);
  ModelConfig model = family_of(config).read(config);
  const Family& family = known_family(model.family, place);
  model.name = name;
  model.default_batch = family.default_batch;
  model.default_dtype = dtype_of(config);
  complete(model, family, place);
  check_sizes(family, model, place);
  return model;
}

ModelConfig model_from_hf_file(const std::string& path) {
  return model_from_hf_text(read_file(path), name_of_file(path), path);
}

}  // namespace meshwright
