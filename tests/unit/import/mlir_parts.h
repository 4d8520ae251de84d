// SPDX-License-Identifier: Apache-2.0
// Modules of MLIR as programs of XLA's operations, and parts of these, as tests look at them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/base/text.h"
#include "core/graph/import/mlir/mlir_text.h"

namespace meshwright::mlir_parts {

using OpenDims = std::map<std::string, std::int64_t>;

inline xla::Program program_of_text(const std::string& text, const OpenDims& dims = {}) {
  return mlir::read_mlir(text, dims, "m.mlir");
}

inline std::string text_of_type(const xla::Type& type) {
  std::vector<std::string> parts;
  for (const xla::Type& part : type.parts) parts.push_back(text_of_type(part));
  for (const std::int64_t size : type.sizes) parts.push_back(std::to_string(size));
  return type.is_tuple() ? fmt::format("({})", join(parts, " "))
                         : fmt::format("{}[{}]", type.element, join(parts, ","));
}

// "0 f32[2] parameter\n1 f32[2] add 0 0 -> root", with what an instruction calls in braces.
inline std::string program_text(const xla::Program& program, const xla::Computation& computation,
                                const std::string& indent = "") {
  std::string text;
  for (std::size_t i = 0; i < computation.instructions.size(); ++i) {
    const xla::Instruction& instruction = computation.instructions[i];
    text += fmt::format("{}{} {} {}", indent, i, text_of_type(instruction.type), instruction.opcode);
    for (const int operand : instruction.operands) text += fmt::format(" {}", operand);
    text += static_cast<int>(i) == computation.root ? " -> root\n" : "\n";
    for (const int call : instruction.calls)
      text += program_text(program, program.computations[static_cast<std::size_t>(call)], indent + "  | ");
  }
  return text;
}
inline std::string program_text(const xla::Program& program) {
  return program_text(program, program.computations[static_cast<std::size_t>(program.entry)]);
}

inline const xla::Computation& entry_computation(const xla::Program& program) {
  return program.computations[static_cast<std::size_t>(program.entry)];
}

inline const xla::Instruction& only_of(const xla::Program& program, const std::string& opcode) {
  const xla::Instruction* found = nullptr;
  for (const xla::Instruction& instruction : entry_computation(program).instructions)
    if (instruction.opcode == opcode) {
      EXPECT_EQ(found, nullptr) << opcode;
      found = &instruction;
    }
  if (found == nullptr) throw std::runtime_error("no " + opcode);
  return *found;
}

// A function of one op: its operands are %a, %b, ... of these types.
inline std::string function_around(const std::string& op, const std::vector<std::string>& operands,
                                   const std::string& result) {
  std::vector<std::string> arguments;
  for (std::size_t i = 0; i < operands.size(); ++i)
    arguments.push_back(fmt::format("%{}: {}", static_cast<char>('a' + i), operands[i]));
  return fmt::format("func.func @main({}) -> {} {{\n  %r = {}\n  return %r : {}\n}}\n", join(arguments, ", "), result,
                     op, result);
}

}  // namespace meshwright::mlir_parts
