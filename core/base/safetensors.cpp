// SPDX-License-Identifier: Apache-2.0
#include "core/base/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

#include "core/base/errors.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace meshwright {

namespace {

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // the format's own limit

std::string printed(std::string_view name) {
  std::string text(name.substr(0, 200));
  for (char& c : text)
    if (c < ' ' || c > '~') c = '?';
  return text;
}

// Types of the format and their bytes.
constexpr std::array<std::pair<std::string_view, std::size_t>, 14> kStoredTypes = {{{"BOOL", 1},
                                                                                    {"U8", 1},
                                                                                    {"I8", 1},
                                                                                    {"F8_E5M2", 1},
                                                                                    {"F8_E4M3", 1},
                                                                                    {"I16", 2},
                                                                                    {"U16", 2},
                                                                                    {"F16", 2},
                                                                                    {"BF16", 2},
                                                                                    {"I32", 4},
                                                                                    {"U32", 4},
                                                                                    {"F32", 4},
                                                                                    {"I64", 8},
                                                                                    {"F64", 8}}};

std::string names_of_stored_types() {
  std::string names;
  for (const auto& [name, bytes] : kStoredTypes) names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  return names;
}

// The number of bytes that the shape and the type make.
std::uint64_t bytes_of(const StoredTensor& tensor, const std::string& place) {
  std::uint64_t bytes = bytes_of_stored_type(tensor.type);
  require(bytes > 0, "{}: tensor '{}' is of the unknown type '{}'; the format has {}; the file is damaged.", place,
          printed(tensor.name), printed(tensor.type), names_of_stored_types());
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t size : tensor.shape) {
    const auto factor = static_cast<std::uint64_t>(size);
    require(size == 0 || bytes <= kMost / factor, "{}: tensor '{}' has more bytes than 64 bits count.", place,
            printed(tensor.name));
    bytes *= factor;
  }
  return bytes;
}

std::uint64_t offset_from(const Json& value, const std::string& of) {
  require(value.is_number_unsigned(), "{}: 'data_offsets' must be two whole numbers of bytes; the file is damaged.",
          of);
  return value.get<std::uint64_t>();
}

StoredTensor tensor_from(const std::string& name, const Json& json, std::uint64_t first, std::uint64_t size,
                         const std::string& place) {
  const std::string of = fmt::format("{}: tensor '{}'", place, printed(name));
  require(json.is_object(), "{}: an object with dtype, shape and data_offsets was expected.", of);
  StoredTensor tensor;
  tensor.name = name;
  tensor.type = get<std::string>(json, "dtype", of);
  const Json& shape = member(json, "shape", of);
  require(shape.is_array(), "{}: 'shape' must be a list of sizes.", of);
  for (const Json& dim : shape) {
    require(dim.is_number_unsigned() && dim.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max(),
            "{}: 'shape' must be a list of whole numbers.", of);
    tensor.shape.push_back(dim.get<std::int64_t>());
  }
  const Json& offsets = member(json, "data_offsets", of);
  require(offsets.is_array() && offsets.size() == 2, "{}: 'data_offsets' must be two numbers of bytes.", of);
  const std::uint64_t begin = offset_from(offsets[0], of), end = offset_from(offsets[1], of);
  require(begin <= end && end <= size - first,
          "{}: its bytes {} to {} are not in the {} bytes behind the header; the file is cut short or damaged.", of,
          begin, end, size - first);
  require(end - begin == bytes_of(tensor, place), "{}: its shape and type make {} bytes, but it has {}.", of,
          bytes_of(tensor, place), end - begin);
  tensor.begin = first + begin;
  tensor.end = first + end;
  return tensor;
}

}  // namespace

std::size_t bytes_of_stored_type(std::string_view type) {
  for (const auto& [known, bytes] : kStoredTypes)
    if (type == known) return bytes;
  return type == "U64" ? 8 : 0;
}

SafetensorsHeader read_safetensors_header(std::string_view file, const std::string& place) {
  require(file.size() >= kLengthBytes, "{}: the file has {} bytes, fewer than a safetensors file begins with.", place,
          file.size());
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length |= static_cast<std::uint64_t>(static_cast<unsigned char>(file[i])) << (8 * i);
  require(length <= std::min<std::uint64_t>(kLongestHeader, file.size() - kLengthBytes),
          "{}: the header is said to have {} bytes, but {} follow; the file is cut short, or no safetensors file.",
          place, length, file.size() - kLengthBytes);
  const std::uint64_t first = kLengthBytes + length;
  const Json json = parse_json(std::string(file.substr(kLengthBytes, length)), fmt::format("{}: header", place));
  require(json.is_object(), "{}: the header must be an object of tensors by name.", place);
  SafetensorsHeader header;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") {
      require(value.is_object(), "{}: '__metadata__' must be an object of texts.", place);
      for (const auto& [key, text] : value.items())
        if (text.is_string()) header.metadata[key] = text.get<std::string>();
      continue;
    }
    header.tensors.push_back(tensor_from(name, value, first, file.size(), place));
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  for (std::size_t i = 1; i < header.tensors.size(); ++i) {
    const StoredTensor &before = header.tensors[i - 1], &tensor = header.tensors[i];
    require(before.end <= tensor.begin, "{}: the bytes of tensors '{}' and '{}' overlap; the file is damaged.", place,
            printed(before.name), printed(tensor.name));
  }
  return header;
}

std::string safetensors_header(std::vector<StoredTensor>& tensors, const std::map<std::string, std::string>& metadata) {
  Json json = Json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  std::uint64_t begin = 0;
  for (StoredTensor& tensor : tensors) {
    const std::uint64_t bytes = bytes_of(tensor, "safetensors");
    json[tensor.name] = {{"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", {begin, begin + bytes}}};
    tensor.begin = begin;
    begin += bytes;
    tensor.end = begin;
  }
  std::string text = json.dump();
  while (text.size() % kLengthBytes != 0) text += ' ';
  std::string bytes(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i) bytes[i] = static_cast<char>((text.size() >> (8 * i)) & 0xff);
  bytes += text;
  for (StoredTensor& tensor : tensors) {
    tensor.begin += bytes.size();
    tensor.end += bytes.size();
  }
  return bytes;
}

}  // namespace meshwright
