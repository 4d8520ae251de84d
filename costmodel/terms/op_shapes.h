// SPDX-License-Identifier: Apache-2.0
// The shape of an op as its term needs it, read from the op's signature (OpWork::signature), which is also how a
// profile database stores it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "costmodel/terms/attention.h"
#include "costmodel/terms/products.h"

namespace meshwright {

// "contract bf16 [a=2,b=64][b,c=8]->[a,c] select".
struct OpSignature {
  struct Operand {
    std::string axes;   // "ab"
    std::string dtype;  // of the op, unless the operand has its own
  };
  std::string kind, dtype;
  std::map<char, std::int64_t> sizes;  // of the axes
  std::vector<Operand> inputs, outputs;
  std::string rest;  // " causal window 128"; "" if none

  [[nodiscard]] std::int64_t elements(const Operand& operand) const;
};

// nullopt: the text is no signature.
[[nodiscard]] std::optional<OpSignature> parse_signature(std::string_view text);

[[nodiscard]] double element_size(std::string_view dtype);  // in bytes; 4 for a type that is not known

// The product that a `contract` is: axes of both operands and the result are its batch, those missing from the result
// its depth. nullopt: another op, or an operand has an axis that is summed alone.
[[nodiscard]] std::optional<ProductShape> product_of(const OpSignature& signature);
// The shape of an `attention`, a `grouped_attention` or their backward. A window shortens the keys.
[[nodiscard]] std::optional<AttentionShape> attention_of(const OpSignature& signature);

}  // namespace meshwright
