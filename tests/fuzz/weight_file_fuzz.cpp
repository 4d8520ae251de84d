// SPDX-License-Identifier: Apache-2.0
// Any bytes at all are either refused by an InputError or become the header of a file of tensors, whose bytes all lie
// in the file, or of an array.
#include <cstddef>
#include <cstdint>

#include "core/base/errors.h"
#include "core/base/npy.h"
#include "core/base/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace meshwright;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const SafetensorsHeader header = read_safetensors_header(bytes, "fuzz");
    std::uint64_t before = 0;
    for (const StoredTensor& tensor : header.tensors) {
      MW_CHECK(before <= tensor.begin && tensor.begin <= tensor.end && tensor.end <= size, "bytes beyond the file");
      before = tensor.end;
    }
  } catch (const InputError&) {
  }
  try {
    const NpyHeader header = read_npy_header(bytes, "fuzz");
    MW_CHECK(static_cast<std::size_t>(header.elements()) * header.element_bytes() <= size - header.begin,
             "elements beyond the file");
  } catch (const InputError&) {
  }
  return 0;
}
