// SPDX-License-Identifier: Apache-2.0
#include "executor/memory_pool.h"

#include <algorithm>
#include <new>

namespace meshwright {

namespace {
constexpr std::align_val_t kAlignment{64};  // a cache line and the widest vector
}

MemoryPool::~MemoryPool() {
  for (void* data : owned_) ::operator delete(data, kAlignment);
}

Block MemoryPool::allocate(std::size_t size, Bytes counted) {
  Block block{nullptr, size, counted};
  std::vector<void*>& candidates = free_[size];
  if (candidates.empty()) {
    owned_.push_back(nullptr);
    owned_.back() = block.data = ::operator new(std::max<std::size_t>(size, 1), kAlignment);
  } else {
    block.data = candidates.back();
    candidates.pop_back();
  }
  live_ += counted;
  peak_ = std::max(peak_, live_);
  return block;
}

void MemoryPool::release(const Block& block) {
  free_[block.size].push_back(block.data);
  live_ -= block.counted;
}

}  // namespace meshwright
