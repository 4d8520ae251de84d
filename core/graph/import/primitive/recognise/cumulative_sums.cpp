// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/recognise/cumulative_sums.h"

#include <algorithm>

#include "core/graph/import/primitive/builder.h"

namespace meshwright::primitive {

namespace {

bool is_product(const Node& node) {
  return node.kind == Kind::CumSum && !node.integer && !node.constant &&
         !holds_batch(node.shape[static_cast<std::size_t>(node.details.axes[0])]);
}

// x times the matrix whose column k has ones down to row k.
int product(Builder& b, int x, std::int64_t axis) {
  const double size = static_cast<double>(b.shape(x)[static_cast<std::size_t>(axis)]);
  const int places = b.range(0.0, size, 1.0, true);
  const int ones = b.unary(Kind::ToFloat, b.compare(Comparison::LessEqual, b.unsqueeze(places, {1}), places));
  return b.swap(b.matmul(b.swap(x, axis, -1), ones), axis, -1);
}

}  // namespace

Module with_sums_as_products(Module module) {
  if (std::none_of(module.nodes.begin(), module.nodes.end(), is_product)) return module;
  Module to = module;
  to.nodes.clear();
  Builder b(to);
  std::vector<int> made;
  for (const Node& node : module.nodes) {
    std::vector<int> inputs;
    for (const int input : node.inputs) inputs.push_back(made[static_cast<std::size_t>(input)]);
    b.name = node.name;
    b.block = node.block;
    if (is_product(node)) {
      made.push_back(product(b, inputs[0], node.details.axes[0]));
    } else if (inputs.empty()) {
      made.push_back(static_cast<int>(to.nodes.size()));
      to.nodes.push_back(node);
    } else {
      made.push_back(b.add(node.kind, std::move(inputs), node.shape, node.integer, node.details));
    }
  }
  to.result = made[static_cast<std::size_t>(module.result)];
  to.notes.emplace_back("cumulative sums are products with triangular matrices of ones");
  return to;
}

}  // namespace meshwright::primitive
