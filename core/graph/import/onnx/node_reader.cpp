// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/onnx/node_reader.h"

#include "core/base/errors.h"

namespace meshwright::onnx {

using Numbers = std::vector<std::int64_t>;

int NodeReader::in(std::size_t k) const {
  if (!has(k)) b.fail(fmt::format("operand {} of {} is missing", k, node.op));
  return value_of(node.inputs[k]);
}

std::int64_t NodeReader::number(const std::string& attribute, std::int64_t otherwise) const {
  const auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? otherwise : found->second.number;
}

double NodeReader::real(const std::string& attribute, double otherwise) const {
  const auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? otherwise : found->second.real;
}

std::string NodeReader::text(const std::string& attribute, const std::string& otherwise) const {
  const auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? otherwise : found->second.text;
}

Numbers NodeReader::numbers(const std::string& attribute) const {
  const auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? Numbers{} : found->second.numbers;
}

std::vector<double> NodeReader::reals(const std::string& attribute) const {
  const auto found = node.attributes.find(attribute);
  return found == node.attributes.end() ? std::vector<double>{} : found->second.reals;
}

Numbers NodeReader::numbers(const std::string& attribute, std::size_t k) const {
  return has(k) ? b.integers_of(in(k), attribute.c_str()) : numbers(attribute);
}

}  // namespace meshwright::onnx
