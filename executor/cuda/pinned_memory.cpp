// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/pinned_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cuda/runtime/stream.h"

namespace meshwright {

namespace {
constexpr std::size_t kHostAlignment = 64;
constexpr std::size_t kMinHostChunk = std::size_t{1} << 18;
}  // namespace

PinnedMemory::~PinnedMemory() {
  for (const Chunk& chunk : chunks_) kernels::cuda::release_pinned(chunk.data);
}

void* PinnedMemory::take(std::size_t size) {
  const std::size_t whole = (size + kHostAlignment - 1) / kHostAlignment * kHostAlignment;
  // First fit: clear() empties all chunks at once, so that they do not fragment.
  for (Chunk& chunk : chunks_)
    if (chunk.size - chunk.used >= whole) return chunk.data + std::exchange(chunk.used, chunk.used + whole);
  const std::size_t larger = std::max(whole, kMinHostChunk);
  chunks_.push_back({static_cast<std::byte*>(kernels::cuda::allocate_pinned(larger)), larger, whole});
  return chunks_.back().data;
}

const void* PinnedMemory::copy_of(const void* host, std::size_t size) {
  void* kept = take(size);
  std::memcpy(kept, host, size);
  return kept;
}

void PinnedMemory::clear() {
  for (Chunk& chunk : chunks_) chunk.used = 0;
}

}  // namespace meshwright
