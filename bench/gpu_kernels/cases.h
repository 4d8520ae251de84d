// SPDX-License-Identifier: Apache-2.0
// What gpu_kernels measures: each kernel of kernels/cuda as training calls it, with the bytes that it must move at
// least (each operand read once and each result written once, whatever the kernel does) or the operations that the
// model asks of it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/errors.h"
#include "kernels/cuda/elementwise/random.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::bench {

namespace cuda = kernels::cuda;

// GPT-1.3B and a Llama of 1.1B parameters at 16 sequences of 1024, one of 8B at 2 of 4096, a mixture of 8 experts at 32
// of them, and Wide-ResNet-50-2 at 256 images; tiny: sizes that an emulator computes at once.
struct Sizes {
  std::int64_t batch = 16, seq = 1024, heads = 32, head_dim = 64, ffn = 8192, vocab = 51200;
  std::int64_t llama_ffn = 5632, llama_kv_heads = 4;
  std::int64_t long_batch = 2, long_seq = 4096, long_kv_heads = 8, long_head_dim = 128;
  std::int64_t moe_batch = 32, moe_embed = 768, experts = 8, top_k = 2;
  std::int64_t images = 256, side = 56, narrow = 128;  // channels inside a block of the first stage
  std::int64_t layers = 24;                            // whose weights are updated in one call

  [[nodiscard]] std::int64_t tokens() const { return batch * seq; }
  [[nodiscard]] std::int64_t hidden() const { return heads * head_dim; }
  [[nodiscard]] std::int64_t capacity() const { return seq * top_k / experts; }
  [[nodiscard]] std::int64_t wide() const { return 2 * narrow; }
};
inline constexpr Sizes kTiny{2, 16, 2, 16, 64, 96, 48, 1, 1, 32, 1, 16, 2, 32, 4, 2, 2, 8, 8, 1};

// Device memory of a case, given back at its end.
class Operands {
 public:
  Operands() = default;
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;
  ~Operands() {
    for (void* data : owned_) cuda::release(data);
  }

  [[nodiscard]] void* bytes(std::size_t size) {
    owned_.push_back(cuda::allocate(size));
    return owned_.back();
  }
  // From 0.5 to 1: sums of exponentials and second moments are positive.
  template <class T>
  [[nodiscard]] T* numbers(std::int64_t n) {
    T* const data = static_cast<T*>(bytes(static_cast<std::size_t>(n) * sizeof(T)));
    cuda::fill_uniform(cuda::Stream{}, data, n, owned_.size(), 0, 0.5, 1.0);
    return data;
  }
  [[nodiscard]] std::int32_t* integers(std::int64_t n, std::int64_t bound) {
    auto* const data = static_cast<std::int32_t*>(bytes(static_cast<std::size_t>(n) * sizeof(std::int32_t)));
    cuda::fill_integers(cuda::Stream{}, data, n, kIntegersKey, 0, bound);
    return data;
  }
  template <class Value>
  [[nodiscard]] Value* copied(const std::vector<Value>& values) {
    auto* const data = static_cast<Value*>(bytes(values.size() * sizeof(Value)));
    cuda::copy_to_device(data, values.data(), values.size() * sizeof(Value), cuda::Stream{});
    cuda::synchronize(cuda::Stream{});
    return data;
  }

  static constexpr std::uint64_t kIntegersKey = 17;

 private:
  std::vector<void*> owned_;
};

using Body = std::function<void()>;  // on the stream that is the default one
inline constexpr cuda::Stream kStream{};

struct MemoryCase {
  std::string kernel, model, type, shape;
  std::string moves;   // which operands the bytes are of: "x, gamma -> out"
  double bytes = 0.0;  // at least
  std::function<Body(Operands&)> prepare;
};

struct Rate {
  Body body;
  std::string by;  // "cuDNN", "own tensor-core kernel"
};
struct ComputeCase {
  std::string kernel, model, type, shape;
  double flops = 0.0;
  std::function<Rate(Operands&)> prepare;
};

struct ProductCase {
  std::string kernel, model, type, shape;
  double flops = 0.0;
  // Seconds of each of the algorithms that the library proposes, at most `most`.
  std::function<std::vector<double>(Operands&, std::size_t l2, int maximum)> time;
};

template <class T>
std::string type_name() {
  if constexpr (std::is_same_v<T, cuda::Bf16>) return "bf16";
  if constexpr (std::is_same_v<T, cuda::F16>) return "f16";
  return std::is_same_v<T, double> ? "f64" : "f32";
}

inline std::string shape_of(std::initializer_list<std::int64_t> sizes) {
  std::string text;
  for (const std::int64_t size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

std::vector<MemoryCase> elementwise_cases(const Sizes& s);    // passes, biases, dropout, casts, tiles
std::vector<MemoryCase> normalization_cases(const Sizes& s);  // layer, RMS and batch normalisation, softmax
std::vector<MemoryCase> token_cases(const Sizes& s);          // embedding, rotary, loss, mixture
std::vector<MemoryCase> update_cases(const Sizes& s);         // optimizers, norms, accumulation
std::vector<MemoryCase> image_cases(const Sizes& s);          // batch normalisation, pooling
std::vector<ProductCase> product_cases(const Sizes& s);
std::vector<ComputeCase> convolution_cases(const Sizes& s);
std::vector<ComputeCase> attention_cases(const Sizes& s);

}  // namespace meshwright::bench
