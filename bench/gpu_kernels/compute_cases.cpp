// SPDX-License-Identifier: Apache-2.0
// What computes more than it moves: products of matrices, forward, of the gradient to the input and to the weight;
// convolutions; attention. The operations are those of the model: attention that computes its scores again counts them
// once.
#include "bench/gpu_kernels/cases.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_cudnn.h"
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

// A model's attention, causal.
template <class T>
struct AttentionCase {
  const char *kernel, *model;
  kernels::AttentionShape shape;
  bool packed;

  [[nodiscard]] std::int64_t queries() const { return shape.batch * shape.seq * shape.heads() * shape.key_dim; }
  [[nodiscard]] std::int64_t keys() const { return shape.batch * shape.kv_seq * shape.kv_heads * shape.key_dim; }
  // Two products of a query with every key up to its own.
  [[nodiscard]] double flops() const {
    const double pairs =
        0.5 * static_cast<double>(shape.batch * shape.heads() * shape.seq) * static_cast<double>(shape.seq + 1);
    return 2.0 * 2.0 * pairs * static_cast<double>(shape.key_dim);
  }
  [[nodiscard]] std::string sizes() const {
    return shape_of({shape.batch, shape.seq, shape.heads(), shape.key_dim}) +
           (packed ? "" : ", " + std::to_string(shape.kv_heads) + " of k, v");
  }
  // Of operands (const T) or of gradients (T).
  template <class Element>
  [[nodiscard]] kernels::AttentionViews<Element> views(Operands& o) const {
    if (packed) return kernels::packed_views<Element>(o.numbers<T>(3 * queries()), shape);
    T *q = o.numbers<T>(queries()), *k = o.numbers<T>(keys()), *v = o.numbers<T>(keys());
    return kernels::separate_views<Element>(q, k, v, shape);
  }
  [[nodiscard]] cuda::AttentionCall<T> call(Operands& o) const {
    return {shape, views<const T>(o), {1.0 / std::sqrt(static_cast<double>(shape.key_dim)), true, 0, 0}};
  }
};

std::string own_instead_of(const cuda::CudnnAttention& library) { return "own kernel: " + library.answer(); }

template <class T>
Rate attention_rate(Operands& o, const AttentionCase<T>& of, bool by_library) {
  const cuda::AttentionCall<T> call = of.call(o);
  T* const out = o.numbers<T>(of.queries());
  std::string own = "own kernel";
  if (by_library) {
    const auto library = std::make_shared<cuda::CudnnAttention>();
    if (library->runs<T>(call, out)) {
      void* const room = o.bytes(library->workspace<T>(call) + 16);
      return {[=] { library->run<T>(kStream, call, out, nullptr, room); }, "cuDNN, " + library->answer()};
    }
    own = own_instead_of(*library);
  }
  return {[=] { cuda::attention<T>(kStream, call, out); }, own};
}

template <class T>
Rate attention_backward_rate(Operands& o, const AttentionCase<T>& of, bool by_library) {
  const cuda::AttentionCall<T> call = of.call(o);
  const T* const dout = o.numbers<T>(of.queries());
  const cuda::AttentionGradients<T> gradients{of.template views<T>(o)};
  std::string own = "own kernel";
  if (by_library) {
    const auto library = std::make_shared<cuda::CudnnAttention>();
    if (library->runs_backward<T>(call, dout, gradients)) {
      void* const room = o.bytes(library->backward_workspace<T>(call, gradients) + 16);
      return {[=] { library->run_backward<T>(kStream, call, nullptr, nullptr, dout, gradients, room); },
              "cuDNN, " + library->answer()};
    }
    own = own_instead_of(*library);
  }
  void* const workspace = o.bytes(cuda::attention_backward_workspace<T>(of.shape, false) + 16);
  return {[=] { cuda::attention_backward<T>(kStream, call, dout, gradients, workspace); }, own};
}

template <class T>
void add_attention(std::vector<ComputeCase>& all, const AttentionCase<T>& of) {
  for (const bool by_library : {true, false}) {
    if (by_library && !cuda::CudnnAttention::are_built()) continue;
    all.push_back({of.kernel, of.model, type_name<T>(), of.sizes(), of.flops(),
                   [=](Operands& o) { return attention_rate<T>(o, of, by_library); }});
    all.push_back({std::string(of.kernel) + "_backward", of.model, type_name<T>(), of.sizes(), 2.0 * of.flops(),
                   [=](Operands& o) { return attention_backward_rate<T>(o, of, by_library); }});
  }
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
  add_attention<T>(
      all, {"attention", "GPT-1.3B", kernels::AttentionShape::packed(s.batch, s.seq, s.heads, s.head_dim), true});
  const auto grouped = [&](std::int64_t batch, std::int64_t seq, std::int64_t kv_heads, std::int64_t head_dim) {
    return kernels::AttentionShape{batch, seq, seq, kv_heads, s.heads / kv_heads, head_dim, head_dim};
  };
  add_attention<T>(all,
                   {"grouped_attention", "Llama-1.1B", grouped(s.batch, s.seq, s.llama_kv_heads, s.head_dim), false});
  add_attention<T>(all, {"grouped_attention", "Llama-8B",
                         grouped(s.long_batch, s.long_seq, s.long_kv_heads, s.long_head_dim), false});
  return all;
}

}  // namespace meshwright::bench
