// SPDX-License-Identifier: Apache-2.0
// cuBLASLt is column-major. A row-major matrix is the transpose of a column-major one, so it is asked for
// c' = op(b)' op(a)': the operands change places, and nothing is moved.
//
// Which algorithm a shape gets depends on the shape, the types and the addresses' alignment alone, never on a clock:
// all devices that compute the same product get the same bits, in every run. For the same reason, and because sums are
// to be rounded once, a sum may be split only where its parts are added up in the type of the sum, in a pass of their
// own.
#include "kernels/cuda/products.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <ostream>
#include <type_traits>

#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/failures.h"
#include "kernels/cuda/types.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20;
// Some algorithms count batches along an axis of the grid that goes no further.
constexpr std::int64_t kMostBatches = 65535;
constexpr std::uintptr_t kBestAlignment = 256;

struct Types {
  cudaDataType_t data;
  cublasComputeType_t compute;
  cudaDataType_t scale;
  const char* name;
};
template <class T>
Types types_of(bool tensor_float) {
  if constexpr (std::is_same_v<T, double>) return {CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F, "f64"};
  if constexpr (std::is_same_v<T, Bf16>) return {CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F, "bf16"};
  if constexpr (std::is_same_v<T, F16>) return {CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F, "f16"};
  return {CUDA_R_32F, tensor_float ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F, "f32"};
}

// The largest power of two, up to 256, that divides an address.
std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return static_cast<std::uint32_t>(std::min(kBestAlignment, address == 0 ? kBestAlignment : address & (~address + 1)));
}

using Key = std::array<std::int64_t, 18>;
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
std::ostream& operator<<(std::ostream& out, const Described& what) {
  const Product& p = what.p;
  if (p.batch > 1) {
    out << p.batch << " products of ";
  } else {
    out << "the product of ";
  }
  return out << '(' << p.m << ", " << p.k << ')' << (p.transpose_a ? " transposed" : "") << " and (" << p.k << ", "
             << p.n << ')' << (p.transpose_b ? " transposed" : "") << " in " << what.types.name;
}

// A matrix as it is stored: `rows` rows of `columns` elements, `leading` apart; cuBLASLt sees it the other way round.
cublasLtMatrixLayoutOpaque_t layout_of(cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                                       std::int64_t leading, std::int64_t batch, std::int64_t stride) {
  cublasLtMatrixLayoutOpaque_t layout;
  check(cublas_lt().init_layout(&layout, sizeof layout, type, static_cast<std::uint64_t>(columns),
                                static_cast<std::uint64_t>(rows), leading),
        "describing a matrix of ", rows, " x ", columns);
  const auto count = static_cast<std::int32_t>(batch);
  check(cublas_lt().set_in_layout(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
        "describing a batch of ", batch);
  check(cublas_lt().set_in_layout(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride),
        "describing a batch of ", batch);
  return layout;
}

template <class Value>
void prefer(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
  check(cublas_lt().set_in_preference(preference, attribute, &value, sizeof value),
        "stating what an algorithm may use");
}

struct Alignments {
  std::uint32_t first, second, result;
};

// What cuBLASLt does at the end of a product.
struct End {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  void* before = nullptr;
};
constexpr std::uintptr_t kEndAlignment = 16;

void set_pointers(cublasLtMatmulDescOpaque_t& description, const void* bias, const void* before) {
  if (bias != nullptr)
    check(cublas_lt().set_in_description(&description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
          "describing a bias");
  if (before != nullptr)
    check(
        cublas_lt().set_in_description(&description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &before, sizeof before),
        "describing what a function is applied to");
}

// nullopt: cuBLASLt has no such end. `before` lies as the result does, whose rows have to be multiples of 8 elements.
template <class T>
std::optional<End> end_of(const Product& p, const ProductEnd<T>& end) {
  End found{CUBLASLT_EPILOGUE_BIAS, end.bias, end.before};
  if (p.batch != 1 || end.bias == nullptr || alignment_of(end.bias) < kEndAlignment) return std::nullopt;
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

// The algorithm may rely on the addresses of the end's operands being multiples of 16, and of no more.
void describe_end(cublasLtMatmulDescOpaque_t& description, const Product& p, const End& end) {
  if (end.kind == CUBLASLT_EPILOGUE_DEFAULT) return;
  check(cublas_lt().set_in_description(&description, CUBLASLT_MATMUL_DESC_EPILOGUE, &end.kind, sizeof end.kind),
        "describing what follows a product");
  const void* const address = reinterpret_cast<const void*>(kEndAlignment);
  set_pointers(description, address, end.before == nullptr ? nullptr : address);
  if (end.before != nullptr)
    check(cublas_lt().set_in_description(&description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &p.ldc, sizeof p.ldc),
          "describing what a function is applied to");
}

// nullopt: cuBLASLt has no algorithm for the product with this end.
std::optional<Chosen> choose(cublasLtHandle_t handle, const Product& p, const Types& types, Alignments aligned,
                             const End& end) {
  Chosen chosen;
  check(cublas_lt().init_description(&chosen.description, sizeof chosen.description, types.compute, types.scale),
        "describing a product");
  const auto operation = [&](cublasLtMatmulDescAttributes_t attribute, bool transposed) {
    const cublasOperation_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublas_lt().set_in_description(&chosen.description, attribute, &value, sizeof value), "describing a product");
  };
  operation(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b);
  operation(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a);
  describe_end(chosen.description, p, end);
  chosen.first =
      layout_of(types.data, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb, p.batch, p.stride_b);
  chosen.second =
      layout_of(types.data, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda, p.batch, p.stride_a);
  chosen.result = layout_of(types.data, p.m, p.n, p.ldc, p.batch, p.stride_c);

  cublasLtMatmulPreferenceOpaque_t preference;
  check(cublas_lt().init_preference(&preference, sizeof preference), "stating what an algorithm may use");
  prefer(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspace});
  prefer(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned.first);
  prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned.second);
  prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned.result);
  prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned.result);

  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  const cublasStatus_t status = cublas_lt().choose(handle, &chosen.description, &chosen.first, &chosen.second,
                                                   &chosen.result, &chosen.result, &preference, 1, &best, &found);
  if (end.kind != CUBLASLT_EPILOGUE_DEFAULT &&
      (status != CUBLAS_STATUS_SUCCESS || found == 0 || best.state != CUBLAS_STATUS_SUCCESS))
    return std::nullopt;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0))
    check(CUBLAS_STATUS_NOT_SUPPORTED, "finding an algorithm of cuBLASLt for ", Described{p, types});
  check(status, "choosing an algorithm for ", Described{p, types});
  check(best.state, "choosing an algorithm for ", Described{p, types});
  chosen.algorithm = best.algo;
  return chosen;
}

}  // namespace

