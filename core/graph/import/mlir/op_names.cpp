// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/graph/import/mlir/attributes.h"

namespace meshwright::mlir {

std::string opcode_of(const Op& op) {
  // Where HLO's name is not the op's with '-' for '_'.
  static const std::map<std::string_view, const char*> kNames{
      {"broadcast_in_dim", "broadcast"},
      {"case", "conditional"},
      {"create_token", "after-all"},
      {"dot_general", "dot"},
      {"dynamic_broadcast_in_dim", "broadcast"},
      {"if", "conditional"},
      {"optimization_barrier", "opt-barrier"},
      {"top_k", "custom-call"},
      {"topk", "custom-call"},
  };
  const std::string_view dialect = op.dialect(), name = op.short_name();
  if (dialect == "func" || dialect == "call") return "call";
  if (dialect == "arith" && name == "constant") return "constant";
  if (op.name == "sdy.sharding_constraint" || op.name == "sdy.reshard") return "custom-call";
  if (op.name == "sdy.propagation_barrier" || op.name == "sdy.data_flow_edge") return "copy";
  if (op.name == "sdy.named_computation" || op.name == "sdy.manual_computation" || name == "composite") return "call";
  if (dialect != "stablehlo" && dialect != "mhlo" && dialect != "chlo") return std::string(op.name);
  if (const auto known = kNames.find(name); known != kNames.end()) return known->second;
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

}  // namespace meshwright::mlir
