// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/constants_of_file.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/errors.h"
#include "core/graph/import/primitive/builder.h"
#include "core/graph/import/primitive/node_values.h"

namespace meshwright::primitive {

namespace {

constexpr std::int64_t kMaxWork = 1 << 24;  // elements that are computed

bool has_batch(const Node& node) { return std::any_of(node.shape.begin(), node.shape.end(), holds_batch); }

// Whether a Graph computes the op as the file does, of numbers that are known.
bool is_computed_alike(const Node& node) {
  switch (node.kind) {
    case Kind::Add:
    case Kind::Subtract:
    case Kind::Multiply:
    case Kind::Maximum:
    case Kind::Minimum:
    case Kind::Compare:
    case Kind::Exp:
    case Kind::Log:
    case Kind::Sqrt:
    case Kind::Rsqrt:
    case Kind::Reciprocal:
    case Kind::Square:
    case Kind::Abs:
    case Kind::Sin:
    case Kind::Cos:
    case Kind::Not:
    case Kind::ToFloat:
    case Kind::Select:
    case Kind::Reshape:
    case Kind::Transpose:
    case Kind::Broadcast:
      return true;
    case Kind::Divide:
      return !node.integer;
    default:
      return false;
  }
}

// [node]: whether it is a constant without numbers, too large or one of each sample, that is made of constants with
// numbers by ops that a Graph has: positions repeated along rows, a comparison of such, a number for each sample.
std::vector<bool> made_of_small(const Module& module, const std::vector<std::optional<double>>& numbers) {
  std::vector<bool> made(module.nodes.size());
  for (std::size_t i = 0; i < module.nodes.size(); ++i) {
    const Node& node = module.nodes[i];
    if (!node.constant || node.values || numbers[i] || node.inputs.empty() || !is_computed_alike(node)) continue;
    made[i] = std::all_of(node.inputs.begin(), node.inputs.end(), [&](int input) {
      const auto k = static_cast<std::size_t>(input);
      return module.nodes[k].values || numbers[k] || made[k];
    });
  }
  return made;
}

// The numbers of the constants that have none yet.
void compute_constants(Module& module, const Builder& builder) {
  std::int64_t budget = kMaxWork;
  NodeValues values(builder, budget);
  std::vector<std::optional<std::vector<double>>> found(module.nodes.size());
  for (std::size_t i = 0; i < module.nodes.size(); ++i) {
    const Node& node = module.nodes[i];
    const bool open = node.constant && !node.values && !node.inputs.empty() && !has_batch(node);
    if (open && elements_of(node.shape) <= kMaxValues) found[i] = values.all(static_cast<int>(i));
  }
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i]) module.nodes[i].values = std::move(found[i]);
}

}  // namespace

void make_constants_data(Module& module) {
  const Builder builder(module);
  compute_constants(module, builder);
  std::vector<std::optional<double>> numbers;
  for (std::size_t i = 0; i < module.nodes.size(); ++i) numbers.push_back(builder.scalar_of(static_cast<int>(i)));
  const std::vector<bool> made = made_of_small(module, numbers);
  for (std::size_t i = 0; i < module.nodes.size(); ++i) {
    Node& node = module.nodes[i];
    if (!node.constant || made[i]) continue;
    node.kind = Kind::Constant;
    node.inputs.clear();
    if (numbers[i]) node.values = std::vector<double>{*numbers[i]};
  }
  drop_unused(module);
  std::set<int> read;  // without numbers
  for (const Node& node : module.nodes)
    for (const int input : node.inputs) {
      const Node& of = module.nodes[static_cast<std::size_t>(input)];
      if (of.kind == Kind::Constant && !of.values) read.insert(input);
    }
  if (read.empty()) return;
  const bool one = read.size() == 1;
  module.notes.push_back(fmt::format(
      "{} constant{} whose numbers are not kept become{} input of the graph (the first '{}'): a run feeds "
      "other numbers",
      read.size(), one ? "" : "s", one ? "s" : "", module.nodes[static_cast<std::size_t>(*read.begin())].name));
}

}  // namespace meshwright::primitive
