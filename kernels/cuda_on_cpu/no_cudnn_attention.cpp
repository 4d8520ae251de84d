// SPDX-License-Identifier: Apache-2.0
// In the place of cuDNN's attention, where there is none.
#include "kernels/cuda/attention/attention_cudnn.h"

namespace meshwright::kernels::cuda {

namespace {
[[noreturn]] void refuse() { throw Failure("this build has no cuDNN"); }
}  // namespace

struct CudnnAttention::State {
  std::string answer = "this build has no cuDNN";
};

bool CudnnAttention::are_built() { return false; }
CudnnAttention::CudnnAttention(std::size_t) : state_(std::make_unique<State>()) {}
CudnnAttention::~CudnnAttention() = default;
const std::string& CudnnAttention::answer() const { return state_->answer; }

template <class T>
bool CudnnAttention::runs(const AttentionCall<T>&, const T*, bool) {
  return false;
}
template <class T>
bool CudnnAttention::runs_backward(const AttentionCall<T>&, const T*, const AttentionGradients<T>&) {
  return false;
}
template <class T>
std::size_t CudnnAttention::workspace(const AttentionCall<T>&, bool) {
  refuse();
}
template <class T>
std::size_t CudnnAttention::backward_workspace(const AttentionCall<T>&, const AttentionGradients<T>&, bool) {
  refuse();
}
template <class T>
void CudnnAttention::run(Stream, const AttentionCall<T>&, T*, float*, void*) {
  refuse();
}
template <class T>
void CudnnAttention::run_backward(Stream, const AttentionCall<T>&, const T*, const float*, const T*,
                                  const AttentionGradients<T>&, void*) {
  refuse();
}

#define MW_INSTANTIATE(T)                                                                                           \
  template bool CudnnAttention::runs<T>(const AttentionCall<T>&, const T*, bool);                                   \
  template std::size_t CudnnAttention::workspace<T>(const AttentionCall<T>&, bool);                                 \
  template void CudnnAttention::run<T>(Stream, const AttentionCall<T>&, T*, float*, void*);                         \
  template bool CudnnAttention::runs_backward<T>(const AttentionCall<T>&, const T*, const AttentionGradients<T>&);  \
  template std::size_t CudnnAttention::backward_workspace<T>(const AttentionCall<T>&, const AttentionGradients<T>&, \
                                                             bool);                                                 \
  template void CudnnAttention::run_backward<T>(Stream, const AttentionCall<T>&, const T*, const float*, const T*,  \
                                                const AttentionGradients<T>&, void*);
MW_FOR_EACH_TYPE(MW_INSTANTIATE)
#undef MW_INSTANTIATE

}  // namespace meshwright::kernels::cuda
