// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "bench/gpu_kernels/cases.h"
#include "kernels/cuda/elementwise/bias.h"
#include "kernels/cuda/elementwise/dropout.h"
#include "kernels/cuda/elementwise/elementwise.h"
#include "kernels/cuda/layout/layout.h"
#include "kernels/cuda/layout/tiles.h"

namespace meshwright::bench {

namespace {

constexpr const char* kGpt = "GPT-1.3B";
constexpr const char* kLlama = "Llama-1.1B";

template <class T>
MemoryCase unary(const char* kernel, const char* model, std::int64_t rows, std::int64_t width,
                 void (*run)(cuda::Stream, const T*, T*, std::int64_t)) {
  const std::int64_t n = rows * width;
  return {kernel, model, type_name<T>(), shape_of({rows, width}), "x -> out", 2.0 * n * sizeof(T), [=](Operands& o) {
            const T* x = o.numbers<T>(n);
            T* out = o.numbers<T>(n);
            return Body([=] { run(kStream, x, out, n); });
          }};
}

template <class T>
MemoryCase binary(const char* kernel, const char* model, std::int64_t rows, std::int64_t width,
                  void (*run)(cuda::Stream, const T*, const T*, T*, std::int64_t)) {
  const std::int64_t n = rows * width;
  return {kernel, model, type_name<T>(), shape_of({rows, width}), "x, y -> out", 3.0 * n * sizeof(T), [=](Operands& o) {
            const T *x = o.numbers<T>(n), *y = o.numbers<T>(n);
            T* out = o.numbers<T>(n);
            return Body([=] { run(kStream, x, y, out, n); });
          }};
}

template <class From, class To>
MemoryCase cast(const char* model, std::int64_t rows, std::int64_t width) {
  const std::int64_t n = rows * width;
  return {"convert",
          model,
          type_name<From>() + " to " + type_name<To>(),
          shape_of({rows, width}),
          "x -> out",
          1.0 * n * (sizeof(From) + sizeof(To)),
          [=](Operands& o) {
            const From* x = o.numbers<From>(n);
            To* out = o.numbers<To>(n);
            return Body([=] { cuda::convert(kStream, x, out, n); });
          }};
}

template <class T>
std::vector<MemoryCase> biases(std::int64_t rows, std::int64_t width) {
  const std::int64_t n = rows * width;
  return {{"bias_add", kGpt, type_name<T>(), shape_of({rows, width}), "x, bias -> out", (2.0 * n + width) * sizeof(T),
           [=](Operands& o) {
             const T *x = o.numbers<T>(n), *bias = o.numbers<T>(width);
             T* out = o.numbers<T>(n);
             return Body([=] { cuda::bias_add(kStream, x, bias, out, {rows, width, width}); });
           }},
          {"bias_gradient", kGpt, type_name<T>(), shape_of({rows, width}), "dy -> out", (1.0 * n + width) * sizeof(T),
           [=](Operands& o) {
             const T* dy = o.numbers<T>(n);
             T* out = o.numbers<T>(width);
             void* workspace = o.bytes(cuda::bias_gradient_workspace<T>({rows, width, width}) + 16);
             return Body([=] { cuda::bias_gradient(kStream, dy, out, {rows, width, width}, workspace); });
           }}};
}

template <class T>
MemoryCase dropout(std::int64_t rows, std::int64_t width) {
  const std::int64_t n = rows * width;
  return {"dropout", kGpt, type_name<T>(), shape_of({rows, width}), "x -> out", 2.0 * n * sizeof(T), [=](Operands& o) {
            const T* x = o.numbers<T>(n);
            T* out = o.numbers<T>(n);
            return Body([=] {
              const std::array<std::int64_t, 2> whole = {rows, width}, begin = {0, 0};
              cuda::dropout(kStream, x, out, {2, whole.data(), whole.data(), begin.data()}, {0.1, 7, 1, 0});
            });
          }};
}

// Half of the columns: what a split tensor sends and receives.
template <class T>
std::vector<MemoryCase> tiles(std::int64_t rows, std::int64_t width) {
  const std::int64_t half = width / 2, n = rows * half;
  const std::array<std::int64_t, 2> extent = {rows, half}, whole = {width, 1}, packed = {half, 1};
  const std::string shape = shape_of({rows, half}) + " of " + shape_of({rows, width});
  return {{"copy_tile (pack)", kGpt, type_name<T>(), shape, "tile -> packed", 2.0 * n * sizeof(T),
           [=](Operands& o) {
             const T* from = o.numbers<T>(rows * width);
             T* to = o.numbers<T>(n);
             return Body([=] { cuda::copy_tile<T>(kStream, extent, from, whole, to, packed); });
           }},
          {"copy_tile (unpack)", kGpt, type_name<T>(), shape, "packed -> tile", 2.0 * n * sizeof(T),
           [=](Operands& o) {
             const T* from = o.numbers<T>(n);
             T* to = o.numbers<T>(rows * width);
             return Body([=] { cuda::copy_tile<T>(kStream, extent, from, packed, to, whole); });
           }},
          {"add_tile (unpack and add)", kGpt, type_name<T>(), shape, "packed, tile -> tile", 3.0 * n * sizeof(T),
           [=](Operands& o) {
             const T* from = o.numbers<T>(n);
             T* to = o.numbers<T>(rows * width);
             return Body([=] { cuda::add_tile<T>(kStream, extent, from, packed, to, whole); });
           }}};
}

template <class T>
MemoryCase reduce_parts(std::int64_t n, int count) {
  return {"reduce (of " + std::to_string(count) + " devices)",
          kGpt,
          type_name<T>(),
          shape_of({n}),
          "parts -> out",
          1.0 * (count + 1) * n * sizeof(T),
          [=](Operands& o) {
            std::vector<const T*> parts;
            for (int part = 0; part < count; ++part) parts.push_back(o.numbers<T>(n));
            T* out = o.numbers<T>(n);
            const T* const* on_device = o.copied(parts);
            return Body([=] { cuda::reduce(kStream, on_device, count, out, n, kernels::Reduction::Sum); });
          }};
}

// (batch, seq, heads, head_dim) to (batch, heads, seq, head_dim), and a matrix to its transpose.
template <class T>
std::vector<MemoryCase> transpositions(const Sizes& s) {
  const std::int64_t n = s.tokens() * s.hidden(), width = s.hidden(), rows = s.tokens();
  const std::array<std::int64_t, 4> sizes = {s.batch, s.heads, s.seq, s.head_dim};
  const std::array<std::int64_t, 4> strides = {s.seq * width, s.head_dim, width, 1};
  const std::array<std::int64_t, 2> turned = {width, rows}, turned_strides = {1, width};
  return {{"copy_strided (heads first)", kGpt, type_name<T>(), shape_of({s.batch, s.seq, s.heads, s.head_dim}),
           "x -> out", 2.0 * n * sizeof(T),
           [=](Operands& o) {
             const T* x = o.numbers<T>(n);
             T* out = o.numbers<T>(n);
             return Body([=] { cuda::copy_strided<T>(kStream, x, strides, out, sizes); });
           }},
          {"copy_strided (transpose)", kGpt, type_name<T>(), shape_of({rows, width}), "x -> out", 2.0 * n * sizeof(T),
           [=](Operands& o) {
             const T* x = o.numbers<T>(n);
             T* out = o.numbers<T>(n);
             return Body([=] { cuda::copy_strided<T>(kStream, x, turned_strides, out, turned); });
           }}};
}

template <class T>
MemoryCase reduce_rows(std::int64_t rows, std::int64_t width) {
  const std::array<std::int64_t, 2> sizes = {rows, width};
  const std::array<char, 2> kept = {0, 1};
  return {"reduce_sum (of rows)",
          kGpt,
          type_name<T>(),
          shape_of({rows, width}),
          "x -> out",
          1.0 * (rows + 1) * width * sizeof(T),
          [=](Operands& o) {
            const T* x = o.numbers<T>(rows * width);
            T* out = o.numbers<T>(width);
            void* workspace = o.bytes(cuda::reduce_workspace<T>({sizes, kept}) + 16);
            return Body([=] { cuda::reduce_sum(kStream, x, out, {sizes, kept}, 1.0, workspace); });
          }};
}

void append(std::vector<MemoryCase>& all, std::vector<MemoryCase> more) {
  for (MemoryCase& one : more) all.push_back(std::move(one));
}

}  // namespace

std::vector<MemoryCase> elementwise_cases(const Sizes& s) {
  using T = cuda::Bf16;
  const std::int64_t tokens = s.tokens(), hidden = s.hidden();
  std::vector<MemoryCase> all = biases<T>(tokens, s.ffn);
  all.push_back(unary<T>("gelu", kGpt, tokens, s.ffn, cuda::activate<kernels::Activation::Gelu, T>));
  all.push_back(binary<T>("gelu_backward", kGpt, tokens, s.ffn, cuda::activate_backward<kernels::Activation::Gelu, T>));
  all.push_back(unary<T>("silu", kLlama, tokens, s.llama_ffn, cuda::activate<kernels::Activation::Silu, T>));
  all.push_back(
      binary<T>("silu_backward", kLlama, tokens, s.llama_ffn, cuda::activate_backward<kernels::Activation::Silu, T>));
  all.push_back(binary<T>("multiply", kLlama, tokens, s.llama_ffn, cuda::combine<kernels::Arithmetic::Multiply, T>));
  all.push_back(binary<T>("add", kGpt, tokens, hidden, cuda::combine<kernels::Arithmetic::Add, T>));
  all.push_back(binary<float>("add", kGpt, tokens, hidden, cuda::combine<kernels::Arithmetic::Add, float>));
  all.push_back(cast<float, T>(kGpt, hidden, s.ffn * 4));
  all.push_back(cast<T, float>(kGpt, hidden, s.ffn * 4));
  all.push_back(dropout<T>(tokens, hidden));
  append(all, tiles<T>(tokens, hidden));
  all.push_back(reduce_parts<float>(hidden * s.ffn, 4));
  all.push_back(reduce_parts<T>(hidden * s.ffn, 4));
  append(all, transpositions<T>(s));
  all.push_back(reduce_rows<T>(tokens, hidden));
  return all;
}

}  // namespace meshwright::bench
