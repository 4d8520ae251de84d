// SPDX-License-Identifier: Apache-2.0
#include "executor/base/memory_pool.h"

#include <algorithm>
#include <new>

namespace meshwright {

namespace {

constexpr std::align_val_t kAlignment{64};  // a cache line and the widest vector

class HostStorage final : public Storage {
 public:
  void* allocate(std::size_t size) override { return ::operator new(std::max<std::size_t>(size, 1), kAlignment); }
  void release(void* data) noexcept override { ::operator delete(data, kAlignment); }
};

}  // namespace

Storage& host_storage() {
  static HostStorage storage;  // has no state
  return storage;
}

MemoryPool::~MemoryPool() {
  for (void* data : owned_) storage_.release(data);
}

Block MemoryPool::allocate(std::size_t size, Bytes counted) {
  Block block{nullptr, size, counted};
  std::vector<void*>& candidates = free_[size];
  if (candidates.empty()) {
    block.data = storage_.allocate(size);
    owned_.insert(block.data);
    ++changes_;
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

void MemoryPool::give_back() {
  ++changes_;
  for (auto& [size, blocks] : free_)
    for (void* data : blocks) {
      owned_.erase(data);
      storage_.release(data);
    }
  free_.clear();
}

}  // namespace meshwright
