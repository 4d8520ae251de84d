// SPDX-License-Identifier: Apache-2.0
// cuBLASLt is column-major. A row-major matrix is the transpose of a column-major one, so it is asked for
// c' = op(b)' op(a)': the operands change places, and nothing is moved.
//
// Which algorithm a shape gets depends on the shape, the types and the addresses' alignment alone, and on the choices
// that are given; on a clock only where the tuning asks for it: all devices that compute the same product get the same
// bits, in every run. For the same reason, and because sums are to be rounded once, a sum may be split only where its
// parts are added up in the type of the sum, in a pass of their own.
//
// While algorithms are timed each writes the product's own result, which is overwritten in any case.
#include "kernels/cuda/products.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/failures.h"
#include "kernels/cuda/product_timing.h"
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
  const char* const name = product_type<T>(tensor_float);
  if constexpr (std::is_same_v<T, double>) return {CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F, name};
  if constexpr (std::is_same_v<T, Bf16>) return {CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F, name};
  if constexpr (std::is_same_v<T, F16>) return {CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F, name};
  return {CUDA_R_32F, tensor_float ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F, name};
}

// The largest power of two, up to 256, that divides an address.
std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  return static_cast<std::uint32_t>(std::min(kBestAlignment, address == 0 ? kBestAlignment : address & (~address + 1)));
}

using Key = std::array<std::int64_t, 16>;
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

// One call of Products::run, of no more products than cuBLASLt takes at once.
struct Call {
  Stream stream;
  const Product& product;
  const Types& types;
  const void *a, *b;
  void* c;

  [[nodiscard]] Alignments alignments() const { return {alignment_of(b), alignment_of(a), alignment_of(c)}; }
};

// All but the algorithm.
Chosen describe(const Product& p, const Types& types) {
  Chosen chosen;
  check(cublas_lt().init_description(&chosen.description, sizeof chosen.description, types.compute, types.scale),
        "describing a product");
  const auto operation = [&](cublasLtMatmulDescAttributes_t attribute, bool transposed) {
    const cublasOperation_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublas_lt().set_in_description(&chosen.description, attribute, &value, sizeof value), "describing a product");
  };
  operation(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b);
  operation(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a);
  chosen.first =
      layout_of(types.data, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb, p.batch, p.stride_b);
  chosen.second =
      layout_of(types.data, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda, p.batch, p.stride_a);
  chosen.result = layout_of(types.data, p.m, p.n, p.ldc, p.batch, p.stride_c);
  return chosen;
}

// What cuBLASLt proposes, what it thinks fastest first; at most `most`, at least one.
std::vector<cublasLtMatmulAlgo_t> propose(cublasLtHandle_t handle, Chosen& chosen, Alignments aligned, int most,
                                          const Described& what) {
  cublasLtMatmulPreferenceOpaque_t preference;
  check(cublas_lt().init_preference(&preference, sizeof preference), "stating what an algorithm may use");
  prefer(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspace});
  prefer(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned.first);
  prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned.second);
  prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned.result);
  prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned.result);

  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int found = 0;
  const cublasStatus_t status =
      cublas_lt().choose(handle, &chosen.description, &chosen.first, &chosen.second, &chosen.result, &chosen.result,
                         &preference, most, results.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && found == 0))
    check(CUBLAS_STATUS_NOT_SUPPORTED, "finding an algorithm of cuBLASLt for ", what);
  check(status, "choosing an algorithm for ", what);
  check(results.front().state, "choosing an algorithm for ", what);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i)
    if (const auto& result = results[static_cast<std::size_t>(i)]; result.state == CUBLAS_STATUS_SUCCESS)
      algorithms.push_back(result.algo);
  return algorithms;
}

// nullopt: it is none, or none for this product on this device.
std::optional<cublasLtMatmulAlgo_t> algorithm_from(const std::string& text, cublasLtHandle_t handle, Chosen& chosen) {
  cublasLtMatmulAlgo_t algorithm;
  cublasLtMatmulHeuristicResult_t result{};
  if (!from_hex(text, &algorithm, sizeof algorithm)) return std::nullopt;
  const cublasStatus_t status = cublas_lt().check_algorithm(handle, &chosen.description, &chosen.first, &chosen.second,
                                                            &chosen.result, &chosen.result, &algorithm, &result);
  if (status != CUBLAS_STATUS_SUCCESS || result.workspaceSize > kWorkspace) return std::nullopt;
  return algorithm;
}

}  // namespace

struct Products::State {
  bool tensor_float = false;
  ProductTuning tuning;
  cublasLtHandle_t handle = nullptr;
  std::map<Key, Chosen> chosen;
  // One per stream, as streams may overlap: a program has few.
  std::map<void*, void*> workspaces;

