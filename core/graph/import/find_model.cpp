// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/find_model.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/hf/hf_config.h"
#include "core/graph/import/model_file.h"
#include "core/graph/models/model_names.h"

namespace meshwright {

namespace {

// "config.json:layers=2" is that file's model with other sizes. A folder of a model has the file in it; a name without
// a slash is that of a built-in model, whatever lies beside the user.
struct ConfigName {
  std::string path, sizes;
};

std::optional<ConfigName> config_name(const std::string& name) {
  constexpr std::string_view kEnd = ".json";
  const std::filesystem::path in_folder = std::filesystem::path(name) / "config.json";
  std::error_code unreadable;
  if (name.find('/') != std::string::npos && std::filesystem::exists(in_folder, unreadable))
    return ConfigName{in_folder.string(), ""};
  if (name.ends_with(kEnd)) return ConfigName{name, ""};
  const std::size_t at = name.rfind(".json:");
  if (at == std::string::npos) return std::nullopt;
  return ConfigName{name.substr(0, at + kEnd.size()), name.substr(at + kEnd.size() + 1)};
}

// "meta-llama/Llama-3.1-8B": an owner and a name, where nothing has that path.
std::optional<ModelConfig> model_of_hub(const std::string& name) {
  std::error_code unreadable;
  const bool is_path = std::count(name.begin(), name.end(), '/') != 1 || name.front() == '/' || name.front() == '.' ||
                       std::filesystem::exists(name, unreadable);
  return is_path ? std::nullopt : builtin_model_like(name.substr(name.find('/') + 1));
}

}  // namespace

ModelConfig find_model(const std::string& name, const std::map<std::string, std::int64_t>& dims) {
  if (is_model_file(name)) return read_model_file(name, dims);
  require(dims.empty(), "--dim: model '{}' leaves no dimension open; --dim is for files of ops such as model.onnx.",
          name);
  for (const char* other : {".textproto", ".pbtxt", ".pb", ".pt", ".pth", ".safetensors", ".mlir", ".gguf"})
    require(!name.ends_with(other),
            "model '{}': files of ops in this format are not read; export the model as ONNX (.onnx) or with "
            "torch.export.save (.pt2).",
            name);
  if (const auto config = config_name(name)) {
    ModelConfig model = model_from_hf_file(config->path);
    return config->sizes.empty() ? model : with_sizes(std::move(model), config->sizes, fmt::format("model '{}'", name));
  }
  if (name.find('/') == std::string::npos) return find_builtin_model(name);
  const std::size_t colon = name.find(':');
  const std::optional<ModelConfig> model = model_of_hub(name.substr(0, colon));
  require(model.has_value(),
          "model '{}': is no file that a model is read from, and no name of a built-in model; give a config.json, a "
          "file of ops (.onnx, .pt2, .hlo or .mlir), or a name that `meshwright models` lists.",
          name);
  return colon == std::string::npos ? *model
                                    : with_sizes(*model, name.substr(colon + 1), fmt::format("model '{}'", name));
}

std::string config_file_of_model(const std::string& name) {
  const auto config = config_name(name);
  return config ? config->path : "";
}

std::vector<std::string> left_out_of_model(const std::string& name) {
  const auto config = config_name(name);
  return config ? not_understood_of_hf_file(config->path) : std::vector<std::string>();
}

std::vector<std::string> assumed_of_model(const std::string& name) {
  const auto config = config_name(name);
  return config ? assumed_of_hf_file(config->path) : std::vector<std::string>();
}

ModelConfig model_of_plan(const Json& json, const std::string& place) {
  if (get<std::string>(json, "family", place) != "file") return model_from_json(json, place);
  const auto path = get<std::string>(json, "path", place), hash = get<std::string>(json, "hash", place);
  std::map<std::string, std::int64_t> dims;
  const Json& given = member(json, "dims", place);
  require(given.is_object(), "{}: 'dims' must be an object of numbers; see docs/files.md for the format.", place);
  for (const auto& [name, size] : given.items()) dims[name] = get<std::int64_t>(given, name, place + ": dims");
  require(is_model_file(path), "{}: '{}' is no file of a kind that holds ops; see docs/models.md for the kinds.", place,
          path);
  ModelConfig model = read_model_file(path, dims);
  require(model.file->hash == hash,
          "{}: '{}' has changed since the plan was made (its bytes then had the hash {}, now {}); plan again.", place,
          path, hash, model.file->hash);
  return model;
}

}  // namespace meshwright
