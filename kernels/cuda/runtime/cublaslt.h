// SPDX-License-Identifier: Apache-2.0
// cuBLASLt's functions, loaded when one is first wanted: the library takes a tenth of a second and 200 MB to load,
// which a program that only plans need not spend, and it then starts where the library is missing. For the files that
// call NVIDIA's libraries: nothing else includes it.
#pragma once

#include <cublasLt.h>

namespace meshwright::kernels::cuda {

// The library's functions by what they do here; the same for all threads.
struct CublasLt {
  decltype(&::cublasLtCreate) create;
  decltype(&::cublasLtDestroy) destroy;
  decltype(&::cublasLtGetProperty) get_property;
  decltype(&::cublasLtGetStatusName) name_of;
  decltype(&::cublasLtGetStatusString) words_of;
  decltype(&::cublasLtMatmul) multiply;
  decltype(&::cublasLtMatmulAlgoCheck) check_algorithm;
  decltype(&::cublasLtMatmulAlgoGetHeuristic) choose;
  decltype(&::cublasLtMatmulDescInit_internal) init_description;
  decltype(&::cublasLtMatmulDescSetAttribute) set_in_description;
  decltype(&::cublasLtMatmulPreferenceInit_internal) init_preference;
  decltype(&::cublasLtMatmulPreferenceSetAttribute) set_in_preference;
  decltype(&::cublasLtMatrixLayoutInit_internal) init_layout;
  decltype(&::cublasLtMatrixLayoutSetAttribute) set_in_layout;
};

// Throws Failure where it cannot be loaded, then and at every further call.
[[nodiscard]] const CublasLt& cublas_lt();

}  // namespace meshwright::kernels::cuda
