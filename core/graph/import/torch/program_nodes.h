// SPDX-License-Identifier: Apache-2.0
// What the calls of an exported program read, make and overwrite, by the names in its JSON. `place`: the file, for
// errors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"

namespace meshwright::torch {

// "torch.ops.aten.add.Tensor" -> "add"; other calls keep their whole name.
[[nodiscard]] std::string op_of(const std::string& target);
// The name of the op's rule, which is "add" for "add_", the op that overwrites its operand; empty: the op has no rule.
[[nodiscard]] std::string rule_of(const std::string& op);
// The tensor that the op overwrites; empty: it overwrites none.
[[nodiscard]] std::string overwritten_by(const Json& node, const std::string& op, const std::string& place);
[[nodiscard]] bool does_nothing(const std::string& op);
// The last module of "L__self__,,model.Llama;L__self__layers.0,layers.0,model.Block".
[[nodiscard]] std::string path_of(const Json& node);
// Names of tensors that an argument holds, whatever its form.
void collect_names(const Json& argument, std::vector<std::string>& names);
[[nodiscard]] std::vector<std::string> read_by(const Json& node, const std::string& place);
[[nodiscard]] std::vector<std::string> results_of(const Json& node, const std::string& place);
// Whether the call's results may be parts of its first operand's memory. `declared`: what the file tells of tensors.
[[nodiscard]] bool is_view(const Json& node, const std::string& op, const Json& declared, const std::string& place);
// [view, or what an op has overwritten] the tensor that has the memory.
[[nodiscard]] std::map<std::string, std::string> owners_in(const Json& nodes, const Json& declared,
                                                           const std::string& place);

}  // namespace meshwright::torch
