// SPDX-License-Identifier: Apache-2.0
// Writes Chakra's traces, which are messages of protobuf, each behind its length.
#pragma once

#include <cstdint>
#include <string>

namespace meshwright::chakra_writer {

inline std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}
inline std::string number(int field, std::uint64_t value) {
  return varint(static_cast<std::uint64_t>(field) << 3) + varint(value);
}
inline std::string block(int field, const std::string& bytes) {
  return varint((static_cast<std::uint64_t>(field) << 3) | 2) + varint(bytes.size()) + bytes;
}
inline std::string flag(const char* name, bool value) { return block(10, block(1, name) + number(27, value ? 1 : 0)); }
inline std::string attribute(const char* name, std::uint64_t value) {
  return block(10, block(1, name) + number(9, value));
}
inline std::string message(const std::string& bytes) { return varint(bytes.size()) + bytes; }
inline std::string node(int id, const char* name, int type, std::uint64_t microseconds, const std::string& more) {
  return message(number(1, static_cast<std::uint64_t>(id)) + block(2, name) +
                 number(3, static_cast<std::uint64_t>(type)) + number(7, microseconds) + more);
}
inline std::string io(const char* values, const char* shapes, const char* types) {
  return block(8, block(1, values) + block(2, shapes) + block(3, types));
}

}  // namespace meshwright::chakra_writer
