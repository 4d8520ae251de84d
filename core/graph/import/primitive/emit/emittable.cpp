// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/import/primitive/emit/emit.h"

namespace meshwright::primitive {

namespace {

// Whether integers are computed, not only moved: those that look up must be whole numbers to the last bit.
bool is_computed(const Module& module, int i) {
  const Node* at = &module.nodes[static_cast<std::size_t>(i)];
  while (!at->inputs.empty() && at->kind >= Kind::Reshape && at->kind <= Kind::Slice)
    at = &module.nodes[static_cast<std::size_t>(at->inputs[0])];
  return !at->inputs.empty() && at->integer;
}

// A power has a number on one side.
bool is_emittable(const Module& module, const Node& node) {
  const auto number = [&](int of) {
    const Node* at = &module.nodes[static_cast<std::size_t>(of)];
    while (at->kind == Kind::Broadcast || at->kind == Kind::Reshape)
      at = &module.nodes[static_cast<std::size_t>(at->inputs[0])];
    return at->values && at->values->size() == 1 ? std::optional(at->values->front()) : std::nullopt;
  };
  switch (node.kind) {
    case Kind::ToInteger:
    case Kind::PickLabel:
    case Kind::TopK:
    case Kind::TopKIndex:
    case Kind::CumSum:
      return false;
    case Kind::Power: {
      const std::optional<double> base = number(node.inputs[0]), exponent = number(node.inputs[1]);
      return exponent || (base && *base > 0.0);
    }
    case Kind::Dropout:  // of a constant it stands for random numbers
      return !module.nodes[static_cast<std::size_t>(node.inputs[0])].constant;
    case Kind::Divide:
      return !node.integer;
    case Kind::Gather:
      return !is_computed(module, node.inputs[1]);
    default:
      return true;
  }
}

}  // namespace

void expect_emittable(const Module& module) {
  std::map<std::string, std::pair<int, std::string>> unknown;  // their number and the first one's name
  for (const Node& node : module.nodes) {
    if (is_emittable(module, node) || node.constant) continue;
    auto& [count, first] = unknown[name_of(node.kind)];
    if (count++ == 0) first = node.name;
  }
  std::vector<std::string> texts;
  for (const auto& [name, what] : unknown)
    texts.push_back(fmt::format("{} ({}, the first '{}')", name, what.first, what.second));
  require(unknown.empty(), "ops outside of known patterns that have no equal here: {}; see docs/models.md.",
          join(texts, ", "));
}

}  // namespace meshwright::primitive
