// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/products/contract.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/blocks/launch.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr int kMaxLoops = 12;
constexpr int kThreads = 256;
// A warp per element: when sums are long enough for its lanes, and elements too few to occupy a GPU by threads.
constexpr std::int64_t kShortest = 64;
constexpr std::int64_t kFewElements = std::int64_t{1} << 16;

// The last loop of each part is its innermost.
struct Nest {
  int outer = 0, inner = 0;  // loops of c's elements; of the sum, whose innermost is kept apart
  std::int64_t size[kMaxLoops] = {};
  std::int64_t a[kMaxLoops] = {}, b[kMaxLoops] = {}, c[kMaxLoops] = {};
  std::int64_t elements = 1, sums = 1;  // of c; runs of the innermost loop per element
  std::int64_t length = 1, step_a = 0, step_b = 0;
};

struct Place {
  std::int64_t a = 0, b = 0, c = 0;
};

// Where loops begin .. begin + count stand when they have been walked `index` times.
MW_DEVICE Place place_of(const Nest& nest, int begin, int count, std::int64_t index) {
  Place place;
  for (int loop = begin + count - 1; loop >= begin; --loop) {
    const std::int64_t left = index / nest.size[loop], at = index - left * nest.size[loop];
    index = left;
    place.a += at * nest.a[loop];
    place.b += at * nest.b[loop];
    place.c += at * nest.c[loop];
  }
  return place;
}

template <class T>
__global__ void by_thread(const Nest nest, const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c) {
  for (std::int64_t i = thread_of_grid(); i < nest.elements; i += threads_of_grid()) {
    const Place element = place_of(nest, 0, nest.outer, i);
    Wide<T> sum = 0;
    for (std::int64_t run = 0; run < nest.sums; ++run) {
      const Place begin = place_of(nest, nest.outer, nest.inner, run);
      const T* from_a = a + element.a + begin.a;
      const T* from_b = b + element.b + begin.b;
      for (std::int64_t k = 0; k < nest.length; ++k)
        sum += static_cast<Wide<T>>(from_a[k * nest.step_a]) * static_cast<Wide<T>>(from_b[k * nest.step_b]);
    }
    c[element.c] = T(sum);
  }
}

template <class T>
__global__ void by_warp(const Nest nest, const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warps = static_cast<int>(blockDim.x) / kWarp;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * warps;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * warps + static_cast<int>(threadIdx.x) / kWarp;
       i < nest.elements; i += stride) {
    const Place element = place_of(nest, 0, nest.outer, i);
    Wide<T> sum = 0;
    for (std::int64_t run = 0; run < nest.sums; ++run) {
      const Place begin = place_of(nest, nest.outer, nest.inner, run);
      const T* from_a = a + element.a + begin.a;
      const T* from_b = b + element.b + begin.b;
      // Lanes take neighbouring k: with a step of 1, a warp reads whole lines of memory.
      for (std::int64_t k = lane; k < nest.length; k += kWarp)
        sum += static_cast<Wide<T>>(from_a[k * nest.step_a]) * static_cast<Wide<T>>(from_b[k * nest.step_b]);
    }
    sum = warp_sum(sum);
    if (lane == 0) c[element.c] = T(sum);
  }
}

struct HostLoop {
  std::int64_t size, a, b, c;
};

// Two loops that every operand walks like one become one: fewer divisions for each element's place.
void merge(std::vector<HostLoop>& loops) {
  for (std::size_t i = 0; i + 1 < loops.size();) {
    HostLoop& outer = loops[i];
    const HostLoop inner = loops[i + 1];
    if (outer.a == inner.a * inner.size && outer.b == inner.b * inner.size && outer.c == inner.c * inner.size) {
      outer = {outer.size * inner.size, inner.a, inner.b, inner.c};
      loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      // The merged loop may now continue the one outside it.
      if (i > 0) --i;
    } else {
      ++i;
    }
  }
}

// c's loops as c lies, so that neighbouring threads write side by side; the sum's as a and b lie.
Nest nest_of(std::vector<HostLoop> outer, std::vector<HostLoop> inner) {
  std::stable_sort(outer.begin(), outer.end(), [](const HostLoop& x, const HostLoop& y) { return x.c > y.c; });
  std::stable_sort(inner.begin(), inner.end(),
                   [](const HostLoop& x, const HostLoop& y) { return x.a + x.b > y.a + y.b; });
  merge(outer);
  merge(inner);
  Nest nest;
  // The innermost loop of the sum is walked by steps, without divisions.
  if (!inner.empty()) {
    nest.length = inner.back().size, nest.step_a = inner.back().a, nest.step_b = inner.back().b;
    inner.pop_back();
  }
  if (outer.size() + inner.size() > kMaxLoops)
    throw Failure("a contraction of " + std::to_string(outer.size() + inner.size()) + " loops: at most " +
                  std::to_string(kMaxLoops) + " can be handled");
  const auto add = [&nest](const HostLoop& loop, int& count) {
    const int at = nest.outer + nest.inner;
    nest.size[at] = loop.size, nest.a[at] = loop.a, nest.b[at] = loop.b, nest.c[at] = loop.c;
    ++count;
  };
  for (const HostLoop& loop : outer) add(loop, nest.outer);
  for (const HostLoop& loop : inner) add(loop, nest.inner);
  for (const HostLoop& loop : outer) nest.elements *= loop.size;
  for (const HostLoop& loop : inner) nest.sums *= loop.size;
  return nest;
}

}  // namespace

template <class T>
void contract_strided(Stream stream, const LoopNest& loops, const T* a, const T* b, T* c) {
  std::vector<HostLoop> outer, inner;
  for (int i = 0; i < loops.axes; ++i) {
    const HostLoop loop{loops.sizes[i], loops.a_strides[i], loops.b_strides[i], loops.c_strides[i]};
    // A loop of one step moves nothing. A loop that c does not have (stride 0) is summed.
    if (loop.size > 1) (loop.c != 0 ? outer : inner).push_back(loop);
  }
  const Nest nest = nest_of(std::move(outer), std::move(inner));
  // Long sums of few elements: a thread each would leave most of the GPU idle.
  if (nest.length >= kShortest && nest.elements < kFewElements) {
    launch("contract, by warp", by_warp<T>, blocks_for(nest.elements, kThreads / kWarp), {kThreads, 1, 1}, 0, stream,
           nest, a, b, c);
  } else {
    launch("contract, by thread", by_thread<T>, blocks_for(nest.elements, kThreads), {kThreads, 1, 1}, 0, stream, nest,
           a, b, c);
  }
}

#define MW_INSTANTIATE(T) template void contract_strided<T>(Stream, const LoopNest&, const T*, const T*, T*);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
