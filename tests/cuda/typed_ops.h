// SPDX-License-Identifier: Apache-2.0
// Ops whose operands and results are of several types, as the graph says, on the device and on the processor (there in
// double, and int32), on a shard whose place matters.
#pragma once

#include <gtest/gtest.h>

#include <variant>

#include "core/graph/graph.h"
#include "tests/cuda/flat_ops.h"

namespace meshwright::kernels::cuda {

// On the device, in the type it is stored in.
class TypedArray {
 public:
  TypedArray(DType type, const Values& values) : array_(made(type, values)) {}
  void* data() {
    return std::visit([](auto& array) -> void* { return array.data(); }, array_);
  }
  [[nodiscard]] Values values() const {
    return std::visit([](const auto& array) { return array.values(); }, array_);
  }

 private:
  using Any = std::variant<DeviceArray<std::int32_t>, DeviceArray<float>, DeviceArray<double>, DeviceArray<Bf16>,
                           DeviceArray<F16>>;
  static Any made(DType type, const Values& values) {
    if (type == DType::I32) return DeviceArray<std::int32_t>(values);
    return with_cuda_type(type, [&](auto zero) -> Any { return DeviceArray<decltype(zero)>(values); });
  }
  Any array_;
};

// On the processor: doubles or int32.
class HostArray {
 public:
  HostArray(DType type, const Values& values)
      : integer_(type == DType::I32), numbers_(values), integers_(values.begin(), values.end()) {}
  void* data() { return integer_ ? static_cast<void*>(integers_.data()) : numbers_.data(); }
  [[nodiscard]] Values values() const { return integer_ ? Values(integers_.begin(), integers_.end()) : numbers_; }

 private:
  bool integer_;
  Values numbers_;
  std::vector<std::int32_t> integers_;
};

struct OpOperand {
  DType type;
  std::vector<Dim> dims;
};

struct OpResults {
  std::vector<Values> found, expected;  // on the device, on the processor
};

// The op of these operands on its shard `begin` of `parts` along axis `split`. `values`: of the shard's operands, each
// as its type holds it.
inline OpResults run_typed(CudaKernel kernel, OpKind kind, const Attributes& attributes,
                           const std::vector<OpOperand>& operands, const std::vector<Values>& values,
                           const std::string& split = "", std::int64_t parts = 1, std::int64_t part = 0) {
  Graph graph;
  graph.dtype = operands.at(0).type;
  std::vector<TensorId> ids;
  for (const OpOperand& operand : operands)
    ids.push_back(
        graph.add_tensor("operand" + std::to_string(ids.size()), TensorKind::Input, operand.type, operand.dims));
  graph.add_op(kind, "op", ids, attributes);
  const Op& op = graph.ops().back();
  std::vector<std::int64_t> sizes, begin;
  for (const IterationAxis& axis : iteration_space(graph, op).axes) {
    sizes.push_back(axis.name == split ? axis.size / parts : axis.size);
    begin.push_back(axis.name == split ? axis.size / parts * part : 0);
  }
  const OpCallPlan call = plan_op(graph, op, sizes);
  std::vector<TypedArray> inputs, outputs;
  std::vector<HostArray> host_inputs, host_outputs;
  std::vector<DType> in_types, out_types;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    EXPECT_EQ(static_cast<std::int64_t>(values[i].size()), call.input_elements(i)) << "operand " << i;
    inputs.emplace_back(in_types.emplace_back(operands[i].type), values[i]);
    host_inputs.emplace_back(operands[i].type, values[i]);
  }
  for (std::size_t r = 0; r < op.outputs.size(); ++r) {
    const Values other(static_cast<std::size_t>(call.output_elements(r)), 77.0);
    outputs.emplace_back(out_types.emplace_back(graph.tensor(op.outputs[r]).dtype), other);
    host_outputs.emplace_back(out_types[r], other);
  }
  std::vector<void*> in, out, host_in, host_out;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    in.push_back(inputs[i].data()), host_in.push_back(host_inputs[i].data());
  for (std::size_t r = 0; r < outputs.size(); ++r)
    out.push_back(outputs[r].data()), host_out.push_back(host_outputs[r].data());
  const OpMoment moment{.begin = begin};
  run_op<double>(call, host_in, host_out, moment);
  TestWorkspace workspace;
  Products products(false);
  kernel({{call, in, out, moment}, in_types, out_types, kNoStream, workspace, products});
  synchronize(kNoStream);
  OpResults results;
  for (TypedArray& array : outputs) results.found.push_back(array.values());
  for (HostArray& array : host_outputs) results.expected.push_back(array.values());
  return results;
}

inline Values same(std::int64_t count, double value) { return Values(static_cast<std::size_t>(count), value); }

// From low to high - 1, the same for a seed.
inline Values whole_numbers(std::int64_t count, std::uint32_t seed, std::int64_t low, std::int64_t high) {
  Values values = numbers<double>(count, seed, static_cast<double>(low), static_cast<double>(high));
  for (double& value : values) value = std::floor(value);
  return values;
}
inline std::vector<std::int32_t> integers_of(const Values& values) { return {values.begin(), values.end()}; }

template <class T>
Values rounded_to(Values values) {
  for (double& value : values) value = static_cast<double>(T(static_cast<Wide<T>>(value)));
  return values;
}

}  // namespace meshwright::kernels::cuda
