// SPDX-License-Identifier: Apache-2.0
// The Graph: the training step of a model for one microbatch, as ops in topological order over tensors with named
// dimensions.
//
// A dimension's name is its identity: a contraction sums over the names its result lacks, a strategy splits a name, and
// an op derived by autodiff is split like the op it came from because both iterate over the same names. Two dimensions
// that must not be confused need two names ("embed" and "mlp"), whatever their sizes.
//
// Phases: Forward and Backward ops run once per microbatch; Update ops once per step, after the last microbatch.
// Parameters, optimizer state and gradient accumulators are updated in place: the op that writes one lists it as input
// and output tensor `updates`.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/units.h"

namespace meshwright {

enum class DType { F64, F32, BF16, F16, I32 };
[[nodiscard]] const char* name_of(DType dtype);                // "f32"
[[nodiscard]] DType dtype_from_name(const std::string& name);  // throws InputError with the nearest names
[[nodiscard]] int size_of(DType dtype);                        // bytes per element
// What sums, losses and optimizer state are kept in: F32 for the 16-bit types, else the type itself.
[[nodiscard]] DType accumulation_dtype(DType dtype);
// What gradients are summed over microbatches in: as Megatron-LM does, fp16 in fp16 (the loss is scaled to its range),
// bf16 in F32 (its 8 bits of mantissa would lose small terms), else the type itself.
[[nodiscard]] DType gradient_dtype(DType dtype);

struct Dim {
  std::string name;
  std::int64_t size;
  bool operator==(const Dim&) const = default;
};

enum class TensorKind {
  Input,           // a piece of the batch: given per microbatch
  Parameter,       // trained weights
  OptimizerState,  // Adam's moments, fp32 master weights
  Accumulator,     // sum over microbatches of one parameter's gradient, from one use of the parameter
  Intermediate,    // made by an op
};

struct Tensor {
  TensorId id;
  std::string name;
  TensorKind kind;
  DType dtype;
  std::vector<Dim> dims;
  std::optional<OpId> producer;       // Intermediate only
  std::optional<TensorId> parameter;  // OptimizerState and Accumulator: the parameter they belong to

  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] Bytes bytes() const;
};

enum class OpKind {
  Contract,      // sum over the names missing from the result: matmul in any layout
  BiasAdd,       // x + bias, bias over trailing names of x; see Attributes::bias_select
  BiasGradient,  // sum of dy over the names the bias lacks
  Add,           // x + y, same names
  Relu,
  ReluBackward,  // (x) ; (x, dy)
  Gelu,
  GeluBackward,            // tanh form; (x) ; (x, dy)
  LayerNorm,               // (x, gamma, beta): over x's last name
  LayerNormBackward,       // (x, gamma, dy) -> dx
  LayerNormParamBackward,  // (x, dy) -> dgamma, dbeta
  Attention,               // causal, scores scaled by 1/sqrt(head_dim);
                           // qkv (batch, seq, qkv=3, heads, head_dim) -> (batch, seq, heads, head_dim)
  AttentionBackward,       // (qkv, dout) -> dqkv; recomputes the probabilities
  Embedding,               // (ids, table (vocab, embed)) -> (..., embed)
  EmbeddingBackward,       // (ids, dy) -> dtable
  RowMax,                  // max over the last name
  SumExp,                  // (x, max) -> sum over the last name of exp(x - max)
  PickLabel,               // (x, labels) -> x at the label, over the last name
  CrossEntropyLoss,        // (max, sum_exp, picked) -> scalar: scale * sum(max + log(sum_exp) - picked)
  CrossEntropyBackward,    // (x, max, sum_exp, labels) -> scale * (softmax(x) - onehot(labels))
  SquaredErrorLoss,        // (x, y) -> scalar: scale * sum((x - y)^2)
  SquaredErrorBackward,    // (x, y) -> 2 * scale * (x - y)
  Accumulate,              // (accumulator, g) -> accumulator + g, in place
  SgdUpdate,               // (w, g) -> w - lr g, in place; with a master copy: (w, master, g) -> (w, master)
  AdamUpdate,              // (w, m, v, g) -> (w, m, v), in place; with a master copy:
                           // (w, master, m, v, g) -> (w, master, m, v)
};
[[nodiscard]] const char* name_of(OpKind kind);  // "contract"

enum class Phase { Forward, Backward, Update };
[[nodiscard]] const char* name_of(Phase phase);

