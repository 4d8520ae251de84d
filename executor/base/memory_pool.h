// SPDX-License-Identifier: Apache-2.0
// The memory of one logical device. Released storage waits, by exact size, for the next request: after the first step
// no system call is made and no page is touched for the first time.
//
// Two sizes go with each block: what it really takes (in the precision computed in) and what it counts for (in the
// Program's types).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "core/base/units.h"

namespace meshwright {

struct Block {
  void* data = nullptr;
  std::size_t size = 0;
  Bytes counted{0.0};
};

// Where a pool takes storage from.
class Storage {
 public:
  virtual ~Storage() = default;
  [[nodiscard]] virtual void* allocate(std::size_t size) = 0;  // at least 64-byte aligned
  virtual void release(void* data) noexcept = 0;
};
[[nodiscard]] Storage& host_storage();

class MemoryPool {
 public:
  explicit MemoryPool(Storage& storage = host_storage()) : storage_(storage) {}
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;
  ~MemoryPool();

  // 64-byte aligned; the contents are whatever they were.
  [[nodiscard]] Block allocate(std::size_t size, Bytes counted);
  void release(const Block& block);
  // What waits for a next request goes back to the storage: for a request of another size.
  void give_back();

  [[nodiscard]] Bytes live() const { return live_; }
  [[nodiscard]] Bytes peak() const { return peak_; }
  // How often it had nothing of the size and took it from the storage, or gave back what it had.
  [[nodiscard]] std::int64_t changes() const { return changes_; }

 private:
  Storage& storage_;
  std::map<std::size_t, std::vector<void*>> free_;
  std::set<void*> owned_;
  Bytes live_{0.0}, peak_{0.0};
  std::int64_t changes_ = 0;
};

}  // namespace meshwright
