// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/runtime/cublaslt.h"

#include <string>

#include "kernels/cuda/runtime/loaded_library.h"

namespace meshwright::kernels::cuda {

namespace {

CublasLt all_of_it() {
  // The version whose header this was compiled with: others may hand over their structs differently.
  const LoadedLibrary library("libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR), MESHWRIGHT_CUDA_LIBRARIES);
  CublasLt all{};
  library.find("cublasLtCreate", all.create);
  library.find("cublasLtDestroy", all.destroy);
  library.find("cublasLtGetProperty", all.get_property);
  library.find("cublasLtGetStatusName", all.name_of);
  library.find("cublasLtGetStatusString", all.words_of);
  library.find("cublasLtMatmul", all.multiply);
  library.find("cublasLtMatmulAlgoCheck", all.check_algorithm);
  library.find("cublasLtMatmulAlgoGetHeuristic", all.choose);
  library.find("cublasLtMatmulDescInit_internal", all.init_description);
  library.find("cublasLtMatmulDescSetAttribute", all.set_in_description);
  library.find("cublasLtMatmulPreferenceInit_internal", all.init_preference);
  library.find("cublasLtMatmulPreferenceSetAttribute", all.set_in_preference);
  library.find("cublasLtMatrixLayoutInit_internal", all.init_layout);
  library.find("cublasLtMatrixLayoutSetAttribute", all.set_in_layout);
  return all;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt all = all_of_it();
  return all;
}

}  // namespace meshwright::kernels::cuda
