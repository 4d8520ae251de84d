// SPDX-License-Identifier: Apache-2.0
// Any bytes at all are either refused by an InputError with a line, or become values. The first byte chooses the
// language.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/errors.h"
#include "launch/syntax/python/python_config.h"
#include "launch/syntax/toml.h"
#include "launch/syntax/yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace meshwright;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0]) {
      case 't':
        (void)to_text(value_from_toml(text, "fuzz"));
        break;
      case 'p':
        (void)to_text(config_from_python(text, "", "fuzz").values);
        break;
      default:
        (void)to_text(value_from_yaml(text, "fuzz"));
    }
  } catch (const InputError& error) {
    MW_CHECK(std::string(error.what()).starts_with("fuzz:"), "'{}' names no line", error.what());
  }
  return 0;
}
