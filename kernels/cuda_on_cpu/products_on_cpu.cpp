// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/products.h"
#include "kernels/cuda/types.h"
#include "kernels/cuda_on_cpu/activity_on_cpu.h"

namespace meshwright::kernels::cuda {

struct Products::State {};
Products::Products(bool) {}
Products::~Products() = default;

template <class T>
void Products::run(Stream, const Product& p, const T* a, const T* b, T* c) {
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
        c[batch * p.stride_c + i * p.ldc + j] = T(sum);
      }
}

#define MW_INSTANTIATE(T) template void Products::run<T>(Stream, const Product&, const T*, const T*, T*);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
MW_INSTANTIATE(Bf16)
MW_INSTANTIATE(F16)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
