// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu_kernels/cases.h"
#include "kernels/cuda/convolution/pooling.h"
#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/norms/batch_norm.h"

namespace meshwright::bench {

namespace {

constexpr const char* kModel = "WRN-50-2";

template <class T>
void add_batch_norm(std::vector<MemoryCase>& all, std::int64_t rows, std::int64_t channels) {
  using W = cuda::Wide<T>;
  const std::int64_t n = rows * channels;
  const kernels::BatchNormShape s{rows, channels, 1.0 / static_cast<double>(rows), 1e-5};
  const std::string type = type_name<T>(), shape = shape_of({rows, channels});
  const double one = 1.0 * n * sizeof(T), sums = 2.0 * channels * sizeof(W), pair = 2.0 * channels * sizeof(T);
  all.push_back({"batch_sums", kModel, type, shape, "x -> sums", one + sums, [=](Operands& o) {
                   const T* x = o.numbers<T>(n);
                   W* out = o.numbers<W>(2 * channels);
                   void* workspace = o.bytes(cuda::batch_sums_workspace<T>(rows, channels));
                   return Body([=] { cuda::batch_sums(kStream, x, out, rows, channels, workspace); });
                 }});
  all.push_back(
      {"batch_norm", kModel, type, shape, "x, sums, gamma, beta -> out", 2 * one + sums + pair, [=](Operands& o) {
         const T *x = o.numbers<T>(n), *gamma = o.numbers<T>(channels), *beta = o.numbers<T>(channels);
         const W* in = o.numbers<W>(2 * channels);
         T* out = o.numbers<T>(n);
         return Body([=] { cuda::batch_norm(kStream, {x, in}, gamma, beta, out, s); });
       }});
  all.push_back(
      {"batch_norm_parameter_backward", kModel, type, shape, "x, sums, dy -> dgamma, dbeta", 2 * one + sums + pair,
       [=](Operands& o) {
         const T *x = o.numbers<T>(n), *dy = o.numbers<T>(n);
         const W* in = o.numbers<W>(2 * channels);
         T *dgamma = o.numbers<T>(channels), *dbeta = o.numbers<T>(channels);
         void* workspace = o.bytes(cuda::batch_sums_workspace<T>(rows, channels));
         return Body([=] { cuda::batch_norm_parameter_backward(kStream, {x, in}, dy, dgamma, dbeta, s, workspace); });
       }});
  all.push_back({"batch_norm_backward", kModel, type, shape, "x, sums, gamma, dgamma, dbeta, dy -> dx",
                 3 * one + sums + 1.5 * pair, [=](Operands& o) {
                   const T *x = o.numbers<T>(n), *dy = o.numbers<T>(n), *gamma = o.numbers<T>(channels),
                           *dgamma = o.numbers<T>(channels), *dbeta = o.numbers<T>(channels);
                   const W* in = o.numbers<W>(2 * channels);
                   T* dx = o.numbers<T>(n);
                   return Body([=] { cuda::batch_norm_backward(kStream, {x, in}, {gamma, dgamma, dbeta}, dy, dx, s); });
                 }});
}

// The maximum of 3 x 3 at every other place, as behind the first convolution; the average of all places, as before the
// last product.
template <class T>
void add_pooling(std::vector<MemoryCase>& all, const Sizes& s) {
  const kernels::Windows three{2 * s.side, s.side, 3, 2, 1};
  const kernels::PoolShape p{s.images, s.narrow / 2, three, three};
  const std::int64_t from = s.images * p.channels * 4 * s.side * s.side, to = from / 4;
  const std::string type = type_name<T>(), shape = shape_of({s.images, 2 * s.side, 2 * s.side, p.channels}) + " 3x3/2";
  all.push_back({"max_pool", kModel, type, shape, "x -> y", 1.0 * (from + to) * sizeof(T), [=](Operands& o) {
                   const T* x = o.numbers<T>(from);
                   T* y = o.numbers<T>(to);
                   return Body([=] { cuda::max_pool(kStream, x, y, p); });
                 }});
  all.push_back(
      {"max_pool_backward", kModel, type, shape, "x, dy -> dx", (2.0 * from + to) * sizeof(T), [=](Operands& o) {
         const T *x = o.numbers<T>(from), *dy = o.numbers<T>(to);
         T* dx = o.numbers<T>(from);
         void* workspace = o.bytes(cuda::max_pool_backward_workspace(p));
         return Body([=] { cuda::max_pool_backward(kStream, x, dy, dx, p, workspace); });
       }});
  const std::int64_t last = s.side / 8;
  const kernels::Windows whole{last, 1, last, 1, 0};
  const kernels::PoolShape a{s.images, 16 * s.narrow, whole, whole};
  const std::int64_t places = s.images * last * last * a.channels, means = s.images * a.channels;
  const std::string all_of_it = shape_of({s.images, last, last, a.channels});
  all.push_back(
      {"average_pool", kModel, type, all_of_it, "x -> y", 1.0 * (places + means) * sizeof(T), [=](Operands& o) {
         const T* x = o.numbers<T>(places);
         T* y = o.numbers<T>(means);
         return Body([=] { cuda::average_pool(kStream, x, y, a); });
       }});
  all.push_back({"average_pool_backward", kModel, type, all_of_it, "dy -> dx", 1.0 * (places + means) * sizeof(T),
                 [=](Operands& o) {
                   const T* dy = o.numbers<T>(means);
                   T* dx = o.numbers<T>(places);
                   return Body([=] { cuda::average_pool_backward(kStream, dy, dx, a); });
                 }});
}

template <class T>
void add_relu(std::vector<MemoryCase>& all, std::int64_t rows, std::int64_t channels) {
  const std::int64_t n = rows * channels;
  const std::string shape = shape_of({rows, channels});
  all.push_back({"relu", kModel, type_name<T>(), shape, "x -> out", 2.0 * n * sizeof(T), [=](Operands& o) {
                   const T* x = o.numbers<T>(n);
                   T* out = o.numbers<T>(n);
                   return Body([=] { cuda::activate<kernels::Activation::Relu>(kStream, x, out, n); });
                 }});
  all.push_back({"relu_backward", kModel, type_name<T>(), shape, "x, dy -> dx", 3.0 * n * sizeof(T), [=](Operands& o) {
                   const T *x = o.numbers<T>(n), *dy = o.numbers<T>(n);
                   T* dx = o.numbers<T>(n);
                   return Body([=] { cuda::activate_backward<kernels::Activation::Relu>(kStream, x, dy, dx, n); });
                 }});
}

}  // namespace

std::vector<MemoryCase> image_cases(const Sizes& s) {
  std::vector<MemoryCase> all;
  const std::int64_t places = s.images * s.side * s.side;
  add_batch_norm<cuda::Bf16>(all, places, s.wide());
  add_batch_norm<float>(all, places / 4, s.wide());
  add_relu<cuda::Bf16>(all, places, s.wide());
  add_pooling<cuda::Bf16>(all, s);
  return all;
}

}  // namespace meshwright::bench
