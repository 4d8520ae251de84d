// SPDX-License-Identifier: Apache-2.0
#include "core/mesh/device_names.h"

#include <cctype>

namespace meshwright {

bool is_of_model(const std::string& gpu, const std::string& device) {
  const std::string model = device.substr(0, device.find('-'));
  const auto is_word = [&](std::size_t i) {
    return i < gpu.size() && std::isalnum(static_cast<unsigned char>(gpu[i])) != 0;
  };
  for (std::size_t at = gpu.find(model); at != std::string::npos; at = gpu.find(model, at + 1))
    if ((at == 0 || !is_word(at - 1)) && !is_word(at + model.size())) return true;
  return false;
}

}  // namespace meshwright
