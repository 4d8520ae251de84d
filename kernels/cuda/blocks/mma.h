// SPDX-License-Identifier: Apache-2.0
// Operations of a whole warp on 16-bit numbers: products of small matrices on tensor cores (PTX's mma.m16n8k16), and
// loads of their operands. Also copies to shared memory that run while the threads compute. Internal to kernels/cuda.
//
// A product c += a b is spread over the 32 lanes in fragments. With g = lane / 4 and t = lane % 4 a lane holds
//
//   register   elements (row, column)                    of
//   a[0]       (g,     2t    ), (g,     2t + 1)          a (16, 16)   16-bit, two to a word, the first one in the
//   a[1]       (g + 8, 2t    ), (g + 8, 2t + 1)                       lower half
//   a[2]       (g,     2t + 8), (g,     2t + 9)
//   a[3]       (g + 8, 2t + 8), (g + 8, 2t + 9)
//   b[0]       (2t,     g), (2t + 1, g)                  b (16, 8)    likewise
//   b[1]       (2t + 8, g), (2t + 9, g)
//   c[0] c[1]  (g,     2t), (g,     2t + 1)              c (16, 8)    float
//   c[2] c[3]  (g + 8, 2t), (g + 8, 2t + 1)
//
// so the lanes of an (8, 8) part are
//
//   of a and c:  columns  01  23  45  67       of b:  columns  0   1   2  ...  7
//                row 0     0   1   2   3              rows 01  0   4   8      28
//                row 1     4   5   6   7              rows 23  1   5   9      29
//                ...                                  rows 45  2   6  10      30
//                row 7    28  29  30  31              rows 67  3   7  11      31
//
// Two neighbouring c, rounded and packed, are an a without an exchange between lanes: scores become the left operand of
// the next product in place. multiply_add and load_matrices are called by all lanes of a warp, in blocks of one
// dimension.
#pragma once

#include "kernels/cuda/blocks/launch.h"

namespace meshwright::kernels::cuda {

template <class T>
MW_DEVICE std::uint32_t pack(float low, float high) {
  return static_cast<std::uint32_t>(T(low).bits) | static_cast<std::uint32_t>(T(high).bits) << 16;
}

struct alignas(16) SixteenBytes {
  std::uint32_t of[4];
};

#ifdef __CUDACC__

template <>
MW_DEVICE std::uint32_t pack<Bf16>(float low, float high) {
  std::uint32_t both;
  // The instruction takes the upper half first.
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}
template <>
MW_DEVICE std::uint32_t pack<F16>(float low, float high) {
  std::uint32_t both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

MW_DEVICE unsigned shared_address(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// c += a b
template <class T>
MW_DEVICE void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1);
template <>
MW_DEVICE void multiply_add<Bf16>(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
MW_DEVICE void multiply_add<F16>(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four matrices (8, 8) from shared memory. Lane l gives the 16-byte aligned address of row l % 8 of matrix l / 8, and
// receives (g, 2t) and (g, 2t + 1) of each; transposed: (2t, g) and (2t + 1, g).
template <bool transposed>
MW_DEVICE void load_matrices(std::uint32_t (&to)[4], const void* row) {
  if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row))
                 : "memory");
}

// Begins a copy to shared memory (cp.async), of zeros unless `inside`: then nothing is read. Both addresses are
// multiples of `bytes`. It goes past the registers, so that a thread may begin many and compute meanwhile; 16 bytes
// also past the first cache (.cg), which the hardware does not offer for 4.
template <int bytes>
MW_DEVICE void begin_copy(void* to, const void* from, bool inside) {
  static_assert(bytes == 4 || bytes == 16);
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(inside ? 4 : 0)
                 : "memory");
}
// For all that this thread has begun. Others see them after a barrier.
MW_DEVICE void finish_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Rounded: elsewhere the compiler may leave a product that is added to whole.
MW_DEVICE float rounded_product(float a, float b) { return __fmul_rn(a, b); }
// 2^x, to 2 units of float's last place.
MW_DEVICE float power_of_two(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

#else

namespace on_cpu {

// Values that the lanes of each warp show each other. Two buffers take turns, so that one barrier is enough: a lane
// writes the first one again only after all lanes have reached the barrier of the second.
template <class Shown>
class Exchange {
 public:
  const Shown* show(const Shown& mine) {
    const unsigned warp = threadIdx.x / 32;
    Shown* const all = shown_[turn_[threadIdx.x] ^= 1U][warp];
    all[lane()] = mine;
    warp_barrier();
    return all;
  }

 private:
  Shown shown_[2][32][32];
  unsigned turn_[1024] = {};
};
struct Operands {
  std::uint32_t a[4], b[2];
};
inline thread_local Exchange<Operands> shown_operands;
inline thread_local Exchange<const std::uint16_t*> shown_rows;

template <class T>
float half_of(std::uint32_t word, int which) {
  T number;
  number.bits = static_cast<std::uint16_t>(word >> (16 * which));
  return number;
}

}  // namespace on_cpu

template <class T>
void multiply_add(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  const on_cpu::Operands* const all = on_cpu::shown_operands.show({{a[0], a[1], a[2], a[3]}, {b0, b1}});
  const int g = on_cpu::lane() / 4, t = on_cpu::lane() % 4;
  // In the order of k. The hardware's order is not documented: its sums may differ in the last bits.
  for (int k = 0; k < 16; ++k)
    for (int i = 0; i < 4; ++i) {
      const int column = 2 * t + i % 2, register_of_k = k / 8, lane_of_k = k % 8 / 2;
      const float left = on_cpu::half_of<T>(all[4 * g + lane_of_k].a[2 * register_of_k + i / 2], k % 2);
      const float right = on_cpu::half_of<T>(all[4 * column + lane_of_k].b[register_of_k], k % 2);
      c[i] += left * right;
    }
}

template <bool transposed>
void load_matrices(std::uint32_t (&to)[4], const void* row) {
  on_cpu::require_aligned(row, 16);
  const auto* const all = on_cpu::shown_rows.show(static_cast<const std::uint16_t*>(row));
  const int g = on_cpu::lane() / 4, t = on_cpu::lane() % 4;
  for (int m = 0; m < 4; ++m) {
    const std::uint16_t* const* rows = all + 8 * m;
    const std::uint16_t low = transposed ? rows[2 * t][g] : rows[g][2 * t];
    const std::uint16_t high = transposed ? rows[2 * t + 1][g] : rows[g][2 * t + 1];
    to[m] = static_cast<std::uint32_t>(low) | static_cast<std::uint32_t>(high) << 16;
  }
}

template <int bytes>
void begin_copy(void* to, const void* from, bool inside) {
  on_cpu::require_aligned(to, bytes);
  on_cpu::require_aligned(from, bytes);
  on_cpu::begin_copy(to, inside ? from : nullptr, bytes);
}
inline void finish_copies() { on_cpu::finish_copies(); }

inline float rounded_product(float a, float b) { return a * b; }
inline float power_of_two(float x) { return std::exp2(x); }

#endif

}  // namespace meshwright::kernels::cuda
