// SPDX-License-Identifier: Apache-2.0
// Host memory that a captured step copies from: it stays where it is until the next step is captured. Internal to
// executor/cuda.
#pragma once

#include <cstddef>
#include <vector>

namespace meshwright {

class PinnedMemory {
 public:
  PinnedMemory() = default;
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory();

  [[nodiscard]] void* take(std::size_t size);
  [[nodiscard]] const void* copy_of(const void* host, std::size_t size);
  void clear();  // all of it is free again

 private:
  struct Chunk {
    std::byte* data;
    std::size_t size, used;
  };
  std::vector<Chunk> chunks_;
};

}  // namespace meshwright
