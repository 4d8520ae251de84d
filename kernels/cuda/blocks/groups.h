// SPDX-License-Identifier: Apache-2.0
// Passes over elements in groups, so that a thread moves 16 bytes at a time: out[i] = f(a[i], ...). Internal to
// kernels/cuda.
#pragma once

#include <cstring>
#include <type_traits>

#include "kernels/cuda/blocks/launch.h"

namespace meshwright::kernels::cuda {

// The place of an operand that a function of fewer does not have.
struct None {};

// Elements of a group: 16 bytes of the smallest type.
template <class... Types>
constexpr int group_of() {
  int smallest = 16;
  ((smallest = !std::is_same_v<Types, None> && static_cast<int>(sizeof(Types)) < smallest
                   ? static_cast<int>(sizeof(Types))
                   : smallest),
   ...);
  return 16 / smallest;
}

// What is moved at once.
#ifdef __CUDACC__
template <int bytes>
using Chunk = std::conditional_t<bytes == 16, uint4, std::conditional_t<bytes == 8, uint2, unsigned>>;
#endif

// A GPU loads at most 16 bytes an instruction, from an address that is a multiple of the size; a group of a wider type
// goes by several. memcpy between registers costs nothing, and is how bits change their type.
//
// What load and store ask of an address: 16 bytes, or the group where it is smaller.
template <int n, class T>
constexpr int kChunk = n* static_cast<int>(sizeof(T)) < 16 ? n* static_cast<int>(sizeof(T)) : 16;

template <int n, class T>
MW_BOTH inline bool lies_well(const T* data) {
  if constexpr (std::is_same_v<T, None>)
    return true;
  else
    return reinterpret_cast<std::uintptr_t>(data) % kChunk<n, T> == 0;
}

template <int n, class T>
MW_DEVICE void load(const T* from, T (&to)[n]) {
#ifdef __CUDA_ARCH__
  constexpr int kPieces = n * static_cast<int>(sizeof(T)) / kChunk<n, T>;
  Chunk<kChunk<n, T>> chunks[kPieces];
  MW_UNROLL
  for (int k = 0; k < kPieces; ++k) chunks[k] = reinterpret_cast<const Chunk<kChunk<n, T>>*>(from)[k];
  memcpy(to, chunks, sizeof(to));
#else
#ifndef __CUDACC__
  on_cpu::require_aligned(from, kChunk<n, T>);
#endif
  std::memcpy(to, from, sizeof(to));
#endif
}
template <int n>
MW_DEVICE void load(const None*, None (&)[n]) {}

template <int n, class T>
MW_DEVICE void store(T* to, const T (&from)[n]) {
#ifdef __CUDA_ARCH__
  constexpr int kPieces = n * static_cast<int>(sizeof(T)) / kChunk<n, T>;
  Chunk<kChunk<n, T>> chunks[kPieces];
  memcpy(chunks, from, sizeof(from));
  MW_UNROLL
  for (int k = 0; k < kPieces; ++k) reinterpret_cast<Chunk<kChunk<n, T>>*>(to)[k] = chunks[k];
#else
#ifndef __CUDACC__
  on_cpu::require_aligned(to, kChunk<n, T>);
#endif
  std::memcpy(to, from, sizeof(from));
#endif
}
// To global memory, by an intrinsic: where the compiler does not see whose memory it is, as with an address that was
// itself read from memory, it takes an assignment apart again.
template <int n, class T>
MW_DEVICE void store_global(T* to, const T (&from)[n]) {
#ifdef __CUDA_ARCH__
  constexpr int kPieces = n * static_cast<int>(sizeof(T)) / kChunk<n, T>;
  Chunk<kChunk<n, T>> chunks[kPieces];
  memcpy(chunks, from, sizeof(from));
  MW_UNROLL
  for (int k = 0; k < kPieces; ++k) __stwb(reinterpret_cast<Chunk<kChunk<n, T>>*>(to) + k, chunks[k]);
#else
  store(to, from);
#endif
}

// `well` is the same for all threads of a block, so that no warp takes both branches for it.
//
// The first `count` of a group in global memory; at once where it is whole and lies `well`. What is not loaded is 0.
template <int n, class T>
MW_DEVICE void load_group(const T* from, T (&to)[n], int count, bool well) {
  if (well && count == n) return load(from, to);
  MW_UNROLL
  for (int i = 0; i < n; ++i) to[i] = i < count ? from[i] : T(Wide<T>(0));
}
template <int n, class T>
MW_DEVICE void store_group(T* to, const T (&from)[n], int count, bool well) {
  if (well && count == n) return store_global(to, from);
  MW_UNROLL
  for (int i = 0; i < n; ++i)
    if (i < count) to[i] = from[i];
}

template <class T>
MW_DEVICE Wide<T> widened(T value) {
  return static_cast<Wide<T>>(value);
}
MW_DEVICE None widened(None) { return {}; }

// Calls f with as many arguments as there are operands.
template <class Out, class F, class A, class B, class C>
MW_DEVICE Out value_of(const F& f, A a, B b, C c) {
  if constexpr (std::is_same_v<B, None>)
    return Out(f(widened(a)));
  else if constexpr (std::is_same_v<C, None>)
    return Out(f(widened(a), widened(b)));
  else
    return Out(f(widened(a), widened(b), widened(c)));
}

template <class T>
MW_DEVICE const T* at(const T* data, std::int64_t i) {
  return data + i;
}
MW_DEVICE const None* at(const None* none, std::int64_t) { return none; }
template <class T>
MW_DEVICE T element(const T* data, std::int64_t i) {
  return data[i];
}
MW_DEVICE None element(const None*, std::int64_t) { return {}; }

// Groups of a map: 16 bytes of what is written. A result wider than an operand is not written in more, as the stores of
// a warp would then leave gaps that only its next ones fill; the narrow loads are made up for by more groups per turn.
template <class Out, class... Operands>
struct MapGroups {
  static constexpr int kGroup = 16 / static_cast<int>(sizeof(Out));
  static constexpr int kTurn = 2 * group_of<Out, Operands...>() / kGroup;
};

// Two groups or more per turn: the loads of all are under way before the first result is written.
template <class Out, class F, class A, class B, class C>
__global__ void __launch_bounds__(256)
    map_groups(Out* out, std::int64_t n, std::int64_t groups, F f, const A* a, const B* b, const C* c) {
  constexpr int kGroup = MapGroups<Out, A, B, C>::kGroup, kTurn = MapGroups<Out, A, B, C>::kTurn;
  const std::int64_t first = thread_of_grid();
  const std::int64_t stride = threads_of_grid();
  for (std::int64_t turn = first; turn < groups; turn += kTurn * stride) {
    A x[kTurn][kGroup];
    B y[kTurn][kGroup];
    C z[kTurn][kGroup];
    MW_UNROLL
    for (int k = 0; k < kTurn; ++k) {
      const std::int64_t begin = (turn + k * stride) * kGroup;
      if (turn + k * stride >= groups) break;
      load(at(a, begin), x[k]);
      load(at(b, begin), y[k]);
      load(at(c, begin), z[k]);
    }
    MW_UNROLL
    for (int k = 0; k < kTurn; ++k) {
      if (turn + k * stride >= groups) break;
      Out result[kGroup];
      MW_UNROLL
      for (int i = 0; i < kGroup; ++i) result[i] = value_of<Out>(f, x[k][i], y[k][i], z[k][i]);
      store(out + (turn + k * stride) * kGroup, result);
    }
  }
  // What follows the last whole group; everything where an array is not aligned, as `groups` is 0 then.
  for (std::int64_t i = groups * kGroup + first; i < n; i += stride)
    out[i] = value_of<Out>(f, element(a, i), element(b, i), element(c, i));
}

// out[i] = f(a[i], b[i], c[i]) for i < n, computed in Wide of each type. One read of each operand, one write. `out` may
// be an operand.
template <class Out, class F, class A, class B = None, class C = None>
void map(const char* name, Stream stream, std::int64_t n, F f, Out* out, const A* a, const B* b = nullptr,
         const C* c = nullptr) {
  constexpr int kGroup = MapGroups<Out, A, B, C>::kGroup, kTurn = MapGroups<Out, A, B, C>::kTurn, kThreads = 256;
  const bool well = lies_well<kGroup>(out) && lies_well<kGroup>(a) && lies_well<kGroup>(b) && lies_well<kGroup>(c);
  const std::int64_t groups = well ? n / kGroup : 0, items = well ? ceil_div(groups, kTurn) + n % kGroup : n;
  launch(name, map_groups<Out, F, A, B, C>, blocks_for(items, kThreads), {kThreads, 1, 1}, 0, stream, out, n, groups, f,
         a, b, c);
}

}  // namespace meshwright::kernels::cuda
