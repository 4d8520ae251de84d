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
#include <limits>
#include <map>
#include <memory>
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
  OptimizerState,  // Adam's moments, fp32 master weights; of the parameter's dimensions, or some of them in order
  Accumulator,     // sum over microbatches of one parameter's gradient, from one use of the parameter
  Intermediate,    // made by an op
  StepState,       // of the step as a whole: small, kept by every device that reads it
};

struct Tensor {
  TensorId id;
  std::string name;
  TensorKind kind;
  DType dtype;
  std::vector<Dim> dims;
  std::optional<OpId> producer;       // Intermediate only
  std::optional<TensorId> parameter;  // OptimizerState and Accumulator: the parameter they belong to
  // Made by autodiff: the forward tensor (not a parameter) whose gradient, or contribution to it, this is.
  std::optional<TensorId> gradient_of = {};

  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] Bytes bytes() const;
};

// One row each in core/graph/ops/: operands, shapes, splits, derivative. "(x) ; (x, dy)": operands of the op; of its
// backward.
enum class OpKind {
  // contraction.cpp
  Contract,      // sum over the names missing from the result: matmul in any layout
  BiasAdd,       // x + bias, bias over trailing names of x; see Attributes::bias_select
  BiasGradient,  // sum of dy over the names the bias lacks
  // elementwise.cpp
  Add,            // x + y, same names
  Subtract,       // x - y
  Multiply,       // x y
  Divide,         // x / y
  Scale,          // Attributes::scale x
  Shift,          // x + Attributes::value
  Clamp,          // x held between Attributes::low and high
  ClampBackward,  // (x, dy) -> dy where x is within them, both included, else 0
  Relu,
  ReluBackward,  // (x) ; (x, dy)
  Gelu,          // the tanh form
  GeluBackward,
  GeluErf,  // the exact form
  GeluErfBackward,
  Silu,
  SiluBackward,
  Tanh,
  TanhBackward,
  Sigmoid,
  SigmoidBackward,
  Exp,
  ExpBackward,
  Log,
  LogBackward,
  Sqrt,
  SqrtBackward,
  Rsqrt,  // 1 / sqrt(x)
  RsqrtBackward,
  Reciprocal,
  ReciprocalBackward,
  Abs,
  AbsBackward,
  Sin,
  SinBackward,
  Cos,
  CosBackward,
  Erf,
  ErfBackward,
  Cast,             // to Attributes::dtype
  Compare,          // (x, y) -> 1 where x `comparison` y, else 0 (i32)
  Select,           // (p, x, y) -> x where p is not 0, else y
  SelectBackward,   // (p, dy) -> dy where p is not 0 (bias_select: where it is), else 0
  Dropout,          // x mask / (1 - probability); the mask is a function of seed, step, microbatch and global index
  DropoutBackward,  // (dy)
  // normalization.cpp
  LayerNorm,               // (x, gamma, beta): over x's last name; Attributes::epsilon, as all norms
  LayerNormBackward,       // (x, gamma, dy) -> dx
  LayerNormParamBackward,  // (x, dy) -> dgamma, dbeta
  RmsNorm,                 // (x, gamma): over x's last name
  RmsNormBackward,         // (x, gamma, dy) -> dx
  RmsNormParamBackward,    // (x, dy) -> dgamma
  Softmax,                 // over x's last name
  SoftmaxBackward,         // (y, dy) -> dx, y = softmax(x)
  BatchSums,               // x (..., channel) -> (moment=2, channel): sums of x and of x^2 over all else
  BatchNorm,               // (x, sums, gamma, beta); Attributes::scale = 1 / elements per channel
  BatchNormParamBackward,  // (x, sums, dy) -> dgamma, dbeta
  BatchNormBackward,       // (x, sums, gamma, dgamma, dbeta, dy) -> dx, through the sums too
  // attention.cpp
  Attention,                 // causal, scores scaled by 1/sqrt(head_dim);
                             // qkv (batch, seq, qkv=3, heads, head_dim) -> (batch, seq, heads, head_dim)
  AttentionBackward,         // (qkv, dout) -> dqkv; recomputes the probabilities
  GroupedAttention,          // q (batch, seq, kv_heads, group, d), k (batch, kv_seq, kv_heads, d),
                             // v (batch, kv_seq, kv_heads, e), [extra] -> (batch, seq, kv_heads, group, e)
  GroupedAttentionBackward,  // (q, k, v, [extra], dout) -> dq, dk, dv, [dextra]
  IndexScores,               // q (batch, seq, index_heads, d), k (batch, kv_seq, d), weights (batch, seq, index_heads)
                             // -> (batch, seq, kv_seq): sum over heads of weight relu(q k^T)
  TopKKeys,                  // scores (batch, seq, kv_seq) -> i32 (batch, seq, selected=top_k): the keys of the highest
                             // scores that a causal query sees, in order; -1: it sees no more. With a `stride` a key
                             // stands for so many positions and is seen behind the last of them; with an
                             // attention_window the last so many positions follow, numbered behind those keys.
                             // Scores (batch, seq, kv_heads, kv_seq) and a `window` (block, local) choose for each
                             // head whole blocks by their best score, and the last `local` ones up to the query's own
  SelectedAttention,  // (q, k, v, keys (batch, seq, [kv_heads], selected), [sink]): of each query to the keys chosen
                      // for it; -1: none
  SelectedAttentionBackward,  // (q, k, v, keys, [sink], dout) -> dq, dk, dv, [dsink]
  Rotary,                     // x (batch, seq, ..., head_dim): rotates pairs by angles of the position along `seq`
  RotaryBackward,             // (dy)
  // scan.cpp
  SelectiveScan,          // x (batch, chunks, chunk, groups, heads, d), dt (.., heads), a_log (groups, heads, [state]),
                          // b, c (.., groups, state), d, dt_bias (groups, heads) -> like x
  SelectiveScanBackward,  // (x, dt, a_log, b, c, d, dt_bias, dy) -> the gradients of the seven
  GatedDelta,          // q, k (batch, chunks, chunk, heads, d), v (.., heads, group, e), b, a (.., heads, group, [d]),
                       // a_log (heads, group), dt_bias (heads, group, [d]) -> like v. Attributes::value: where it is
                       // not 0, the logarithm of a decay lies between it and 0
  GatedDeltaBackward,  // (q, k, v, b, a, a_log, dt_bias, dy) -> the gradients of the seven
  // embedding.cpp
  Embedding,          // (ids, table (vocab, embed)) -> (..., embed)
  EmbeddingBackward,  // (ids, dy) -> dtable
  // loss.cpp
  RowMax,                // max over the last name
  SumExp,                // (x, max) -> sum over the last name of exp(x - max)
  PickLabel,             // (x, labels) -> x at the label, over the last name
  CrossEntropyLoss,      // (max, sum_exp, picked, [weights, total]) -> scalar:
                         // scale * sum(weights (max + log(sum_exp) - picked)) / total
  CrossEntropyBackward,  // (x, max, sum_exp, labels, [weights, total]) ->
                         // scale * weights (softmax(x) - onehot(labels)) / total
  SquaredErrorLoss,      // (x, y) -> scalar: scale * sum((x - y)^2)
  SquaredErrorBackward,  // (x, y) -> 2 * scale * (x - y)
                         // Both backwards: with a last operand `scaling`, times the loss scale
  // convolution.cpp
  Convolution,                // x (batch, h, w, [groups], in), w ([groups], kh, kw, in, out) ->
                              // (batch, h', w', [groups], out)
  ConvolutionBackwardInput,   // (w, dy) -> dx
  ConvolutionBackwardWeight,  // (x, dy) -> dw
  MaxPool,                    // x (batch, h, w, ...) -> (batch, h', w', ...)
  MaxPoolBackward,            // (x, dy) -> dx
  AveragePool,
  AveragePoolBackward,  // (dy) -> dx
  // layout.cpp
  Reshape,            // to Attributes::result_dims: dimensions merged, parted or renamed, in row-major order
  Transpose,          // to the order of result_names
  Slice,              // result_dims; from `start` on along the one dimension whose name differs
  Concat,             // (x, y, ...) along the one dimension whose names differ
  Pad,                // result_dims; x at `start` along the one dimension whose name differs, `value` around it
  Broadcast,          // to result_dims, which hold x's dimensions in order
  ReduceSum,          // to result_names, times scale
  ReduceMax,          // to result_names
  ReduceMaxBackward,  // (x, y, dy) -> dy where x is the maximum
  // mixture.cpp
  TopKSlots,            // scores (batch, seq, expert) -> i32: the slot (0..capacity-1) a token takes at each of its
                        // top_k experts, in order of seq; -1: not chosen, or the expert is full
  GateWeights,          // (scores, slots) -> scores where a slot is taken, else 0; normalised to sum 1 if `normalize`
  GateWeightsBackward,  // (scores, slots, dy)
  Dispatch,             // (x (batch, seq, embed), slots) -> (expert, batch, capacity, embed)
  DispatchBackward,     // (slots, dy) -> dx
  Combine,              // (y (expert, batch, capacity, embed), slots, weights) -> (batch, seq, embed)
  CombineBackward,      // (slots, weights, dout) -> dy
  CombineWeightsBackward,  // (y, slots, dout) -> dweights
  OneHotSlots,             // slots -> (batch, seq, capacity, expert) of Attributes::dtype: 1 at a taken slot, else 0
  // optimizer.cpp
  Accumulate,       // (accumulator, g) -> accumulator + g, in place
  SumSquares,       // (g) -> scalar
  SgdUpdate,        // w - lr g, in place: (w, [master], g, [norm], [scaling])
  MomentumUpdate,   // (w, [master], momentum, g, [norm], [scaling])
  AdamUpdate,       // (w, [master], m, v, g, [norm], [scaling]); decoupled weight decay
  MeanSquares,      // (g) -> to result_names: scale * sum of g^2
  DecayedMean,      // (v, g, [norm], [scaling]), in place: Adafactor's mean of squares, of which g is this step's
  MoveSquares,      // (g, r, [c, mean], [norm], [scaling]) -> scalar: sum of the squares of Adafactor's move
  AdafactorUpdate,  // (w, [master], g, r, [c, mean], squares, [norm], [scaling]); decoupled weight decay
  ScalingUpdate,    // (scaling, norm), in place: the loss scale of the next step
  // normalization.cpp
  Sinkhorn,  // x (..., rows, columns): softmax over columns, then Attributes::value turns of dividing by the sums
             // of columns and of rows, until both are 1
  SinkhornBackward,  // (x, dy)
};
[[nodiscard]] const char* name_of(OpKind kind);  // "contract"

