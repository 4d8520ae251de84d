// SPDX-License-Identifier: Apache-2.0
#include "executor/check/graph_interpreter.h"

#include <cstring>

#include "core/base/errors.h"
#include "executor/base/element_type.h"

namespace meshwright {

namespace {

std::vector<std::int64_t> shape_of(const Tensor& tensor) {
  std::vector<std::int64_t> shape;
  for (const Dim& dim : tensor.dims) shape.push_back(dim.size);
  return shape;
}

}  // namespace

GraphInterpreter::GraphInterpreter(const Graph& graph, std::uint64_t seed, DType precision, GivenValues given,
                                   HostOps ops)
    : graph_(graph), precision_(precision), ops_(ops), initial_(graph, seed, precision, std::move(given)) {
  for (const Tensor& tensor : graph.tensors()) {
    // Every tensor has memory of its own, so that all values can be read after a step.
    values_.push_back(pool_.allocate(storage_size(tensor.elements(), tensor.dtype, precision), tensor.bytes()));
    const std::vector<std::int64_t> shape = shape_of(tensor), origin(shape.size(), 0);
    if (tensor.kind != TensorKind::Input && tensor.kind != TensorKind::Intermediate)
      initial_.fill(tensor, origin, shape, values_.back().data);
  }
  for (const Op& op : graph.ops()) {
    std::vector<std::int64_t> sizes;
    for (const IterationAxis& axis : iteration_space(graph, op).axes) sizes.push_back(axis.size);
    // With whole sizes: nothing is split on one device.
    calls_.push_back(plan_op(graph, op, std::move(sizes)));
  }
}

std::vector<double> GraphInterpreter::get(TensorId id) const {
  const Tensor& tensor = graph_.tensor(id);
  return with_element_type(computed_type(tensor.dtype, precision_), [&](auto zero) {
    using T = decltype(zero);
    const T* values = static_cast<const T*>(values_[id.index()].data);
    return std::vector<double>(values, values + tensor.elements());
  });
}

void GraphInterpreter::set(TensorId id, const std::vector<double>& values) {
  const Tensor& tensor = graph_.tensor(id);
  MW_CHECK(static_cast<std::int64_t>(values.size()) == tensor.elements(), "'{}' has {} elements, {} are given",
           tensor.name, tensor.elements(), values.size());
  with_element_type(computed_type(tensor.dtype, precision_), [&](auto zero) {
    using T = decltype(zero);
    T* stored = static_cast<T*>(values_[id.index()].data);
    for (std::size_t i = 0; i < values.size(); ++i) stored[i] = static_cast<T>(values[i]);
  });
}

void GraphInterpreter::load_inputs(int step, int microbatch) {
  microbatch_ = microbatch;
  for (const Tensor& tensor : graph_.tensors()) {
    if (tensor.kind != TensorKind::Input) continue;
    const std::vector<std::int64_t> shape = shape_of(tensor), origin(shape.size(), 0);
    initial_.fill_input(tensor, step, microbatch, origin, shape, values_[tensor.id.index()].data);
  }
}

void GraphInterpreter::clear_accumulators() {
  // Zero bytes are the number 0 in every type.
  for (const Tensor& tensor : graph_.tensors())
    if (tensor.kind == TensorKind::Accumulator)
      std::memset(values_[tensor.id.index()].data, 0, values_[tensor.id.index()].size);
}

void GraphInterpreter::run(Phase phase, std::int64_t step, double rate) {
  for (const Op& op : graph_.ops()) {
    if (op.phase != phase) continue;
    std::vector<void*> inputs, outputs;
    for (const TensorId id : op.inputs) inputs.push_back(values_[id.index()].data);
    for (const TensorId id : op.outputs) outputs.push_back(values_[id.index()].data);
    ops_.run_op(calls_[op.id.index()], inputs, outputs, {.step = step, .microbatch = microbatch_, .rate = rate});
  }
}

}  // namespace meshwright
