// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu_kernels/cases.h"
#include "kernels/cuda/optimizer/optimizer.h"

namespace meshwright::bench {

namespace {

constexpr const char* kGpt = "GPT-1.3B";
constexpr kernels::AdamSettings kAdam{1e-4, 0.9, 0.95, 1e-8, 1, 0.1};

// A weight that has a float master copy beside it is only written.
template <class T, class G>
double adam_bytes(bool with_master) {
  const double states = 4.0 * sizeof(cuda::Wide<T>), master = 2.0 * sizeof(cuda::Wide<T>);
  return states + (with_master ? master + sizeof(T) : 2.0 * sizeof(T)) + sizeof(G);
}

template <class T, class G>
cuda::UpdatedTensor<T, G> updated(Operands& o, std::int64_t n, bool with_master) {
  using W = cuda::Wide<T>;
  return {
      o.numbers<T>(n), with_master ? o.numbers<W>(n) : nullptr, o.numbers<W>(n), o.numbers<W>(n), o.numbers<G>(n), n};
}

template <class T, class G>
MemoryCase adam(std::int64_t rows, std::int64_t width, bool with_master) {
  const std::int64_t n = rows * width;
  return {"adam_update",
          kGpt,
          type_name<T>() + ", gradient " + type_name<G>(),
          shape_of({rows, width}),
          with_master ? "master, moments, gradient -> master, moments, weight"
                      : "weight, moments, gradient -> weight, moments",
          n * adam_bytes<T, G>(with_master),
          [=](Operands& o) {
            const cuda::UpdatedTensor<T, G> t = updated<T, G>(o, n, with_master);
            return Body([=] { cuda::update(kStream, t, kAdam, {}); });
          }};
}

// The weights of so many layers in one call: four matrices, four biases and two pairs of a normalisation's
// parameters each.
MemoryCase adam_of_layers(const Sizes& s) {
  using T = cuda::Bf16;
  const std::int64_t h = s.hidden();
  std::vector<std::int64_t> sizes;
  std::int64_t total = 0;
  for (std::int64_t layer = 0; layer < s.layers; ++layer)
    for (const std::int64_t n : {3 * h * h, 3 * h, h * h, h, h * s.ffn, s.ffn, s.ffn * h, h, h, h, h, h}) {
      sizes.push_back(n);
      total += n;
    }
  return {"adam_update (of many tensors)",
          kGpt,
          "bf16, gradient f32",
          std::to_string(sizes.size()) + " tensors, " + std::to_string(total),
          "master, moments, gradient -> master, moments, weight",
          static_cast<double>(total) * adam_bytes<T, float>(true),
          [=](Operands& o) {
            std::vector<cuda::UpdatedTensor<T, float>> tensors;
            for (const std::int64_t n : sizes) tensors.push_back(updated<T, float>(o, n, true));
            return Body([=] { cuda::update<T, float>(kStream, tensors, kAdam, {}); });
          }};
}

template <class T, class G>
MemoryCase momentum(std::int64_t rows, std::int64_t width) {
  const std::int64_t n = rows * width;
  return {"momentum_update",
          "WRN-50-2",
          type_name<T>() + ", gradient " + type_name<G>(),
          shape_of({rows, width}),
          "master, velocity, gradient -> master, velocity, weight",
          n * (4.0 * sizeof(cuda::Wide<T>) + sizeof(T) + sizeof(G)),
          [=](Operands& o) {
            using W = cuda::Wide<T>;
            const cuda::UpdatedTensor<T, G> t{o.numbers<T>(n), o.numbers<W>(n), o.numbers<W>(n),
                                              nullptr,         o.numbers<G>(n), n};
            return Body([=] { cuda::update(kStream, t, kernels::MomentumSettings{1e-3, 0.9, 1e-4}, {}); });
          }};
}

template <class T>
MemoryCase norm(std::int64_t rows, std::int64_t width) {
  const std::int64_t n = rows * width;
  return {"sum_squares (global norm)",
          kGpt,
          type_name<T>(),
          shape_of({rows, width}),
          "gradient -> sum",
          1.0 * n * sizeof(T),
          [=](Operands& o) {
            const T* gradient = o.numbers<T>(n);
            auto* sum = o.numbers<cuda::Wide<T>>(1);
            void* workspace = o.bytes(cuda::sum_squares_workspace(n));
            return Body([=] { cuda::sum_squares(kStream, gradient, sum, n, workspace); });
          }};
}

template <class A, class G>
MemoryCase accumulation(std::int64_t rows, std::int64_t width) {
  const std::int64_t n = rows * width;
  return {"accumulate",
          kGpt,
          type_name<A>() + " += " + type_name<G>(),
          shape_of({rows, width}),
          "total, gradient -> total",
          n * (2.0 * sizeof(A) + sizeof(G)),
          [=](Operands& o) {
            A* total = o.numbers<A>(n);
            const G* gradient = o.numbers<G>(n);
            return Body([=] { cuda::accumulate(kStream, total, gradient, n); });
          }};
}

}  // namespace

std::vector<MemoryCase> update_cases(const Sizes& s) {
  using T = cuda::Bf16;
  const std::int64_t hidden = s.hidden();
  return {adam<T, float>(hidden, s.ffn, true),
          adam<T, T>(hidden, s.ffn, true),
          adam<float, float>(hidden, s.ffn, false),
          adam_of_layers(s),
          momentum<T, float>(hidden, s.ffn),
          norm<float>(hidden, 4 * s.ffn),
          norm<T>(hidden, 4 * s.ffn),
          accumulation<float, T>(hidden, s.ffn),
          accumulation<float, float>(hidden, s.ffn)};
}

}  // namespace meshwright::bench
