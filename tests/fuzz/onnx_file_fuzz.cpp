// SPDX-License-Identifier: Apache-2.0
// Any bytes at all are either refused by an InputError or become a model whose forward graph can be built.
#include <cstddef>
#include <cstdint>

#include "core/base/errors.h"
#include "tests/fuzz/model_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace meshwright;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    expect_model_or_refusal(bytes, "fuzz.onnx");
  } catch (const InputError&) {
    return 0;
  }
  return 0;
}
