// SPDX-License-Identifier: Apache-2.0
// Products as cuBLASLt is told of them, and what it answers. Internal to kernels/cuda/products/products.cpp.
//
// cuBLASLt is column-major. A row-major matrix is the transpose of a column-major one, so it is asked for
// c' = op(b)' op(a)': the operands change places, and nothing is moved.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cuda/products/product_timing.h"
#include "kernels/cuda/products/products.h"
#include "kernels/cuda/runtime/cublaslt.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

constexpr std::uintptr_t kBestAlignment = 256;

// cuBLASLt's types of operands and result, of sums, and of alpha and beta; the name is product_type's.
struct Types {
  cudaDataType_t data;
  cublasComputeType_t compute;
  cudaDataType_t scale;
  const char* name;
};
template <class T>
Types types_of(bool tensor_float) {
  const char* const name = product_type<T>(tensor_float);
  if constexpr (std::is_same_v<T, double>) return {CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F, name};
  if constexpr (std::is_same_v<T, Bf16>) return {CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F, name};
  if constexpr (std::is_same_v<T, F16>) return {CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F, name};
  return {CUDA_R_32F, tensor_float ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F, name};
}

// The largest power of two, up to 256, that divides an address.
inline std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return static_cast<std::uint32_t>(std::min(kBestAlignment, address == 0 ? kBestAlignment : address & (~address + 1)));
}

// In bytes: of cuBLASLt's first operand (our b), its second (our a), and the result.
struct Alignments {
  std::uint32_t first, second, result;
};

// What cuBLASLt does at the end of a product.
struct End {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* before = nullptr;
  const void* added = nullptr;
  std::optional<cudaDataType_t> result = std::nullopt;  // nullopt: that of the operands

  [[nodiscard]] bool does_nothing() const {
    return kind == CUBLASLT_EPILOGUE_DEFAULT && added == nullptr && !result.has_value();
  }
};
constexpr std::uintptr_t kEndAlignment = 16;  // of its operands, which algorithms may rely on

// nullopt: cuBLASLt has no such end. `before` lies as the result does, whose rows have to be multiples of 8 elements.
template <class T>
std::optional<End> end_of(const Product& p, const ProductEnd<T>& end) {
  End found{CUBLASLT_EPILOGUE_BIAS, end.bias, end.before, end.added};
  if (p.batch != 1) return std::nullopt;
  if (end.bias == nullptr) {
    found.kind = CUBLASLT_EPILOGUE_DEFAULT;
    if (end.function != ProductFunction::None || end.before != nullptr) return std::nullopt;
    return found;
  }
  if (alignment_of(end.bias) < kEndAlignment) return std::nullopt;
  switch (end.function) {
    case ProductFunction::None:
      if (end.before != nullptr) return std::nullopt;
      return found;
    case ProductFunction::Relu:  // it would leave bits in the place of numbers
      if (end.before != nullptr) return std::nullopt;
      found.kind = CUBLASLT_EPILOGUE_RELU_BIAS;
      return found;
    case ProductFunction::Gelu:
      found.kind = end.before == nullptr ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
      if (end.before != nullptr && (p.ldc % 8 != 0 || alignment_of(end.before) < kEndAlignment)) return std::nullopt;
      return found;
  }
  return std::nullopt;
}

// One call of Products::run, of no more products than cuBLASLt takes at once.
struct Call {
  Stream stream;
  const Product& product;
  const Types& types;
  const void *a, *b;
  void* c;
  End end{};

  [[nodiscard]] Alignments alignments() const {
    const std::uint32_t of_added = end.added == nullptr ? kBestAlignment : alignment_of(end.added);
    return {alignment_of(b), alignment_of(a), std::min(alignment_of(c), of_added)};
  }
};

// A product as cuBLASLt takes it: `first` describes our b, `second` our a.
struct Chosen {
  cublasLtMatmulDescOpaque_t description;
  cublasLtMatrixLayoutOpaque_t first, second, result;
  cublasLtMatmulAlgo_t algorithm;
};

// For sentences: "8 products of (64, 32) and (32, 16) transposed in bf16".
struct Described {
  const Product& p;
  const Types& types;
};
std::ostream& operator<<(std::ostream& out, const Described& what);

// All but the algorithm, and the addresses of the end's operands.
[[nodiscard]] Chosen describe(const Product& p, const Types& types, const End& end);
void set_pointers(Chosen& chosen, const End& end);

// What cuBLASLt proposes, what it thinks fastest first; at most `maximum`. None: it has no algorithm for a product with
// this end; throws Failure where it has none for one without.
[[nodiscard]] std::vector<cublasLtMatmulAlgo_t> propose(cublasLtHandle_t handle, Chosen& chosen, const Call& call,
                                                        int maximum);

// nullopt: it is none, or none for this product on this device.
[[nodiscard]] std::optional<cublasLtMatmulAlgo_t> algorithm_from(const std::string& text, cublasLtHandle_t handle,
                                                                 Chosen& chosen);

// product_key, with the end.
[[nodiscard]] std::string key_of(const Call& call);

}  // namespace meshwright::kernels::cuda
