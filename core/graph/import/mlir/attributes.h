// SPDX-License-Identifier: Apache-2.0
// The attributes of an op, as those of an HLO instruction.
#pragma once

#include "core/graph/import/mlir/syntax.h"

namespace meshwright::mlir {

// What reading an attribute needs to know of its file.
struct AttributeContext {
  const SyntaxTree& tree;
  const std::string& place;

  [[nodiscard]] Value value(std::string_view text, int line) const;
  [[nodiscard]] Value value(const Op& op, std::string_view attribute) const {
    return value(op.find(attribute), op.line);
  }
};

// The insides of a list of attributes or of an attribute with parts: "{a = 1}", "#stablehlo.dot<a = 1>".
[[nodiscard]] std::vector<Field> parts_of(const Value& value);

// HLO's name of an op of StableHLO, MHLO or CHLO; of any other the name as it stands.
[[nodiscard]] std::string opcode_of(const Op& op);

// `operands`: the types of the operands.
[[nodiscard]] xla::Attributes attributes_of(const Op& op, const std::string& opcode,
                                            const std::vector<const xla::Type*>& operands,
                                            const AttributeContext& context);

// "mhlo.sharding" as it stands; Shardy's as HLO's text. Empty: there is none.
[[nodiscard]] std::string sharding_of(const std::vector<Field>& attributes, std::size_t rank, int line,
                                      const AttributeContext& context);

// Shardy's "<@mesh, [{"x"}, {"y", "z"}]>" as HLO's "{devices=[2,4,2]<=[2,2,4]T(1,2,0) last_tile_dim_replicate}".
[[nodiscard]] std::string hlo_sharding(const Value& sharding, std::size_t rank, const AttributeContext& context);

}  // namespace meshwright::mlir
