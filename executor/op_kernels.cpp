// SPDX-License-Identifier: Apache-2.0
#include "executor/op_kernels.h"

#include <utility>

#include "core/base/errors.h"
#include "executor/ops/kernel_table.h"

namespace meshwright {

namespace {

std::int64_t product(const std::vector<int>& dims, const std::vector<std::int64_t>& sizes) {
  std::int64_t total = 1;
  for (const int axis : dims) total *= sizes[static_cast<std::size_t>(axis)];
  return total;
}

template <class T>
OpKernel<T> find_kernel(OpKind kind) {
  for (const auto family :
       {contraction_kernel<T>, elementwise_kernel<T>, normalization_kernel<T>, attention_kernel<T>, embedding_kernel<T>,
        loss_kernel<T>, convolution_kernel<T>, layout_kernel<T>, mixture_kernel<T>, optimizer_kernel<T>})
    if (const OpKernel<T> found = family(kind)) return found;
  throw InternalError(fmt::format("no kernel for {}", name_of(kind)));
}

}  // namespace

std::int64_t OpCallPlan::input_elements(std::size_t input) const { return product(space.inputs[input], sizes); }
std::int64_t OpCallPlan::output_elements(std::size_t output) const { return product(space.outputs[output], sizes); }

OpCallPlan plan_op(const Graph& graph, const Op& op, std::vector<std::int64_t> sizes) {
  OpCallPlan call{op.kind, op.attributes, iteration_space(graph, op), std::move(sizes), {}};
  MW_CHECK(call.sizes.size() == call.space.axes.size(), "op '{}' has {} axes, {} sizes are given", op.name,
           call.space.axes.size(), call.sizes.size());
  if (op.kind == OpKind::Contract) call.contraction = plan_contraction(call.space, call.sizes);
  return call;
}

template <class T>
void run_op(const OpCallPlan& call, std::span<void* const> inputs, std::span<void* const> outputs,
            const OpMoment& moment) {
  MW_CHECK(moment.begin.empty() || moment.begin.size() == call.sizes.size(), "{} axes, {} beginnings",
           call.sizes.size(), moment.begin.size());
  find_kernel<T>(call.kind)(Operands<T>{call, inputs, outputs, moment});
}

template void run_op<float>(const OpCallPlan&, std::span<void* const>, std::span<void* const>, const OpMoment&);
template void run_op<double>(const OpCallPlan&, std::span<void* const>, std::span<void* const>, const OpMoment&);

}  // namespace meshwright
