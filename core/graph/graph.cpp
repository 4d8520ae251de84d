// SPDX-License-Identifier: Apache-2.0
#include "core/graph/graph.h"

#include <algorithm>
#include <array>

#include "core/base/errors.h"
#include "core/base/text.h"
#include "core/graph/op_table.h"

namespace meshwright {

namespace {

struct DTypeRow {
  DType dtype;
  const char* name;
  int bytes;
};
constexpr std::array<DTypeRow, 5> kDTypes = {{{DType::F64, "f64", 8},
                                              {DType::F32, "f32", 4},
                                              {DType::BF16, "bf16", 2},
                                              {DType::F16, "f16", 2},
                                              {DType::I32, "i32", 4}}};

const DTypeRow& row_of(DType dtype) { return kDTypes[static_cast<std::size_t>(dtype)]; }

const char* name_of(TensorKind kind) {
  static constexpr const char* kNames[] = {"input",       "parameter",    "optimizer_state",
                                           "accumulator", "intermediate", "step_state"};
  return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace

const char* name_of(DType dtype) { return row_of(dtype).name; }
int size_of(DType dtype) { return row_of(dtype).bytes; }

DType dtype_from_name(const std::string& name) {
  std::vector<std::string> known;
  for (const DTypeRow& row : kDTypes) {
    if (name == row.name) return row.dtype;
    known.push_back(row.name);
  }
  throw InputError(unknown_name("dtype", name, known, fmt::format("Known are {}.", join(known, ", "))));
}

DType accumulation_dtype(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16 ? DType::F32 : dtype; }

DType gradient_dtype(DType dtype) { return dtype == DType::BF16 ? DType::F32 : dtype; }

const char* name_of(Phase phase) {
  static constexpr const char* kNames[] = {"forward", "backward", "update"};
  return kNames[static_cast<std::size_t>(phase)];
}

std::string to_text(const std::vector<Dim>& dims) {
  std::vector<std::string> parts;
  for (const Dim& dim : dims) parts.push_back(fmt::format("{}={}", dim.name, dim.size));
  return "(" + join(parts, ", ") + ")";
}

std::int64_t Tensor::elements() const {
  std::int64_t count = 1;
  for (const Dim& dim : dims) count *= dim.size;
  return count;
}

Bytes Tensor::bytes() const { return Bytes(static_cast<double>(elements()) * size_of(dtype)); }

TensorId Graph::add_tensor(const std::string& tensor_name, TensorKind kind, DType tensor_dtype, std::vector<Dim> dims,
                           std::optional<TensorId> parameter) {
  require_printable(tensor_name, "a tensor of the model");
  for (auto dim = dims.begin(); dim != dims.end(); ++dim) {
    require(!dim->name.empty() && dim->size >= 1,
            "tensor '{}': dimension '{}' of size {}; give a name and a size of at least 1.", tensor_name, dim->name,
            dim->size);
    const bool named_before = std::any_of(dims.begin(), dim, [&](const Dim& other) { return other.name == dim->name; });
    // The text of the dimensions is made only for the error: graphs have thousands of tensors.
    if (named_before)
      throw InputError(fmt::format(
          "tensor '{}': two dimensions are named '{}' in {}; a name is a dimension's identity, so give each its own.",
          tensor_name, dim->name, to_text(dims)));
  }
  require(!tensor_name.empty() && tensor_names_.insert(tensor_name).second,
          "tensor '{}': the name is empty or already taken; tensors of a graph need unique names.", tensor_name);
  const bool belongs = kind == TensorKind::OptimizerState || kind == TensorKind::Accumulator;
  MW_CHECK(parameter.has_value() == belongs, "tensor '{}' of kind {}", tensor_name, name_of(kind));
  const TensorId id(static_cast<int>(tensors_.size()));
  tensors_.push_back({id, tensor_name, kind, tensor_dtype, std::move(dims), std::nullopt, parameter});
  return id;
}

namespace {

std::vector<ResultShape> infer_on(const Graph& graph, OpKind kind, const std::string& name,
                                  const std::vector<TensorId>& inputs, const Attributes& attributes) {
  OpCall call{kind, name, {}, attributes};
  for (const TensorId id : inputs) {
    MW_CHECK(id.value >= 0 && id.index() < graph.tensors().size(), "op '{}' reads tensor {}", name, id.value);
    call.inputs.push_back(&graph.tensor(id));
  }
  return infer_results(call);
}

}  // namespace

std::vector<TensorId> Graph::add_op(OpKind kind, const std::string& op_name, std::vector<TensorId> inputs,
                                    Attributes attributes) {
  require_printable(op_name, "an op of the model");
  const OpRow& row = row_of(kind);
  MW_CHECK(!row.in_place, "op '{}' ({}) overwrites operands", op_name, row.name);
  const std::vector<ResultShape> shapes = infer_on(*this, kind, op_name, inputs, attributes);
  require(!op_name.empty() && op_names_.insert(op_name).second,
          "op '{}': the name is empty or already taken; ops of a graph need unique names.", op_name);
  const OpId id(static_cast<int>(ops_.size()));
  std::vector<TensorId> outputs;
  for (std::size_t r = 0; r < shapes.size(); ++r) {
    const std::string result = row.results.empty() ? op_name : fmt::format("{}.{}", op_name, row.results[r]);
    outputs.push_back(add_tensor(result, TensorKind::Intermediate, shapes[r].dtype, shapes[r].dims));
    tensors_.back().producer = id;
  }
  ops_.push_back({id, kind, op_name, current_phase, std::move(inputs), outputs, std::move(attributes), current_forward,
                  current_block});
  return outputs;
}

void Graph::add_in_place_op(OpKind kind, const std::string& op_name, std::vector<TensorId> inputs,
                            std::vector<TensorId> updates, Attributes attributes) {
  MW_CHECK(row_of(kind).in_place, "op '{}' ({}) does not overwrite operands", op_name, name_of(kind));
  (void)infer_on(*this, kind, op_name, inputs, attributes);
  MW_CHECK(updates.size() < inputs.size() && std::equal(updates.begin(), updates.end(), inputs.begin()),
           "op '{}' ({}) overwrites its first operands, up to the gradient", op_name, name_of(kind));
  require(!op_name.empty() && op_names_.insert(op_name).second,
          "op '{}': the name is empty or already taken; ops of a graph need unique names.", op_name);
  const OpId id(static_cast<int>(ops_.size()));
  ops_.push_back({id, kind, op_name, current_phase, std::move(inputs), std::move(updates), std::move(attributes),
                  current_forward, current_block});
}

std::int64_t parameter_count(const Graph& graph) {
  std::int64_t count = 0;
  for (const Tensor& tensor : graph.tensors())
    if (tensor.kind == TensorKind::Parameter) count += tensor.elements();
  return count;
}

std::vector<OpId> forward_ops(const Graph& graph) {
  std::vector<OpId> ids;
  for (const Op& op : graph.ops())
    if (op.phase == Phase::Forward) ids.push_back(op.id);
  return ids;
}

namespace {

std::string quoted(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') text += '\\';
    text += c;
  }
  return text + '"';
}

template <class Ids>
std::string numbers(const Ids& ids) {
  std::string text;
  for (const auto& id : ids) text += (text.empty() ? "" : ",") + std::to_string(id.value);
  return text;
}

template <class Tag>
std::string number(const std::optional<Id<Tag>>& id) {
  return id ? std::to_string(id->value) : "-";
}

std::string dims_text(const std::vector<Dim>& dims) {
  std::string text;
  for (const Dim& dim : dims) text += (text.empty() ? "" : ",") + quoted(dim.name) + '=' + std::to_string(dim.size);
  return text;
}

std::string attributes_text(const Attributes& attributes) {
  const Attributes plain;
  std::vector<std::string> names;
  for (const std::string& name : attributes.result_names) names.push_back(quoted(name));
  std::string text = fmt::format("names [{}] size {} select {} scale {} rate {} beta {} {} epsilon {}",
                                 join(names, ","), attributes.result_size, attributes.bias_select, attributes.scale,
                                 attributes.learning_rate, attributes.beta1, attributes.beta2, attributes.epsilon);
  // The rest only where it is set: few ops have any of it.
  if (!attributes.result_dims.empty()) text += fmt::format(" dims [{}]", dims_text(attributes.result_dims));
  const auto list = [&](const char* name, const std::vector<std::int64_t>& values) {
    if (!values.empty()) text += fmt::format(" {} {}", name, fmt::join(values, ","));
  };
  const auto field = [&](const char* name, auto value, auto usual) {
    if (value != usual) text += fmt::format(" {} {}", name, value);
  };
  list("window", attributes.window);
  list("stride", attributes.stride);
  list("before", attributes.pad_before);
  list("after", attributes.pad_after);
  field("start", attributes.start, plain.start);
  field("value", attributes.value, plain.value);
  field("low", attributes.low, plain.low);
  field("high", attributes.high, plain.high);
  field("dtype", static_cast<int>(attributes.dtype), static_cast<int>(plain.dtype));
  field("comparison", static_cast<int>(attributes.comparison), static_cast<int>(plain.comparison));
  field("probability", attributes.probability, plain.probability);
  field("seed", attributes.seed, plain.seed);
  field("causal", attributes.causal, plain.causal);
  field("attention_window", attributes.attention_window, plain.attention_window);
  field("extra", static_cast<int>(attributes.extra), static_cast<int>(plain.extra));
  field("score_cap", attributes.score_cap, plain.score_cap);
  field("rotary_base", attributes.rotary_base, plain.rotary_base);
  field("rotary_dims", attributes.rotary_dims, plain.rotary_dims);
  if (!attributes.rotary_divisors.empty())
    text += fmt::format(" rotary_divisors [{}]", fmt::join(attributes.rotary_divisors, ","));
  field("rotary_amplitude", attributes.rotary_amplitude, plain.rotary_amplitude);
  field("rotary_interleaved", attributes.rotary_interleaved, plain.rotary_interleaved);
  field("top_k", attributes.top_k, plain.top_k);
  field("capacity", attributes.capacity, plain.capacity);
  field("normalize", attributes.normalize, plain.normalize);
  field("momentum", attributes.momentum, plain.momentum);
  field("decay", attributes.weight_decay, plain.weight_decay);
  field("max_norm", attributes.max_norm, plain.max_norm);
  field("loss_scale", attributes.loss_scale, plain.loss_scale);
  field("growth_interval", attributes.growth_interval, plain.growth_interval);
  field("decay_exponent", attributes.decay_exponent, plain.decay_exponent);
  field("factored", attributes.factored, plain.factored);
  field("move_limit", attributes.move_limit, plain.move_limit);
  return text;
}

}  // namespace

std::string canonical_text(const Graph& graph) {
  std::string text = fmt::format("batch {} microbatches {} dtype {} loss {}", graph.batch, graph.microbatches,
                                 name_of(graph.dtype), number(graph.loss));
  if (graph.loss_weights)
    text += fmt::format(" weights {} total {}", graph.loss_weights->weights.value, graph.loss_weights->total.value);
  for (const TensorId id : graph.fixed) text += fmt::format(" fixed {}", id.value);
  if (graph.states_on_host) text += " states on host";
  if (graph.activations_on_host) text += " activations on host";
  if (graph.weights_on_host) text += " weights on host";
  text += "\n";
  for (const Tensor& tensor : graph.tensors()) {
    text += fmt::format("tensor {} {} {} {} [{}] of {}\n", tensor.id.value, quoted(tensor.name), name_of(tensor.kind),
                        name_of(tensor.dtype), dims_text(tensor.dims), number(tensor.parameter));
  }
  for (const Op& op : graph.ops())
    text += fmt::format("op {} {} {} {} forward {} block {} in [{}] out [{}] {}\n", op.id.value, quoted(op.name),
                        name_of(op.kind), name_of(op.phase), number(op.forward), op.block, numbers(op.inputs),
                        numbers(op.outputs), attributes_text(op.attributes));
  return text;
}

std::string fingerprint_of(const Graph& graph) { return fmt::format("{:016x}", stable_hash(canonical_text(graph))); }

}  // namespace meshwright
