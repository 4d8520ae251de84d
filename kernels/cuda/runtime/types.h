// SPDX-License-Identifier: Apache-2.0
// The 16-bit types as they are stored, on the host and on the device. Nothing is computed in them: kernels read into
// Wide<T>, and round to the nearest, of two to the even, once, when they write.
#pragma once

#include <bit>
#include <cstdint>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define MW_BOTH __host__ __device__
#else
#define MW_BOTH
#endif

namespace meshwright::kernels::cuda {

// The upper half of a float: a sign, 8 bits of exponent, 7 of fraction.
struct Bf16 {
  std::uint16_t bits = 0;

  Bf16() = default;
  MW_BOTH explicit Bf16(float value) {
#ifdef __CUDA_ARCH__
    bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
#else
    // The upper half of the float, rounded: half of its last place is added, less 1 where that place is 0 (ties to
    // even).
    const auto word = std::bit_cast<std::uint32_t>(value);
    const bool nan = (word & 0x7fffffffU) > 0x7f800000U;
    bits = nan ? 0x7fffU : static_cast<std::uint16_t>((word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
#endif
  }
  // Rounds twice, to float first.
  MW_BOTH explicit Bf16(double value) : Bf16(static_cast<float>(value)) {}
  MW_BOTH operator float() const {
#ifdef __CUDA_ARCH__
    return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
#else
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
#endif
  }
};

// IEEE 754 binary16: a sign, 5 bits of exponent, 10 of fraction; at most 65504.
struct F16 {
  std::uint16_t bits = 0;

  F16() = default;
  MW_BOTH explicit F16(float value) {
#ifdef __CUDA_ARCH__
    bits = __half_as_ushort(__float2half_rn(value));
#else
    bits = rounded(value);
#endif
  }
  // Rounds twice, to float first.
  MW_BOTH explicit F16(double value) : F16(static_cast<float>(value)) {}
  MW_BOTH operator float() const {
#ifdef __CUDA_ARCH__
    return __half2float(__ushort_as_half(bits));
#else
    return widened(bits);
#endif
  }

 private:
  // By the bits of the float: the exponent is moved from bias 127 to 15, and 13 bits of the fraction are rounded off by
  // an addition, whose carry may move on into the exponent, as it should.
  static std::uint16_t rounded(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (word >> 16) & 0x8000U, magnitude = word & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return 0x7fffU;                                      // not a number
    if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // rounds beyond 65504
    if (magnitude < 0x38800000U) {                                                    // below 2^-14: subnormal
      const float shifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(0x3f000000U);  // + 0.5: ulp 2^-24
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(shifted) - 0x3f000000U));
    }
    const std::uint32_t even = (magnitude >> 13) & 1U;
    return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000U + 0xfffU + even) >> 13));
  }
  // Exact: every number of 16 bits is a float.
  static float widened(std::uint16_t half) {
    const std::uint32_t sign = (half & 0x8000U) << 16, magnitude = half & 0x7fffU;
    if (magnitude >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | ((magnitude & 0x3ffU) << 13));
    // Subnormal numbers are multiples of 2^-24.
    if (magnitude < 0x400U) {
      const float value = static_cast<float>(magnitude) * 0x1p-24f;
      return sign == 0 ? value : -value;
    }
    return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000U));
  }
};

// What is computed in, and what sums are kept in: float, but double for double.
template <class T>
struct WideOf {
  using type = float;
};
template <>
struct WideOf<double> {
  using type = double;
};
template <>
struct WideOf<std::int32_t> {
  using type = std::int32_t;
};
template <class T>
using Wide = typename WideOf<T>::type;

// instantiate(T) for every T that kernels take.
#define MW_FOR_EACH_TYPE(instantiate) instantiate(float) instantiate(double) instantiate(Bf16) instantiate(F16)

}  // namespace meshwright::kernels::cuda
