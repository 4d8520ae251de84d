// SPDX-License-Identifier: Apache-2.0
// Boxes of elements in two arrays (kernels/cpu/layout/box_dims.h) on the device. Internal to kernels/cuda.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cpu/layout/box_dims.h"
#include "kernels/cuda/blocks/launch.h"

namespace meshwright::kernels::cuda {

// b[...] = a[...] for the elements of a box, each of `size` bytes (2, 4 or 8): one read and one write of each, in words
// of up to 16 bytes where addresses and strides allow.
void copy_box(Stream stream, std::span<const BoxDim> dims, const void* a, void* b, std::int64_t size);

// --- on the device ---

// Divides numbers that are not negative by one that the host knows, by a multiplication. With s the bits of
// divisor - 1 and factor = ceil(2^(63+s) / divisor), floor(n factor / 2^(63+s)) is exact for n below 2^63: the factor
// is too large by less than 1, so that the quotient is by less than n / 2^(63+s), which is at most 1 / divisor. Below
// 2^31, as n nearly always is, 31 bits do, and a quarter of the instructions.
class Divider {
 public:
  std::int64_t divisor = 1;

  Divider() = default;
  explicit Divider(std::int64_t by) : divisor(by) {
    while ((std::uint64_t{1} << shift_) < static_cast<std::uint64_t>(by)) ++shift_;
    const auto whole = static_cast<std::uint64_t>(by);
    factor_ = static_cast<std::uint64_t>(((Wide128{1} << (63 + shift_)) + whole - 1) / whole);
    const std::uint64_t high = std::uint64_t{1} << (31 + std::min(shift_, 32));
    short_factor_ = shift_ < 32 ? static_cast<std::uint32_t>((high + whole - 1) / whole) : 0;
  }
  [[nodiscard]] MW_DEVICE std::int64_t quotient(std::int64_t n) const {
    if ((n >> 31) == 0) {
      const std::uint64_t product = std::uint64_t{short_factor_} * (static_cast<std::uint32_t>(n) * 2U);
      return static_cast<std::int64_t>(product >> 32 >> shift_);
    }
    return static_cast<std::int64_t>(upper_half(factor_, static_cast<std::uint64_t>(n) * 2U) >> shift_);
  }

 private:
  __extension__ typedef unsigned __int128 Wide128;
  MW_DEVICE static std::uint64_t upper_half(std::uint64_t a, std::uint64_t b) {
#ifdef __CUDA_ARCH__
    return __umul64hi(a, b);
#else
    return static_cast<std::uint64_t>((Wide128{a} * b) >> 64);
#endif
  }
  std::uint64_t factor_ = std::uint64_t{1} << 63;
  std::uint32_t short_factor_ = std::uint32_t{1} << 31;  // 0 for divisors beyond 2^31, whose quotients are 0
  int shift_ = 0;
};

// The outer dimensions of a box: the offsets of its rows in both arrays.
struct Box {
  // More dimensions are a Failure; for_each_box takes such boxes apart.
  static constexpr std::size_t kMax = 6;
  Box() = default;
  explicit Box(std::span<const BoxDim> dims) : rank(static_cast<int>(dims.size())) {
    if (dims.size() > kMax) throw Failure("a reduction whose dimensions form more than six groups");
    for (std::size_t d = 0; d < dims.size(); ++d) {
      extents[d] = Divider(dims[d].extent);
      a[d] = dims[d].a, b[d] = dims[d].b;
    }
  }
  int rank = 0;
  Divider extents[kMax];
  std::int64_t a[kMax] = {}, b[kMax] = {};
};
struct Offsets {
  std::int64_t a, b;
};
// The offset of element `index`, row-major.
MW_DEVICE Offsets offsets_of(const Box& box, std::int64_t index) {
  Offsets found{0, 0};
  for (int d = box.rank - 1; d >= 0; --d) {
    const std::int64_t left = d == 0 ? 0 : box.extents[d].quotient(index);
    const std::int64_t at = index - left * box.extents[d].divisor;
    found.a += at * box.a[d];
    found.b += at * box.b[d];
    index = left;
  }
  return found;
}

// Calls visit(box, offset in a, offset in b) with boxes of at most Box::kMax dimensions: one, but for arrays of more.
template <class Visit>
void for_each_box(std::span<const BoxDim> dims, Visit visit, std::int64_t a = 0, std::int64_t b = 0) {
  if (dims.size() <= Box::kMax) return visit(Box(dims), a, b);
  for (std::int64_t i = 0; i < dims[0].extent; ++i)
    for_each_box(dims.subspan(1), visit, a + i * dims[0].a, b + i * dims[0].b);
}

[[nodiscard]] inline std::int64_t elements_of(std::span<const BoxDim> dims) {
  std::int64_t product = 1;
  for (const BoxDim& dim : dims) product *= dim.extent;
  return product;
}

[[nodiscard]] inline bool is_aligned(const void* data, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

// `n` elements that are read and written at once.
template <class T, int n>
struct alignas(sizeof(T) * n) Pack {
  T of[n];
};
template <class T>
constexpr int kPack = static_cast<int>(16 / sizeof(T));

// REQUIRES: the address is a multiple of the pack's size.
template <int n, class T>
MW_DEVICE Pack<T, n> load(const T* from) {
  return *at_once<Pack<T, n>>(from);
}
template <int n, class T>
MW_DEVICE void store(T* to, const Pack<T, n>& pack) {
  *at_once<Pack<T, n>>(to) = pack;
}

}  // namespace meshwright::kernels::cuda
