// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/cublaslt.h"

#include <dlfcn.h>

#include <string>

#include "kernels/cuda/stream.h"

namespace meshwright::kernels::cuda {

namespace {

// The version whose header this was compiled with: others may hand over their structs differently.
std::string file_name() { return "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR); }

// What the system finds comes before what the program was built with.
void* load() {
  for (const std::string& path : {file_name(), std::string(MESHWRIGHT_CUDA_LIBRARIES) + "/" + file_name()})
    if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  throw Failure(file_name() + " was found neither by the system nor in " + MESHWRIGHT_CUDA_LIBRARIES +
                "; add its folder to LD_LIBRARY_PATH");
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw Failure(file_name() + " has no function " + name);
}

// Stays loaded: what it was asked for may outlive whoever asked.
CublasLt all_of_it() {
  void* const library = load();
  CublasLt all{};
  find(library, "cublasLtCreate", all.create);
  find(library, "cublasLtDestroy", all.destroy);
  find(library, "cublasLtGetProperty", all.get_property);
  find(library, "cublasLtGetStatusName", all.name_of);
  find(library, "cublasLtGetStatusString", all.words_of);
  find(library, "cublasLtMatmul", all.multiply);
  find(library, "cublasLtMatmulAlgoGetHeuristic", all.choose);
  find(library, "cublasLtMatmulDescInit_internal", all.init_description);
  find(library, "cublasLtMatmulDescSetAttribute", all.set_in_description);
  find(library, "cublasLtMatmulPreferenceInit_internal", all.init_preference);
  find(library, "cublasLtMatmulPreferenceSetAttribute", all.set_in_preference);
  find(library, "cublasLtMatrixLayoutInit_internal", all.init_layout);
  find(library, "cublasLtMatrixLayoutSetAttribute", all.set_in_layout);
  return all;
}

}  // namespace

const CublasLt& cublas_lt() {
  static const CublasLt all = all_of_it();
  return all;
}

}  // namespace meshwright::kernels::cuda
