// SPDX-License-Identifier: Apache-2.0
// Sizes that a module leaves open ("?"), once its arguments have theirs: the shapes of results, and the small integer
// constants that shapes are computed from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/graph/import/xla/xla_module.h"

namespace meshwright::mlir {

using KnownNumbers = std::optional<std::vector<std::int64_t>>;

struct OperandView {
  const xla::Type* type;
  const KnownNumbers* known;
};

[[nodiscard]] bool is_open(const xla::Type& type);

// `type` with the sizes that follow from the operands; what does not follow stays open.
[[nodiscard]] xla::Type closed(const std::string& opcode, xla::Type type, const std::vector<OperandView>& operands,
                               const xla::Attributes& attributes);

// The numbers that an op on small integer tensors computes.
[[nodiscard]] KnownNumbers known_numbers(const std::string& opcode, const xla::Type& type,
                                         const std::vector<OperandView>& operands, const xla::Attributes& attributes);

}  // namespace meshwright::mlir
