// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/onnx/onnx_file.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/base/errors.h"
#include "core/base/wire.h"

namespace meshwright::onnx {

namespace {

// TensorProto.DataType.
enum : int {
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16
};

std::size_t bytes_of(int type) {
  switch (type) {
    case kUint8:
    case kInt8:
    case kBool:
      return 1;
    case kUint16:
    case kInt16:
    case kFloat16:
    case kBfloat16:
      return 2;
    case kFloat:
    case kInt32:
    case kUint32:
      return 4;
    case kInt64:
    case kUint64:
    case kDouble:
      return 8;
    default:
      return 0;
  }
}

double from_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double fraction = (bits & 1023) / 1024.0;
  const double size = exponent == 0    ? std::ldexp(fraction, -14)
                      : exponent == 31 ? (fraction == 0.0 ? INFINITY : NAN)
                                       : std::ldexp(1.0 + fraction, exponent - 15);
  return bits >> 15 ? -size : size;
}

double element(int type, std::uint64_t bits) {
  switch (type) {
    case kFloat:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case kDouble:
      return std::bit_cast<double>(bits);
    case kFloat16:
      return from_half(static_cast<std::uint16_t>(bits));
    case kBfloat16:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16));
    case kInt8:
      return static_cast<std::int8_t>(bits);
    case kInt16:
      return static_cast<std::int16_t>(bits);
    case kInt32:
      return static_cast<std::int32_t>(bits);
    case kInt64:
      return static_cast<double>(static_cast<std::int64_t>(bits));
    default:
      return static_cast<double>(bits);
  }
}

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

std::int64_t as_signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

// A repeated number comes as single fields or packed into bytes.
void read_numbers(const WireField& field, std::vector<std::int64_t>& into, const std::string& place) {
  if (field.type != WireField::Type::Block) {
    into.push_back(as_signed(field.value));
    return;
  }
  WireReader reader(field.bytes, place);
  std::uint64_t value = 0;
  while (reader.next_varint(value)) into.push_back(as_signed(value));
}

void read_reals(const WireField& field, std::vector<double>& into) {
  if (field.type != WireField::Type::Block) {
    into.push_back(element(kFloat, field.value));
    return;
  }
  for (std::size_t at = 0; at + 4 <= field.bytes.size(); at += 4)
    into.push_back(element(kFloat, little_endian(field.bytes.substr(at, 4))));
}

std::pair<std::string, std::string> read_entry(std::string_view bytes, const std::string& place) {
  WireReader reader(bytes, place);
  WireField field;
  std::pair<std::string, std::string> entry;
  while (reader.next(field)) {
    if (field.number == 1) entry.first = field.bytes;
    if (field.number == 2) entry.second = field.bytes;
  }
  return entry;
}

TensorValue read_tensor(std::string_view bytes, const std::string& place) {
  TensorValue tensor;
  WireReader reader(bytes, place);
  WireField field;
  while (reader.next(field)) {
    const bool list = field.type == WireField::Type::Block;
    if (field.number == 1) read_numbers(field, tensor.dims, place);
    if (field.number == 2) tensor.type = static_cast<int>(std::min<std::uint64_t>(field.value, 1000));
    if (field.number == 4 && list) tensor.packed_floats.push_back(field.bytes);
    if (field.number == 4 && !list) tensor.single.push_back(element(kFloat, field.value));
    if ((field.number == 5 || field.number == 7 || field.number == 11) && list)
      tensor.packed_ints.push_back(field.bytes);
    if ((field.number == 5 || field.number == 7 || field.number == 11) && !list)
      tensor.single.push_back(static_cast<double>(as_signed(field.value)));
    if (field.number == 8) tensor.name = field.bytes;
    if (field.number == 9) tensor.raw = field.bytes;
    if (field.number == 10 && list) tensor.packed_doubles.push_back(field.bytes);
    if (field.number == 10 && !list) tensor.single.push_back(element(kDouble, field.value));
    if (field.number == 13) {
      if (!tensor.external) tensor.external.emplace();
      const auto [key, value] = read_entry(field.bytes, place);
      if (key == "location") tensor.external->location = value;
      if (key == "offset") (void)std::from_chars(value.data(), value.data() + value.size(), tensor.external->offset);
    }
  }
  for (const std::int64_t size : tensor.dims)
    require(size >= 0, "{}: tensor '{}' has a size of {}; the file is damaged, export or download it again.", place,
            tensor.name, size);
  return tensor;
}

