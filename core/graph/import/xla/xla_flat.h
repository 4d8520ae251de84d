// SPDX-License-Identifier: Apache-2.0
// A program without calls, loops and tuples: one list of instructions as they run, each on arrays.
//
// Loops are unrolled as far as their conditions can be computed from the numbers in the file, else as often as the file
// says. A loop or a branch that nothing decides stays one instruction, with its results unknown.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/graph/import/xla/xla_module.h"

namespace meshwright::xla {

struct FlatOp {
  const Instruction* instruction;
  std::vector<int> operands;  // values; those of a tuple one after the other
  std::vector<int> results;   // values
  int turn = -1;              // index in FlatProgram::turns, of the innermost loop; -1: in none
};

// One turn of a loop.
struct Turn {
  std::string name;  // "while.569.0", "while.569.1", ...
  int outer = -1;    // the turn of the loop around it; -1: there is none
};

struct FlatValue {
  int op;  // that makes it
  const Type* type;
  std::optional<double> number = {};  // of one element, where the file tells it
};

struct FlatProgram {
  std::vector<FlatOp> ops;
  std::vector<FlatValue> values;
  std::vector<int> parameters;  // values, of the entry
  std::vector<int> results;     // values, of the entry
  std::vector<Turn> turns;      // outer ones before those in them
};

// The turn of the outermost loop that one is in. REQUIRES: turn >= 0.
[[nodiscard]] inline int outermost(const FlatProgram& flat, int turn) {
  while (flat.turns[static_cast<std::size_t>(turn)].outer >= 0) turn = flat.turns[static_cast<std::size_t>(turn)].outer;
  return turn;
}

// Throws InputError where calls are nested, or loops run, too often. REQUIRES: the entry is whole.
[[nodiscard]] FlatProgram flattened(const Program& program, const std::string& place);

}  // namespace meshwright::xla
