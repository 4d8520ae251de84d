// SPDX-License-Identifier: Apache-2.0
// Sizes of matrices that take every way through the normalisations (kernels/cuda/blocks/row_packs.h), and calls of
// their ops.
#pragma once

#include "core/base/text.h"
#include "core/graph/graph.h"
#include "tests/cuda/flat_ops.h"
#include "tests/cuda/whole_ops.h"

namespace meshwright::kernels::cuda {

using NumberTypes = testing::Types<float, double, Bf16, F16>;

struct RowSize {
  std::int64_t rows, width;
  [[nodiscard]] std::int64_t elements() const { return rows * width; }
};

// Packs of 16 bytes, then single elements: of groups of lanes that keep one pack and four, of blocks that keep four and
// more, and of rows that are not kept.
template <class T>
std::vector<RowSize> row_sizes() {
  std::vector<RowSize> sizes = {{1, 1},   {300, 1}, {37, 5},   {5, 31},   {1, 33},
                                {3, 127}, {3, 129}, {2, 1001}, {2, 2049}, {2, 8193}};
  const std::int64_t n = 16 / static_cast<std::int64_t>(sizeof(T));
  for (const auto& [rows, packs] : std::vector<RowSize>{
           {1, 1}, {37, 3}, {5, 32}, {150, 33}, {3, 96}, {3, 128}, {2, 129}, {2, 640}, {1, 2048}, {2, 2049}, {2, 4097}})
    sizes.push_back({rows, packs * n});
  return sizes;
}

inline Values same_for(std::int64_t count, double value) { return Values(static_cast<std::size_t>(count), value); }

template <class T>
constexpr double kWidePlace = kHalfPlace<Wide<T>>;

// An op on whole tensors: operands and results by device memory, in their order and type.
struct OpTensor {
  void* data;
  DType type;
  std::vector<Dim> dims;
};
template <class T>
OpTensor op_tensor(DeviceArray<T>& array, std::vector<Dim> dims) {
  return {array.data(), kDType<T>, std::move(dims)};
}

// As the graph plans it: what the op's results are is the graph's word.
inline void run_normalization(OpKind kind, const Attributes& attributes, const std::vector<OpTensor>& inputs,
                              const std::vector<void*>& outputs) {
  Graph graph;
  graph.dtype = inputs.at(0).type;
  std::vector<TensorId> operands;
  std::vector<void*> in;
  std::vector<DType> in_types, out_types;
  for (const OpTensor& tensor : inputs) {
    operands.push_back(
        graph.add_tensor(fmt::format("operand{}", operands.size()), TensorKind::Input, tensor.type, tensor.dims));
    in.push_back(tensor.data);
    in_types.push_back(tensor.type);
  }
  for (const TensorId result : graph.add_op(kind, "op", operands, attributes))
    out_types.push_back(graph.tensor(result).dtype);
  ASSERT_EQ(out_types.size(), outputs.size());
  const Op& op = graph.ops().back();
  const OpCallPlan call = whole_call(graph, op);
  const OpMoment moment{};
  TestWorkspace workspace;
  Products products(false);
  const CudaKernel kernel = cuda_normalization_kernel(kind);
  ASSERT_NE(kernel, nullptr);
  kernel({{call, in, outputs, moment}, in_types, out_types, kNoStream, workspace, products});
  synchronize(kNoStream);
}

}  // namespace meshwright::kernels::cuda