// The module path of a node: PyTorch writes it into the metadata.
void read_metadata(std::string_view bytes, OnnxNode& node, const std::string& place) {
  const auto [key, value] = read_entry(bytes, place);
  if (key == "namespace") node.scope = value;
}

Attribute read_attribute(std::string_view bytes, std::string& name, const std::string& place) {
  Attribute attribute;
  WireReader reader(bytes, place);
  WireField field;
  while (reader.next(field)) {
    if (field.number == 1) name = field.bytes;
    if (field.number == 2) attribute.real = element(kFloat, field.value);
    if (field.number == 3) attribute.number = as_signed(field.value);
    if (field.number == 4) attribute.text = field.bytes;
    if (field.number == 5) attribute.tensor = read_tensor(field.bytes, place);
    if (field.number == 6 || field.number == 11) attribute.graph = true;
    if (field.number == 6) attribute.branch = field.bytes;
    if (field.number == 7) read_reals(field, attribute.reals);
    if (field.number == 8) read_numbers(field, attribute.numbers, place);
    if (field.number == 9) attribute.texts.emplace_back(field.bytes);
    if (field.number == 21) attribute.of_function = field.bytes;
  }
  return attribute;
}

OnnxNode read_node(std::string_view bytes, const std::string& place) {
  OnnxNode node;
  WireReader reader(bytes, place);
  WireField field;
  while (reader.next(field)) {
    if (field.number == 1) node.inputs.emplace_back(field.bytes);
    if (field.number == 2) node.outputs.emplace_back(field.bytes);
    if (field.number == 3) node.name = field.bytes;
    if (field.number == 4) node.op = field.bytes;
    if (field.number == 7) node.domain = field.bytes;
    if (field.number == 9) read_metadata(field.bytes, node, place);
    if (field.number == 5) {
      std::string name;
      Attribute attribute = read_attribute(field.bytes, name, place);
      node.attributes[name] = std::move(attribute);
    }
  }
  if (node.domain == "ai.onnx") node.domain.clear();
  return node;
}

OnnxFunction read_function(std::string_view bytes, const std::string& place) {
  OnnxFunction function;
  WireReader reader(bytes, place);
  WireField field;
  while (reader.next(field)) {
    if (field.number == 1) function.name = field.bytes;
    if (field.number == 4) function.inputs.emplace_back(field.bytes);
    if (field.number == 5) function.outputs.emplace_back(field.bytes);
    if (field.number == 7) function.nodes.push_back(read_node(field.bytes, place));
    if (field.number == 10) function.domain = field.bytes;
    if (field.number == 11) {
      std::string name;
      Attribute attribute = read_attribute(field.bytes, name, place);
      function.defaults[name] = std::move(attribute);
    }
  }
  if (function.domain == "ai.onnx") function.domain.clear();
  return function;
}

OnnxDim read_dim(std::string_view bytes, const std::string& place) {
  OnnxDim dim;
  WireReader reader(bytes, place);
  WireField field;
  while (reader.next(field)) {
    if (field.number == 1) dim.size = as_signed(field.value);
    if (field.number == 2) dim.name = field.bytes;
  }
  if (dim.size && *dim.size < 0) dim.size.reset();
  return dim;
}

// The bytes of the last field `number`.
std::string_view inside(std::string_view bytes, std::uint32_t number, const std::string& place) {
  WireReader reader(bytes, place);
  WireField field;
  std::string_view found;
  while (reader.next(field))
    if (field.number == number) found = field.bytes;
  return found;
}

OnnxValue read_value(std::string_view bytes, const std::string& place) {
  OnnxValue value;
  value.name = inside(bytes, 1, place);
  WireReader tensor(inside(inside(bytes, 2, place), 1, place), place);
  WireField field;
  while (tensor.next(field)) {
    if (field.number == 1) value.type = static_cast<int>(std::min<std::uint64_t>(field.value, 1000));
    if (field.number != 2) continue;
    WireReader shape(field.bytes, place);
    WireField dim;
    while (shape.next(dim))
      if (dim.number == 1) value.dims.push_back(read_dim(dim.bytes, place));
  }
  return value;
}

