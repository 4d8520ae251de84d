// SPDX-License-Identifier: Apache-2.0
// In the place of cuDNN, where there is none.
#include "kernels/cuda/convolution/convolution_cudnn.h"

namespace meshwright::kernels::cuda {

namespace {
[[noreturn]] void refuse() { throw Failure("this build has no cuDNN"); }
}  // namespace

struct CudnnConvolutions::State {};

bool CudnnConvolutions::are_built() { return false; }
CudnnConvolutions::CudnnConvolutions(bool) {}
CudnnConvolutions::~CudnnConvolutions() = default;

template <class T>
bool CudnnConvolutions::runs(ConvolutionPass, const ConvolutionShape&) {
  return false;
}
template <class T>
std::size_t CudnnConvolutions::workspace(ConvolutionPass, const ConvolutionShape&) {
  refuse();
}
template <class T>
void CudnnConvolutions::run(Stream, ConvolutionPass, const ConvolutionShape&, const T*, const T*, T*, void*) {
  refuse();
}

#define MW_INSTANTIATE(T)                                                                                           \
  template bool CudnnConvolutions::runs<T>(ConvolutionPass, const ConvolutionShape&);                               \
  template std::size_t CudnnConvolutions::workspace<T>(ConvolutionPass, const ConvolutionShape&);                   \
  template void CudnnConvolutions::run<T>(Stream, ConvolutionPass, const ConvolutionShape&, const T*, const T*, T*, \
                                          void*);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
