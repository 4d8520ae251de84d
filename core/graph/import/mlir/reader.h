// SPDX-License-Identifier: Apache-2.0
// Reads the ops of one file: what the forms of single ops (printed_ops.cpp) share.
#pragma once

#include "core/graph/import/mlir/syntax.h"

namespace meshwright::mlir {

class Reader {
 public:
  Reader(std::string_view text, const std::string& place) : scanner_(text, place) {}
  SyntaxTree read();

 private:
  void read_top();
  void read_alias();
  void read_module(Op& op);
  void read_function(bool generic, const Op& op);
  void read_mesh(const Op& op);

  Op read_op();
  void read_generic(Op& op);
  void read_types_of(Op& op);
  void read_location(std::string_view& location);
  Region read_region();
  void read_arguments(std::vector<Argument>& arguments, std::string_view open, std::string_view close);
  [[nodiscard]] std::vector<Use> read_uses(std::string_view open, std::string_view close);

  // printed_ops.cpp
  void read_printed(Op& op);
  void read_constant(Op& op);
  void read_while(Op& op);
  void read_reduce(Op& op);
  void read_call(Op& op);
  void read_computation(Op& op);
  void read_any(Op& op);
  void read_fields_of(Op& op) {
    for (const Field& field : read_fields(scanner_, "{", "}")) op.attributes.push_back(field);
  }

  Scanner scanner_;
  SyntaxTree tree_;
  int depth_ = 0;
  std::int64_t ops_left_ = 1'000'000;
};

}  // namespace meshwright::mlir
