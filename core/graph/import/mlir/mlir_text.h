// SPDX-License-Identifier: Apache-2.0
// From the text of an MLIR module of StableHLO, MHLO or CHLO ops to a program of XLA's operations.
//
// Read are the generic form and the printed one ("stablehlo.add %0, %1 : tensor<4xf32>"). Regions become computations;
// what they read from outside becomes part of their operands. Ops of several results make tuples. Ops of other
// dialects keep their name as opcode. Shardings become HLO's text, whether the file has HLO's or Shardy's.
//
// Sizes that the file leaves open ("?") are given by name: "x.0" is dimension 0 of the argument x.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/graph/import/xla/xla_module.h"

namespace meshwright::mlir {

// Throws InputError: "PLACE:LINE: ..." for what cannot be read, "PLACE: ..." and "--dim: ..." for sizes that are
// missing or have no place.
[[nodiscard]] xla::Program read_mlir(std::string_view text, const std::map<std::string, std::int64_t>& dims,
                                     const std::string& place);

}  // namespace meshwright::mlir
