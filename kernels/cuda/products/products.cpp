// SPDX-License-Identifier: Apache-2.0
// Which algorithm a shape gets depends on the shape, the types and the addresses' alignment alone, and on the choices
// that are given; on a clock only where the tuning asks for it: all devices that compute the same product get the same
// bits, in every run. For the same reason, and because sums are to be rounded once, a sum may be split only where its
// parts are added up in the type of the sum, in a pass of their own.
//
// While algorithms are timed each writes the product's own result, which is overwritten in any case.
#include "kernels/cuda/products/products.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/products/product_description.h"
#include "kernels/cuda/runtime/failures.h"

namespace meshwright::kernels::cuda {

namespace {

// Some algorithms count batches along an axis of the grid that goes no further.
constexpr std::int64_t kMaxBatches = 65535;

using Key = std::array<std::int64_t, 20>;

}  // namespace

struct Products::State {
  bool tensor_float = false;
  ProductTuning tuning;
  cublasLtHandle_t handle = nullptr;
  std::map<Key, std::optional<Chosen>> chosen;  // nullopt: the library has no such end
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
    if (data == nullptr) data = allocate(kProductWorkspace);
    return data;
  }

  cublasStatus_t start(const Call& call, Chosen& how, const cublasLtMatmulAlgo_t& algorithm) {
    set_pointers(how, call.end);
    // cuBLASLt reads both factors in the type of the scale: double for double, else float.
    const float one = 1, zero = 0;
    const double wide_one = 1, wide_zero = 0;
    const bool wide = call.types.scale == CUDA_R_64F;
    // b is the first operand, because the library computes c^T = b^T a^T.
    const void* const once = wide ? static_cast<const void*>(&wide_one) : &one;
    const void* const never = wide ? static_cast<const void*>(&wide_zero) : &zero;
    const bool adds = call.end.added != nullptr;
    return cublas_lt().multiply(handle, &how.description, once, call.b, &how.first, call.a, &how.second,
                                adds ? once : never, adds ? call.end.added : call.c, &how.result, call.c, &how.result,
                                &algorithm, workspace_of(call.stream), kProductWorkspace,
                                static_cast<cudaStream_t>(call.stream.handle));
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

  std::optional<cublasLtMatmulAlgo_t> known_algorithm(const std::string& key, Chosen& how) {
    const std::optional<std::string> known = tuning.choices->find(key);
    if (!known) return std::nullopt;
    const auto algorithm = algorithm_from(*known, handle, how);
    if (!algorithm) tuning.choices->refuse(key);
    return algorithm;
  }

  // The choice for the same product without an end, which is what was timed where ops are measured one by one.
  std::optional<cublasLtMatmulAlgo_t> algorithm_without_end(Call call, Chosen& how) {
    call.end = {};
    const std::optional<std::string> known = tuning.choices->find(key_of(call));
    return known ? algorithm_from(*known, handle, how) : std::nullopt;
  }

  // nullopt: the library has no such end.
  std::optional<cublasLtMatmulAlgo_t> algorithm_for(const Call& call, Chosen& how) {
    const bool tuned = tuning.choices != nullptr;
    const std::string key = tuned ? key_of(call) : std::string();
    if (tuned) {
      if (const auto algorithm = known_algorithm(key, how)) return algorithm;
      if (!call.end.does_nothing())
        if (const auto algorithm = algorithm_without_end(call, how)) return algorithm;
    }
    // What a sum is added to is there but once.
    const bool timed = tuned && tuning.timed && call.end.added != call.c;
    const std::vector<cublasLtMatmulAlgo_t> algorithms = propose(handle, how, call, timed ? kTimedAlgorithms : 1);
    if (algorithms.empty()) return std::nullopt;
    if (!timed) return algorithms.front();
    const cublasLtMatmulAlgo_t best = algorithms[fastest(time(call, how, algorithms))];
    // Another device's thread may have kept its own choice meanwhile: that one is taken, so that all have the same
    // bits.
    return algorithm_from(tuning.choices->keep(key, to_hex(&best, sizeof best)), handle, how).value_or(best);
  }

  std::optional<Chosen>& chosen_for(const Call& call) {
    const Product& p = call.product;
    const Alignments aligned = call.alignments();
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
                  call.types.data,
                  aligned.first,
                  aligned.second,
                  aligned.result,
                  call.end.kind,
                  call.end.before != nullptr,
                  call.end.added != nullptr,
                  call.end.result.value_or(call.types.data)};
    const auto known = chosen.find(key);
    if (known != chosen.end()) return known->second;
    std::optional<Chosen> how = describe(p, call.types, call.end);
    if (const auto algorithm = algorithm_for(call, *how)) {
      how->algorithm = *algorithm;
    } else {
      how.reset();
    }
    return chosen.emplace(key, how).first->second;
  }

