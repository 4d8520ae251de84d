// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/products/product_description.h"

#include "kernels/cuda/runtime/failures.h"

namespace meshwright::kernels::cuda {

namespace {

// cuBLASLt's matrices lie column by column. Ours lie row by row, which is the transposed matrix to it: c^T = b^T a^T is
// asked for, b being the first operand, and nothing is transposed.
//
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

void set_pointers(cublasLtMatmulDescOpaque_t& description, const void* bias, const void* before) {
  if (bias != nullptr)
    check(cublas_lt().set_in_description(&description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias),
          "describing a bias");
  if (before != nullptr)
    check(
        cublas_lt().set_in_description(&description, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &before, sizeof before),
        "describing what a function is applied to");
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

}  // namespace

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

Chosen describe(const Product& p, const Types& types, const End& end) {
  Chosen chosen;
  check(cublas_lt().init_description(&chosen.description, sizeof chosen.description, types.compute, types.scale),
        "describing a product");
  const auto operation = [&](cublasLtMatmulDescAttributes_t attribute, bool transposed) {
    const cublasOperation_t value = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublas_lt().set_in_description(&chosen.description, attribute, &value, sizeof value), "describing a product");
  };
  // As the operands change places, so do their transpositions.
  operation(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b);
  operation(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a);
  describe_end(chosen.description, p, end);
  chosen.first =
      layout_of(types.data, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb, p.batch, p.stride_b);
  chosen.second =
      layout_of(types.data, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda, p.batch, p.stride_a);
  chosen.result = layout_of(end.result.value_or(types.data), p.m, p.n, p.ldc, p.batch, p.stride_c);
  return chosen;
}

void set_pointers(Chosen& chosen, const End& end) { set_pointers(chosen.description, end.bias, end.before); }

std::vector<cublasLtMatmulAlgo_t> propose(cublasLtHandle_t handle, Chosen& chosen, const Call& call, int maximum) {
  const Described what{call.product, call.types};
  const Alignments aligned = call.alignments();
  cublasLtMatmulPreferenceOpaque_t preference;
  check(cublas_lt().init_preference(&preference, sizeof preference), "stating what an algorithm may use");
  prefer(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kProductWorkspace});
  // Split sums are added in the compute type only: partial sums rounded to 16 bits would lose digits.
  prefer(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, aligned.first);
  prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, aligned.second);
  prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, aligned.result);
  prefer(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, aligned.result);

  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(maximum));
  int found = 0;
  const cublasStatus_t status =
      cublas_lt().choose(handle, &chosen.description, &chosen.first, &chosen.second, &chosen.result, &chosen.result,
                         &preference, maximum, results.data(), &found);
  // An end that cuBLASLt does not have is an answer, not a failure: the caller runs product and end one after the
  // other.
  if (!call.end.does_nothing() &&
      (status != CUBLAS_STATUS_SUCCESS || found == 0 || results.front().state != CUBLAS_STATUS_SUCCESS))
    return {};
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

std::optional<cublasLtMatmulAlgo_t> algorithm_from(const std::string& text, cublasLtHandle_t handle, Chosen& chosen) {
  cublasLtMatmulAlgo_t algorithm;
  cublasLtMatmulHeuristicResult_t result{};
  if (!from_hex(text, &algorithm, sizeof algorithm)) return std::nullopt;
  // The bytes may come from another version of the library, which has to say whether they are an algorithm of this
  // product.
  const cublasStatus_t status = cublas_lt().check_algorithm(handle, &chosen.description, &chosen.first, &chosen.second,
                                                            &chosen.result, &chosen.result, &algorithm, &result);
  if (status != CUBLAS_STATUS_SUCCESS || result.workspaceSize > kProductWorkspace) return std::nullopt;
  return algorithm;
}

std::string key_of(const Call& call) {
  const Alignments aligned = call.alignments();
  // The key names our a and b, which are cuBLASLt's second and first operands.
  std::string key = product_key(call.product, call.types.name, aligned.second, aligned.first, aligned.result);
  if (call.end.result) key += " in f32";
  if (call.end.added != nullptr) key += " plus";
  switch (call.end.kind) {
    case CUBLASLT_EPILOGUE_BIAS:
      return key + " then bias";
    case CUBLASLT_EPILOGUE_RELU_BIAS:
      return key + " then bias relu";
    case CUBLASLT_EPILOGUE_GELU_BIAS:
      return key + " then bias gelu";
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      return key + " then bias kept gelu";
    default:
      return key;
  }
}

}  // namespace meshwright::kernels::cuda
