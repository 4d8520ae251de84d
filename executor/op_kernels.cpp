// SPDX-License-Identifier: Apache-2.0
#include "executor/op_kernels.h"

#include <utility>

#include "core/base/errors.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/layer_norm.h"
#include "kernels/cpu/loss.h"
#include "kernels/cpu/optimizer.h"

namespace meshwright {

namespace {

std::int64_t product(const std::vector<int>& dims, const std::vector<std::int64_t>& sizes) {
  std::int64_t total = 1;
  for (const int axis : dims) total *= sizes[static_cast<std::size_t>(axis)];
  return total;
}

template <class T>
struct Operands {
  const OpCallPlan& call;
  std::span<void*const> inputs, outputs;

  const T* in(std::size_t i) const { return static_cast<const T*>(inputs[i]); }
  const std::int32_t* integers(std::size_t i) const { return static_cast<const std::int32_t*>(inputs[i]); }
  T* out(std::size_t i) const { return static_cast<T*>(outputs[i]); }
  std::int64_t elements(std::size_t input) const { return call.input_elements(input); }
  // Input `input` as rows over its last dimension.
  std::int64_t width(std::size_t input) const {
    const std::vector<int>& dims = call.space.inputs[input];
    return dims.empty() ? 1 : call.sizes[static_cast<std::size_t>(dims.back())];
  }
  std::int64_t rows(std::size_t input) const { return elements(input) / width(input); }
};

// The bias covers the trailing dimensions of x; a selecting bias also reaches over the one before, and acts on its
// index 0.
struct BiasShape {
  std::int64_t rows, width, bias_width;
};
template <class T>
BiasShape bias_shape(const Operands<T>& o, const std::vector<int>& bias) {
  const std::vector<int>& x = o.call.space.inputs[0];
  const std::int64_t bias_width = product(bias, o.call.sizes);
  std::int64_t width = bias_width;
  if (o.call.attributes.bias_select) width *= o.call.sizes[static_cast<std::size_t>(x[x.size() - bias.size() - 1])];
  return {o.elements(0) / width, width, bias_width};
}

template <class T>
kernels::AttentionShape attention_shape(const Operands<T>& o) {
  const std::vector<int>& qkv = o.call.space.inputs[0];
  const auto size = [&](std::size_t d) { return o.call.sizes[static_cast<std::size_t>(qkv[d])]; };
  return {size(0), size(1), size(3), size(4)};
}

template <class T>
void run_elementwise(const Operands<T>& o) {
  const std::int64_t n = o.elements(0);
  switch (o.call.kind) {
    case OpKind::Add:
      return kernels::add(o.in(0), o.in(1), o.out(0), n);
    case OpKind::Relu:
      return kernels::relu(o.in(0), o.out(0), n);
    case OpKind::ReluBackward:
      return kernels::relu_backward(o.in(0), o.in(1), o.out(0), n);
    case OpKind::Gelu:
      return kernels::gelu(o.in(0), o.out(0), n);
    case OpKind::GeluBackward:
      return kernels::gelu_backward(o.in(0), o.in(1), o.out(0), n);
    case OpKind::SquaredErrorLoss:
      *o.out(0) = kernels::squared_error(o.in(0), o.in(1), n, o.call.attributes.scale);
      return;
    case OpKind::SquaredErrorBackward:
      return kernels::squared_error_backward(o.in(0), o.in(1), o.out(0), n, o.call.attributes.scale);
    default:
      throw InternalError(fmt::format("{} is not element-wise", name_of(o.call.kind)));
  }
}

template <class T>
void run_rows(const Operands<T>& o, std::int64_t position) {
  const std::int64_t rows = o.rows(0), width = o.width(0);
  const double scale = o.call.attributes.scale;
  switch (o.call.kind) {
    case OpKind::LayerNorm:
      return kernels::layer_norm(o.in(0), o.in(1), o.in(2), o.out(0), rows, width);
    case OpKind::LayerNormBackward:
      return kernels::layer_norm_backward(o.in(0), o.in(1), o.in(2), o.out(0), rows, width);
    case OpKind::LayerNormParamBackward:
      return kernels::layer_norm_parameter_backward(o.in(0), o.in(1), o.out(0), o.out(1), rows, width);
    case OpKind::RowMax:
      return kernels::row_max(o.in(0), o.out(0), rows, width);
    case OpKind::SumExp:
      return kernels::sum_exp(o.in(0), o.in(1), o.out(0), rows, width);
    case OpKind::PickLabel:
      return kernels::pick_label(o.in(0), o.integers(1), o.out(0), rows, width, position);
    case OpKind::CrossEntropyLoss:
      *o.out(0) = kernels::cross_entropy(o.in(0), o.in(1), o.in(2), o.elements(0), scale);
      return;
    case OpKind::CrossEntropyBackward:
      return kernels::cross_entropy_backward(o.in(0), o.in(1), o.in(2), o.integers(3), o.out(0), rows, width, position,
                                             scale);
    default:
      throw InternalError(fmt::format("{} does not work on rows", name_of(o.call.kind)));
  }
}

template <class T>
void run_bias(const Operands<T>& o) {
  if (o.call.kind == OpKind::BiasAdd) {
    const auto [rows, width, bias_width] = bias_shape(o, o.call.space.inputs[1]);
    kernels::bias_add(o.in(0), o.in(1), o.out(0), rows, width, bias_width);
  } else {
    const auto [rows, width, bias_width] = bias_shape(o, o.call.space.outputs[0]);
    kernels::bias_gradient(o.in(0), o.out(0), rows, width, bias_width);
  }
}

template <class T>
void run_embedding(const Operands<T>& o, std::int64_t position) {
  if (o.call.kind == OpKind::Embedding)
    kernels::embedding(o.integers(0), o.in(1), o.out(0), o.elements(0), o.rows(1), o.width(1), position);
  else
    kernels::embedding_backward(o.integers(0), o.in(1), o.out(0), o.elements(0), o.call.output_elements(0) / o.width(1),
                                o.width(1), position);
}

template <class T>
void run_update(const Operands<T>& o, std::int64_t step) {
  const Attributes& a = o.call.attributes;
  const std::int64_t n = o.elements(0);
  if (o.call.kind == OpKind::Accumulate) return kernels::accumulate(o.out(0), o.in(1), n);
  // With a master copy the master is what is updated; the weight follows it.
  const bool adam = o.call.kind == OpKind::AdamUpdate;
  const std::size_t master = o.inputs.size() == (adam ? 5u : 3u) ? 1 : 0;
  T* copy = master == 1 ? o.out(0) : nullptr;
  if (adam)
    kernels::adam_update(o.out(master), copy, o.out(master + 1), o.out(master + 2), o.in(master + 3), n,
                         {a.learning_rate, a.beta1, a.beta2, a.epsilon, step});
  else
    kernels::sgd_update(o.out(master), copy, o.in(master + 1), n, a.learning_rate);
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
  const Operands<T> o{call, inputs, outputs};
  switch (call.kind) {
    case OpKind::Contract:
      return run_contraction(call.contraction, o.in(0), o.in(1), o.out(0));
    case OpKind::BiasAdd:
    case OpKind::BiasGradient:
      return run_bias(o);
    case OpKind::Add:
    case OpKind::Relu:
    case OpKind::ReluBackward:
    case OpKind::Gelu:
    case OpKind::GeluBackward:
    case OpKind::SquaredErrorLoss:
    case OpKind::SquaredErrorBackward:
      return run_elementwise(o);
    case OpKind::LayerNorm:
    case OpKind::LayerNormBackward:
    case OpKind::LayerNormParamBackward:
    case OpKind::RowMax:
    case OpKind::SumExp:
    case OpKind::PickLabel:
    case OpKind::CrossEntropyLoss:
    case OpKind::CrossEntropyBackward:
      return run_rows(o, moment.position);
    case OpKind::Attention:
      return kernels::attention(o.in(0), o.out(0), attention_shape(o));
    case OpKind::AttentionBackward:
      return kernels::attention_backward(o.in(0), o.in(1), o.out(0), attention_shape(o));
    case OpKind::Embedding:
    case OpKind::EmbeddingBackward:
      return run_embedding(o, moment.position);
    case OpKind::Accumulate:
    case OpKind::SgdUpdate:
    case OpKind::AdamUpdate:
      return run_update(o, moment.step);
  }
  throw InternalError(fmt::format("no kernel for op kind {}", static_cast<int>(call.kind)));
}

template void run_op<float>(const OpCallPlan&, std::span<void* const>, std::span<void* const>, const OpMoment&);
template void run_op<double>(const OpCallPlan&, std::span<void* const>, std::span<void* const>, const OpMoment&);

}  // namespace meshwright
