// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/cuda_kernel_table.h"
#include "kernels/cuda/tokens/embedding.h"

namespace meshwright {

namespace {

namespace cuda = kernels::cuda;

void run_embedding(const CudaOperands& o) {
  with_cuda_type(o.input_types[1], [&]<class T>(T) {
    cuda::embedding(o.stream, o.integers(0), o.in<T>(1), o.out<T>(0),
                    {o.elements(0), o.rows(1), o.width(1), o.position()});
  });
}

void run_embedding_backward(const CudaOperands& o) {
  with_cuda_type(o.input_types[1], [&]<class T>(T) {
    const std::int64_t rows = o.elements(0), width = o.width(1), vocab = o.out_elements(0) / width;
    cuda::embedding_backward(o.stream, o.integers(0), o.in<T>(1), o.out<T>(0), {rows, vocab, width, o.position()},
                             o.workspace.take(cuda::embedding_backward_workspace<T>({rows, vocab, width})));
  });
}

}  // namespace

CudaKernel cuda_embedding_kernel(OpKind kind) {
  using K = OpKind;
  static const KernelTable<CudaKernel> table = {
      {K::Embedding, run_embedding},
      {K::EmbeddingBackward, run_embedding_backward},
  };
  return table.of(kind);
}

}  // namespace meshwright
