// SPDX-License-Identifier: Apache-2.0
// Every caller of a kernel is one logical device and owns one core, but oneDNN opens a parallel region of the OpenMP
// runtime it was built with. Internal to kernels/cpu.
#pragma once

#include <dlfcn.h>

namespace meshwright::kernels {

// Makes the parallel regions that the calling thread opens run on it alone. The runtime is found at run time, because
// which one it is (or whether there is one) is oneDNN's choice.
inline void keep_to_one_core() {
  thread_local const bool done = [] {
    using SetThreads = void (*)(int);
    if (void* symbol = dlsym(RTLD_DEFAULT, "omp_set_num_threads")) reinterpret_cast<SetThreads>(symbol)(1);
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace meshwright::kernels
