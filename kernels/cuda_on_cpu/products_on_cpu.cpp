// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/products.h"

#include <cmath>

#include "kernels/cuda/types.h"
#include "kernels/cuda_on_cpu/activity_on_cpu.h"

namespace meshwright::kernels::cuda {

struct Products::State {};
Products::Products(bool) {}
Products::~Products() = default;

namespace {

// c = end(sum, index in c, column).
template <class T, class Finish>
void multiply(const Product& p, const T* a, const T* b, T* c, Finish&& finish) {
  const on_cpu::Recorded recorded(Activity::Kind::Kernel, "product", 0);
  for (std::int64_t batch = 0; batch < p.batch; ++batch)
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) {
        Wide<T> sum = 0;
        for (std::int64_t k = 0; k < p.k; ++k) {
          const std::int64_t at_a = p.transpose_a ? k * p.lda + i : i * p.lda + k;
          const std::int64_t at_b = p.transpose_b ? j * p.ldb + k : k * p.ldb + j;
          sum +=
              static_cast<Wide<T>>(a[batch * p.stride_a + at_a]) * static_cast<Wide<T>>(b[batch * p.stride_b + at_b]);
        }
        const std::int64_t at = batch * p.stride_c + i * p.ldc + j;
        c[at] = T(finish(sum, at, j));
      }
}

template <class W>
W applied(ProductFunction function, W x) {
  if (function == ProductFunction::Relu) return x > 0 ? x : 0;
  if (function == ProductFunction::Gelu)
    return x / (1 + std::exp(W(-1.5957691216057308) * (x + W(0.044715) * x * x * x)));
  return x;
}

}  // namespace

template <class T>
void Products::run(Stream, const Product& p, const T* a, const T* b, T* c) {
  multiply(p, a, b, c, [](Wide<T> sum, std::int64_t, std::int64_t) { return sum; });
}

// As cuBLASLt has it: a function that leaves what it is applied to is GELU, on whole groups of 8 columns.
template <class T>
bool Products::run(Stream, const Product& p, const T* a, const T* b, T* c, const ProductEnd<T>& end) {
  if (p.batch != 1 || end.bias == nullptr) return false;
  if (end.before != nullptr && (end.function != ProductFunction::Gelu || p.ldc % 8 != 0)) return false;
  multiply(p, a, b, c, [&](Wide<T> sum, std::int64_t at, std::int64_t column) {
    sum += static_cast<Wide<T>>(end.bias[column]);
    if (end.before != nullptr) end.before[at] = T(sum);
    return applied(end.function, sum);
  });
  return true;
}

#define MW_INSTANTIATE(T)                                                         \
  template void Products::run<T>(Stream, const Product&, const T*, const T*, T*); \
  template bool Products::run<T>(Stream, const Product&, const T*, const T*, T*, const ProductEnd<T>&);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
MW_INSTANTIATE(Bf16)
MW_INSTANTIATE(F16)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
