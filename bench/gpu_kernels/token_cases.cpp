// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "bench/gpu_kernels/cases.h"
#include "kernels/cpu/elementwise/random.h"
#include "kernels/cuda/attention/rotary.h"
#include "kernels/cuda/tokens/embedding.h"
#include "kernels/cuda/tokens/loss.h"
#include "kernels/cuda/tokens/mixture.h"

namespace meshwright::bench {

namespace {

using T = cuda::Bf16;
constexpr const char* kGpt = "GPT-1.3B";
constexpr const char* kMoe = "MoE-380M";
constexpr double kInteger = sizeof(std::int32_t), kWide = sizeof(float);

void add_embedding(std::vector<MemoryCase>& all, std::int64_t rows, std::int64_t vocab, std::int64_t width) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(rows));
  kernels::fill_integers(ids.data(), rows, Operands::kIntegersKey, 0, vocab);
  const auto met = static_cast<double>(std::set<std::int32_t>(ids.begin(), ids.end()).size());
  const std::string shape = shape_of({rows, width}) + " of " + std::to_string(vocab);
  const double moved = 1.0 * rows * width * sizeof(T), numbers = rows * kInteger;
  all.push_back({"embedding", kGpt, "bf16", shape, "ids, the rows that are met -> out",
                 moved + met * static_cast<double>(width) * sizeof(T) + numbers, [=](Operands& o) {
                   const std::int32_t* which = o.integers(rows, vocab);
                   const T* table = o.numbers<T>(vocab * width);
                   T* out = o.numbers<T>(rows * width);
                   return Body([=] { cuda::embedding(kStream, which, table, out, {rows, vocab, width, 0}); });
                 }});
  all.push_back(
      {"embedding_backward", kGpt, "bf16", shape, "ids, dy -> dtable",
       moved + 1.0 * vocab * width * sizeof(T) + numbers, [=](Operands& o) {
         const std::int32_t* which = o.integers(rows, vocab);
         const T* dy = o.numbers<T>(rows * width);
         T* dtable = o.numbers<T>(vocab * width);
         void* workspace = o.bytes(cuda::embedding_backward_workspace<T>({rows, vocab, width}));
         return Body([=] { cuda::embedding_backward(kStream, which, dy, dtable, {rows, vocab, width, 0}, workspace); });
       }});
}

void add_loss(std::vector<MemoryCase>& all, std::int64_t rows, std::int64_t width) {
  const std::int64_t n = rows * width;
  const std::string shape = shape_of({rows, width});
  const double logits = 1.0 * n * sizeof(T), per_row = rows * kWide;
  all.push_back({"row_max", kGpt, "bf16", shape, "logits -> maxima", logits + per_row, [=](Operands& o) {
                   const T* x = o.numbers<T>(n);
                   float* out = o.numbers<float>(rows);
                   return Body([=] { cuda::row_max(kStream, x, out, rows, width); });
                 }});
  all.push_back({"sum_exp", kGpt, "bf16", shape, "logits, maxima -> sums", logits + 2 * per_row, [=](Operands& o) {
                   const T* x = o.numbers<T>(n);
                   const float* largest = o.numbers<float>(rows);
                   float* out = o.numbers<float>(rows);
                   return Body([=] { cuda::sum_exp(kStream, x, largest, out, rows, width); });
                 }});
  all.push_back(
      {"cross_entropy_rows", kGpt, "bf16", shape, "logits -> maxima, sums", logits + 2 * per_row, [=](Operands& o) {
         const T* x = o.numbers<T>(n);
         float *largest = o.numbers<float>(rows), *sum = o.numbers<float>(rows);
         return Body([=] {
           cuda::cross_entropy_rows(kStream, x, nullptr, {.largest = largest, .sum = sum}, {rows, width, 0});
         });
       }});
  all.push_back(
      {"cross_entropy", kGpt, "f32", shape_of({rows}), "maxima, sums, picked -> loss", 3 * per_row, [=](Operands& o) {
         const float *largest = o.numbers<float>(rows), *sum = o.numbers<float>(rows), *picked = o.numbers<float>(rows);
         float* out = o.numbers<float>(1);
         void* workspace = o.bytes(cuda::loss_workspace());
         return Body([=] {
           cuda::cross_entropy<float>(kStream, {.largest = largest, .sum = sum, .picked = picked}, out, rows, {},
                                      workspace);
         });
       }});
  all.push_back({"cross_entropy_backward", kGpt, "bf16", shape, "logits, maxima, sums, labels -> dlogits",
                 2 * logits + 2 * per_row + rows * kInteger, [=](Operands& o) {
                   const T* x = o.numbers<T>(n);
                   const float *largest = o.numbers<float>(rows), *sum = o.numbers<float>(rows);
                   const std::int32_t* labels = o.integers(rows, width);
                   T* dx = o.numbers<T>(n);
                   return Body([=] {
                     cuda::cross_entropy_backward<T>(kStream, x, {.largest = largest, .sum = sum, .labels = labels}, dx,
                                                     {rows, width, 0}, {});
                   });
                 }});
}

