// SPDX-License-Identifier: Apache-2.0
// CUDA's failures as this program's: a GPU that fails, or does not let itself be used, is the machine's fault.
#pragma once

#include <utility>

#include "core/base/errors.h"
#include "kernels/cuda/runtime/stream.h"

namespace meshwright {

// What action() returns. `doing` begins the sentence of the SystemError that a failure of CUDA becomes.
template <class Action>
decltype(auto) on_gpu(const char* doing, Action&& action) {
  try {
    return std::forward<Action>(action)();
  } catch (const kernels::cuda::Failure& failure) {
    throw SystemError(fmt::format("{}: {}.", doing, failure.what()));
  }
}

}  // namespace meshwright
