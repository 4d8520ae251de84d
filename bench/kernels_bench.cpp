// SPDX-License-Identifier: Apache-2.0
// How fast the CPU kernels are on one core: products in GFLOP/s, passes in GB/s of operands read and results written.
#include <benchmark/benchmark.h>

#include <vector>

#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/convolution/convolution.h"
#include "kernels/cpu/convolution/gathered_convolution.h"
#include "kernels/cpu/elementwise/elementwise.h"
#include "kernels/cpu/elementwise/random.h"
#include "kernels/cpu/norms/row_norms.h"
#include "kernels/cpu/optimizer/optimizer.h"
#include "kernels/cpu/products/gemm.h"
#include "kernels/cpu/tokens/loss.h"

namespace meshwright::kernels {
namespace {

template <class T>
std::vector<T> numbers(std::int64_t n) {
  std::vector<T> values(static_cast<std::size_t>(n));
  fill_uniform(values.data(), n, 1, 0, -1.0, 1.0);
  return values;
}

void count_flops(benchmark::State& state, double per_iteration) {
  state.counters["GFLOP/s"] = benchmark::Counter(per_iteration * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}
void count_bytes(benchmark::State& state, double per_iteration) {
  state.counters["GB/s"] = benchmark::Counter(per_iteration * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

template <class T>
void gemm_square(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const std::vector<T> a = numbers<T>(n * n), b = numbers<T>(n * n);
  std::vector<T> c = numbers<T>(n * n);
  for (auto _ : state) gemm({false, false, n, n, n, n, n, n}, a.data(), b.data(), c.data());
  count_flops(state, 2.0 * static_cast<double>(n * n * n));
}
BENCHMARK(gemm_square<float>)->Arg(64)->Arg(512)->Arg(1024)->UseRealTime();
BENCHMARK(gemm_square<double>)->Arg(64)->Arg(512)->Arg(1024)->UseRealTime();

// A convolution and its two gradients: 16 images of so many rows and columns, windows of 3 x 3, so many channels to
// twice as many. `gathered`: as products, whatever the number of windows; otherwise as float chooses.
template <bool gathered>
void convolution_passes(benchmark::State& state) {
  const std::int64_t batch = 16, size = state.range(0), in = state.range(1), out = 2 * in;
  const Windows windows{size, size, 3, 1, 1};
  const ConvolutionShape shape{batch, 1, in, out, windows, windows};
  const std::vector<float> x = numbers<float>(batch * size * size * in), w = numbers<float>(9 * in * out),
                           dy = numbers<float>(batch * size * size * out);
  std::vector<float> y = dy, dx = x, dw = w;
  for (auto _ : state)
    if constexpr (gathered) {
      gathered_convolution(x.data(), w.data(), y.data(), shape);
      gathered_convolution_backward_input(w.data(), dy.data(), dx.data(), shape);
      gathered_convolution_backward_weight(x.data(), dy.data(), dw.data(), shape);
    } else {
      convolution(x.data(), w.data(), y.data(), shape);
      convolution_backward_input(w.data(), dy.data(), dx.data(), shape);
      convolution_backward_weight(x.data(), dy.data(), dw.data(), shape);
    }
  count_flops(state, 6.0 * static_cast<double>(batch * size * size * 9 * in * out));
}
BENCHMARK(convolution_passes<false>)->Args({16, 64})->Args({8, 128})->Args({4, 256})->Args({2, 512})->UseRealTime();
BENCHMARK(convolution_passes<true>)->Args({16, 64})->Args({8, 128})->Args({4, 256})->Args({2, 512})->UseRealTime();

void gelu_pass(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const std::vector<float> x = numbers<float>(n);
  std::vector<float> y = numbers<float>(n);
  for (auto _ : state) activate<Activation::Gelu>(x.data(), y.data(), n);
  count_bytes(state, 8.0 * static_cast<double>(n));
}
BENCHMARK(gelu_pass)->Arg(1 << 16)->Arg(1 << 22);

void gelu_backward_pass(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const std::vector<float> x = numbers<float>(n), dy = numbers<float>(n);
  std::vector<float> dx = numbers<float>(n);
  for (auto _ : state) activate_backward<Activation::Gelu>(x.data(), dy.data(), dx.data(), n);
  count_bytes(state, 12.0 * static_cast<double>(n));
}
BENCHMARK(gelu_backward_pass)->Arg(1 << 16)->Arg(1 << 22);

void adam_pass(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const std::vector<float> g = numbers<float>(n);
  std::vector<float> w = numbers<float>(n), m = g, v(g.size(), 1.0f);
  for (auto _ : state)
    update<float>({w.data(), nullptr, m.data(), v.data(), g.data(), n}, AdamSettings{1e-3, 0.9, 0.999, 1e-8, 3});
  count_bytes(state, 28.0 * static_cast<double>(n));
}
BENCHMARK(adam_pass)->Arg(1 << 16)->Arg(1 << 22);

void layer_norm_pass(benchmark::State& state) {
  const std::int64_t rows = 512, width = state.range(0);
  const std::vector<float> x = numbers<float>(rows * width), gamma = numbers<float>(width),
                           beta = numbers<float>(width);
  std::vector<float> y = x;
  for (auto _ : state) row_norm<Norm::Layer>(x.data(), gamma.data(), beta.data(), y.data(), {rows, width, 1e-5});
  count_bytes(state, 8.0 * static_cast<double>(rows * width));
}
BENCHMARK(layer_norm_pass)->Arg(64)->Arg(1024);

void sum_exp_pass(benchmark::State& state) {
  const std::int64_t rows = 64, width = state.range(0);
  const std::vector<float> x = numbers<float>(rows * width), largest = numbers<float>(rows);
  std::vector<float> sums(static_cast<std::size_t>(rows));
  for (auto _ : state) sum_exp(x.data(), largest.data(), sums.data(), rows, width);
  count_bytes(state, 4.0 * static_cast<double>(rows * width));
}
BENCHMARK(sum_exp_pass)->Arg(128)->Arg(50000);

void uniform_pass(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  std::vector<float> x = numbers<float>(n);
  for (auto _ : state) fill_uniform(x.data(), n, 7, 0, -1.0, 1.0);
  count_bytes(state, 4.0 * static_cast<double>(n));
}
BENCHMARK(uniform_pass)->Arg(1 << 16);

// The causal half: 2 b s^2 h d for the two products of the forward pass, 4 b s^2 h d for the backward pass's four.
void attention_pass(benchmark::State& state) {
  const AttentionShape shape = AttentionShape::packed(1, state.range(0), 4, 64);
  const std::int64_t out = shape.seq * shape.kv_heads * shape.key_dim;
  const std::vector<float> qkv = numbers<float>(3 * out);
  std::vector<float> result = numbers<float>(out);
  const AttentionCall<float> call{shape, packed_views(qkv.data(), shape), {0.125, true, 0, 0}};
  for (auto _ : state) attention(call, result.data());
  count_flops(state, 2.0 * static_cast<double>(shape.seq * out));
  count_bytes(state, 16.0 * static_cast<double>(out));
}
BENCHMARK(attention_pass)->Arg(128)->Arg(1024)->UseRealTime();

void attention_backward_pass(benchmark::State& state) {
  const AttentionShape shape = AttentionShape::packed(1, state.range(0), 4, 64);
  const std::int64_t out = shape.seq * shape.kv_heads * shape.key_dim;
  const std::vector<float> qkv = numbers<float>(3 * out), dout = numbers<float>(out);
  std::vector<float> result = numbers<float>(3 * out);
  const AttentionCall<float> call{shape, packed_views(qkv.data(), shape), {0.125, true, 0, 0}};
  const AttentionGradients<float> gradients{packed_views(result.data(), shape)};
  for (auto _ : state) attention_backward(call, dout.data(), gradients);
  count_flops(state, 4.0 * static_cast<double>(shape.seq * out));
  count_bytes(state, 28.0 * static_cast<double>(out));
}
BENCHMARK(attention_backward_pass)->Arg(128)->Arg(1024)->UseRealTime();

}  // namespace
}  // namespace meshwright::kernels