void add_rotary(std::vector<MemoryCase>& all, const Sizes& s) {
  const std::int64_t n = s.tokens() * s.hidden();
  const cuda::RotaryShape shape{s.batch, s.seq, s.heads, s.head_dim, s.head_dim, 0, 10000.0};
  for (const bool back : {false, true})
    all.push_back({back ? "rotary (back)" : "rotary", "Llama-1.1B", "bf16",
                   shape_of({s.batch, s.seq, s.heads, s.head_dim}), "x -> out", 2.0 * n * sizeof(T), [=](Operands& o) {
                     const T* x = o.numbers<T>(n);
                     T* out = o.numbers<T>(n);
                     return Body([=] { cuda::rotary(kStream, x, out, shape, back); });
                   }});
}

// What the kernels of a mixture share: slots as the gate gives them.
struct Mixture {
  kernels::MixtureShape shape;
  std::int64_t top_k;

  [[nodiscard]] std::int64_t rows() const { return shape.batch * shape.seq; }
  [[nodiscard]] std::int64_t scores() const { return rows() * shape.experts; }
  [[nodiscard]] std::int64_t tokens() const { return rows() * shape.embed; }
  [[nodiscard]] std::int64_t buffer() const { return shape.experts * shape.batch * shape.capacity * shape.embed; }
  [[nodiscard]] std::int32_t* workspace(Operands& o) const {
    return o.integers(std::max(rows() * top_k, shape.experts * shape.batch * shape.capacity), 1);
  }
  [[nodiscard]] std::int32_t* slots(Operands& o) const {
    std::int32_t* const slots = o.integers(scores(), 1);
    cuda::top_k_slots(kStream, o.numbers<T>(scores()), slots, shape, top_k, workspace(o));
    return slots;
  }
};

void add_gating(std::vector<MemoryCase>& all, const Mixture& m) {
  const std::string shape = shape_of({m.rows(), m.shape.experts});
  const double scores = 1.0 * m.scores() * sizeof(T), slots = m.scores() * kInteger;
  all.push_back({"top_k_slots", kMoe, "bf16", shape, "scores -> slots", scores + slots, [=](Operands& o) {
                   const T* x = o.numbers<T>(m.scores());
                   std::int32_t* out = o.integers(m.scores(), 1);
                   std::int32_t* workspace = m.workspace(o);
                   return Body([=] { cuda::top_k_slots(kStream, x, out, m.shape, m.top_k, workspace); });
                 }});
  all.push_back({"gate_weights", kMoe, "bf16", shape, "scores, slots -> weights", 2 * scores + slots, [=](Operands& o) {
                   const T* x = o.numbers<T>(m.scores());
                   const std::int32_t* taken = m.slots(o);
                   T* out = o.numbers<T>(m.scores());
                   return Body([=] { cuda::gate_weights(kStream, x, taken, out, {m.rows(), m.shape.experts, true}); });
                 }});
  all.push_back({"gate_weights_backward", kMoe, "bf16", shape, "scores, slots, dy -> dscores", 3 * scores + slots,
                 [=](Operands& o) {
                   const T *x = o.numbers<T>(m.scores()), *dy = o.numbers<T>(m.scores());
                   const std::int32_t* taken = m.slots(o);
                   T* out = o.numbers<T>(m.scores());
                   return Body([=] {
                     cuda::gate_weights_backward(kStream, x, taken, dy, out, {m.rows(), m.shape.experts, true});
                   });
                 }});
  all.push_back({"one_hot_slots", kMoe, "bf16", shape_of({m.rows(), m.shape.capacity, m.shape.experts}),
                 "slots -> mask", slots + scores * static_cast<double>(m.shape.capacity), [=](Operands& o) {
                   const std::int32_t* taken = m.slots(o);
                   T* mask = o.numbers<T>(m.scores() * m.shape.capacity);
                   return Body([=] {
                     cuda::one_hot_slots(kStream, taken, mask, {m.rows(), m.shape.capacity, m.shape.experts, 0});
                   });
                 }});
}

