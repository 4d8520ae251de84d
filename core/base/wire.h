// SPDX-License-Identifier: Apache-2.0
// Protocol buffers as bytes: a message is a row of fields, each a number or bytes. Reads nothing beyond the bytes it is
// given and allocates nothing.
//
// Throws InputError "PLACE: the file is damaged ..." at the first byte that cannot be.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace meshwright {

struct WireField {
  std::uint32_t number;
  enum class Type { Varint, Fixed64, Block, Fixed32 } type;
  std::uint64_t value;     // of all but Block
  std::string_view bytes;  // of Block
};

class WireReader {
 public:
  WireReader(std::string_view bytes, const std::string& place) : rest_(bytes), place_(place) {}
  // The next field; false at the end.
  [[nodiscard]] bool next(WireField& field);
  // The next number of a packed list; false at the end.
  [[nodiscard]] bool next_varint(std::uint64_t& value);
  [[nodiscard]] std::string_view rest() const { return rest_; }  // what was not read yet
  [[nodiscard]] const std::string& place() const { return place_; }

 private:
  [[nodiscard]] std::uint64_t varint();
  [[nodiscard]] std::uint64_t fixed(std::size_t bytes);
  [[noreturn]] void damaged(const char* what) const;

  std::string_view rest_;
  const std::string& place_;
};

}  // namespace meshwright
