// SPDX-License-Identifier: Apache-2.0
#include "core/planner/search/memory_request.h"

#include <algorithm>

namespace meshwright {

namespace {

constexpr int kMaxRequests = 4;
constexpr double kStep = 5e-4;  // of the memory: a difference not worth another search

}  // namespace

bool MemoryRequest::again(const Outcome& outcome) {
  Bytes next = usable_ - (outcome.peak - outcome.estimate);
  if (requests_++ == kMaxRequests) return false;
  if (outcome.peak <= usable_) {
    if (!outcome.memory_binds || next <= asked_ + kStep * usable_) return false;
  } else if (requests_ > 2 && !outcome.found) {
    // The difference is not the same for every plan: after the second that is too large, a little more is left free.
    next -= static_cast<double>(requests_ - 2) * kStep * usable_;
  }
  // A software keeps more beyond the estimate than there is: no memory that is asked for would do.
  if (next <= Bytes(0.0)) return false;
  asked_ = outcome.peak <= usable_ ? next : std::min(next, asked_);
  return true;
}

}  // namespace meshwright
