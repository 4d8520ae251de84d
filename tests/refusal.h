// SPDX-License-Identifier: Apache-2.0
// What the caller is told.
#pragma once

#include <string>

#include "core/base/errors.h"

namespace meshwright {

// What refuses the action: the message of its InputError, or "not refused".
template <class Action>
std::string refusal(Action action) {
  try {
    (void)action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "not refused";
}

}  // namespace meshwright
