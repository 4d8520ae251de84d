// SPDX-License-Identifier: Apache-2.0
// Inputs of several kinds: the first byte chooses which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/errors.h"

namespace meshwright {

// Calls read_as(kind, the bytes after it), which may refuse them by an InputError. Returns what libFuzzer asks for.
inline int read_by_kind(const std::uint8_t* data, std::size_t size, void (*read_as)(char, const std::string&)) {
  if (size == 0) return 0;
  try {
    read_as(static_cast<char>(data[0]), {reinterpret_cast<const char*>(data) + 1, size - 1});
  } catch (const InputError&) {
    return 0;
  }
  return 0;
}

}  // namespace meshwright
