// SPDX-License-Identifier: Apache-2.0
// The tensors of a folder of safetensors files as Hugging Face stores models: model.safetensors, or the files that
// model.safetensors.index.json lists.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/safetensors.h"
#include "executor/weights/mapped_file.h"

namespace meshwright {

class WeightFiles {
 public:
  // Throws InputError for a folder without such files, for damaged ones, and where index and files disagree;
  // SystemError for what cannot be read.
  explicit WeightFiles(const std::string& folder);

  struct Found {
    const StoredTensor* tensor;
    std::string_view bytes;
    const std::string* path;  // of its file
  };
  [[nodiscard]] const std::map<std::string, Found>& tensors() const { return tensors_; }
  [[nodiscard]] const std::string& folder() const { return folder_; }

 private:
  void add(const std::string& path);

  std::string folder_;
  std::vector<MappedFile> files_;
  std::vector<SafetensorsHeader> headers_;
  std::map<std::string, Found> tensors_;
};

}  // namespace meshwright
