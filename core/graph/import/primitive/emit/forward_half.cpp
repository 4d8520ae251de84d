// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/emit/forward_half.h"

#include <algorithm>
#include <set>

#include "core/base/errors.h"

namespace meshwright::primitive {

namespace {

const Node& at(const Module& module, int i) { return module.nodes[static_cast<std::size_t>(i)]; }

// Ops that a loss is not made of: with a parameter of their own, or products.
bool belongs_to_model(const Module& module, int i) {
  const Node& node = at(module, i);
  if (node.kind == Kind::MatMul || node.kind == Kind::Convolution || node.kind >= Kind::LayerNorm ||
      node.kind == Kind::Gather)
    return true;
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](int input) {
    while (at(module, input).kind == Kind::Reshape || at(module, input).kind == Kind::Transpose)
      input = at(module, input).inputs[0];
    return at(module, input).kind == Kind::Parameter;
  });
}

}  // namespace

bool end_before_loss(Module& module) {
  const Node& loss = at(module, module.result);
  if (!loss.shape.empty() || loss.kind == Kind::CrossEntropy || !loss.trained) return false;
  // Nodes that are needed and lie above what is met; when one alone is left, all of the loss goes through it.
  std::set<int> open = {module.result};
  int found = -1;
  bool below_softmax = false;
  bool of_logits = false;  // the loss is made of logarithms of probabilities
  while (!open.empty()) {
    const int next = *open.rbegin();
    const Node& node = at(module, next);
    const bool samples = std::any_of(node.shape.begin(), node.shape.end(), holds_batch);
    if (open.size() == 1 && samples) {
      found = next;
      of_logits = below_softmax;
    }
    below_softmax = node.kind == Kind::Softmax && open.size() == 1;
    if (belongs_to_model(module, next)) break;
    open.erase(next);
    for (const int input : node.inputs)
      if (at(module, input).trained) open.insert(input);
  }
  if (found < 0) return false;
  module.result = found;
  drop_unused(module);
  module.notes.push_back(fmt::format("the loss of the file is no cross entropy of labels: the {} of '{}' stands for it",
                                     of_logits ? "cross entropy" : "squared error", at(module, module.result).name));
  return !of_logits;
}

}  // namespace meshwright::primitive