enum class Phase { Forward, Backward, Update };
[[nodiscard]] const char* name_of(Phase phase);

enum class Comparison { Less, LessEqual, Equal, NotEqual, GreaterEqual, Greater };

// What an op needs beside its operands. Only the fields its kind names are read; the others keep their defaults.
struct Attributes {
  // Contract, Transpose, reductions: the result's dimension names, in order; BiasGradient: the bias's;
  // EmbeddingBackward: {vocab}.
  std::vector<std::string> result_names = {};
  std::int64_t result_size = 0;  // EmbeddingBackward: size of the vocabulary
  bool bias_select = false;      // BiasAdd/BiasGradient: the bias acts on index 0 of the name before its own
  double scale = 1.0;            // losses: 1 / (number of terms in the whole batch, all microbatches)
  double learning_rate = 0.0;    // updates
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;        // AdamUpdate; DecayedMean; norms and their backwards, whose models set it
  double decay_exponent = 0.0;  // DecayedMean: of step t, 1 - t^-decay_exponent of the mean is kept
  bool factored = false;        // MoveSquares, AdafactorUpdate: second moments are r c / mean, else r
  double move_limit = 0.0;      // AdafactorUpdate: moves of a larger root mean square are scaled to it
  // Convolution, pooling, layout ops and their backwards: the dimensions of the result that do not follow from the
  // operands (each family says which).
  std::vector<Dim> result_dims = {};
  std::vector<std::int64_t> window = {}, stride = {};  // per spatial dimension
  std::vector<std::int64_t> pad_before = {}, pad_after = {};
  std::int64_t start = 0;  // Slice, Pad
  double value = 0.0;      // Pad, Shift, GatedDelta, Sinkhorn
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();  // Clamp
  DType dtype = DType::F32;                  // Cast, OneHotSlots
  Comparison comparison = Comparison::Less;  // Compare
  double probability = 0.0;                  // Dropout
  std::uint64_t seed = 0;                    // Dropout
  bool causal = false;                       // GroupedAttention
  // GroupedAttention: keys seen back from the query, its own among them, and as far ahead where not causal; 0: all.
  std::int64_t attention_window = 0;
  // GroupedAttention. Mask: (batch, seq, kv_seq), or without some of the first two, added to the scaled scores; it has
  // no gradient.
  enum class Extra { None, Sink, RelativeBias, Alibi, Mask } extra = Extra::None;
  // GroupedAttention: scaled scores x become cap tanh(x / cap) before anything is added to them; 0: they stay.
  double score_cap = 0.0;
  double rotary_base = 10000.0;               // Rotary
  std::int64_t rotary_dims = 0;               // Rotary: of head_dim; 0: all
  std::vector<double> rotary_divisors = {};   // Rotary: of the frequency of each pair that turns; empty: all 1
  double rotary_amplitude = 1.0;              // Rotary: of cosines and sines
  bool rotary_interleaved = false;            // Rotary: a pair is two neighbours, not an element of each half
  std::int64_t top_k = 0, capacity = 0;       // TopKSlots, TopKKeys, Dispatch, OneHotSlots
  bool normalize = false;                     // GateWeights
  double momentum = 0.0, weight_decay = 0.0;  // updates
  double max_norm = 0.0;                      // updates: 0: gradients are not clipped
  // Updates and backwards of losses: the first loss scale; 0: losses are not scaled, there is no operand `scaling`.
  double loss_scale = 0.0;
  std::int64_t growth_interval = 0;  // ScalingUpdate
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

// Which axis each dimension of each operand and result walks. Dimensions of one name walk one axis; an op that renames
// dimensions (Reshape) has an axis "a|b" walked by both. An op that compares an operand's integers (labels, token ids)
// with positions along an axis names it in `position_axis`.
struct IterationSpace {
  std::vector<IterationAxis> axes;
  std::vector<std::vector<int>> inputs;   // [input][dim] -> axis
  std::vector<std::vector<int>> outputs;  // [output][dim] -> axis
  enum class Reduce { Sum, Max } reduce = Reduce::Sum;
  std::optional<int> position_axis;

