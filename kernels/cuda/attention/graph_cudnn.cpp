// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/attention/graph_cudnn.h"

#include <algorithm>

#include "kernels/cuda/runtime/stream.h"

namespace meshwright::kernels::cuda {

namespace {

constexpr std::int64_t kTensorAlignment = 16;
constexpr std::size_t kLongestSentence = 2048;

std::string said_by_cudnn(const char* what, cudnnStatus_t status) {
  std::string text = std::string(what) + ": " + cudnnGetErrorString(status);
  std::array<char, kLongestSentence> last{};
  cudnnGetLastErrorString(last.data(), last.size());
  if (last[0] != '\0') text += std::string(" (") + last.data() + ")";
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}
void accept(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) throw GraphRefusal(said_by_cudnn(what, status));
}

}  // namespace

// --- descriptors ---

GraphDescriptor::GraphDescriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t made = nullptr;
  accept(cudnnBackendCreateDescriptor(type, &made), "a description");
  held_.reset(made);
}

GraphDescriptor& GraphDescriptor::set_all(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                          std::size_t count, const void* values) {
  accept(cudnnBackendSetAttribute(get(), name, type, static_cast<std::int64_t>(count), values),
         ("attribute " + std::to_string(name)).c_str());
  return *this;
}

GraphDescriptor& GraphDescriptor::finish() {
  accept(cudnnBackendFinalize(get()), "a finished description");
  return *this;
}

std::size_t GraphDescriptor::read(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::size_t most,
                                  void* values) const {
  std::int64_t count = 0;
  accept(cudnnBackendGetAttribute(get(), name, type, static_cast<std::int64_t>(most), &count, values),
         ("reading attribute " + std::to_string(name)).c_str());
  return static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
}

std::int64_t GraphDescriptor::integer(cudnnBackendAttributeName_t name) const {
  std::int64_t value = 0;
  (void)read(name, CUDNN_TYPE_INT64, 1, &value);
  return value;
}

// --- tensors ---

Extents row_major(const Extents& sizes) { return {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}; }

GraphTensor OperationGraph::add(std::int64_t number, cudnnDataType_t type, const Extents& sizes, const Extents& strides,
                                std::optional<cudnnBackendAttributeName_t> kind) {
  GraphDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
      .set_all(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, sizes.size(), sizes.data())
      .set_all(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides.size(), strides.data())
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, number)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, kTensorAlignment);
  if (kind) tensor.set(*kind, CUDNN_TYPE_BOOLEAN, true);
  tensor.finish();
  tensors_.emplace_back(number, std::move(tensor));
  return {number, sizes};
}

GraphTensor OperationGraph::array(std::int64_t number, cudnnDataType_t type, const Extents& sizes,
                                  const Extents& strides) {
  return add(number, type, sizes, strides, std::nullopt);
}
GraphTensor OperationGraph::value(std::int64_t number, cudnnDataType_t type) {
  return add(number, type, {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
}
GraphTensor OperationGraph::between(cudnnDataType_t type, const Extents& sizes, const Extents& strides) {
  return add(next_++, type, sizes, strides, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}

const GraphDescriptor& OperationGraph::of(const GraphTensor& tensor) const {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& known) { return known.first == tensor.number; });
  if (found == tensors_.end()) throw Failure("a tensor that is not of this graph");
  return found->second;
}

// --- operations ---

void OperationGraph::product(const GraphTensor& a, const GraphTensor& b, const GraphTensor& to) {
  GraphDescriptor kind(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  kind.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT).finish();
  GraphDescriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, of(a))
      .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, of(b))
      .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, of(to))
      .set(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind)
      .finish();
  kinds_.push_back(std::move(kind));
  operations_.push_back(std::move(operation));
}

namespace {

GraphDescriptor pointwise_kind(cudnnPointwiseMode_t mode, cudnnDataType_t in) {
  GraphDescriptor kind(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, in);
  return kind;
}

}  // namespace

void OperationGraph::each(cudnnPointwiseMode_t mode, std::initializer_list<GraphTensor> inputs, const GraphTensor& to,
                          cudnnDataType_t in) {
  constexpr std::array kPlaces = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                  CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  GraphDescriptor kind = pointwise_kind(mode, in);
  kind.finish();
  GraphDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
  std::size_t place = 0;
  for (const GraphTensor& input : inputs) operation.set(kPlaces.at(place++), of(input));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(to)).finish();
  kinds_.push_back(std::move(kind));
  operations_.push_back(std::move(operation));
}

