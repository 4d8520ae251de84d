// SPDX-License-Identifier: Apache-2.0
// How the threads of a block share the rows that they normalise. Internal to the normalisations of this folder.
//
// A narrow row (128 packs of 16 bytes or less) belongs to a group of 1 to 32 lanes of a warp, a wider one to a block of
// up to 512 threads. Each thread keeps its packs of the row in registers, such that the row is read once; only rows
// beyond 64 KiB (8192 elements where the packs are single elements) are read again, from the cache at best. Packs are
// single elements where the width or an address does not let 16 bytes be loaded at once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "kernels/cuda/blocks/launch.h"

namespace meshwright::kernels::cuda::normalization {

// N elements that are loaded and stored at once. Pairs of 16-bit elements stay in one register until they are used.
template <class T, int N, bool kPairs = sizeof(T) == 2 && N % 2 == 0>
struct alignas(sizeof(T) * N) Pack {
  T elements[N];

  MW_DEVICE Wide<T> operator[](int i) const { return static_cast<Wide<T>>(elements[i]); }
  MW_DEVICE void set(int i, Wide<T> value) { elements[i] = T(value); }
};
template <class T, int N>
struct alignas(sizeof(T) * N) Pack<T, N, true> {
  std::uint32_t pairs[N / 2] = {};

  MW_DEVICE float operator[](int i) const {
    T element;
    element.bits = static_cast<std::uint16_t>(pairs[i / 2] >> (16 * (i % 2)));
    return static_cast<float>(element);
  }
  // REQUIRES: not set before.
  MW_DEVICE void set(int i, float value) {
    pairs[i / 2] |= static_cast<std::uint32_t>(T(value).bits) << (16 * (i % 2));
  }
};
template <class T>
constexpr int kWidestPack = 16 / static_cast<int>(sizeof(T));

template <int N, class T>
MW_DEVICE Pack<T, N> load(const T* from, std::int64_t pack) {
  return at_once<Pack<T, N>>(from)[pack];
}
template <int N, class T>
MW_DEVICE void store(T* to, std::int64_t pack, const Pack<T, N>& value) {
  at_once<Pack<T, N>>(to)[pack] = value;
}

// Calls action(std::integral_constant<int, N>) with the widest N that rows of the width at the addresses allow.
template <class T, class Action>
void with_packs(std::int64_t width, std::initializer_list<const void*> addresses, Action action) {
  const bool whole = width % kWidestPack<T> == 0 && std::all_of(addresses.begin(), addresses.end(), [](const void* at) {
                       return reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
                     });
  if (whole)
    action(std::integral_constant<int, kWidestPack<T>>{});
  else
    action(std::integral_constant<int, 1>{});
}

// --- in a kernel ---

// A thread's place among those of its row: it has the packs lane, lane + lanes, ...
struct Place {
  std::int64_t packs;  // of the row; 0: there is no row for these threads
  int lane, lanes;

  // action(k, pack) for each; K: the most that a thread may have, 0: any number, and then k is 0.
  template <int K, class Action>
  MW_DEVICE void each(Action action) const {
    if constexpr (K == 0) {
      for (std::int64_t pack = lane; pack < packs; pack += lanes) action(0, pack);
    } else {
      MW_UNROLL
      for (int k = 0; k < K; ++k)
        if (lane + k * lanes < packs) action(k, static_cast<std::int64_t>(lane + k * lanes));
    }
  }
};

// Calls action(r, place) for the rows that this thread has a part in; as often by all threads of a block, so that
// barriers may be in it: r may lie beyond the last, with no packs. `lanes`: as launched.
template <int N, class Action>
MW_DEVICE void each_row(std::int64_t rows, std::int64_t width, int lanes, Action action) {
  const int groups = static_cast<int>(blockDim.x) / lanes, group = static_cast<int>(threadIdx.x) / lanes;
  const int lane = static_cast<int>(threadIdx.x) - group * lanes;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * groups;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * groups; first < rows; first += stride)
    action(first + group, Place{first + group < rows ? width / N : 0, lane, lanes});
}

// The same, where load(r, place) begins to read what action(loaded, r, place) needs: the next row is on its way while
// one is worked on, beyond the barriers that this takes.
template <int N, class Load, class Action>
MW_DEVICE void each_row_ahead(std::int64_t rows, std::int64_t width, int lanes, Load load, Action action) {
  const int groups = static_cast<int>(blockDim.x) / lanes, group = static_cast<int>(threadIdx.x) / lanes;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * groups;
  const auto place_in = [&](std::int64_t row) {
    return Place{row < rows ? width / N : 0, static_cast<int>(threadIdx.x) - group * lanes, lanes};
  };
  std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * groups;
  if (first >= rows) return;
  auto next = load(first + group, place_in(first + group));
  for (; first < rows; first += stride) {
    const auto loaded = next;
    if (first + stride < rows) next = load(first + stride + group, place_in(first + stride + group));
    action(loaded, first + group, place_in(first + group));
  }
}

