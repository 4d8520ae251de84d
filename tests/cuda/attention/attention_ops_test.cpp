// SPDX-License-Identifier: Apache-2.0
// Ops of attention by the device's kernels against the processor's, on a shard whose place matters.
#include "executor/cuda/cuda_kernel_table.h"
#include "tests/cuda/flat_ops.h"
#include "tests/op_case.h"

namespace meshwright::attention_ops_test {
namespace {

using Extra = Attributes::Extra;
using kernels::cuda::DeviceArray;

// The second half along axis `halved` of the op added last; numbers of its operands do not matter.
void expect_processors(const OpCase& c, const std::string& halved) {
  const Graph graph = op_bench::with_backward(c).graph;
  for (const Op& op : graph.ops()) {
    const CudaKernel kernel = cuda_attention_kernel(op.kind);
    if (kernel == nullptr) continue;
    SCOPED_TRACE(name_of(op.kind));
    const IterationSpace space = iteration_space(graph, op);
    std::vector<std::int64_t> sizes, begin;
    for (const IterationAxis& axis : space.axes) {
      const bool half = axis.name == halved;
      sizes.push_back(half ? axis.size / 2 : axis.size);
      begin.push_back(half ? axis.size / 2 : 0);
    }
    const OpCallPlan call = plan_op(graph, op, sizes);
    std::vector<Values> operands, expected;
    std::vector<DeviceArray<double>> inputs, outputs;
    std::vector<void*> host_in, host_out, in, out;
    for (std::size_t i = 0; i < op.inputs.size(); ++i)
      operands.push_back(spread_values(std::to_string(i), call.input_elements(i)));
    for (std::size_t r = 0; r < op.outputs.size(); ++r)
      expected.emplace_back(static_cast<std::size_t>(call.output_elements(r)));
    for (Values& values : operands) {
      host_in.push_back(values.data());
      inputs.emplace_back(values);
    }
    for (Values& values : expected) {
      host_out.push_back(values.data());
      outputs.push_back(DeviceArray<double>::of_size(static_cast<std::int64_t>(values.size())));
    }
    for (auto& array : inputs) in.push_back(array.data());
    for (auto& array : outputs) out.push_back(array.data());
    const OpMoment moment{.begin = begin};
    run_op<double>(call, host_in, host_out, moment);
    kernels::cuda::TestWorkspace workspace;
    kernels::cuda::Products products(false);
    const std::vector<DType> in_types(in.size(), DType::F64), out_types(out.size(), DType::F64);
    kernel({{call, in, out, moment}, in_types, out_types, kernels::cuda::kNoStream, workspace, products});
    for (std::size_t r = 0; r < outputs.size(); ++r) {
      const Values found = outputs[r].values();
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[r][i], 1e-12) << "result " << r << ", element " << i;
    }
  }
}

TEST(CudaAttentionOps, OfFusedOperandsRunOnAnyHeads) {
  OpCase c;
  c.add(OpKind::Attention, {c.parameter("qkv", {{"batch", 2}, {"seq", 5}, {"qkv", 3}, {"heads", 4}, {"head", 6}})});
  expect_processors(c, "heads");
}

OpCase grouped(const Attributes& attributes) {
  OpCase c;
  const Dim batch{"batch", 2}, seq{"seq", 6}, kv_seq{"kv_seq", 9}, heads{"kv_heads", 2}, group{"group", 4}, d{"d", 3};
  std::vector<TensorId> operands = {c.parameter("q", {batch, seq, heads, group, d}),
                                    c.parameter("k", {batch, kv_seq, heads, d}),
                                    c.parameter("v", {batch, kv_seq, heads, {"e", 5}})};
  if (attributes.extra == Extra::Sink) operands.push_back(c.parameter("sink", {heads, group}));
  if (attributes.extra == Extra::RelativeBias) operands.push_back(c.parameter("table", {{"buckets", 8}, heads, group}));
  c.add(OpKind::GroupedAttention, operands, attributes);
  return c;
}

TEST(CudaAttentionOps, KnowTheirPositions) {
  expect_processors(grouped({.causal = true, .attention_window = 4, .extra = Extra::Sink}), "seq");
  expect_processors(grouped({.scale = 0.3}), "seq");
}
TEST(CudaAttentionOps, BiasByDistance) {
  expect_processors(grouped({.causal = true, .extra = Extra::RelativeBias}), "seq");
  expect_processors(grouped({.extra = Extra::RelativeBias}), "kv_heads");
}
TEST(CudaAttentionOps, KnowTheirHeadsSlopes) {
  expect_processors(grouped({.causal = true, .extra = Extra::Alibi}), "group");
  expect_processors(grouped({.extra = Extra::Alibi}), "kv_heads");
}

TEST(CudaAttentionOps, TurnByTheirPositions) {
  OpCase c;
  const TensorId x = c.parameter("x", {{"batch", 2}, {"seq", 6}, {"heads", 2}, {"group", 3}, {"d", 8}});
  c.add(OpKind::Rotary, {x}, {.rotary_dims = 4});
  expect_processors(c, "seq");
}

}  // namespace
}  // namespace meshwright::attention_ops_test
