// SPDX-License-Identifier: Apache-2.0
#include "core/base/wire.h"

#include "core/base/errors.h"

namespace meshwright {

void WireReader::damaged(const char* what) const {
  throw InputError(fmt::format("{}: the file is damaged, {}; export or download it again.", place_, what));
}

std::uint64_t WireReader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (rest_.empty()) damaged("it ends inside a number");
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  damaged("a number has more than 64 bits");
}

std::uint64_t WireReader::fixed(std::size_t bytes) {
  if (rest_.size() < bytes) damaged("it ends inside a number");
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value |= std::uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
  rest_.remove_prefix(bytes);
  return value;
}

bool WireReader::next(WireField& field) {
  if (rest_.empty()) return false;
  const std::uint64_t key = varint();
  if (key >> 3 == 0 || key >> 3 > 0x1fffffff) damaged("a field has no number");
  field = {static_cast<std::uint32_t>(key >> 3), WireField::Type::Varint, 0, {}};
  switch (key & 7) {
    case 0:
      field.value = varint();
      return true;
    case 1:
      field.type = WireField::Type::Fixed64;
      field.value = fixed(8);
      return true;
    case 2: {
      field.type = WireField::Type::Block;
      const std::uint64_t length = varint();
      if (length > rest_.size()) damaged("a field is longer than what is left");
      field.bytes = rest_.substr(0, length);
      rest_.remove_prefix(length);
      return true;
    }
    case 5:
      field.type = WireField::Type::Fixed32;
      field.value = fixed(4);
      return true;
    default:
      damaged("a field is of no known type");
  }
}

bool WireReader::next_varint(std::uint64_t& value) {
  if (rest_.empty()) return false;
  value = varint();
  return true;
}

}  // namespace meshwright
