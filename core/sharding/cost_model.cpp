// SPDX-License-Identifier: Apache-2.0
#include "core/sharding/cost_model.h"

#include <optional>
#include <utility>

#include "core/base/errors.h"
#include "core/sharding/split_by_name.h"

namespace meshwright {

namespace {

bool is_floating(DType dtype) { return dtype != DType::I32; }

// Writes tensors in the signature's notation, naming axes as they appear.
class SignatureText {
 public:
  SignatureText(const std::vector<std::int64_t>& sizes, DType main)
      : sizes_(sizes), main_(main), letters_(sizes.size(), '\0') {}

  // Another floating type than the op's (mixed precision) is marked, as it changes what the op costs: "[a,b]:f32".
  [[nodiscard]] std::string tensor(const Tensor& tensor, const std::vector<int>& axes) {
    std::string text = "[";
    for (std::size_t d = 0; d < axes.size(); ++d) {
      if (d > 0) text += ',';
      text += axis(static_cast<std::size_t>(axes[d]));
    }
    text += ']';
    if (is_floating(tensor.dtype) && tensor.dtype != main_) text += fmt::format(":{}", name_of(tensor.dtype));
    return text;
  }

 private:
  std::string axis(std::size_t index) {
    if (letters_[index] != '\0') return {letters_[index]};
    MW_CHECK(next_ <= 'z', "an op of more than 26 axes");
    letters_[index] = next_++;
    return fmt::format("{}={}", letters_[index], sizes_[index]);
  }

  const std::vector<std::int64_t>& sizes_;
  DType main_;
  std::vector<char> letters_;  // by axis; '\0' until it appears
  char next_ = 'a';
};

std::optional<DType> first_floating(const Graph& graph, const Op& op) {
  for (const auto* list : {&op.inputs, &op.outputs})
    for (const TensorId id : *list)
      if (is_floating(graph.tensor(id).dtype)) return graph.tensor(id).dtype;
  return std::nullopt;
}

// Each dimension is cut into as many pieces as the axis that it walks, whatever the axis's own size.
Bytes local_bytes(const Tensor& tensor, const std::vector<int>& walked, const IterationSpace& space,
                  const std::vector<std::int64_t>& sizes) {
  std::int64_t elements = 1;
  for (std::size_t d = 0; d < walked.size(); ++d) {
    const auto a = static_cast<std::size_t>(walked[d]);
    elements *= local_extent(tensor.dims[d].size, space.axes[a].size, sizes[a]);
  }
  return Bytes(static_cast<double>(elements) * size_of(tensor.dtype));
}

}  // namespace

const char* name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::AllReduce:
      return "all-reduce";
    case CollectiveKind::ReduceScatter:
      return "reduce-scatter";
    case CollectiveKind::AllGather:
      return "all-gather";
    case CollectiveKind::AllToAll:
      return "all-to-all";
  }
  throw InternalError(fmt::format("collective kind {} has no name", static_cast<int>(kind)));
}

const char* name_of(Basis basis) {
  switch (basis) {
    case Basis::Measured:
      return "measured";
    case Basis::Interpolated:
      return "interpolated";
    case Basis::Modelled:
      return "modelled";
  }
  throw InternalError(fmt::format("basis {} has no name", static_cast<int>(basis)));
}

OpWork op_work(const Graph& graph, const Op& op, const std::vector<std::int64_t>& local_sizes) {
  return op_work(graph, op, iteration_space(graph, op), local_sizes);
}

OpWork op_work(const Graph& graph, const Op& op, const IterationSpace& space,
               const std::vector<std::int64_t>& local_sizes) {
  MW_CHECK(local_sizes.size() == space.axes.size(), "op '{}' has {} axes, {} sizes were given", op.name,
           space.axes.size(), local_sizes.size());
  // Moving integers costs by bytes only, like every op without contraction.
  const DType dtype = first_floating(graph, op).value_or(DType::I32);

  SignatureText text(local_sizes, dtype);
  std::string signature = fmt::format("{} {} ", name_of(op.kind), name_of(dtype));
  Bytes bytes(0);
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const Tensor& tensor = graph.tensor(op.inputs[i]);
    signature += text.tensor(tensor, space.inputs[i]);
    bytes += local_bytes(tensor, space.inputs[i], space, local_sizes);
  }
  signature += "->";
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    const Tensor& tensor = graph.tensor(op.outputs[i]);
    signature += text.tensor(tensor, space.outputs[i]);
    bytes += local_bytes(tensor, space.outputs[i], space, local_sizes);
  }
  // What changes the work without changing a shape.
  const Attributes& a = op.attributes;
  if (a.bias_select) signature += " select";
  if (!a.stride.empty()) signature += fmt::format(" stride {}", fmt::join(a.stride, ","));
  if (a.causal) signature += " causal";
  if (a.top_k > 0) signature += fmt::format(" top {}", a.top_k);
  if (a.attention_window > 0) signature += fmt::format(" window {}", a.attention_window);
  return {op.kind, dtype, contraction_flops(op.kind, space, local_sizes), bytes, std::move(signature)};
}

}  // namespace meshwright
