// SPDX-License-Identifier: Apache-2.0
// Attention by cuDNN's fused kernels, for what they take: Bf16 and F16 with float sums, without a sink, biases and
// masks. Without cuDNN, and on the processor, there is none; what it does not take goes as
// kernels/cuda/attention/attention.h says.
//
// The first time a shape is seen cuDNN is asked for the engines it thinks fastest; the first that has the same results
// every time is kept. Such a backward keeps the gradients of all scores in its workspace; one that would need more than
// `room` runs some of the samples, or of one sample's heads, after the others.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

// Belongs to one host thread and one device.
class CudnnAttention {
 public:
  static constexpr std::size_t kRoom = std::size_t{520} << 20;  // half a GiB of scores, and some sums

  [[nodiscard]] static bool are_built();

  // `room`: bytes that an engine may ask for. Throws Failure where cuDNN cannot start.
  explicit CudnnAttention(std::size_t room = kRoom);
  ~CudnnAttention();
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  // T: float, double, Bf16, F16. What lies at no multiple of 16 bytes it does not take. `log_sums`: they are wanted.
  template <class T>
  [[nodiscard]] bool runs(const AttentionCall<T>& call, const T* out, bool log_sums = false);
  template <class T>
  [[nodiscard]] bool runs_backward(const AttentionCall<T>& call, const T* dout, const AttentionGradients<T>& gradients);
  // Of the last of these questions: which engine runs it, or why none does.
  [[nodiscard]] const std::string& answer() const;

  // REQUIRES, of all below: runs or runs_backward of the same call. Bytes.
  template <class T>
  [[nodiscard]] std::size_t workspace(const AttentionCall<T>& call, bool log_sums = false);
  // `log_sums` (batch, heads, seq): the logarithm of each softmax's sum of exponentials of scores; null: not wanted.
  template <class T>
  void run(Stream stream, const AttentionCall<T>& call, T* out, float* log_sums, void* workspace);

  // `forward_again`: what the forward wrote is not given.
  template <class T>
  [[nodiscard]] std::size_t backward_workspace(const AttentionCall<T>& call, const AttentionGradients<T>& gradients,
                                               bool forward_again = true);
  // `out`, `log_sums`: what run() wrote; both null: it is run again, into the workspace.
  template <class T>
  void run_backward(Stream stream, const AttentionCall<T>& call, const T* out, const float* log_sums, const T* dout,
                    const AttentionGradients<T>& gradients, void* workspace);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace meshwright::kernels::cuda
