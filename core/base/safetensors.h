// SPDX-License-Identifier: Apache-2.0
// Files of named tensors in the safetensors format: 8 bytes with the length of a header, the header (JSON: by name the
// type, the shape, and the first and last-but-one byte behind the header), the elements in row-major order.
//
// Headers come from outside: every offset, size and name is checked before it is used. Errors are InputErrors of one
// sentence that name the place and the tensor.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

struct StoredTensor {
  std::string name;
  std::string type;  // "F64", "F32", "BF16", "F16", or another of the format's
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // of its bytes in the file
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;            // in the order of their bytes
  std::map<std::string, std::string> metadata;  // of "__metadata__"
};

// Bytes per element of a type of the format; 0 for an unknown one.
[[nodiscard]] std::size_t bytes_of_stored_type(std::string_view type);

// The header of the file whose bytes these are.
[[nodiscard]] SafetensorsHeader read_safetensors_header(std::string_view file, const std::string& place);

// The bytes in front of the elements of a file; sets each tensor's `begin` and `end`, in the order given. Elements
// begin at a multiple of 8 bytes.
[[nodiscard]] std::string safetensors_header(std::vector<StoredTensor>& tensors,
                                             const std::map<std::string, std::string>& metadata);

}  // namespace meshwright
