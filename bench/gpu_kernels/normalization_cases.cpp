// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu_kernels/cases.h"
#include "kernels/cuda/attention/softmax.h"
#include "kernels/cuda/norms/residual_norms.h"
#include "kernels/cuda/norms/row_norms.h"

namespace meshwright::bench {

namespace {

using kernels::Norm;

constexpr double kEpsilon = 1e-5;

template <class T>
void add_layer_norm(std::vector<MemoryCase>& all, std::int64_t rows, std::int64_t width) {
  const std::int64_t n = rows * width;
  const std::string type = type_name<T>(), shape = shape_of({rows, width});
  all.push_back(
      {"layer_norm", "GPT-1.3B", type, shape, "x, gamma, beta -> out", (2.0 * n + 2.0 * width) * sizeof(T),
       [=](Operands& o) {
         const T *x = o.numbers<T>(n), *gamma = o.numbers<T>(width), *beta = o.numbers<T>(width);
         T* out = o.numbers<T>(n);
         return Body([=] { cuda::row_norm<Norm::Layer>(kStream, x, gamma, beta, out, {rows, width, kEpsilon}); });
       }});
  all.push_back(
      {"layer_norm_backward", "GPT-1.3B", type, shape, "x, gamma, dy -> dx", (3.0 * n + width) * sizeof(T),
       [=](Operands& o) {
         const T *x = o.numbers<T>(n), *gamma = o.numbers<T>(width), *dy = o.numbers<T>(n);
         T* dx = o.numbers<T>(n);
         return Body([=] { cuda::row_norm_backward<Norm::Layer>(kStream, x, gamma, dy, dx, {rows, width, kEpsilon}); });
       }});
  all.push_back({"layer_norm_parameter_backward", "GPT-1.3B", type, shape, "x, dy -> dgamma, dbeta",
                 (2.0 * n + 2.0 * width) * sizeof(T), [=](Operands& o) {
                   const T *x = o.numbers<T>(n), *dy = o.numbers<T>(n);
                   T *dgamma = o.numbers<T>(width), *dbeta = o.numbers<T>(width);
                   void* workspace = o.bytes(cuda::row_norm_parameter_backward_workspace<T>({rows, width, kEpsilon}));
                   return Body([=] {
                     cuda::row_norm_parameter_backward<Norm::Layer>(kStream, x, dy, dgamma, dbeta,
                                                                    {rows, width, kEpsilon}, workspace);
                   });
                 }});
}

template <class T>
void add_rms_norm(std::vector<MemoryCase>& all, std::int64_t rows, std::int64_t width) {
  const std::int64_t n = rows * width;
  const std::string type = type_name<T>(), shape = shape_of({rows, width});
  all.push_back(
      {"rms_norm", "Llama-1.1B", type, shape, "x, gamma -> out", (2.0 * n + width) * sizeof(T), [=](Operands& o) {
         const T *x = o.numbers<T>(n), *gamma = o.numbers<T>(width);
         T* out = o.numbers<T>(n);
         return Body([=] { cuda::row_norm<Norm::Rms, T>(kStream, x, gamma, nullptr, out, {rows, width, kEpsilon}); });
       }});
  all.push_back(
      {"rms_norm_backward", "Llama-1.1B", type, shape, "x, gamma, dy -> dx", (3.0 * n + width) * sizeof(T),
       [=](Operands& o) {
         const T *x = o.numbers<T>(n), *gamma = o.numbers<T>(width), *dy = o.numbers<T>(n);
         T* dx = o.numbers<T>(n);
         return Body([=] { cuda::row_norm_backward<Norm::Rms>(kStream, x, gamma, dy, dx, {rows, width, kEpsilon}); });
       }});
  all.push_back({"rms_norm_parameter_backward", "Llama-1.1B", type, shape, "x, dy -> dgamma",
                 (2.0 * n + width) * sizeof(T), [=](Operands& o) {
                   const T *x = o.numbers<T>(n), *dy = o.numbers<T>(n);
                   T* dgamma = o.numbers<T>(width);
                   void* workspace = o.bytes(cuda::row_norm_parameter_backward_workspace<T>({rows, width, kEpsilon}));
                   return Body([=] {
                     cuda::row_norm_parameter_backward<Norm::Rms, T>(kStream, x, dy, dgamma, nullptr,
                                                                     {rows, width, kEpsilon}, workspace);
                   });
                 }});
}

// With the sum before the norm and behind its derivative, in one pass each.
template <Norm norm, class T>
void add_residual_norm(std::vector<MemoryCase>& all, const char* model, std::int64_t rows, std::int64_t width) {
  const std::int64_t n = rows * width;
  const std::string type = type_name<T>(), shape = shape_of({rows, width});
  const std::string name = norm == Norm::Layer ? "layer_norm" : "rms_norm";
  const double vectors = (norm == Norm::Layer ? 2.0 : 1.0) * static_cast<double>(width);
  all.push_back({name + "_of_sum", model, type, shape, "x, y, gamma, beta -> x + y, out",
                 (4.0 * static_cast<double>(n) + vectors) * sizeof(T), [=](Operands& o) {
                   const T *x = o.numbers<T>(n), *y = o.numbers<T>(n), *gamma = o.numbers<T>(width),
                           *beta = norm == Norm::Layer ? o.numbers<T>(width) : nullptr;
                   T *sum = o.numbers<T>(n), *out = o.numbers<T>(n);
                   return Body([=] {
                     (void)cuda::row_norm_of_sum<norm>(kStream, x, y, sum, gamma, beta, out, {rows, width, kEpsilon});
                   });
                 }});
  all.push_back(
      {name + "_backward_and_sum", model, type, shape, "x, gamma, dy, residual -> dx + residual",
       (4.0 * static_cast<double>(n) + static_cast<double>(width)) * sizeof(T), [=](Operands& o) {
         const T *x = o.numbers<T>(n), *gamma = o.numbers<T>(width), *dy = o.numbers<T>(n), *residual = o.numbers<T>(n);
         T* out = o.numbers<T>(n);
         return Body([=] {
           (void)cuda::row_norm_backward_and_sum<norm>(kStream, x, gamma, dy, residual, out, {rows, width, kEpsilon});
         });
       }});
}

template <class T>
void add_softmax(std::vector<MemoryCase>& all, std::int64_t rows, std::int64_t width) {
  const std::int64_t n = rows * width;
  const std::string type = type_name<T>(), shape = shape_of({rows, width});
  all.push_back({"softmax", "GPT-1.3B", type, shape, "x -> y", 2.0 * n * sizeof(T), [=](Operands& o) {
                   const T* x = o.numbers<T>(n);
                   T* y = o.numbers<T>(n);
                   return Body([=] { cuda::softmax(kStream, x, y, rows, width); });
                 }});
  all.push_back({"softmax_backward", "GPT-1.3B", type, shape, "y, dy -> dx", 3.0 * n * sizeof(T), [=](Operands& o) {
                   const T *y = o.numbers<T>(n), *dy = o.numbers<T>(n);
                   T* dx = o.numbers<T>(n);
                   return Body([=] { cuda::softmax_backward(kStream, y, dy, dx, rows, width); });
                 }});
}

}  // namespace

std::vector<MemoryCase> normalization_cases(const Sizes& s) {
  std::vector<MemoryCase> all;
  add_layer_norm<cuda::Bf16>(all, s.tokens(), s.hidden());
  add_layer_norm<float>(all, s.tokens(), s.hidden());
  add_rms_norm<cuda::Bf16>(all, s.tokens(), s.hidden());
  add_residual_norm<Norm::Layer, cuda::Bf16>(all, "GPT-1.3B", s.tokens(), s.hidden());
  add_residual_norm<Norm::Rms, cuda::Bf16>(all, "Llama-1.1B", s.tokens(), s.hidden());
  // The scores of a few heads, where attention is spelled out.
  add_softmax<cuda::Bf16>(all, 4 * s.tokens(), s.seq);
  add_softmax<float>(all, 4 * s.tokens(), s.seq);
  return all;
}

}  // namespace meshwright::bench
