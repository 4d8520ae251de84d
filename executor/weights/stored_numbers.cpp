// SPDX-License-Identifier: Apache-2.0
#include "executor/weights/stored_numbers.h"

#include <array>
#include <cstring>
#include <utility>

#include "core/base/errors.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright {

namespace {

template <class T>
double read_as(const char* bytes, std::int64_t i) {
  T value;
  std::memcpy(&value, bytes + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return static_cast<double>(value);
}

template <class T>
void append_as(std::string& bytes, double number) {
  const T value = static_cast<T>(number);
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

}  // namespace

ReadNumber number_reader(std::string_view type) {
  using kernels::cuda::Bf16;
  using kernels::cuda::F16;
  constexpr std::array<std::pair<std::string_view, ReadNumber>, 16> kReaders = {{{"F64", read_as<double>},
                                                                                 {"F32", read_as<float>},
                                                                                 {"BF16", read_as<Bf16>},
                                                                                 {"F16", read_as<F16>},
                                                                                 {"f8", read_as<double>},
                                                                                 {"f4", read_as<float>},
                                                                                 {"f2", read_as<F16>},
                                                                                 {"i1", read_as<std::int8_t>},
                                                                                 {"i2", read_as<std::int16_t>},
                                                                                 {"i4", read_as<std::int32_t>},
                                                                                 {"i8", read_as<std::int64_t>},
                                                                                 {"u1", read_as<std::uint8_t>},
                                                                                 {"b1", read_as<std::uint8_t>},
                                                                                 {"u2", read_as<std::uint16_t>},
                                                                                 {"u4", read_as<std::uint32_t>},
                                                                                 {"u8", read_as<std::uint64_t>}}};
  for (const auto& [known, reader] : kReaders)
    if (known == type) return reader;
  return nullptr;
}

void append_number(std::string& bytes, double number, DType type) {
  switch (type) {
    case DType::F64:
      return append_as<double>(bytes, number);
    case DType::F32:
      return append_as<float>(bytes, number);
    case DType::BF16:
      return append_as<kernels::cuda::Bf16>(bytes, number);
    case DType::F16:
      return append_as<kernels::cuda::F16>(bytes, number);
    case DType::I32:
      break;
  }
  throw InternalError("whole numbers are not stored as weights");
}

const char* stored_type_of(DType type) {
  switch (type) {
    case DType::F64:
      return "F64";
    case DType::BF16:
      return "BF16";
    case DType::F16:
      return "F16";
    default:
      return "F32";
  }
}

}  // namespace meshwright