  [[nodiscard]] std::optional<int> find(const std::string& name) const;
};

// The inputs of a loss that weighs its terms (tokens): each term's weight in this microbatch, and the scalar that the
// weights of the whole step add up to, given with every microbatch.
struct LossWeights {
  TensorId weights, total;
};

// Dynamic loss scaling: `state` (scaling=3) holds n, the good steps since n changed and the steps left out, all 0 at
// first; the loss scale is first * 2^n.
struct LossScaling {
  TensorId state;
  double first;
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
  // Records what autodiff knows of a tensor it made.
  void set_gradient_of(TensorId gradient, TensorId forward) { tensors_[gradient.index()].gradient_of = forward; }

  Phase current_phase = Phase::Forward;
  int current_block = -1;
  std::optional<OpId> current_forward;

 private:
  std::vector<Tensor> tensors_;
  std::vector<Op> ops_;
  std::set<std::string> tensor_names_, op_names_;  // each unique: plans and messages refer to them

 public:
  std::optional<LossWeights> loss_weights = {};  // set by models whose loss weighs its terms
  std::optional<LossScaling> loss_scaling = {};  // set by append_training_step
  // What lies in the memory of the devices' hosts: optimizer state, values that wait for their backward, parameters.
  bool states_on_host = false, activations_on_host = false, weights_on_host = false;
  // The numbers, row-major, of inputs that are the same in every microbatch; these have no dimension of samples.
  std::map<TensorId, std::shared_ptr<const std::vector<double>>> constants = {};
  std::set<TensorId> fixed = {};  // parameters that are read from files and not trained
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

// A text that is equal for two graphs exactly when they have the same ops, shapes and attributes.
[[nodiscard]] std::string canonical_text(const Graph& graph);
// Its stable_hash, 16 hex digits: what plan files and stage profiles know the graph by.
[[nodiscard]] std::string fingerprint_of(const Graph& graph);

}  // namespace meshwright