struct Products::State {
  bool tensor_float = false;
  cublasLtHandle_t handle = nullptr;
  std::map<Key, std::optional<Chosen>> chosen;
  // One per stream, as streams may overlap: a program has few.
  std::map<void*, void*> workspaces;

  explicit State(bool use_tensor_float) : tensor_float(use_tensor_float) {
    check(cublas_lt().create(&handle), "starting cuBLASLt");
  }
  ~State() {
    for (const auto& [stream, data] : workspaces) release(data);
    (void)cublas_lt().destroy(handle);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void* workspace_of(Stream stream) {
    void*& data = workspaces[stream.handle];
    if (data == nullptr) data = allocate(kWorkspace);
    return data;
  }

  std::optional<Chosen>& chosen_for(const Product& p, const Types& types, Alignments aligned, const End& end) {
    const Key key{p.transpose_a,
                  p.transpose_b,
                  p.m,
                  p.n,
                  p.k,
                  p.lda,
                  p.ldb,
                  p.ldc,
                  p.batch,
                  p.stride_a,
                  p.stride_b,
                  p.stride_c,
                  types.data,
                  aligned.first,
                  aligned.second,
                  aligned.result,
                  end.kind,
                  end.before != nullptr};
    const auto known = chosen.find(key);
    if (known != chosen.end()) return known->second;
    return chosen.emplace(key, choose(handle, p, types, aligned, end)).first->second;
  }

  // False: it has no algorithm with this end.
  bool run(Stream stream, const Product& p, const Types& types, const void* a, const void* b, void* c,
           const End& end = {}) {
    std::optional<Chosen>& found = chosen_for(p, types, {alignment_of(b), alignment_of(a), alignment_of(c)}, end);
    if (!found) return false;
    Chosen& how = *found;
    set_pointers(how.description, end.bias, end.before);
    const float one = 1, zero = 0;
    const double wide_one = 1, wide_zero = 0;
    const bool wide = types.scale == CUDA_R_64F;
    check(cublas_lt().multiply(handle, &how.description, wide ? static_cast<const void*>(&wide_one) : &one, b,
                               &how.first, a, &how.second, wide ? static_cast<const void*>(&wide_zero) : &zero, c,
                               &how.result, c, &how.result, &how.algorithm, workspace_of(stream), kWorkspace,
                               static_cast<cudaStream_t>(stream.handle)),
          "starting ", Described{p, types});
    return true;
  }
};

Products::Products(bool tensor_float) : state_(std::make_unique<State>(tensor_float)) {}
Products::~Products() = default;

template <class T>
void Products::run(Stream stream, const Product& product, const T* a, const T* b, T* c) {
  const Types types = types_of<T>(state_->tensor_float);
  Product part = product;
  for (std::int64_t begin = 0; begin < product.batch; begin += kMostBatches) {
    part.batch = std::min(kMostBatches, product.batch - begin);
    (void)state_->run(stream, part, types, a + begin * product.stride_a, b + begin * product.stride_b,
                      c + begin * product.stride_c);
  }
}

template <class T>
bool Products::run(Stream stream, const Product& product, const T* a, const T* b, T* c, const ProductEnd<T>& end) {
  const std::optional<End> known = end_of(product, end);
  return known && state_->run(stream, product, types_of<T>(state_->tensor_float), a, b, c, *known);
}

#define MW_INSTANTIATE(T)                                                         \
  template void Products::run<T>(Stream, const Product&, const T*, const T*, T*); \
  template bool Products::run<T>(Stream, const Product&, const T*, const T*, T*, const ProductEnd<T>&);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
MW_INSTANTIATE(Bf16)
MW_INSTANTIATE(F16)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
