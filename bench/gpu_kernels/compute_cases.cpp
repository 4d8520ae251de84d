// SPDX-License-Identifier: Apache-2.0
// What computes more than it moves: products of matrices, forward, of the gradient to the input and to the weight;
// convolutions; attention. The operations are those of the model: attention that computes its scores again counts them
// once.
#include "bench/gpu_kernels/cases.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/convolution/convolution.h"
#include "kernels/cuda/convolution/convolution_cudnn.h"
#include "kernels/cuda/products/products.h"

namespace meshwright::bench {

namespace {

template <class T>
ProductCase product_case(std::string kernel, const char* model, const cuda::Product& p) {
  const std::int64_t a = p.m * p.k, b = p.k * p.n, c = p.m * p.n;
  std::string shape = shape_of({p.m, p.n, p.k}) + (p.batch > 1 ? " times " + std::to_string(p.batch) : "");
  const double flops = 2.0 * static_cast<double>(p.batch) * static_cast<double>(c) * static_cast<double>(p.k);
  return {
      std::move(kernel), model, type_name<T>(), std::move(shape), flops, [=](Operands& o, std::size_t l2, int maximum) {
        const T *left = o.numbers<T>(p.batch * a), *right = o.numbers<T>(p.batch * b);
        T* out = o.numbers<T>(p.batch * c);
        cuda::Products products(true, {.l2 = l2});
        return products.time_algorithms(kStream, p, left, right, out, maximum);
      }};
}

// x (rows, in) times w (in, out), and its gradients.
template <class T>
void add_layer(std::vector<ProductCase>& all, const char* model, const std::string& name, std::int64_t rows,
               std::int64_t in, std::int64_t out, std::int64_t batch = 1) {
  const auto product = [&](bool ta, bool tb, std::int64_t m, std::int64_t n, std::int64_t k) {
    return cuda::Product{ta, tb, m, n, k, ta ? m : k, tb ? k : n, n, batch, m * k, k * n, m * n};
  };
  all.push_back(product_case<T>(name, model, product(false, false, rows, out, in)));
  all.push_back(product_case<T>(name + " (to x)", model, product(false, true, rows, in, out)));
  all.push_back(product_case<T>(name + " (to w)", model, product(true, false, in, out, rows)));
}

template <class T>
Rate convolution_rate(Operands& o, cuda::ConvolutionPass pass, const kernels::ConvolutionShape& s) {
  const std::int64_t x = s.batch * s.rows.from * s.columns.from * s.in, w = s.rows.size * s.columns.size * s.in * s.out,
                     y = s.batch * s.rows.to * s.columns.to * s.out;
  const bool forward = pass == cuda::ConvolutionPass::Forward, to_x = pass == cuda::ConvolutionPass::BackwardInput;
  const T* const first = o.numbers<T>(to_x ? w : x);
  const T* const second = o.numbers<T>(forward ? w : y);
  T* const result = o.numbers<T>(forward ? y : to_x ? x : w);
  if (cuda::CudnnConvolutions::are_built()) {
    const auto library = std::make_shared<cuda::CudnnConvolutions>(true);
    if (library->runs<T>(pass, s)) {
      void* const room = o.bytes(library->workspace<T>(pass, s) + 16);
      return {[=] { library->run(kStream, pass, s, first, second, result, room); }, "cuDNN"};
    }
  }
  const std::string own = "own kernel";
  if (forward) return {[=] { cuda::convolution(kStream, first, second, result, s); }, own};
  if (to_x) return {[=] { cuda::convolution_backward_input(kStream, first, second, result, s); }, own};
  void* const workspace = o.bytes(cuda::convolution_backward_weight_workspace<T>(s) + 16);
  return {[=] { cuda::convolution_backward_weight(kStream, first, second, result, s, workspace); }, own};
}

template <class T>
void add_convolution(std::vector<ComputeCase>& all, const kernels::ConvolutionShape& s) {
  const double places = static_cast<double>(s.batch * s.rows.to * s.columns.to);
  const double taps = static_cast<double>(s.rows.size * s.columns.size * s.in * s.out);
  const std::string shape = shape_of({s.batch, s.rows.from, s.columns.from, s.in}) + " by " +
                            shape_of({s.rows.size, s.columns.size, s.in, s.out}) +
                            (s.rows.stride > 1 ? "/" + std::to_string(s.rows.stride) : "");
  using Pass = cuda::ConvolutionPass;
  for (const auto& [name, pass] : {std::pair("convolution", Pass::Forward),
                                   {"convolution (to x)", Pass::BackwardInput},
                                   {"convolution (to w)", Pass::BackwardWeight}})
    all.push_back({name, "WRN-50-2", type_name<T>(), shape, 2.0 * places * taps,
                   [=, of = pass](Operands& o) { return convolution_rate<T>(o, of, s); }});
}

}  // namespace

std::vector<ProductCase> product_cases(const Sizes& s) {
  using T = cuda::Bf16;
  const std::int64_t tokens = s.tokens(), hidden = s.hidden();
  std::vector<ProductCase> all;
  add_layer<T>(all, "GPT-1.3B", "q, k, v", tokens, hidden, 3 * hidden);
  add_layer<T>(all, "GPT-1.3B", "attention out", tokens, hidden, hidden);
  add_layer<T>(all, "GPT-1.3B", "up", tokens, hidden, s.ffn);
  add_layer<T>(all, "GPT-1.3B", "down", tokens, s.ffn, hidden);
  add_layer<T>(all, "GPT-1.3B", "logits", tokens, hidden, s.vocab);
  add_layer<T>(all, "Llama-1.1B", "k or v", tokens, hidden, s.llama_kv_heads * s.head_dim);
  add_layer<T>(all, "Llama-1.1B", "gate or up", tokens, hidden, s.llama_ffn);
  add_layer<T>(all, "Llama-1.1B", "down", tokens, s.llama_ffn, hidden);
  add_layer<T>(all, "MoE-380M", "experts' up", s.moe_batch * s.capacity(), s.moe_embed, 4 * s.moe_embed, s.experts);
  add_layer<T>(all, "MoE-380M", "experts' down", s.moe_batch * s.capacity(), 4 * s.moe_embed, s.moe_embed, s.experts);
  add_layer<T>(all, "WRN-50-2", "1x1 convolution", s.images * s.side * s.side, s.wide(), s.narrow);
  add_layer<float>(all, "GPT-1.3B", "up, as TF32", tokens, hidden, s.ffn);
  return all;
}

std::vector<ComputeCase> convolution_cases(const Sizes& s) {
  std::vector<ComputeCase> all;
  for (std::int64_t stage = 0; stage < 4 && s.side >> stage > 1; ++stage) {
    const std::int64_t side = s.side >> stage, channels = s.narrow << stage;
    const kernels::Windows same{side, side, 3, 1, 1};
    add_convolution<cuda::Bf16>(all, {s.images, 1, channels, channels, same, same});
  }
  const kernels::Windows halved{s.side, s.side / 2, 3, 2, 1};
  add_convolution<cuda::Bf16>(all, {s.images, 1, s.wide(), s.wide(), halved, halved});
  return all;
}

std::vector<ComputeCase> attention_cases(const Sizes& s) {
  using T = cuda::Bf16;
  std::vector<ComputeCase> all;
  const auto shape = kernels::AttentionShape::packed(s.batch, s.seq, s.heads, s.head_dim);
  const cuda::AttentionRule<T> packed_rule{1.0 / std::sqrt(static_cast<double>(s.head_dim)), true, 0, 0};
  const std::int64_t n = s.tokens() * s.hidden();
  // Two products of a query with every key up to its own.
  const double pairs =
      0.5 * static_cast<double>(s.batch * s.heads) * static_cast<double>(s.seq) * static_cast<double>(s.seq + 1);
  const double forward = 2.0 * 2.0 * pairs * static_cast<double>(s.head_dim);
  const std::string sizes = shape_of({s.batch, s.seq, s.heads, s.head_dim});
  all.push_back({"attention", "GPT-1.3B", "bf16", sizes, forward, [=](Operands& o) {
                   const T* qkv = o.numbers<T>(3 * n);
                   T* out = o.numbers<T>(n);
                   const cuda::AttentionCall<T> call{shape, kernels::packed_views(qkv, shape), packed_rule};
                   return Rate{[=] { cuda::attention<T>(kStream, call, out); }, "own kernel"};
                 }});
  all.push_back(
      {"attention_backward", "GPT-1.3B", "bf16", sizes, 2.0 * forward, [=](Operands& o) {
         const T *qkv = o.numbers<T>(3 * n), *dout = o.numbers<T>(n);
         T* dqkv = o.numbers<T>(3 * n);
         void* workspace = o.bytes(cuda::attention_backward_workspace<T>(shape, false) + 16);
         const cuda::AttentionCall<T> call{shape, kernels::packed_views(qkv, shape), packed_rule};
         const cuda::AttentionGradients<T> gradients{kernels::packed_views(dqkv, shape)};
         return Rate{[=] { cuda::attention_backward<T>(kStream, call, dout, gradients, workspace); }, "own kernel"};
       }});
  const kernels::AttentionShape grouped{s.batch,    s.seq,     s.seq, s.llama_kv_heads, s.heads / s.llama_kv_heads,
                                        s.head_dim, s.head_dim};
  const std::int64_t kv = s.tokens() * s.llama_kv_heads * s.head_dim;
  const cuda::AttentionRule<T> rule{0.125, true, 0, 0};
  const std::string of_groups = sizes + ", " + std::to_string(s.llama_kv_heads) + " of k, v";
  all.push_back({"grouped_attention", "Llama-1.1B", "bf16", of_groups, forward, [=](Operands& o) {
                   const T *q = o.numbers<T>(n), *k = o.numbers<T>(kv), *v = o.numbers<T>(kv);
                   T* out = o.numbers<T>(n);
                   const cuda::AttentionCall<T> call{grouped, kernels::separate_views(q, k, v, grouped), rule};
                   return Rate{[=] { cuda::attention<T>(kStream, call, out); }, "own kernel"};
                 }});
  all.push_back(
      {"grouped_attention_backward", "Llama-1.1B", "bf16", of_groups, 2.0 * forward, [=](Operands& o) {
         const T *q = o.numbers<T>(n), *k = o.numbers<T>(kv), *v = o.numbers<T>(kv), *dout = o.numbers<T>(n);
         T *dq = o.numbers<T>(n), *dk = o.numbers<T>(kv), *dv = o.numbers<T>(kv);
         void* workspace = o.bytes(cuda::attention_backward_workspace<T>(grouped, false) + 16);
         const cuda::AttentionCall<T> call{grouped, kernels::separate_views(q, k, v, grouped), rule};
         const cuda::AttentionGradients<T> gradients{kernels::separate_views(dq, dk, dv, grouped)};
         return Rate{[=] { cuda::attention_backward<T>(kStream, call, dout, gradients, workspace); }, "own kernel"};
       }});
  return all;
}

}  // namespace meshwright::bench
