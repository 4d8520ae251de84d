// SPDX-License-Identifier: Apache-2.0
// Errors that say where the wrong text was given.
#pragma once

#include <fmt/format.h>

#include <string>

#include "core/base/errors.h"

namespace meshwright {

// What `parse` returns; an InputError gets `place` (a flag, a file) in front: the parsers of core name what is wrong,
// not where it came from.
template <class Parse>
auto at_place(const std::string& place, Parse parse) {
  try {
    return parse();
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", place, error.what()));
  }
}

}  // namespace meshwright
