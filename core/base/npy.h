// SPDX-License-Identifier: Apache-2.0
// NumPy's .npy files: one array, row-major, little-endian. Errors are InputErrors of one sentence with the place.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

struct NpyHeader {
  std::string type;  // "f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"
  std::vector<std::int64_t> shape;
  std::size_t begin = 0;  // of the elements in the file

  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::size_t element_bytes() const { return static_cast<std::size_t>(type[1] - '0'); }
  [[nodiscard]] bool is_integer() const { return type[0] == 'i' || type[0] == 'u'; }
};

// The header of the file whose bytes these are; that all elements are there has been checked.
[[nodiscard]] NpyHeader read_npy_header(std::string_view file, const std::string& place);

// The bytes in front of the elements of a file.
[[nodiscard]] std::string npy_header(const std::string& type, const std::vector<std::int64_t>& shape);

}  // namespace meshwright
