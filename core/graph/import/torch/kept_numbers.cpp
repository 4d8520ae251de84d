// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/torch/kept_numbers.h"

#include <cstring>
#include <optional>

#include "core/base/errors.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace meshwright::torch {

namespace {

constexpr std::int64_t kMaxKeptElements = 1 << 22;
constexpr std::uint64_t kMaxConfigBytes = 1 << 28;

template <class T>
std::vector<double> numbers_in(const std::string& bytes, std::size_t count) {
  std::vector<double> numbers(count);
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    numbers[i] = static_cast<double>(value);
  }
  return numbers;
}

// Types by their numbers in torch/_export/serde/schema.py; a complex number is two.
struct Type {
  std::int64_t number;
  std::size_t bytes;  // of one of its numbers
  std::vector<double> (*read)(const std::string& bytes, std::size_t count);
  std::size_t numbers = 1;
};
constexpr Type kTypes[] = {{4, 4, numbers_in<std::int32_t>}, {5, 8, numbers_in<std::int64_t>},
                           {7, 4, numbers_in<float>},        {8, 8, numbers_in<double>},
                           {10, 4, numbers_in<float>, 2},    {11, 8, numbers_in<double>, 2},
                           {12, 1, numbers_in<std::uint8_t>}};

std::optional<std::int64_t> whole_of(const Json& size) {
  if (size.is_object() && size.contains("as_int") && size["as_int"].is_number_integer())
    return size["as_int"].get<std::int64_t>();
  return std::nullopt;
}

// The elements of a tensor that lies in one piece from the file's start on; nullopt: it does not, or has too many.
std::optional<std::int64_t> elements_in_order(const Json& meta) {
  if (!meta.contains("sizes") || !meta["sizes"].is_array() || !meta.contains("strides") ||
      !meta["strides"].is_array() || meta["strides"].size() != meta["sizes"].size())
    return std::nullopt;
  if (meta.contains("storage_offset") && whole_of(meta["storage_offset"]).value_or(0) != 0) return std::nullopt;
  std::int64_t elements = 1;
  for (std::size_t d = meta["sizes"].size(); d-- > 0;) {
    const auto size = whole_of(meta["sizes"][d]), stride = whole_of(meta["strides"][d]);
    if (!size || !stride || *size < 1 || *size > kMaxKeptElements || (*size > 1 && *stride != elements))
      return std::nullopt;
    elements *= *size;
    if (elements > kMaxKeptElements) return std::nullopt;
  }
  return elements;
}

}  // namespace

KeptNumbers kept_numbers(const std::vector<ZipEntry>& archive, const std::string& place) {
  KeptNumbers kept;
  std::map<std::string, const ZipEntry*> entries;
  for (const ZipEntry& entry : archive) entries.emplace(entry.name, &entry);
  for (const ZipEntry& entry : archive) {
    if (!entry.name.ends_with("/model_constants_config.json") && !entry.name.ends_with("/model_weights_config.json"))
      continue;
    const std::string folder = entry.name.substr(0, entry.name.rfind('/') + 1);
    const std::string here = fmt::format("{}: {}", place, printable(entry.name));
    const Json told = parse_json(unpacked(entry, kMaxConfigBytes, place), here);
    if (!told.is_object() || !told.contains("config") || !told["config"].is_object()) continue;
    for (const auto& [name, tensor] : told["config"].items()) {
      const auto is_said = [&, &of = tensor](const char* key) { return of.contains(key) && get<bool>(of, key, here); };
      const bool plain = tensor.is_object() && !is_said("is_param") && !is_said("use_pickle") &&
                         tensor.contains("path_name") && tensor["path_name"].is_string() &&
                         tensor.contains("tensor_meta") && tensor["tensor_meta"].is_object();
      if (!plain) continue;
      const Json& meta = tensor["tensor_meta"];
      const auto elements = elements_in_order(meta);
      const auto file = entries.find(folder + tensor["path_name"].get<std::string>());
      if (!elements || file == entries.end() || !meta.contains("dtype")) continue;
      for (const Type& type : kTypes) {
        if (meta["dtype"] != type.number) continue;
        const auto count = static_cast<std::size_t>(*elements) * type.numbers;
        const std::string bytes = unpacked(*file->second, count * type.bytes, place);
        require(bytes.size() == count * type.bytes,
                "{}: '{}' has {} bytes, and {} elements; the file is damaged, "
                "export it again.",
                place, printable(name), bytes.size(), *elements);
        kept[name] = type.read(bytes, count);
      }
    }
  }
  return kept;
}

}  // namespace meshwright::torch
