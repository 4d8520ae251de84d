// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/onnx/functions.h"

#include "core/base/errors.h"
#include "core/graph/import/names.h"
#include "core/graph/import/onnx/node_reader.h"

namespace meshwright::onnx {

namespace {

constexpr std::size_t kMaxNodes = 1'000'000;
constexpr int kMaxCalls = 32;  // of functions by functions

class Inliner {
 public:
  Inliner(const OnnxFile& file, const std::string& place) : place_(place) {
    for (const OnnxFunction& function : file.functions) functions_[{function.domain, function.name}] = &function;
  }

  void take(const OnnxNode& node, std::vector<OnnxNode>& into, int depth) {
    const auto found = functions_.find({node.domain, node.op});
    const std::string full = node.domain.empty() ? node.op : node.domain + ":" + node.op;
    if (found == functions_.end() || rules().contains(full)) {
      require(into.size() < kMaxNodes, "{}: its functions make more than {} nodes; export the model without functions.",
              place_, kMaxNodes);
      into.push_back(node);
      return;
    }
    require(depth < kMaxCalls, "{}: function '{}' calls itself; the file is damaged, export it again.", place_,
            printable(node.op));
    call(node, *found->second, into, depth);
  }

 private:
  void call(const OnnxNode& node, const OnnxFunction& function, std::vector<OnnxNode>& into, int depth) {
    const std::size_t number = ++calls_;
    std::map<std::string, std::string> names;  // the function's to the caller's
    for (std::size_t k = 0; k < function.inputs.size(); ++k)
      names[function.inputs[k]] = k < node.inputs.size() ? node.inputs[k] : "";
    for (std::size_t k = 0; k < function.outputs.size(); ++k)
      if (k < node.outputs.size() && !node.outputs[k].empty() && !names.contains(function.outputs[k]))
        names[function.outputs[k]] = node.outputs[k];
    const auto outside = [&](const std::string& name) {
      if (name.empty()) return name;
      const auto known = names.find(name);
      return known != names.end() ? known->second : fmt::format("{}.call{}", name, number);
    };
    for (OnnxNode inner : function.nodes) {
      for (std::vector<std::string>* of : {&inner.inputs, &inner.outputs})
        for (std::string& name : *of) name = outside(name);
      std::map<std::string, Attribute> attributes;
      for (auto& [name, attribute] : inner.attributes) {
        if (attribute.of_function.empty()) {
          attributes.emplace(name, std::move(attribute));
          continue;
        }
        const auto given = node.attributes.find(attribute.of_function);
        const auto usual = function.defaults.find(attribute.of_function);
        if (given != node.attributes.end())
          attributes.emplace(name, given->second);
        else if (usual != function.defaults.end())
          attributes.emplace(name, usual->second);
      }
      // Names in a graph within a function are the function's, by which no branch can be read here.
      for (auto& [name, attribute] : attributes) attribute.branch = {};
      inner.attributes = std::move(attributes);
      if (inner.scope.empty()) inner.scope = node.scope;
      inner.name = node.name.empty() ? inner.name : node.name + "/" + inner.name;
      take(inner, into, depth + 1);
    }
    // What a function passes on as it is.
    for (std::size_t k = 0; k < function.outputs.size() && k < node.outputs.size(); ++k)
      if (const std::string from = outside(function.outputs[k]); from != node.outputs[k] && !node.outputs[k].empty()) {
        OnnxNode same;
        same.inputs = {from};
        same.outputs = {node.outputs[k]};
        same.name = node.name;
        same.op = "Identity";
        into.push_back(std::move(same));
      }
  }

  const std::string& place_;
  std::map<std::pair<std::string, std::string>, const OnnxFunction*> functions_;
  std::size_t calls_ = 0;
};

}  // namespace

OnnxFile with_functions_inside(const OnnxFile& file, const std::string& place) {
  OnnxFile whole = file;
  whole.nodes.clear();
  Inliner inliner(file, place);
  for (const OnnxNode& node : file.nodes) inliner.take(node, whole.nodes, 0);
  return whole;
}

}  // namespace meshwright::onnx
