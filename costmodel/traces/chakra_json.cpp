// SPDX-License-Identifier: Apache-2.0
#include "costmodel/traces/chakra_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "core/base/errors.h"
#include "core/base/json.h"

namespace meshwright {

namespace {

// By number, as the schema's NodeType.
constexpr std::array<std::string_view, 8> kNodeTypes = {"INVALID_NODE",   "METADATA_NODE", "MEM_LOAD_NODE",
                                                        "MEM_STORE_NODE", "COMP_NODE",     "COMM_SEND_NODE",
                                                        "COMM_RECV_NODE", "COMM_COLL_NODE"};

void put_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
}
void put_number(std::string& bytes, std::uint64_t field, std::uint64_t value) {
  put_varint(bytes, field << 3);
  put_varint(bytes, value);
}
void put_block(std::string& bytes, std::uint64_t field, std::string_view block) {
  put_varint(bytes, field << 3 | 2);
  put_varint(bytes, block.size());
  bytes += block;
}

class ObjectReader {
 public:
  ObjectReader(const Json& object, std::string place) : object_(object), place_(std::move(place)) {}

  [[nodiscard]] const Json* find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }
  [[nodiscard]] std::string text(const char* key) const {
    const Json* value = find(key);
    require(value == nullptr || value->is_string(), "{}: '{}' is no text; give what Chakra's jsonizer wrote.", place_,
            key);
    return value == nullptr ? "" : value->get<std::string>();
  }
  // 64 bits are texts in this JSON.
  [[nodiscard]] std::uint64_t number(const Json& value) const {
    if (value.is_number_unsigned() || (value.is_number_integer() && value.get<std::int64_t>() >= 0))
      return value.get<std::uint64_t>();
    const std::string digits = value.is_string() ? value.get<std::string>() : "";
    std::int64_t read = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), read);
    require(!digits.empty() && error == std::errc() && end == digits.data() + digits.size(),
            "{}: {} is no whole number; give what Chakra's jsonizer wrote.", place_, brief(value));
    return static_cast<std::uint64_t>(read);
  }
  [[nodiscard]] std::uint64_t number(const char* key) const {
    const Json* value = find(key);
    return value == nullptr ? 0 : number(*value);
  }
  // The objects of a list.
  [[nodiscard]] std::vector<ObjectReader> parts(const char* key) const {
    std::vector<ObjectReader> parts;
    if (const Json* list = find(key); list != nullptr && list->is_array())
      for (const Json& part : *list)
        if (part.is_object()) parts.emplace_back(part, place_);
    return parts;
  }

 private:
  const Json& object_;
  std::string place_;
};

std::string attribute_bytes(const ObjectReader& attribute) {
  std::string bytes;
  put_block(bytes, 1, attribute.text("name"));
  for (const char* key : {"int64Val", "uint64Val", "int32Val", "uint32Val", "sint64Val", "sint32Val", "fixed64Val",
                          "fixed32Val", "sfixed64Val", "sfixed32Val"})
    if (const Json* value = attribute.find(key)) put_number(bytes, 9, attribute.number(*value));
  if (const Json* value = attribute.find("boolVal")) put_number(bytes, 27, *value == true ? 1 : 0);
  if (attribute.find("stringVal") != nullptr) put_block(bytes, 29, attribute.text("stringVal"));
  return bytes;
}

std::string node_bytes(const Json& object, const std::string& place) {
  const ObjectReader node(object, place);
  std::string bytes;
  put_number(bytes, 1, node.number("id"));
  put_block(bytes, 2, node.text("name"));
  const auto* type = std::find(kNodeTypes.begin(), kNodeTypes.end(), node.text("type"));
  put_number(bytes, 3, type == kNodeTypes.end() ? 0 : static_cast<std::uint64_t>(type - kNodeTypes.begin()));
  if (const Json* around = node.find("ctrlDeps"); around != nullptr && around->is_array())
    for (const Json& id : *around) put_number(bytes, 4, node.number(id));
  put_number(bytes, 7, node.number("durationMicros"));
  if (const Json* inputs = node.find("inputs"); inputs != nullptr && inputs->is_object()) {
    const ObjectReader of(*inputs, place);
    std::string block;
    put_block(block, 1, of.text("values"));
    put_block(block, 2, of.text("shapes"));
    put_block(block, 3, of.text("types"));
    put_block(bytes, 8, block);
  }
  for (const ObjectReader& attribute : node.parts("attr")) put_block(bytes, 10, attribute_bytes(attribute));
  return bytes;
}

// The length of the object at the beginning; 0: it does not end.
std::size_t object_length(std::string_view text) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quoted) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '"')
        quoted = false;
    } else if (text[i] == '"') {
      quoted = true;
    } else if (text[i] == '{') {
      ++depth;
    } else if (text[i] == '}' && (depth == 0 || --depth == 0)) {
      return i + 1;
    }
  }
  return 0;
}

}  // namespace

// What Chakra's feeder reads, and what PyTorch records of the host.
namespace {

bool is_of_feeder(std::string_view text) { return text.find("\"workload_graph\"") != std::string_view::npos; }
bool is_of_host(std::string_view text) {
  // Those of 2023 have schemas of PyTorch's own.
  const std::size_t schema = text.find("\"schema\"");
  const std::string_view named = text.substr(std::min(schema, text.size()), 80);
  const bool known = named.find("chakra") != std::string_view::npos || text.find("\"nodes\"") != std::string_view::npos;
  return !named.empty() && known && text.find("\"start_ts\"") != std::string_view::npos;
}
bool is_graph_of_others(std::string_view text) { return is_of_feeder(text) || is_of_host(text); }

}  // namespace

bool is_chakra_json(std::string_view text) {
  return text.find("\"traceEvents\"") == std::string_view::npos &&
         (is_graph_of_others(text) || text.find("\"durationMicros\"") != std::string_view::npos ||
          text.find("\"ctrlDeps\"") != std::string_view::npos || text.find("_NODE\"") != std::string_view::npos);
}

std::string chakra_from_json(std::string_view text, const std::string& place) {
  const std::string_view head = text.substr(0, 4096);
  require(
      !is_of_feeder(head),
      "{}: a graph for Chakra's feeder names no operands, so that its times belong to no op; give the trace that it "
      "was made from (.et).",
      place);
  require(!is_of_host(head),
          "{}: PyTorch's execution trace of the host has no times of kernels; link it with the profiler's trace "
          "(chakra_trace_link), convert it (chakra_converter), and give the .et file.",
          place);
  std::string made;
  for (int number = 0;; ++number) {
    const std::size_t begin = text.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    const std::size_t length = object_length(text);
    require(text.front() == '{' && length > 0, "{}: object {} is not whole; check that the file is complete.", place,
            number + 1);
    const std::string here = fmt::format("{}: object {}", place, number + 1);
    const Json object = parse_json(std::string(text.substr(0, length)), here);
    text.remove_prefix(length);
    // The first is the metadata, of which nothing is read.
    const std::string bytes = number == 0 ? std::string("\x0a\x00", 2) : node_bytes(object, here);
    put_varint(made, bytes.size());
    made += bytes;
  }
  return made;
}

}  // namespace meshwright
