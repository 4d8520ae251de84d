// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/onnx/written_numbers.h"

#include <algorithm>
#include <map>
#include <utility>

namespace meshwright::onnx {

namespace {

// Neither a path of modules nor one of scopes.
bool is_made(const std::string& name) { return name.find_first_of("./") == std::string::npos; }

class NumberFinder {
 public:
  NumberFinder(const OnnxFile& file, const std::string& place) : file_(file), place_(place) {
    for (const TensorValue& tensor : file.initializers) initializers_.emplace(tensor.name, &tensor);
    for (std::size_t i = 0; i < file.nodes.size(); ++i)
      for (const std::string& output : file.nodes[i].outputs) makers_.emplace(output, i);
  }
  std::set<std::string> run() {
    for (const OnnxNode& node : file_.nodes) {
      if (node.op == "OneHot" && node.inputs.size() == 3) numbers_.insert(node.inputs[2]);
      if ((node.op == "Cos" || node.op == "Sin") && node.inputs.size() == 1) numbers_.insert(node.inputs[0]);
      if (node.op == "Resize" || node.op == "Upsample")
        numbers_.insert(node.inputs.begin() + std::min<std::ptrdiff_t>(1, std::ssize(node.inputs)), node.inputs.end());
      find_group_norm(node);
      find_numbers(node);
    }
    return std::move(numbers_);
  }

 private:
  // Whether an initializer holds one number alone.
  bool is_only(const std::string& name, double number) const {
    const auto found = initializers_.find(name);
    if (found == initializers_.end()) return false;
    const auto values = values_of(*found->second, 1 << 24, place_);
    return values && std::all_of(values->begin(), values->end(), [number](double value) { return value == number; });
  }

  // What else is no weight: states of zeros that recurrences begin with, and the scale of 1 of a norm without weights.
  void find_numbers(const OnnxNode& node) {
    std::vector<std::size_t> zeros, ones;
    // Steps between whole numbers change no number here.
    const auto maker = node.inputs.size() == 2 && node.op == "Mul" ? makers_.find(node.inputs[0]) : makers_.end();
    if (maker != makers_.end() && file_.nodes[maker->second].op == "DynamicQuantizeLinear")
      numbers_.insert(node.inputs[1]);
    if (node.op == "LSTM" || node.op == "GRU" || node.op == "RNN") zeros = {5, 6};
    if ((node.op == "MatMul" || node.op == "Gemm") && !node.inputs.empty() && !is_path(node.inputs[0])) zeros = {0};
    if (node.op == "LayerNormalization" && node.inputs.size() == 2 && !is_path(node.inputs[1])) ones = {1};
    // A normalisation without a scale or a shift of its own, as of weights that are standardised.
    if (node.op == "BatchNormalization" && node.inputs.size() == 5) {
      if (is_made(node.inputs[1])) ones = {1};
      if (is_made(node.inputs[2])) zeros = {2};
    }
    for (const auto& [places, number] : {std::pair{zeros, 0.0}, std::pair{ones, 1.0}})
      for (const std::size_t k : places)
        if (k < node.inputs.size() && is_only(node.inputs[k], number)) numbers_.insert(node.inputs[k]);
  }

  // A group normalisation is written as one of each channel of groups, whose scales and shifts of 1 and 0 are no
  // weights.
  void find_group_norm(const OnnxNode& node) {
    if (node.op != "InstanceNormalization" || node.inputs.size() != 3) return;
    const auto maker = makers_.find(node.inputs[0]);
    if (maker == makers_.end() || file_.nodes[maker->second].op != "Reshape") return;
    if (is_only(node.inputs[1], 1.0) && is_only(node.inputs[2], 0.0)) numbers_.insert({node.inputs[1], node.inputs[2]});
  }

  const OnnxFile& file_;
  const std::string& place_;
  std::map<std::string, const TensorValue*> initializers_;
  std::map<std::string, std::size_t> makers_;
  std::set<std::string> numbers_;
};

}  // namespace

std::set<std::string> numbers_in(const OnnxFile& file, const std::string& place) {
  return NumberFinder(file, place).run();
}

}  // namespace meshwright::onnx
