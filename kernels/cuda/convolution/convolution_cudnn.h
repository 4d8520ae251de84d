// SPDX-License-Identifier: Apache-2.0
// Convolutions by cuDNN, for those that it runs well: channels last, float (or TF32), Bf16 and F16 with float sums.
// Without cuDNN, and on the processor, there are none; those that it does not run go as
// kernels/cuda/convolution/convolution.h says.
//
// The first time a shape is seen cuDNN is asked for the algorithms it thinks fastest; the first that is deterministic,
// sums the products of the definition (no Winograd, no Fourier transforms) and fits into the room is kept. Filters go
// to cuDNN's order, (groups, out, rows.size, columns.size, in), and their gradients come from it, in the workspace.
// There, too, an x of fewer than eight 16-bit channels gets zeros for the others.
#pragma once

#include <cstddef>
#include <memory>

#include "kernels/cpu/convolution/convolution.h"
#include "kernels/cuda/runtime/stream.h"
#include "kernels/cuda/runtime/types.h"

namespace meshwright::kernels::cuda {

enum class ConvolutionPass { Forward, BackwardInput, BackwardWeight };

// Belongs to one host thread and one device.
class CudnnConvolutions {
 public:
  static constexpr std::size_t kRoom = std::size_t{256} << 20;  // bytes that an algorithm may ask for

  [[nodiscard]] static bool are_built();

  // `tensor_float`: float convolutions may round their operands to TF32's 10 bits of mantissa. Throws Failure where
  // cuDNN cannot start.
  explicit CudnnConvolutions(bool tensor_float);
  ~CudnnConvolutions();
  CudnnConvolutions(const CudnnConvolutions&) = delete;
  CudnnConvolutions& operator=(const CudnnConvolutions&) = delete;

  // T: float, double, Bf16, F16. No double, no padding behind that differs from the one before where windows reach it,
  // no sizes beyond 32 bits, nothing that cuDNN has no such algorithm for.
  template <class T>
  [[nodiscard]] bool runs(ConvolutionPass pass, const ConvolutionShape& shape);

  // REQUIRES: runs(pass, shape). Bytes.
  template <class T>
  [[nodiscard]] std::size_t workspace(ConvolutionPass pass, const ConvolutionShape& shape);
  // Operands and result as kernels/cuda/convolution/convolution.h has them: x, w and y; w, dy and dx; x, dy and dw.
  template <class T>
  void run(Stream stream, ConvolutionPass pass, const ConvolutionShape& shape, const T* first, const T* second,
           T* result, void* workspace);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace meshwright::kernels::cuda
