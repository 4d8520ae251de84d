// SPDX-License-Identifier: Apache-2.0
#include "executor/ops/op_kernels.h"

#include <functional>
#include <numeric>
#include <utility>

#include "core/base/errors.h"
#include "core/sharding/split_by_name.h"
#include "executor/ops/kernel_table.h"

namespace meshwright {

namespace {

std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// What the shard has of a tensor: each dimension is cut into as many pieces as the axis that it walks.
std::vector<std::int64_t> shard_shape(const OpCallPlan& call, const Tensor& tensor, const std::vector<int>& axes) {
  std::vector<std::int64_t> shape;
  for (std::size_t d = 0; d < axes.size(); ++d) {
    const auto axis = static_cast<std::size_t>(axes[d]);
    shape.push_back(local_extent(tensor.dims[d].size, call.space.axes[axis].size, call.sizes[axis]));
  }
  return shape;
}

template <class T>
OpKernel<T> find_kernel(OpKind kind) {
  for (const auto family : {contraction_kernel<T>, elementwise_kernel<T>, normalization_kernel<T>, attention_kernel<T>,
                            scan_kernel<T>, embedding_kernel<T>, loss_kernel<T>, convolution_kernel<T>,
                            layout_kernel<T>, mixture_kernel<T>, optimizer_kernel<T>})
    if (const OpKernel<T> found = family(kind)) return found;
  throw InternalError(fmt::format("no kernel for {}", name_of(kind)));
}

}  // namespace

std::int64_t OpCallPlan::input_elements(std::size_t input) const { return product(input_shapes[input]); }
std::int64_t OpCallPlan::output_elements(std::size_t output) const { return product(output_shapes[output]); }

OpCallPlan plan_op(const Graph& graph, const Op& op, std::vector<std::int64_t> sizes) {
  OpCallPlan call{op.kind, false, op.attributes, iteration_space(graph, op), std::move(sizes), {}, {}, {}, {}, {}};
  MW_CHECK(call.sizes.size() == call.space.axes.size(), "op '{}' has {} axes, {} sizes are given", op.name,
           call.space.axes.size(), call.sizes.size());
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const Tensor& tensor = graph.tensor(op.inputs[i]);
    call.input_dtypes.push_back(tensor.dtype);
    call.input_shapes.push_back(shard_shape(call, tensor, call.space.inputs[i]));
  }
  for (std::size_t o = 0; o < op.outputs.size(); ++o) {
    const Tensor& tensor = graph.tensor(op.outputs[o]);
    call.output_dtypes.push_back(tensor.dtype);
    call.output_shapes.push_back(shard_shape(call, tensor, call.space.outputs[o]));
  }
  if (op.kind == OpKind::Contract) call.contraction = plan_contraction(call.space, call.sizes);
  return call;
}

template <class T>
void run_op(const OpCallPlan& call, std::span<void* const> inputs, std::span<void* const> outputs,
            const OpMoment& moment) {
  MW_CHECK(moment.begin.empty() || moment.begin.size() == call.sizes.size(), "{} axes, {} beginnings",
           call.sizes.size(), moment.begin.size());
  find_kernel<T>(call.kind)(Operands<T>{{call, inputs, outputs, moment}});
}

template void run_op<float>(const OpCallPlan&, std::span<void* const>, std::span<void* const>, const OpMoment&);
template void run_op<double>(const OpCallPlan&, std::span<void* const>, std::span<void* const>, const OpMoment&);

}  // namespace meshwright
