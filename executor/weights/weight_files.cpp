// SPDX-License-Identifier: Apache-2.0
#include "executor/weights/weight_files.h"

#include <filesystem>
#include <set>

#include "core/base/errors.h"
#include "core/base/json.h"

namespace meshwright {

namespace {

constexpr const char *kSingle = "model.safetensors", *kIndex = "model.safetensors.index.json";

// The files that an index lists, by the tensors that it says they have.
std::map<std::string, std::string> read_index(const std::string& path) {
  const Json json = read_json_file(path);
  const Json& map = member(json, "weight_map", path);
  require(map.is_object() && !map.empty(), "{}: 'weight_map' must name the file of each tensor.", path);
  std::map<std::string, std::string> file_of_tensor;
  for (const auto& [tensor, file] : map.items()) {
    require(file.is_string(), "{}: 'weight_map' must name the file of each tensor.", path);
    const auto name = file.get<std::string>();
    require(!name.empty() && name.find('/') == std::string::npos && name != "..",
            "{}: '{}' is no file of the folder; the index names files beside it.", path, name);
    file_of_tensor[tensor] = name;
  }
  return file_of_tensor;
}

}  // namespace

WeightFiles::WeightFiles(const std::string& folder) : folder_(folder) {
  const std::filesystem::path at(folder);
  std::error_code error;
  require(std::filesystem::is_directory(at, error), "{}: there is no such folder; give one with {}.", folder, kSingle);
  std::map<std::string, std::string> file_of_tensor;
  std::set<std::string> files;
  if (const auto index = at / kIndex; std::filesystem::exists(index, error)) {
    file_of_tensor = read_index(index.string());
    for (const auto& [tensor, file] : file_of_tensor) files.insert(file);
  } else {
    require(std::filesystem::exists(at / kSingle, error), "{}: the folder has neither {} nor {}.", folder, kSingle,
            kIndex);
    files.insert(kSingle);
  }
  files_.reserve(files.size());  // places of mapped bytes and headers stay
  headers_.reserve(files.size());
  for (const std::string& file : files) add((at / file).string());
  for (const auto& [tensor, file] : file_of_tensor)
    require(tensors_.contains(tensor), "{}: the index says that '{}' has the tensor '{}', but it has not.", folder,
            file, tensor);
}

void WeightFiles::add(const std::string& path) {
  const MappedFile& file = files_.emplace_back(path);
  const SafetensorsHeader& header = headers_.emplace_back(read_safetensors_header(file.bytes(), path));
  for (const StoredTensor& tensor : header.tensors) {
    const Found found{&tensor, file.bytes().substr(tensor.begin, tensor.end - tensor.begin), &file.path()};
    const auto [other, is_new] = tensors_.emplace(tensor.name, found);
    require(is_new, "{}: the tensor '{}' is in '{}' as well.", path, tensor.name, *other->second.path);
  }
}

}  // namespace meshwright
