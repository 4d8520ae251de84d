// SPDX-License-Identifier: Apache-2.0
#include "core/graph/models/parts/layer_digits.h"

namespace meshwright {

std::int64_t LayerDigits::in(std::int64_t number, std::int64_t layer) const {
  return number >> (bits * layer) & ((std::int64_t{1} << bits) - 1);
}

std::int64_t LayerDigits::of(const ModelConfig& model, std::int64_t layer) const {
  return in(size_of(model, keys[static_cast<std::size_t>(layer / per_key())]), layer % per_key());
}

void LayerDigits::set(ModelConfig& model, const std::vector<std::int64_t>& digits) const {
  for (const char* key : keys) model.more[key] = 0;
  for (std::size_t layer = 0; layer < digits.size(); ++layer) {
    const auto at = static_cast<std::int64_t>(layer);
    model.more[keys[static_cast<std::size_t>(at / per_key())]] += digits[layer] << (bits * (at % per_key()));
  }
}

std::vector<SizeField> LayerDigits::fields() const {
  std::vector<SizeField> sizes;
  for (const char* key : keys) sizes.push_back({key, (std::int64_t{1} << (bits * per_key())) - 1, 0, 0});
  return sizes;
}

}  // namespace meshwright
