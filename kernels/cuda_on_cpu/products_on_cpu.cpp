// SPDX-License-Identifier: Apache-2.0
// Two algorithms, so that which of them is taken shows in the bits: sums along k from its beginning, which is taken
// first, or from its end.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "kernels/cuda/products/product_timing.h"
#include "kernels/cuda/products/products.h"
#include "kernels/cuda/runtime/types.h"
#include "kernels/cuda_on_cpu/activity_on_cpu.h"
#include "kernels/cuda_on_cpu/capture.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr const char* kAlgorithms[] = {"from the beginning", "from the end"};
constexpr std::uint32_t kAlignment = 1;  // does not matter here

template <class W>
W applied(ProductFunction function, W x) {
  if (function == ProductFunction::Relu) return x > 0 ? x : 0;
  if (function == ProductFunction::Gelu)
    return x / (1 + std::exp(W(-1.5957691216057308) * (x + W(0.044715) * x * x * x)));
  return x;
}

// c = finish(sum, index in c, column).
template <class T, class S, class Finish>
void multiply(const Product& p, const T* a, const T* b, S* c, bool from_end, Finish&& finish) {
  for (std::int64_t batch = 0; batch < p.batch; ++batch)
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) {
        Wide<T> sum = 0;
        for (std::int64_t step = 0; step < p.k; ++step) {
          const std::int64_t k = from_end ? p.k - 1 - step : step;
          const std::int64_t at_a = p.transpose_a ? k * p.lda + i : i * p.lda + k;
          const std::int64_t at_b = p.transpose_b ? j * p.ldb + k : k * p.ldb + j;
          sum +=
              static_cast<Wide<T>>(a[batch * p.stride_a + at_a]) * static_cast<Wide<T>>(b[batch * p.stride_b + at_b]);
        }
        const std::int64_t at = batch * p.stride_c + i * p.ldc + j;
        c[at] = S(finish(sum, at, j));
      }
}

template <class T>
void multiply(const Product& p, const T* a, const T* b, T* c, bool from_end) {
  multiply(p, a, b, c, from_end, [](Wide<T> sum, std::int64_t, std::int64_t) { return sum; });
}

}  // namespace

struct Products::State {
  bool tensor_float;
  ProductTuning tuning;

  template <class T>
  std::vector<double> time(Stream stream, const Product& p, const T* a, const T* b, T* c) {
    return with_timer(tuning, [&](const ProductTimer& timer) {
      return median_seconds(std::size(kAlgorithms), [&](std::size_t algorithm) {
        return timer(stream, [&] { multiply(p, a, b, c, algorithm == 1); });
      });
    });
  }

  template <class T>
  bool from_end(Stream stream, const Product& p, const T* a, const T* b, T* c) {
    if (tuning.choices == nullptr) return false;
    const std::string key = product_key(p, product_type<T>(tensor_float), kAlignment, kAlignment, kAlignment);
    if (const std::optional<std::string> known = tuning.choices->find(key)) {
      if (*known == kAlgorithms[1]) return true;
      if (*known == kAlgorithms[0]) return false;
      tuning.choices->refuse(key);
    }
    if (!tuning.timed || c == nullptr) return false;
    return tuning.choices->keep(key, kAlgorithms[fastest(time(stream, p, a, b, c))]) == kAlgorithms[1];
  }
};

std::string product_library() { return "sums on the processor"; }

Products::Products(bool tensor_float, ProductTuning tuning)
    : state_(std::make_unique<State>(State{tensor_float, std::move(tuning)})) {}
Products::~Products() = default;
std::size_t Products::workspace() const { return 0; }

template <class T>
void Products::run(Stream stream, const Product& p, const T* a, const T* b, T* c) {
  const bool from_end = state_->from_end(stream, p, a, b, c);
  on_cpu::queue(stream, [=] {
    const on_cpu::Recorded recorded(Activity::Kind::Kernel, "product", 0);
    multiply(p, a, b, c, from_end);
  });
}

// As cuBLASLt has it: a function that leaves what it is applied to is GELU, on whole groups of 8 columns.
template <class T>
bool Products::run(Stream stream, const Product& p, const T* a, const T* b, T* c, const ProductEnd<T>& end) {
  if (p.batch != 1) return false;
  if (end.bias == nullptr && (end.function != ProductFunction::None || end.before != nullptr)) return false;
  if (end.before != nullptr && (end.function != ProductFunction::Gelu || p.ldc % 8 != 0)) return false;
  const bool from_end = state_->from_end(stream, p, a, b, c);
  on_cpu::queue(stream, [=] {
    const on_cpu::Recorded recorded(Activity::Kind::Kernel, "product", 0);
    multiply(p, a, b, c, from_end, [&](Wide<T> sum, std::int64_t at, std::int64_t column) {
      if (end.bias != nullptr) sum += static_cast<Wide<T>>(end.bias[column]);
      if (end.added != nullptr) sum += static_cast<Wide<T>>(end.added[at]);
      if (end.before != nullptr) end.before[at] = T(sum);
      return applied(end.function, sum);
    });
  });
  return true;
}

template <class T, class S>
bool Products::run_sum(Stream stream, const Product& p, const T* a, const T* b, S* sum, bool adds) {
  if (p.batch != 1) return false;
  const bool from_end = state_->from_end<T>(stream, p, a, b, nullptr);
  on_cpu::queue(stream, [=] {
    const on_cpu::Recorded recorded(Activity::Kind::Kernel, "product", 0);
    multiply(p, a, b, sum, from_end, [&](Wide<T> product, std::int64_t at, std::int64_t) {
      return adds ? product + static_cast<Wide<T>>(sum[at]) : product;
    });
  });
  return true;
}

template <class T>
std::vector<double> Products::time_algorithms(Stream stream, const Product& p, const T* a, const T* b, T* c,
                                              int maximum) {
  std::vector<double> seconds = state_->time(stream, p, a, b, c);
  seconds.resize(std::min(seconds.size(), static_cast<std::size_t>(maximum)));
  return seconds;
}

#define MW_INSTANTIATE(T)                                                                               \
  template void Products::run<T>(Stream, const Product&, const T*, const T*, T*);                       \
  template bool Products::run<T>(Stream, const Product&, const T*, const T*, T*, const ProductEnd<T>&); \
  template std::vector<double> Products::time_algorithms<T>(Stream, const Product&, const T*, const T*, T*, int);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE
#define MW_INSTANTIATE(T, S) \
  template bool Products::run_sum<T, S>(Stream, const Product&, const T*, const T*, S*, bool);
MW_INSTANTIATE(float, float)
MW_INSTANTIATE(double, double)
MW_INSTANTIATE(Bf16, Bf16)
MW_INSTANTIATE(F16, F16)
MW_INSTANTIATE(Bf16, float)
MW_INSTANTIATE(F16, float)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
