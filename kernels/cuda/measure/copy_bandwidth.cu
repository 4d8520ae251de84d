// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/measure/copy_bandwidth.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/cuda/blocks/launch.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kTurn = 4;  // loads of a thread that are under way at a time
constexpr double kWarmUp = 0.05;
constexpr double kLongEnough = 1e-3;
constexpr int kMaxCopies = 4096;

struct alignas(16) Quad {
  std::uint32_t word[4];
};

__global__ void copy_quads(const Quad* from, Quad* to, std::int64_t quads) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads * kTurn;
  for (std::int64_t begin = static_cast<std::int64_t>(blockIdx.x) * kThreads * kTurn + threadIdx.x; begin < quads;
       begin += stride) {
    Quad held[kTurn];
    MW_UNROLL
    for (int k = 0; k < kTurn; ++k)
      if (begin + k * kThreads < quads) held[k] = from[begin + k * kThreads];
    MW_UNROLL
    for (int k = 0; k < kTurn; ++k)
      if (begin + k * kThreads < quads) to[begin + k * kThreads] = held[k];
  }
}

__global__ void copy_bytes(const unsigned char* from, unsigned char* to, int bytes) {
  if (static_cast<int>(threadIdx.x) < bytes) to[threadIdx.x] = from[threadIdx.x];
}

// No two words alike: what is all zeros may cost a memory less.
__global__ void number_words(std::uint32_t* out, std::int64_t words) {
  for (std::int64_t i = thread_of_grid(); i < words; i += threads_of_grid())
    out[i] = static_cast<std::uint32_t>(i) * 2654435761U;
}

// Everything that a measurement holds.
class Stage {
 public:
  // Delegates, so that what was made is destroyed where making the rest fails.
  explicit Stage(std::size_t size) : Stage() {
    size_ = size;
    from_ = allocate(size);
    to_ = allocate(size);
    stream_ = make_stream();
    begin_ = make_event(true);
    end_ = make_event(true);
    const auto words = static_cast<std::int64_t>(size / sizeof(std::uint32_t));
    if (words > 0)
      launch("number_words", number_words, blocks_for(words, kThreads), {kThreads, 1, 1}, 0, stream_,
             static_cast<std::uint32_t*>(from_), words);
  }
  ~Stage() {
    destroy(end_);
    destroy(begin_);
    destroy(stream_);
    release(to_);
    release(from_);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  [[nodiscard]] double seconds_of(int copies) {
    record(begin_, stream_);
    for (int i = 0; i < copies; ++i) copy_by_kernel(stream_, from_, to_, size_);
    record(end_, stream_);
    synchronize(end_);
    return seconds_between(begin_, end_);
  }

 private:
  Stage() = default;

  std::size_t size_ = 0;
  void *from_ = nullptr, *to_ = nullptr;
  Stream stream_;
  Event begin_, end_;
};

}  // namespace

void copy_by_kernel(Stream stream, const void* from, void* to, std::size_t size) {
  const auto quads = static_cast<std::int64_t>(size / sizeof(Quad));
  const int rest = static_cast<int>(size % sizeof(Quad));
  if (quads > 0)
    launch("copy_quads", copy_quads, blocks_for(quads, kThreads * kTurn), {kThreads, 1, 1}, 0, stream,
           static_cast<const Quad*>(from), static_cast<Quad*>(to), quads);
  if (rest > 0)
    launch("copy_bytes", copy_bytes, {1, 1, 1}, {kWarp, 1, 1}, 0, stream,
           static_cast<const unsigned char*>(from) + size - rest, static_cast<unsigned char*>(to) + size - rest, rest);
}

double copy_bandwidth(std::size_t size) {
  Stage stage(size);
  double warm = stage.seconds_of(1);
  double each = warm;
  while (warm < kWarmUp) {
    const int copies = std::clamp(static_cast<int>(kLongEnough / std::max(each, 1e-9)), 1, kMaxCopies);
    const double took = stage.seconds_of(copies);
    each = took / copies;
    warm += std::max(took, 1e-6);
  }
  const int copies = std::clamp(static_cast<int>(kLongEnough / std::max(each, 1e-9)), 1, kMaxCopies);
  std::array<double, 9> runs{};
  for (double& run : runs) run = stage.seconds_of(copies);
  std::nth_element(runs.begin(), runs.begin() + runs.size() / 2, runs.end());
  return 2.0 * static_cast<double>(size) * copies / runs[runs.size() / 2];
}

}  // namespace meshwright::kernels::cuda
