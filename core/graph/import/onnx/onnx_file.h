// SPDX-License-Identifier: Apache-2.0
// What an ONNX file says, as it says it: nodes, initializers, inputs and outputs. Views into the file's bytes, which
// must outlive it. Field numbers are those of onnx.proto (github.com/onnx/onnx).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright::onnx {

// Values in another file, beside this one.
struct ExternalValues {
  std::string location;
  std::uint64_t offset = 0;
};

struct TensorValue {
  std::string name;
  std::vector<std::int64_t> dims;
  int type = 0;               // TensorProto.DataType
  std::string_view raw = {};  // little-endian elements
  std::vector<std::string_view> packed_floats = {}, packed_ints = {}, packed_doubles = {};
  std::vector<double> single = {};  // elements given one by one
  std::optional<ExternalValues> external = {};
  [[nodiscard]] bool integer() const;
};
// The values of a tensor of at most `most` elements; nothing where it has more, none, is of a type that is not read, or
// in another file that cannot be read. `place` is the path of the file. Throws InputError when there are not as many
// values as elements.
[[nodiscard]] std::optional<std::vector<double>> values_of(const TensorValue& tensor, std::int64_t most,
                                                           const std::string& place);

struct Attribute {
  std::int64_t number = 0;
  double real = 0.0;
  std::string text;
  std::vector<std::int64_t> numbers;
  std::vector<double> reals;
  std::vector<std::string> texts;
  std::optional<TensorValue> tensor;
  std::string of_function = {};  // within a function: its attribute of this name is meant
  bool graph = false;
  std::string_view branch = {};  // the bytes of a graph
};

struct OnnxNode {
  std::vector<std::string> inputs, outputs;
  std::string name, op, domain, scope;
  std::map<std::string, Attribute> attributes;
};

// A node whose operator a file defines stands for these nodes.
struct OnnxFunction {
  std::string name, domain;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, Attribute> defaults;
  std::vector<OnnxNode> nodes;
};

// A dimension is a number, a name, or neither.
struct OnnxDim {
  std::optional<std::int64_t> size;
  std::string name;
};
struct OnnxValue {
  std::string name;
  int type = 0;
  std::vector<OnnxDim> dims;
};

struct OnnxFile {
  std::int64_t opset = 0;  // of the standard operators
  std::vector<OnnxNode> nodes;
  std::vector<TensorValue> initializers;
  std::vector<OnnxValue> inputs, outputs;
  std::vector<OnnxFunction> functions = {};
};

// The graph in an attribute: its nodes, initializers and outputs.
[[nodiscard]] OnnxFile read_onnx_branch(std::string_view bytes, const std::string& place);
// Throws InputError when the bytes are no ONNX model.
[[nodiscard]] OnnxFile read_onnx(std::string_view bytes, const std::string& place);

}  // namespace meshwright::onnx
