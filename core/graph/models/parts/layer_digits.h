// SPDX-License-Identifier: Apache-2.0
// What tells layers of a model from each other, where it is no rule: a digit for each layer, packed into a few of the
// model's numbers. The first layer's is the lowest digit of the first number.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/graph/models/families.h"

namespace meshwright {

struct LayerDigits {
  std::span<const char* const> keys;
  int bits;  // of a digit

  [[nodiscard]] std::int64_t per_key() const { return 60 / bits; }
  [[nodiscard]] std::int64_t capacity() const { return per_key() * static_cast<std::int64_t>(keys.size()); }
  // The digit of a layer. REQUIRES: 0 <= layer < capacity().
  [[nodiscard]] std::int64_t of(const ModelConfig& model, std::int64_t layer) const;
  // One of the numbers by itself, of a model that has no more of them.
  [[nodiscard]] std::int64_t in(std::int64_t number, std::int64_t layer) const;
  // Digits of the layers behind the last are 0. REQUIRES: no more than capacity(), each of at most `bits` bits.
  void set(ModelConfig& model, const std::vector<std::int64_t>& digits) const;
  [[nodiscard]] std::vector<SizeField> fields() const;
};

}  // namespace meshwright