struct Attributes {
  // Contract: the result's dimension names, in order; BiasGradient: the bias's; EmbeddingBackward: {vocab}.
  std::vector<std::string> result_names = {};
  std::int64_t result_size = 0;  // EmbeddingBackward: size of the vocabulary
  bool bias_select = false;      // BiasAdd/BiasGradient: the bias acts on index 0 of the name before its own
  double scale = 1.0;            // losses: 1 / (number of terms in the whole batch, all microbatches)
  double learning_rate = 0.0;    // updates
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
};

struct Op {
  OpId id;
  OpKind kind;
  std::string name;
  Phase phase;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;  // in-place ops list the tensors they overwrite
  Attributes attributes;
  std::optional<OpId> forward;  // Backward ops: the forward op they were derived from (also recomputed copies)
  int block = -1;               // the model's repeated block (transformer block), -1 outside
};

// One axis of an op's loop nest. An axis absent from every result is a reduction: splitting it leaves partial results.
struct IterationAxis {
  std::string name;
  std::int64_t size;
  bool reduction;
  bool splittable;
};

// Which axis each dimension of each operand and result walks. Ops whose results depend on the global position along an
// axis (labels, token ids) name it in `position_axis`: a shard must know its offset there.
struct IterationSpace {
  std::vector<IterationAxis> axes;
  std::vector<std::vector<int>> inputs;   // [input][dim] -> axis
  std::vector<std::vector<int>> outputs;  // [output][dim] -> axis
  enum class Reduce { Sum, Max } reduce = Reduce::Sum;
  std::optional<int> position_axis;

  [[nodiscard]] std::optional<int> find(const std::string& name) const;
};

class Graph {
 public:
  std::string name;               // "gpt-2.6b"
  std::int64_t batch = 0;         // samples in the whole step
  std::int64_t microbatches = 1;  // the graph's "batch" dimension is batch / microbatches
  DType dtype = DType::F32;       // of weights and activations

  [[nodiscard]] const std::vector<Tensor>& tensors() const { return tensors_; }
  [[nodiscard]] const std::vector<Op>& ops() const { return ops_; }
  [[nodiscard]] const Tensor& tensor(TensorId id) const { return tensors_[id.index()]; }
  [[nodiscard]] const Op& op(OpId id) const { return ops_[id.index()]; }

  // The scalar whose sum over microbatches is the step's loss; set by the model.
  std::optional<TensorId> loss;

  TensorId add_tensor(const std::string& name, TensorKind kind, DType dtype, std::vector<Dim> dims,
                      std::optional<TensorId> parameter = std::nullopt);

  // Appends an op; its results' shapes are inferred from the table. Throws InputError when the operands do not fit the
  // op. `current_phase`, `current_block` and `current_forward` are stamped on it. A single result takes the op's name;
  // several are named "<op>.<result>".
  std::vector<TensorId> add_op(OpKind kind, const std::string& name, std::vector<TensorId> inputs,
                               Attributes attributes = {});
  // The same for ops that overwrite `updates`: every input but the last, which is the gradient.
  void add_in_place_op(OpKind kind, const std::string& name, std::vector<TensorId> inputs,
                       std::vector<TensorId> updates, Attributes attributes = {});

  Phase current_phase = Phase::Forward;
  int current_block = -1;
  std::optional<OpId> current_forward;

 private:
  std::vector<Tensor> tensors_;
  std::vector<Op> ops_;
  std::set<std::string> tensor_names_, op_names_;  // each unique: plans and messages refer to them
};

// --- what follows from the op table (core/graph/op_table.cpp) ---

// The iteration space of `op`. In-place ops: outputs are the updated tensors.
[[nodiscard]] IterationSpace iteration_space(const Graph& graph, const Op& op);

// Work of an op of kind `kind` on the axes of `space` at the given (local) sizes: multiply-adds of contractions and
// attention count 2, the attention's backward counts the 8 b s^2 h d of its four products (not the recomputed scores);
// everything else counts 0 here, its cost is its bytes.
[[nodiscard]] Flops contraction_flops(OpKind kind, const IterationSpace& space, const std::vector<std::int64_t>& sizes);

// Sum of contraction_flops over all ops: one microbatch.
[[nodiscard]] Flops graph_flops(const Graph& graph);
[[nodiscard]] std::int64_t parameter_count(const Graph& graph);

// Forward ops in order (layers are cut from these).
[[nodiscard]] std::vector<OpId> forward_ops(const Graph& graph);

// A text that is equal for two graphs exactly when they have the same ops, shapes and attributes; its stable_hash is
// the graph's fingerprint in plan files.
[[nodiscard]] std::string canonical_text(const Graph& graph);

}  // namespace meshwright
