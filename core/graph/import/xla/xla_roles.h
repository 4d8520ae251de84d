// SPDX-License-Identifier: Apache-2.0
// What a flat program is to a planner: which result is the loss, what leads to it, and which arguments are weights.
#pragma once

#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/import/xla/xla_flat.h"

namespace meshwright::xla {

enum class Role {
  Unused,
  Weight,
  Batch,   // data of a batch, or the same for all of its samples
  Number,  // a single floating-point number that the file leaves open
  Key,     // of random numbers
  Mask,    // only tells which elements of others count
};

struct Roles {
  int result = -1;           // a value: the loss, or a model's first result
  std::vector<bool> needed;  // ops that lead to it
  std::vector<Role> roles;   // of FlatProgram::parameters
  std::int64_t batch = 0;    // size of dimension 0 of the first input of data
  DType dtype = DType::F32;  // that most of the work is done in
  std::vector<std::string> notes = {};
};

// Throws InputError where the program holds no forward of a model: an optimizer's update alone, or a backward alone.
[[nodiscard]] Roles roles_of(const Program& program, const FlatProgram& flat, const std::string& place);

// The axis along which every reader of a weight takes one index; -1: not all do.
[[nodiscard]] int stacked_axis(const FlatProgram& flat, const std::vector<bool>& needed,
                               const std::vector<std::vector<int>>& readers, int value);
// [value] the needed ops that read it.
[[nodiscard]] std::vector<std::vector<int>> readers_of(const FlatProgram& flat, const std::vector<bool>& needed);

}  // namespace meshwright::xla
