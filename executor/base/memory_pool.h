// SPDX-License-Identifier: Apache-2.0
// The memory of one logical device. Released blocks are kept by exact size for the next request, so that steps after
// the first make no system call and touch no new page.
//
// Each block has two sizes: its real size (in the precision of the run), and the size that it counts for (in the
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
  // Returns the kept blocks to the storage, which may then serve requests of other sizes.
  void give_back();

  [[nodiscard]] Bytes live() const { return live_; }
  [[nodiscard]] Bytes peak() const { return peak_; }
  // The number of allocations from the storage, and of give_back() calls.
  [[nodiscard]] std::int64_t changes() const { return changes_; }

 private:
  Storage& storage_;
  std::map<std::size_t, std::vector<void*>> free_;
  std::set<void*> owned_;
  Bytes live_{0.0}, peak_{0.0};
  std::int64_t changes_ = 0;
};

}  // namespace meshwright
