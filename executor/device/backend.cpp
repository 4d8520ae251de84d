// SPDX-License-Identifier: Apache-2.0
#include "executor/device/backend.h"

#include "core/base/errors.h"

namespace meshwright {

void Device::run_attention_block(const OpCallPlan&, const AttentionBlock&, std::span<void* const>,
                                 std::span<void* const>, const OpMoment&) {
  throw InternalError("the device runs no blocks of keys, though a program with them was begun");
}

}  // namespace meshwright