void add_dispatch(std::vector<MemoryCase>& all, const Mixture& m) {
  const std::string shape = shape_of({m.rows(), m.shape.embed}) + " and " +
                            shape_of({m.shape.experts, m.shape.batch * m.shape.capacity, m.shape.embed});
  const double both = 1.0 * (m.tokens() + m.buffer()) * sizeof(T);
  const double slots = m.scores() * kInteger, weights = 1.0 * m.scores() * sizeof(T);
  for (const bool weighted : {false, true}) {
    all.push_back({weighted ? "scatter_tokens (combine backward)" : "scatter_tokens (dispatch)", kMoe, "bf16", shape,
                   weighted ? "tokens, slots, weights -> buffer" : "tokens, slots -> buffer",
                   both + slots + (weighted ? weights : 0.0), [=](Operands& o) {
                     const T* tokens = o.numbers<T>(m.tokens());
                     const std::int32_t* taken = m.slots(o);
                     const T* factors = weighted ? o.numbers<T>(m.scores()) : nullptr;
                     T* buffer = o.numbers<T>(m.buffer());
                     std::int32_t* workspace = m.workspace(o);
                     return Body(
                         [=] { cuda::scatter_tokens(kStream, tokens, taken, factors, buffer, m.shape, workspace); });
                   }});
    all.push_back({weighted ? "gather_tokens (combine)" : "gather_tokens (dispatch backward)", kMoe, "bf16", shape,
                   weighted ? "buffer, slots, weights -> tokens" : "buffer, slots -> tokens",
                   both + slots + (weighted ? weights : 0.0), [=](Operands& o) {
                     const T* buffer = o.numbers<T>(m.buffer());
                     const std::int32_t* taken = m.slots(o);
                     const T* factors = weighted ? o.numbers<T>(m.scores()) : nullptr;
                     T* tokens = o.numbers<T>(m.tokens());
                     return Body([=] { cuda::gather_tokens(kStream, buffer, taken, factors, tokens, m.shape); });
                   }});
  }
  all.push_back({"gather_weights_backward", kMoe, "bf16", shape, "buffer, slots, dout -> dweights",
                 both + slots + weights, [=](Operands& o) {
                   const T *buffer = o.numbers<T>(m.buffer()), *dout = o.numbers<T>(m.tokens());
                   const std::int32_t* taken = m.slots(o);
                   T* out = o.numbers<T>(m.scores());
                   return Body([=] { cuda::gather_weights_backward(kStream, buffer, taken, dout, out, m.shape); });
                 }});
}

}  // namespace

std::vector<MemoryCase> token_cases(const Sizes& s) {
  std::vector<MemoryCase> all;
  add_embedding(all, s.tokens(), s.vocab, s.hidden());
  add_loss(all, s.tokens(), s.vocab);
  add_rotary(all, s);
  const Mixture mixture{{s.moe_batch, s.seq, s.experts, s.capacity(), s.moe_embed}, s.top_k};
  add_gating(all, mixture);
  add_dispatch(all, mixture);
  return all;
}

}  // namespace meshwright::bench
