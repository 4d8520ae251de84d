// SPDX-License-Identifier: Apache-2.0
// Any bytes at all are either refused by an InputError or become a program that can be described and, where a model can
// be made of it, a model whose forward graph can be built.
#include <cstddef>
#include <cstdint>

#include "core/base/errors.h"
#include "core/graph/import/xla/hlo_text.h"
#include "tests/fuzz/model_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace meshwright;
  const std::string text = "HloModule m" + std::string(reinterpret_cast<const char*>(data), size);
  try {
    (void)xla::summary_of(xla::read_hlo_text(text, "fuzz.hlo"));
    expect_model_or_refusal(text, "fuzz.hlo");
  } catch (const InputError&) {
    return 0;
  }
  return 0;
}