GraphTensor OperationGraph::positions(const GraphTensor& like, std::int64_t axis) {
  const GraphTensor to = between(CUDNN_DATA_INT32, like.sizes);
  GraphDescriptor kind = pointwise_kind(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT);
  kind.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis).finish();
  GraphDescriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, of(like))
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, of(to))
      .finish();
  kinds_.push_back(std::move(kind));
  operations_.push_back(std::move(operation));
  return to;
}

void OperationGraph::reduce(cudnnReduceTensorOp_t how, const GraphTensor& from, const GraphTensor& to) {
  GraphDescriptor kind(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  kind.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, how)
      .finish();
  GraphDescriptor operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind)
      .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, of(from))
      .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, of(to))
      .finish();
  kinds_.push_back(std::move(kind));
  operations_.push_back(std::move(operation));
}

void OperationGraph::view(const GraphTensor& from, const GraphTensor& to) {
  GraphDescriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, of(from)).set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, of(to)).finish();
  operations_.push_back(std::move(operation));
}

// --- plans ---

namespace {

std::vector<cudnnBackendDescriptor_t> pointers_to(const std::vector<GraphDescriptor>& descriptors) {
  std::vector<cudnnBackendDescriptor_t> pointers;
  for (const GraphDescriptor& descriptor : descriptors) pointers.push_back(descriptor.get());
  return pointers;
}

std::vector<GraphDescriptor> proposals(const GraphDescriptor& graph) {
  GraphDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A)
      .finish();
  const std::size_t most = heuristics.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  std::vector<GraphDescriptor> found;
  while (found.size() < most) found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  std::vector<cudnnBackendDescriptor_t> pointers = pointers_to(found);
  const std::size_t count =
      heuristics.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, pointers.data());
  while (found.size() > count) found.pop_back();
  return found;
}

GraphDescriptor engine_of(const GraphDescriptor& proposal) {
  GraphDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t pointer = engine.get();
  (void)proposal.read(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &pointer);
  return engine;
}

// cuDNN notes it of an engine whose results may differ from run to run.
bool is_deterministic(const GraphDescriptor& engine) {
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  const std::size_t count =
      engine.read(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, notes.size(), notes.data());
  const auto end = notes.begin() + static_cast<std::ptrdiff_t>(std::min(count, notes.size()));
  return std::find(notes.begin(), end, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) == end;
}

}  // namespace

GraphPlan GraphPlan::of(cudnnHandle_t library, OperationGraph operations) {
  GraphDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  const std::vector<cudnnBackendDescriptor_t> pointers = pointers_to(operations.operations_);
  graph.set_all(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, pointers.size(), pointers.data())
      .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, library)
      .finish();
  std::string why;
  for (GraphDescriptor& proposal : proposals(graph)) {
    try {
      const GraphDescriptor engine = engine_of(proposal);
      const std::int64_t number = engine.integer(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
      if (!is_deterministic(engine)) {
        why += "; engine " + std::to_string(number) + " is not deterministic";
        continue;
      }
      GraphDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, library)
          .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, proposal)
          .finish();
      GraphPlan made;
      made.bytes = static_cast<std::size_t>(plan.integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
      made.engine = number;
      made.operations = std::move(operations);
      made.descriptors.push_back(std::move(graph));
      made.descriptors.push_back(std::move(proposal));
      made.descriptors.push_back(std::move(plan));
      return made;
    } catch (const GraphRefusal& refusal) {
      why += std::string("; ") + refusal.what();
    }
  }
  throw GraphRefusal("none of cuDNN's engines runs it" + why);
}

void GraphPlan::run(cudnnHandle_t library, const std::vector<Operand>& operands, void* workspace) const {
  std::vector<std::int64_t> numbers;
  std::vector<const void*> data;
  for (const Operand& operand : operands) {
    numbers.push_back(operand.number);
    data.push_back(operand.data);
  }
  try {
    GraphDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set_all(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, numbers.size(), numbers.data())
        .set_all(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, data.size(), data.data())
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace)
        .finish();
    accept(cudnnBackendExecute(library, descriptors.back().get(), pack.get()), "a run");
  } catch (const GraphRefusal& refusal) {
    throw Failure(std::string("a graph of cuDNN failed: ") + refusal.what());
  }
}

}  // namespace meshwright::kernels::cuda