  State(bool use_tensor_float, ProductTuning how) : tensor_float(use_tensor_float), tuning(std::move(how)) {
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

  cublasStatus_t start(const Call& call, Chosen& how, const cublasLtMatmulAlgo_t& algorithm) {
    const float one = 1, zero = 0;
    const double wide_one = 1, wide_zero = 0;
    const bool wide = call.types.scale == CUDA_R_64F;
    return cublas_lt().multiply(handle, &how.description, wide ? static_cast<const void*>(&wide_one) : &one, call.b,
                                &how.first, call.a, &how.second, wide ? static_cast<const void*>(&wide_zero) : &zero,
                                call.c, &how.result, call.c, &how.result, &algorithm, workspace_of(call.stream),
                                kWorkspace, static_cast<cudaStream_t>(call.stream.handle));
  }

  std::vector<double> time(const Call& call, Chosen& how, const std::vector<cublasLtMatmulAlgo_t>& algorithms) {
    return with_timer(tuning, [&](const ProductTimer& timer) {
      return median_seconds(algorithms.size(), [&](std::size_t i) {
        cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
        const double seconds = timer(call.stream, [&] { status = start(call, how, algorithms[i]); });
        return status == CUBLAS_STATUS_SUCCESS ? seconds : std::numeric_limits<double>::infinity();
      });
    });
  }

  cublasLtMatmulAlgo_t algorithm_for(const Call& call, Chosen& how) {
    const Described what{call.product, call.types};
    const Alignments aligned = call.alignments();
    const bool tuned = tuning.choices != nullptr;
    const std::string key =
        tuned ? product_key(call.product, call.types.name, aligned.second, aligned.first, aligned.result)
              : std::string();
    if (tuned) {
      if (const std::optional<std::string> known = tuning.choices->find(key)) {
        if (const auto algorithm = algorithm_from(*known, handle, how)) return *algorithm;
        tuning.choices->refuse(key);
      }
    }
    if (!tuned || !tuning.timed) return propose(handle, how, aligned, 1, what).front();
    const std::vector<cublasLtMatmulAlgo_t> algorithms = propose(handle, how, aligned, kTimedAlgorithms, what);
    const cublasLtMatmulAlgo_t best = algorithms[fastest(time(call, how, algorithms))];
    return algorithm_from(tuning.choices->keep(key, to_hex(&best, sizeof best)), handle, how).value_or(best);
  }

  void run(const Call& call) {
    const Product& p = call.product;
    const Alignments aligned = call.alignments();
    const Key key{p.transpose_a,  p.transpose_b, p.m,        p.n,        p.k,        p.lda,           p.ldb,
                  p.ldc,          p.batch,       p.stride_a, p.stride_b, p.stride_c, call.types.data, aligned.first,
                  aligned.second, aligned.result};
    auto known = chosen.find(key);
    if (known == chosen.end()) {
      Chosen how = describe(p, call.types);
      how.algorithm = algorithm_for(call, how);
      known = chosen.emplace(key, how).first;
    }
    Chosen& how = known->second;
    cublasStatus_t status = start(call, how, how.algorithm);
    if (status != CUBLAS_STATUS_SUCCESS && tuning.choices != nullptr) {  // it was given, and seemed to run
      tuning.choices->refuse(product_key(p, call.types.name, aligned.second, aligned.first, aligned.result));
      how.algorithm = propose(handle, how, aligned, 1, Described{p, call.types}).front();
      status = start(call, how, how.algorithm);
    }
    check(status, "starting ", Described{p, call.types});
  }
};

std::string product_library() {
  std::string name = "cuBLASLt";
  char before = ' ';
  for (const libraryPropertyType property : {MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL}) {
    int number = 0;
    check(cublas_lt().get_property(property, &number), "asking for cuBLASLt's version");
    name += std::exchange(before, '.') + std::to_string(number);
  }
  return name;
}

Products::Products(bool tensor_float, ProductTuning tuning)
    : state_(std::make_unique<State>(tensor_float, std::move(tuning))) {}
Products::~Products() = default;

template <class T>
void Products::run(Stream stream, const Product& product, const T* a, const T* b, T* c) {
  const Types types = types_of<T>(state_->tensor_float);
  Product part = product;
  for (std::int64_t begin = 0; begin < product.batch; begin += kMostBatches) {
    part.batch = std::min(kMostBatches, product.batch - begin);
    state_->run({stream, part, types, a + begin * product.stride_a, b + begin * product.stride_b,
                 c + begin * product.stride_c});
  }
}

template <class T>
std::vector<double> Products::time_algorithms(Stream stream, const Product& product, const T* a, const T* b, T* c,
                                              int most) {
  const Types types = types_of<T>(state_->tensor_float);
  const Call call{stream, product, types, a, b, c};
  Chosen how = describe(product, types);
  return state_->time(call, how, propose(state_->handle, how, call.alignments(), most, Described{product, types}));
}

#define MW_INSTANTIATE(T)                                                         \
  template void Products::run<T>(Stream, const Product&, const T*, const T*, T*); \
  template std::vector<double> Products::time_algorithms<T>(Stream, const Product&, const T*, const T*, T*, int);
MW_INSTANTIATE(float)
MW_INSTANTIATE(double)
MW_INSTANTIATE(Bf16)
MW_INSTANTIATE(F16)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
