// SPDX-License-Identifier: Apache-2.0
// Numbers as they lie in files: little-endian, of a type that the file names. Internal to the readers and writers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/graph/graph.h"

namespace meshwright {

// Reads the i-th element of a row of bytes. Throws InternalError for a type that no_numbers_of tells of.
using ReadNumber = double (*)(const char* bytes, std::int64_t i);
// Null for a type whose elements are not read: of safetensors ("F32"), of NumPy ("f4", "i8").
[[nodiscard]] ReadNumber number_reader(std::string_view type);

// Appends a number in a type of safetensors: F64, F32, BF16 or F16.
void append_number(std::string& bytes, double number, DType type);
// "F32"
[[nodiscard]] const char* stored_type_of(DType type);

}  // namespace meshwright
