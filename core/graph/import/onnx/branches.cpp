// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/onnx/branches.h"

#include <algorithm>
#include <set>

#include "core/base/errors.h"

namespace meshwright::onnx {

namespace {

constexpr std::size_t kMaxNodesInAll = 1'000'000;

std::set<std::string> names_of(const OnnxFile& file) {
  std::set<std::string> names;
  for (const OnnxNode& node : file.nodes) names.insert(node.outputs.begin(), node.outputs.end());
  for (const TensorValue& tensor : file.initializers) names.insert(tensor.name);
  for (const OnnxValue& input : file.inputs) names.insert(input.name);
  return names;
}

// The nodes of a branch in the names of the whole file: its results are the node's, and what it makes besides has a
// name of its own.
std::vector<OnnxNode> nodes_of(OnnxFile branch, const OnnxNode& node, OnnxFile& file, std::size_t number) {
  const std::set<std::string> taken = names_of(file);
  std::map<std::string, std::string> names;
  const auto own = [&](const std::string& name) {
    names[name] = taken.contains(name) ? fmt::format("{}.branch{}", name, number) : name;
  };
  for (const OnnxNode& inner : branch.nodes)
    for (const std::string& output : inner.outputs)
      if (!output.empty()) own(output);
  for (const TensorValue& tensor : branch.initializers) own(tensor.name);
  for (TensorValue& tensor : branch.initializers) {
    tensor.name = names[tensor.name];
    file.initializers.push_back(tensor);
  }
  const auto outside = [&](const std::string& name) {
    const auto known = names.find(name);
    return known == names.end() ? name : known->second;
  };
  std::vector<OnnxNode> nodes;
  for (OnnxNode& inner : branch.nodes) {
    for (std::vector<std::string>* of : {&inner.inputs, &inner.outputs})
      for (std::string& name : *of) name = outside(name);
    if (inner.scope.empty()) inner.scope = node.scope;
    nodes.push_back(std::move(inner));
  }
  for (std::size_t k = 0; k < node.outputs.size(); ++k) {
    if (node.outputs[k].empty()) continue;
    OnnxNode same;
    same.inputs = {outside(branch.outputs[k].name)};
    same.outputs = {node.outputs[k]};
    same.name = node.name;
    same.op = "Identity";
    nodes.push_back(std::move(same));
  }
  return nodes;
}

}  // namespace

OnnxFile with_branches_inside(OnnxFile file, const Condition& condition, const std::string& place) {
  std::size_t number = 0;
  for (std::size_t i = 0; i < file.nodes.size();) {
    const OnnxNode node = file.nodes[i];
    const std::optional<bool> taken = node.op == "If" && node.domain.empty() && node.inputs.size() == 1
                                          ? condition(file, node.inputs[0])
                                          : std::nullopt;
    const auto found = taken ? node.attributes.find(*taken ? "then_branch" : "else_branch") : node.attributes.end();
    OnnxFile branch;
    if (found != node.attributes.end()) branch = read_onnx_branch(found->second.branch, place);
    if (branch.outputs.empty() || branch.outputs.size() < node.outputs.size()) {
      ++i;
      continue;
    }
    std::vector<OnnxNode> nodes = nodes_of(std::move(branch), node, file, ++number);
    require(file.nodes.size() + nodes.size() <= kMaxNodesInAll,
            "{}: its branches make more than {} nodes; export the model without them.", place, kMaxNodesInAll);
    const auto at = file.nodes.begin() + static_cast<std::ptrdiff_t>(i);
    file.nodes.insert(file.nodes.erase(at), nodes.begin(), nodes.end());  // where the next may be an `If` again
  }
  return file;
}

}  // namespace meshwright::onnx
