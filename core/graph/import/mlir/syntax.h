// SPDX-License-Identifier: Apache-2.0
// The ops of an MLIR module, whichever way the file writes them.
//
// Ops of the generic form ("mhlo.add"(%0, %1) {...} : (t, t) -> t) and of the forms that StableHLO, MHLO, CHLO, Shardy
// and the function dialect print (stablehlo.add %0, %1 : t) become the same Op: attributes have the names of the
// generic form. Ops of other dialects are passed over, with their names and results. Locations are kept as text.
#pragma once

#include "core/graph/import/mlir/values.h"

namespace meshwright::mlir {

struct Op;

struct Argument {
  std::string_view name;
  xla::Type type;
  std::vector<Field> attributes = {};
  std::string_view location = {};
};

// One block: a file with several is refused.
struct Region {
  std::vector<Argument> arguments;
  std::vector<Op> ops;
};

struct Result {
  std::string_view name;
  std::int64_t count;  // "%8:9": 9
};

struct Op {
  std::string_view name;  // "stablehlo.add"
  std::vector<Result> results = {};
  std::vector<Use> operands = {};
  std::vector<Field> attributes = {};
  std::vector<Region> regions = {};
  std::vector<xla::Type> types = {};  // of the results
  std::string_view location = {};     // what stands in "loc(...)"
  int line = 0;

  // The text of an attribute, empty: it has none.
  [[nodiscard]] std::string_view find(std::string_view attribute) const;
  [[nodiscard]] std::string_view dialect() const { return name.substr(0, name.find('.')); }
  // Without its dialect: "add".
  [[nodiscard]] std::string_view short_name() const;
};

struct Function {
  std::string_view name;
  bool visible = true;  // not private
  Region body;
  std::vector<xla::Type> results;
  std::vector<std::vector<Field>> result_attributes;
  int line = 0;
};

struct SyntaxTree {
  std::string_view name;  // of the module
  std::vector<Field> attributes;
  std::vector<Function> functions;
  std::map<std::string_view, std::string_view> meshes;  // "<["data"=2]>" by name
  Aliases aliases;
};

// Throws InputError, "PLACE:LINE: ...".
[[nodiscard]] SyntaxTree read_syntax(std::string_view text, const std::string& place);

}  // namespace meshwright::mlir
