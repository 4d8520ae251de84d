// SPDX-License-Identifier: Apache-2.0
// Writes small ONNX files: the bytes that an exporter would write, without the values of weights.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace meshwright {

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value % 128 + 128);
  return bytes + static_cast<char>(value);
}
inline std::string number_field(int field, std::int64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(static_cast<std::uint64_t>(value));
}
inline std::string bytes_field(int field, const std::string& bytes) {
  return varint(static_cast<std::uint64_t>(field) << 3 | 2) + varint(bytes.size()) + bytes;
}
inline std::string float_field(int field, float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  std::string bytes = varint(static_cast<std::uint64_t>(field) << 3 | 5);
  for (unsigned shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(bits >> shift & 255);
  return bytes;
}

// What a node has beside its operands.
struct OnnxGiven {
  std::vector<std::pair<std::string, std::int64_t>> numbers = {};
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> lists = {};
  std::vector<std::pair<std::string, float>> reals = {};
  std::string scope = {}, domain = {};
  std::string module = {};  // the path of modules that PyTorch's exporter writes beside a node
  std::vector<std::string> results = {};
  std::vector<std::pair<std::string, std::string>> branches = {};  // OnnxWriter::branch
};

class OnnxWriter {
 public:
  using Given = OnnxGiven;
  using Numbers = std::vector<std::int64_t>;

  // Sizes, or names of dimensions that are left open.
  OnnxWriter& input(const std::string& name, const std::vector<std::string>& dims, int type = 7) {
    graph_ += bytes_field(11, value(name, dims, type));
    return *this;
  }
  // A float tensor without values.
  std::string weight(const std::string& name, const Numbers& dims) {
    std::string tensor = number_field(2, 1) + bytes_field(8, name);
    for (const std::int64_t size : dims) tensor += number_field(1, size);
    graph_ += bytes_field(5, tensor);
    return name;
  }
  std::string integers(const Numbers& values) {
    std::string packed;
    for (const std::int64_t each : values) packed += varint(static_cast<std::uint64_t>(each));
    const std::string name = "i" + std::to_string(next_++);
    graph_ += bytes_field(5, number_field(1, static_cast<std::int64_t>(values.size())) + number_field(2, 7) +
                                 bytes_field(7, packed) + bytes_field(8, name));
    return name;
  }
  std::string floats(const Numbers& dims, const std::vector<float>& values) {
    const std::string name = "f" + std::to_string(next_++);
    std::string tensor = number_field(2, 1) + bytes_field(8, name), raw;
    for (const std::int64_t size : dims) tensor += number_field(1, size);
    for (const float each : values)
      for (unsigned shift = 0; shift < 32; shift += 8)
        raw += static_cast<char>(std::bit_cast<std::uint32_t>(each) >> shift & 255);
    graph_ += bytes_field(5, tensor + bytes_field(9, raw));
    return name;
  }
  std::string scalar(float value_of) { return floats({}, {value_of}); }

  std::string node(const std::string& op, const std::vector<std::string>& inputs, const Given& given = {}) {
    std::string bytes;
    const std::string made = given.scope + op + "_" + std::to_string(next_++);
    for (const std::string& input : inputs) bytes += bytes_field(1, input);
    if (given.results.empty()) bytes += bytes_field(2, made);
    for (const std::string& result : given.results) bytes += bytes_field(2, result);
    bytes += bytes_field(3, made) + bytes_field(4, op);
    for (const auto& [name, number] : given.numbers)
      bytes += bytes_field(5, bytes_field(1, name) + number_field(3, number) + number_field(20, 2));
    for (const auto& [name, real] : given.reals)
      bytes += bytes_field(5, bytes_field(1, name) + float_field(2, real) + number_field(20, 1));
    for (const auto& [name, list] : given.lists) {
      std::string attribute = bytes_field(1, name) + number_field(20, 7);
      for (const std::int64_t each : list) attribute += number_field(8, each);
      bytes += bytes_field(5, attribute);
    }
    for (const auto& [name, graph] : given.branches)
      bytes += bytes_field(5, bytes_field(1, name) + bytes_field(6, graph) + number_field(20, 5));
    if (!given.module.empty()) bytes += bytes_field(9, bytes_field(1, "namespace") + bytes_field(2, given.module));
    if (!given.domain.empty()) bytes += bytes_field(7, given.domain);
    graph_ += bytes_field(1, bytes);
    return given.results.empty() ? made : given.results[0];
  }
  // The nodes so far as a graph within another, whose names it may read.
  [[nodiscard]] std::string branch(const std::string& output, const std::vector<std::string>& more = {}) const {
    std::string graph = graph_ + bytes_field(12, value(output, {}, 1));
    for (const std::string& other : more) graph += bytes_field(12, value(other, {}, 1));
    return graph;
  }
  // The whole file; its result is `output`.
  [[nodiscard]] std::string finish(const std::string& output, const std::vector<std::string>& dims = {},
                                   std::int64_t opset = 18) const {
    const std::string graph = graph_ + bytes_field(2, "g") + bytes_field(12, value(output, dims, 1));
    return number_field(1, 9) + bytes_field(7, graph) + bytes_field(8, bytes_field(1, "") + number_field(2, opset));
  }

 private:
  static std::string value(const std::string& name, const std::vector<std::string>& dims, int type) {
    std::string shape;
    for (const std::string& dim : dims) {
      const bool size = dim.find_first_not_of("0123456789") == std::string::npos;
      shape += bytes_field(1, size ? number_field(1, std::stoll(dim)) : bytes_field(2, dim));
    }
    return bytes_field(1, name) + bytes_field(2, bytes_field(1, number_field(1, type) + bytes_field(2, shape)));
  }

  std::string graph_;
  int next_ = 0;
};

}  // namespace meshwright
