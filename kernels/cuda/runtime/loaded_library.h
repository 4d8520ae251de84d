// SPDX-License-Identifier: Apache-2.0
// A library of NVIDIA's that is loaded when it is first wanted, so that a program starts where it is missing. For the
// files that call such a library: nothing else includes it.
#pragma once

#include <dlfcn.h>

#include <string>

#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda {

// Stays loaded: what it was asked for may outlive whoever asked.
class LoadedLibrary {
 public:
  // What the system finds comes before what the program was built with. Throws Failure where it is in neither place.
  LoadedLibrary(const std::string& file, const std::string& folder) : file_(file) {
    for (const std::string& path : {file, folder + "/" + file})
      if (handle_ == nullptr) handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr)
      throw Failure(file + " was found neither by the system nor in " + folder + "; add its folder to LD_LIBRARY_PATH");
  }

  // Sets `function` to the library's function of that name. Throws Failure where it has none.
  template <class Function>
  void find(const char* name, Function& function) const {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (function == nullptr) throw Failure(file_ + " has no function " + name);
  }

 private:
  std::string file_;
  void* handle_ = nullptr;
};

}  // namespace meshwright::kernels::cuda
