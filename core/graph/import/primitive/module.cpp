// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/module.h"

#include <algorithm>
#include <array>

#include "core/base/errors.h"
#include "core/base/text.h"

namespace meshwright::primitive {

const char* name_of(Kind kind) {
  constexpr std::array kNames = {"input",        "parameter",
                                 "constant",     "add",
                                 "subtract",     "multiply",
                                 "divide",       "power",
                                 "maximum",      "minimum",
                                 "compare",      "exp",
                                 "log",          "sqrt",
                                 "rsqrt",        "reciprocal",
                                 "square",       "abs",
                                 "sin",          "cos",
                                 "erf",          "tanh",
                                 "sigmoid",      "relu",
                                 "gelu",         "gelu_erf",
                                 "silu",         "not",
                                 "to_float",     "to_int",
                                 "dropout",      "select",
                                 "reshape",      "transpose",
                                 "broadcast",    "slice",
                                 "concat",       "complex",
                                 "reduce_sum",   "reduce_mean",
                                 "reduce_max",   "matmul",
                                 "convolution",  "max_pool",
                                 "average_pool", "gather",
                                 "pick_label",   "top_k",
                                 "top_k_index",  "cumulative_sum",
                                 "softmax",      "layer_norm",
                                 "rms_norm",     "batch_norm",
                                 "attention",    "packed_attention",
                                 "rotary",       "cross_entropy",
                                 "slots",        "slot_mask",
                                 "gate_weights", "weighted_mask",
                                 "dispatch",     "combine"};
  static_assert(kNames.size() == static_cast<std::size_t>(Kind::Combine) + 1);
  return kNames[static_cast<std::size_t>(kind)];
}

std::int64_t elements_of(const Shape& shape) {
  std::int64_t product = 1;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const std::int64_t size : shape) {
    require(size > 0 && product <= (std::int64_t{1} << 62) / size,
            "a tensor of shape {} has too many elements; give a "
            "model of smaller sizes.",
            to_text(shape));
    product *= size;
  }
  return product;
}

std::string to_text(const Shape& shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape)
    sizes.push_back(size == kBatchProbe                    ? std::string("batch")
                    : size != 0 && size % kBatchProbe == 0 ? fmt::format("batch*{}", size / kBatchProbe)
                                                           : fmt::format("{}", size));
  return "[" + join(sizes, ", ") + "]";
}

void drop_unused(Module& module) {
  std::vector<bool> used(module.nodes.size(), false);
  used[static_cast<std::size_t>(module.result)] = true;
  for (std::size_t i = module.nodes.size(); i-- > 0;)
    if (used[i])
      for (const int input : module.nodes[i].inputs) used[static_cast<std::size_t>(input)] = true;
  std::vector<int> renumbered(module.nodes.size(), -1);
  Nodes kept;
  for (std::size_t i = 0; i < module.nodes.size(); ++i) {
    if (!used[i]) continue;
    Node& node = module.nodes[i];
    for (int& input : node.inputs) input = renumbered[static_cast<std::size_t>(input)];
    renumbered[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(node));
  }
  module.nodes = std::move(kept);
  module.result = renumbered[static_cast<std::size_t>(module.result)];
}

std::vector<int> cross_entropies_of(const Module& module, int i) {
  const Node& node = module.nodes[static_cast<std::size_t>(i)];
  if (node.kind == Kind::CrossEntropy) return {i};
  std::vector<int> found;
  if (node.kind != Kind::Add || !node.shape.empty()) return found;
  for (const int input : node.inputs) {
    const std::vector<int> inner = cross_entropies_of(module, input);
    if (inner.empty()) return {};
    found.insert(found.end(), inner.begin(), inner.end());
  }
  return found;
}

std::vector<bool> made_of_integers(const Module& module) {
  std::vector<bool> made;
  for (const Node& node : module.nodes) {
    bool all = !node.inputs.empty(), any = false;
    for (const int input : node.inputs) {
      const auto i = static_cast<std::size_t>(input);
      all = all && (made[i] || module.nodes[i].constant);
      any = any || made[i];
    }
    made.push_back(node.kind == Kind::Input ? node.integer : all && any);
  }
  return made;
}

std::vector<int> uses_of(const Module& module) {
  std::vector<int> uses(module.nodes.size(), 0);
  for (const Node& node : module.nodes)
    for (const int input : node.inputs) ++uses[static_cast<std::size_t>(input)];
  return uses;
}

}  // namespace meshwright::primitive