  // False: the library has no such end.
  bool run(const Call& call) {
    std::optional<Chosen>& how = chosen_for(call);
    if (!how) return false;
    cublasStatus_t status = start(call, *how, how->algorithm);
    if (status != CUBLAS_STATUS_SUCCESS && tuning.choices != nullptr) {  // it was given, and seemed to run
      tuning.choices->refuse(key_of(call));
      how->algorithm = propose(handle, *how, call, 1).at(0);
      status = start(call, *how, how->algorithm);
    }
    check(status, "starting ", Described{call.product, call.types});
    return true;
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

std::size_t Products::workspace() const { return state_->workspaces.size() * kProductWorkspace; }

template <class T>
void Products::run(Stream stream, const Product& product, const T* a, const T* b, T* c) {
  const Types types = types_of<T>(state_->tensor_float);
  Product part = product;
  for (std::int64_t begin = 0; begin < product.batch; begin += kMaxBatches) {
    part.batch = std::min(kMaxBatches, product.batch - begin);
    (void)state_->run({stream, part, types, a + begin * product.stride_a, b + begin * product.stride_b,
                       c + begin * product.stride_c});
  }
}

template <class T>
bool Products::run(Stream stream, const Product& product, const T* a, const T* b, T* c, const ProductEnd<T>& end) {
  const std::optional<End> known = end_of(product, end);
  return known && state_->run({stream, product, types_of<T>(state_->tensor_float), a, b, c, *known});
}

template <class T, class S>
bool Products::run_sum(Stream stream, const Product& product, const T* a, const T* b, S* sum, bool adds) {
  if (product.batch != 1) return false;
  End end{};
  if constexpr (!std::is_same_v<T, S>) end.result = CUDA_R_32F;
  if (adds) end.added = sum;
  return state_->run({stream, product, types_of<T>(state_->tensor_float), a, b, sum, end});
}

template <class T>
std::vector<double> Products::time_algorithms(Stream stream, const Product& product, const T* a, const T* b, T* c,
                                              int maximum) {
  const Types types = types_of<T>(state_->tensor_float);
  const Call call{stream, product, types, a, b, c};
  Chosen how = describe(product, types, call.end);
  return state_->time(call, how, propose(state_->handle, how, call, maximum));
}

#define MW_INSTANTIATE(T)                                                                               \
  template void Products::run<T>(Stream, const Product&, const T*, const T*, T*);                       \
  template bool Products::run<T>(Stream, const Product&, const T*, const T*, T*, const ProductEnd<T>&); \
  template std::vector<double> Products::time_algorithms<T>(Stream, const Product&, const T*, const T*, T*, int);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE
#define MW_INSTANTIATE(T, S) \
  template bool Products::run_sum<T, S>(Stream, const Product&, const T*, const T*, S*, bool);
MW_INSTANTIATE(float, float)
MW_INSTANTIATE(double, double)
MW_INSTANTIATE(Bf16, Bf16)
MW_INSTANTIATE(F16, F16)
MW_INSTANTIATE(Bf16, float)
MW_INSTANTIATE(F16, float)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
