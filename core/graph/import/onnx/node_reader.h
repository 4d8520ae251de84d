// SPDX-License-Identifier: Apache-2.0
// One node at a time: its operands and attributes by number and name.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/graph/import/onnx/onnx_file.h"
#include "core/graph/import/primitive/builder.h"

namespace meshwright::onnx {

struct NodeReader {
  primitive::Builder& b;
  const OnnxNode& node;
  std::int64_t opset;
  std::function<int(const std::string&)> value_of;

  [[nodiscard]] bool has(std::size_t k) const { return k < node.inputs.size() && !node.inputs[k].empty(); }
  [[nodiscard]] int in(std::size_t k) const;
  [[nodiscard]] bool has(const std::string& attribute) const { return node.attributes.contains(attribute); }
  [[nodiscard]] std::int64_t number(const std::string& attribute, std::int64_t otherwise) const;
  [[nodiscard]] double real(const std::string& attribute, double otherwise) const;
  [[nodiscard]] std::string text(const std::string& attribute, const std::string& otherwise) const;
  [[nodiscard]] std::vector<std::int64_t> numbers(const std::string& attribute) const;
  [[nodiscard]] std::vector<double> reals(const std::string& attribute) const;
  // Given as input `k` or, in older operator sets, as an attribute; empty where as neither.
  [[nodiscard]] std::vector<std::int64_t> numbers(const std::string& attribute, std::size_t k) const;
};

// The results of a node, in order.
using Rule = std::vector<int> (*)(const NodeReader&);
// By domain and operator: "MatMul", "com.microsoft:FastGelu".
[[nodiscard]] const std::map<std::string, Rule>& rules();
// Those of choice_rules.cpp.
[[nodiscard]] std::map<std::string, Rule> choice_rules();
[[nodiscard]] std::map<std::string, Rule> layer_rules();
[[nodiscard]] std::map<std::string, Rule> image_rules();
[[nodiscard]] std::map<std::string, Rule> fourier_rules();
[[nodiscard]] std::map<std::string, Rule> fused_rules();
[[nodiscard]] std::map<std::string, Rule> recurrent_rules();
// A convolution of any kind, and a product with a bias, for the operators that are fused of them.
[[nodiscard]] int convolution_of(const NodeReader& r, int x, int w);
[[nodiscard]] int softmax_from(const NodeReader& r, int x, std::int64_t axis);
[[nodiscard]] int gemm_of(const NodeReader& r);
// What is left of x, with the probability of input k, of an attribute, or 0.5.
[[nodiscard]] int dropped(const NodeReader& r, int x, std::size_t k);

}  // namespace meshwright::onnx