void read_graph(std::string_view bytes, OnnxFile& file, const std::string& place) {
  WireReader reader(bytes, place);
  WireField field;
  while (reader.next(field)) {
    if (field.number == 1) file.nodes.push_back(read_node(field.bytes, place));
    if (field.number == 5) file.initializers.push_back(read_tensor(field.bytes, place));
    if (field.number == 11) file.inputs.push_back(read_value(field.bytes, place));
    if (field.number == 12) file.outputs.push_back(read_value(field.bytes, place));
  }
}

// The bytes of another file in the same folder; empty where it has fewer.
std::string bytes_beside(const std::string& path, const ExternalValues& where, std::size_t count) {
  const std::filesystem::path location = where.location;
  if (location.empty() || location != location.filename() || location == "..") return {};
  std::ifstream file(std::filesystem::path(path).parent_path() / location, std::ios::binary);
  std::string bytes;
  file.seekg(0, std::ios::end);
  if (!file || static_cast<std::uint64_t>(file.tellg()) < where.offset ||
      static_cast<std::uint64_t>(file.tellg()) - where.offset < count)
    return {};
  bytes.resize(count);
  file.seekg(static_cast<std::streamoff>(where.offset));
  file.read(bytes.data(), static_cast<std::streamsize>(count));
  return file ? bytes : std::string();
}

}  // namespace

bool TensorValue::integer() const {
  return type != kFloat && type != kFloat16 && type != kDouble && type != kBfloat16 && type < 17;
}

std::optional<std::vector<double>> values_of(const TensorValue& tensor, std::int64_t most, const std::string& place) {
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.dims) {
    if (size != 0 && count > most / size) return std::nullopt;
    count *= size;
  }
  const std::size_t width = bytes_of(tensor.type);
  if (width == 0) return std::nullopt;
  std::vector<double> values = tensor.single;
  const std::string beside =
      tensor.external ? bytes_beside(place, *tensor.external, static_cast<std::size_t>(count) * width) : std::string();
  const std::string_view raw = tensor.external ? std::string_view(beside) : tensor.raw;
  for (std::size_t at = 0; at + width <= raw.size(); at += width)
    values.push_back(element(tensor.type, little_endian(raw.substr(at, width))));
  for (const std::string_view packed : tensor.packed_floats)
    for (std::size_t at = 0; at + 4 <= packed.size(); at += 4)
      values.push_back(element(kFloat, little_endian(packed.substr(at, 4))));
  for (const std::string_view packed : tensor.packed_doubles)
    for (std::size_t at = 0; at + 8 <= packed.size(); at += 8)
      values.push_back(element(kDouble, little_endian(packed.substr(at, 8))));
  for (const std::string_view packed : tensor.packed_ints) {
    WireReader reader(packed, place);
    std::uint64_t value = 0;
    while (reader.next_varint(value))
      values.push_back(tensor.type == kFloat16 || tensor.type == kBfloat16 ? element(tensor.type, value)
                                                                           : static_cast<double>(as_signed(value)));
  }
  if (values.empty() && count > 0) return std::nullopt;  // stripped of its weights
  require(static_cast<std::int64_t>(values.size()) == count,
          "{}: tensor '{}' has {} values for {} elements; the file is damaged, export or download it again.", place,
          tensor.name, values.size(), count);
  return values;
}

OnnxFile read_onnx_branch(std::string_view bytes, const std::string& place) {
  OnnxFile branch;
  read_graph(bytes, branch, place);
  return branch;
}

OnnxFile read_onnx(std::string_view bytes, const std::string& place) {
  OnnxFile file;
  WireReader reader(bytes, place);
  WireField field;
  while (reader.next(field)) {
    if (field.number == 7) read_graph(field.bytes, file, place);
    if (field.number == 25) file.functions.push_back(read_function(field.bytes, place));
    if (field.number != 8) continue;
    const std::string_view domain = inside(field.bytes, 1, place);
    WireReader opset(field.bytes, place);
    WireField of_opset;
    while (opset.next(of_opset))
      if (of_opset.number == 2 && (domain.empty() || domain == "ai.onnx")) file.opset = as_signed(of_opset.value);
  }
  require(!file.nodes.empty() && !file.outputs.empty(),
          "{}: no ONNX model, it has no ops or no outputs; give a file that an ONNX exporter wrote.", place);
  return file;
}

}  // namespace meshwright::onnx
