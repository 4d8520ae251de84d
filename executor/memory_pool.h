// SPDX-License-Identifier: Apache-2.0
// The memory of one logical device. Released storage waits, by exact size, for the next request: after the first step
// no system call is made and no page is touched for the first time.
//
// Two sizes go with each block: what it really takes (in the precision computed in) and what it counts for (in the
// Program's types).
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "core/base/units.h"

namespace meshwright {

struct Block {
  void* data = nullptr;
  std::size_t size = 0;
  Bytes counted{0.0};
};

class MemoryPool {
 public:
  MemoryPool() = default;
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;
  ~MemoryPool();

  // 64-byte aligned; the contents are whatever they were.
  [[nodiscard]] Block allocate(std::size_t size, Bytes counted);
  void release(const Block& block);

  [[nodiscard]] Bytes live() const { return live_; }
  [[nodiscard]] Bytes peak() const { return peak_; }

 private:
  std::map<std::size_t, std::vector<void*>> free_;
  std::vector<void*> owned_;
  Bytes live_{0.0}, peak_{0.0};
};

}  // namespace meshwright
