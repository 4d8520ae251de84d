// SPDX-License-Identifier: Apache-2.0
// One call of an exported program: its arguments by name. Arguments with their default value are not written.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.h"
#include "core/graph/import/primitive/builder.h"

namespace meshwright::torch {

inline constexpr std::int64_t kBoolType = 12;  // torch.bool, as files number types

struct AtenNode {
  primitive::Builder& b;
  const Json& node;
  std::function<int(const std::string&)> value_of;
  std::function<std::int64_t(const std::string&)> symbol_of;
  std::size_t results;
  const Json* declared = nullptr;  // what the file tells of its tensors, by name

  // The one member of an argument's union, none where it is missing or None: {"as_int", 3}.
  [[nodiscard]] const Json* find(const std::string& name, const char* form) const;
  [[nodiscard]] bool has(const std::string& name) const;
  [[nodiscard]] int tensor(const std::string& name) const;
  // What the file tells of its tensor; none: nothing.
  [[nodiscard]] const Json* told_of(const std::string& name) const;
  // Whether its tensor is one of truth values.
  [[nodiscard]] bool is_truth(const std::string& name) const;
  [[nodiscard]] std::vector<int> tensors(const std::string& name) const;
  // A tensor or a number.
  [[nodiscard]] int operand(const std::string& name) const;
  [[nodiscard]] std::int64_t integer(const std::string& name, std::int64_t otherwise) const;
  [[nodiscard]] std::vector<std::int64_t> integers(const std::string& name) const;
  [[nodiscard]] double number(const std::string& name, double otherwise) const;
  [[nodiscard]] bool flag(const std::string& name, bool otherwise) const;
  [[nodiscard]] std::string text(const std::string& name, const std::string& otherwise) const;

 private:
  [[nodiscard]] std::int64_t whole(const Json& value) const;
};

// The results of a call, in order; by the name between "torch.ops.aten." and the overload: "linear".
using Rule = std::vector<int> (*)(const AtenNode&);
[[nodiscard]] const std::map<std::string, Rule>& rules();
[[nodiscard]] std::map<std::string, Rule> function_rules();
[[nodiscard]] std::map<std::string, Rule> piece_rules();
[[nodiscard]] std::map<std::string, Rule> shape_rules();
[[nodiscard]] std::map<std::string, Rule> layer_rules();
[[nodiscard]] std::map<std::string, Rule> expert_rules();
[[nodiscard]] std::map<std::string, Rule> fourier_rules();
[[nodiscard]] std::map<std::string, Rule> image_rules();
[[nodiscard]] std::map<std::string, Rule> recurrent_rules();

}  // namespace meshwright::torch
