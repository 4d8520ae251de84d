// SPDX-License-Identifier: Apache-2.0
// Weights of all layers in one argument.
#include <numeric>
#include <set>

#include "core/graph/import/xla/xla_roles.h"

namespace meshwright::xla {

std::vector<std::vector<int>> readers_of(const FlatProgram& flat, const std::vector<bool>& needed) {
  std::vector<std::vector<int>> readers(flat.values.size());
  for (std::size_t i = 0; i < flat.ops.size(); ++i) {
    if (!needed[i]) continue;
    const std::set<int> read(flat.ops[i].operands.begin(), flat.ops[i].operands.end());
    for (const int operand : read) readers[static_cast<std::size_t>(operand)].push_back(static_cast<int>(i));
  }
  return readers;
}

int stacked_axis(const FlatProgram& flat, const std::vector<bool>& needed, const std::vector<std::vector<int>>& readers,
                 int value) {
  struct Form {
    int value;
    std::vector<std::size_t> axes;  // of the weight, by dimension
  };
  std::vector<std::size_t> own(flat.values[static_cast<std::size_t>(value)].type->sizes.size());
  std::iota(own.begin(), own.end(), 0);
  std::vector<Form> open = {{value, own}};
  int found = -1;
  std::size_t slices = 0;
  while (!open.empty()) {
    const Form form = open.back();
    open.pop_back();
    const std::vector<std::int64_t>& sizes = flat.values[static_cast<std::size_t>(form.value)].type->sizes;
    for (const int reader : readers[static_cast<std::size_t>(form.value)]) {
      const FlatOp& op = flat.ops[static_cast<std::size_t>(reader)];
      const Attributes& a = op.instruction->attributes;
      const std::string& opcode = op.instruction->opcode;
      if (!needed[static_cast<std::size_t>(reader)] || op.operands[0] != form.value || op.results.size() != 1)
        return -1;
      const std::vector<std::int64_t>& to = flat.values[static_cast<std::size_t>(op.results[0])].type->sizes;
      if (opcode == "transpose" && a.dimensions.size() == sizes.size()) {
        Form turned{op.results[0], {}};
        for (const std::int64_t axis : a.dimensions) {
          if (axis < 0 || axis >= static_cast<std::int64_t>(form.axes.size())) return -1;
          turned.axes.push_back(form.axes[static_cast<std::size_t>(axis)]);
        }
        open.push_back(std::move(turned));
      } else if (opcode == "convert" || opcode == "copy" || opcode == "custom-call" || opcode == "reduce-precision") {
        if (op.operands.size() != 1 || to.size() != sizes.size()) return -1;
        open.push_back({op.results[0], form.axes});
      } else if (opcode == "dynamic-slice" || opcode == "slice") {
        int axis = -1;
        for (std::size_t d = 0; d < sizes.size(); ++d) {
          if (d >= to.size()) return -1;
          if (to[d] == sizes[d]) continue;
          if (axis >= 0 || to[d] != 1) return -1;
          const bool known = opcode == "slice" || (op.operands.size() == sizes.size() + 1 &&
                                                   flat.values[static_cast<std::size_t>(op.operands[d + 1])].number);
          if (!known) return -1;
          axis = static_cast<int>(form.axes[d]);
        }
        if (axis < 0 || (found >= 0 && axis != found)) return -1;
        found = axis;
        ++slices;
      } else {
        return -1;
      }
    }
  }
  if (found < 0) return -1;
  const std::int64_t layers = flat.values[static_cast<std::size_t>(value)].type->sizes[static_cast<std::size_t>(found)];
  return layers >= 2 && static_cast<std::int64_t>(slices) >= layers ? found : -1;
}

}  // namespace meshwright::xla