// What a thread has of a row: loaded at once and kept; with K = 0 loaded whenever it is asked for.
template <class T, int N, int K>
class Row {
 public:
  MW_DEVICE Row(const T* row, const Place& place) : row_(row) {
    if constexpr (K > 0) place.template each<K>([&](int k, std::int64_t pack) { kept_[k] = load<N>(row, pack); });
  }
  MW_DEVICE Pack<T, N> get(int k, std::int64_t pack) const {
    if constexpr (K > 0)
      return kept_[k];
    else
      return load<N>(row_, pack);
  }

 private:
  const T* row_;
  Pack<T, N> kept_[K > 0 ? K : 1];
};

// Sums and maxima over the threads of a row, for all of them. `scratch`: shared, of 2 * 32 elements.
template <class W>
MW_DEVICE W sum_of_row(W value, int lanes, W* scratch) {
  if (lanes > kWarp) return block_sum(value, scratch);
  MW_UNROLL
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    // A row has `lanes` neighbouring lanes; a greater distance would reach into another row.
    if (distance < lanes) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

template <class W>
MW_DEVICE W max_of_row(W value, int lanes, W* scratch) {
  if (lanes > kWarp) return block_max(value, scratch);
  MW_UNROLL
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    if (distance < lanes) {
      const W other = __shfl_xor_sync(kAllLanes, value, distance);
      value = other > value ? other : value;
    }
  return value;
}

template <class W>
struct Two {
  W first, second;
};
// Two sums by the barriers of one.
template <class W>
MW_DEVICE Two<W> sums_of_row(Two<W> value, int lanes, W* scratch) {
  if (lanes <= kWarp) return {sum_of_row(value.first, lanes, scratch), sum_of_row(value.second, lanes, scratch)};
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  value = {warp_sum(value.first), warp_sum(value.second)};
  if (lane == 0) {
    scratch[warp] = value.first;
    scratch[kWarp + warp] = value.second;
  }
  __syncthreads();
  value = {warp_sum(lane < warps ? scratch[lane] : W(0)), warp_sum(lane < warps ? scratch[kWarp + lane] : W(0))};
  __syncthreads();
  return value;
}

MW_DEVICE float inverse_root(float value) { return 1.0f / sqrtf(value); }
MW_DEVICE double inverse_root(double value) { return 1.0 / sqrt(value); }

// --- on the host ---

constexpr int kGroupThreads = 128;  // of a block whose rows belong to groups of lanes
constexpr int kMaxThreads = 512;
// Of kMaxThreads on a multiprocessor: it bounds the registers of a kernel that keeps K packs.
template <int K>
constexpr int kBlocksAtOnce = K <= 4 ? 2 : 1;

// The smallest power of two that is not below `value`.
inline int power_of_two(std::int64_t value) {
  int power = 1;
  while (power < value) power *= 2;
  return power;
}
inline int whole_warps(std::int64_t threads) { return static_cast<int>(ceil_div(threads, kWarp) * kWarp); }

struct RowLaunch {
  int kept;  // packs of a thread: Place::each's K
  int lanes, threads;
  std::int64_t blocks;
};

// The most packs of a row whose threads have one each. Of more, a thread of a group has four, such that enough is on
// its way from memory at once; where packs are single elements, a warp's worth of neighbours is loaded first.
template <int N>
constexpr int kSinglePacks = N == 1 ? kWarp : 8;
// Packs that a thread of a block keeps of a row that does not fit with four each.
template <int N>
constexpr int kMaxPacks = N == 1 ? 16 : 8;

template <int N>
RowLaunch row_launch(std::int64_t rows, std::int64_t width) {
  const std::int64_t packs = width / N;
  // What none of the cases below fits: a row too wide for registers, read again for each pass.
  RowLaunch plan{0, kMaxThreads, kMaxThreads, 1};
  if (packs <= kSinglePacks<N>)
    plan = {1, power_of_two(packs), kGroupThreads, 1};
  else if (packs <= 4 * kWarp)
    plan = {4, power_of_two(ceil_div(packs, 4)), kGroupThreads, 1};
  else if (const int kept = packs <= 4 * kMaxThreads ? 4 : kMaxPacks<N>; packs <= kept * kMaxThreads)
    plan = {kept, whole_warps(ceil_div(packs, kept)), whole_warps(ceil_div(packs, kept)), 1};
  plan.blocks = blocks_for(rows, plan.threads / plan.lanes).x;
  return plan;
}

// Calls action(N, K, launch) with both numbers as std::integral_constant.
template <class T, class Action>
void with_row_launch(std::int64_t rows, std::int64_t width, std::initializer_list<const void*> addresses,
                     Action action) {
  with_packs<T>(width, addresses, [&](auto n) {
    constexpr int N = decltype(n)::value;
    const RowLaunch plan = row_launch<N>(rows, width);
    switch (plan.kept) {
      case 0:
        return action(n, std::integral_constant<int, 0>{}, plan);
      case 1:
        return action(n, std::integral_constant<int, 1>{}, plan);
      case 4:
        return action(n, std::integral_constant<int, 4>{}, plan);
      default:
        return action(n, std::integral_constant<int, kMaxPacks<N>>{}, plan);
    }
  });
}

}  // namespace meshwright::kernels::cuda::normalization
