// SPDX-License-Identifier: Apache-2.0
// Ops of a graph as a whole, on the device in T and on the processor in double.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "core/graph/graph.h"
#include "executor/cuda/cuda_kernel_table.h"
#include "tests/cuda/flat_ops.h"

namespace meshwright::kernels::cuda {

inline OpCallPlan whole_call(const Graph& graph, const Op& op) {
  std::vector<std::int64_t> sizes;
  for (const auto& axis : iteration_space(graph, op).axes) sizes.push_back(axis.size);
  return plan_op(graph, op, sizes);
}

// The result of an op with one, of operands that T holds.
template <class T>
Values op_on_device(CudaKernel kernel, const OpCallPlan& call, const std::vector<Values>& operands) {
  std::vector<DeviceArray<T>> arrays;
  std::vector<void*> in;
  for (const Values& values : operands) in.push_back(arrays.emplace_back(values).data());
  auto result = DeviceArray<T>::of_size(call.output_elements(0));
  const std::vector<void*> out = {result.data()};
  const std::vector<DType> in_types(in.size(), kDType<T>), out_types = {kDType<T>};
  const OpMoment moment;
  TestWorkspace workspace;
  Products products(false);
  kernel({{call, in, out, moment}, in_types, out_types, kNoStream, workspace, products});
  return result.values();
}

inline Values op_on_processor(const OpCallPlan& call, std::vector<Values> operands) {
  std::vector<void*> in;
  for (Values& values : operands) in.push_back(values.data());
  Values result(static_cast<std::size_t>(call.output_elements(0)));
  const std::vector<void*> out = {result.data()};
  run_op<double>(call, in, out, {});
  return result;
}

inline Values absolute(Values values) {
  for (double& value : values) value = std::abs(value);
  return values;
}

// Within the rounding of T, and that of sums of `terms` in Wide<T>.
template <class T>
void expect_whole_op(CudaKernel kernel, const Graph& graph, const Op& op, const std::vector<Values>& operands,
                     double terms) {
  ASSERT_NE(kernel, nullptr);
  const OpCallPlan call = whole_call(graph, op);
  std::vector<Values> magnitudes;
  for (const Values& values : operands) magnitudes.push_back(absolute(values));
  expect_rounded<T>(op_on_device<T>(kernel, call, operands), op_on_processor(call, operands),
                    2.0 * terms * kHalfPlace<Wide<T>>, op_on_processor(call, magnitudes));
}

}  // namespace meshwright::kernels::cuda
