// SPDX-License-Identifier: Apache-2.0
// The form that every reader of model files makes: primitive ops on tensors of known shape, in topological order.
//
// A node is an op and its only result. Binary ops broadcast as NumPy does. Whether a number is 32 or 64 bits wide is
// not kept: a node is an integer one (ids, shapes, masks) or a floating-point one.
//
// Batch: a Graph is built for any micro-batch, a file often for one batch. Readers therefore take kBatchProbe, a prime
// that no model has as a size, for the batch: a dimension holds the batch exactly when the prime divides it.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace meshwright::primitive {

inline constexpr std::int64_t kBatchProbe = 1'000'003;
[[nodiscard]] inline bool holds_batch(std::int64_t size) { return size != 0 && size % kBatchProbe == 0; }

// How a reader takes a file's own batch: as any, or, where it is 1, as the file has it.
enum class OwnBatch { Any, One };

using Shape = std::vector<std::int64_t>;

enum class Kind {
  Input,
  Parameter,
  Constant,
  // binary
  Add,
  Subtract,
  Multiply,
  Divide,
  Power,
  Maximum,
  Minimum,
  Compare,  // Details::comparison; 0 or 1
  // unary
  Exp,
  Log,
  Sqrt,
  Rsqrt,
  Reciprocal,
  Square,
  Abs,
  Sin,
  Cos,
  Erf,
  Tanh,
  Sigmoid,
  Relu,
  Gelu,  // the tanh form
  GeluErf,
  Silu,
  Not,
  ToFloat,    // from integers
  ToInteger,  // from floating-point numbers
  Dropout,    // Details::number: the probability
  // shape
  Select,     // (p, x, y) -> x where p is not 0, else y
  Reshape,    // to the node's shape
  Transpose,  // Details::axes: result dimension d is the operand's axes[d]
  Broadcast,  // to the node's shape, as NumPy
  Slice,      // Details::axes[0], from start[0] on
  Concat,     // along Details::axes[0]
  Complex,    // (real parts, imaginary parts): of the builder alone, no op takes it
  // reductions over Details::axes, which keep size 1
  ReduceSum,
  ReduceMean,
  ReduceMax,
  // products and tables
  MatMul,       // (..., m, k) (..., k, n) -> (..., m, n)
  Convolution,  // x (batch, in, h, w), weight (out, in / groups, kh, kw)
  MaxPool,      // over the last two dimensions
  AveragePool,
  Gather,     // (table (rows, ...), ids) -> (ids..., ...)
  PickLabel,  // (x, labels) -> x at the label, over x's last dimension
  TopK,       // the Details::groups largest of the last dimension, largest first
  TopKIndex,  // where these are
  CumSum,     // along Details::axes[0]: each element with all before it
  // normalisations
  Softmax,    // over Details::axes[0]
  LayerNorm,  // (x, gamma, beta) over the last dimension; Details::number: epsilon, as of all norms
  RmsNorm,    // (x, gamma)
  BatchNorm,  // (x, gamma, beta) of dimension 1
  // made by recognition, and by formats that have them as ops
  Attention,  // q (batch, heads, seq, d), k (batch, kv_heads, keys, d), v (batch, kv_heads, keys, e), [mask (batch or
              // 1, seq or 1, keys) or sinks (heads)]; number: scale; window[0]: keys back from the query; numbers: the
              // cap of scores; alibi
  PackedAttention,  // x (batch, seq, 3, heads, d) -> (batch, seq, heads, d): causal, scores times 1 / sqrt(d)
  Rotary,           // x; Details::axes[0]: positions; window[0]: dims turned; number: base; numbers: the amplitude, and
                    // what the frequency of each pair is divided by, if they are not all 1; interleaved
  CrossEntropy,     // (logits, labels) -> scalar: the mean
  // a mixture of experts
  Slots,         // scores (batch, seq, expert) -> which slot of an expert each token has (OpKind::TopKSlots);
                 // Details::groups: experts of a token; window[0]: the capacity
  SlotMask,      // slots -> (batch, seq, expert, capacity): 1 where a token has the slot
  GateWeights,   // (scores, slots) -> (batch, seq, expert); number: 1 where normalised over the slots of a token
  WeightedMask,  // (mask, weights) -> the mask times the weight of its token and expert
  Dispatch,      // (x (batch, seq, width), slots) -> (expert, batch, capacity, width)
  Combine,       // (buffer (expert, batch, capacity, width), slots, weights) -> (batch, seq, width)
};
[[nodiscard]] const char* name_of(Kind kind);
// Functions of one number, and of two.
[[nodiscard]] inline bool is_unary(Kind kind) { return kind >= Kind::Exp && kind <= Kind::ToInteger; }
[[nodiscard]] inline bool is_binary(Kind kind) { return kind >= Kind::Add && kind <= Kind::Compare; }

// Pair j of `dims` is turned by the angle position * base^(-2 j / dims) / divisors[j], with cosines and sines times the
// amplitude.
struct Turning {
  double base;
  std::vector<double> divisors = {};  // empty: all are 1
  double amplitude = 1.0;
};

struct Details {
  std::vector<std::int64_t> axes = {}, start = {}, window = {}, stride = {}, before = {}, after = {};
  std::int64_t groups = 1;
  double number = 0.0;
  std::vector<double> numbers = {};
  Comparison comparison = Comparison::Less;
  bool causal = false;
  bool interleaved = false;
  bool alibi = false;
  bool operator==(const Details&) const = default;
};

struct Node {
  Kind kind;
  std::vector<int> inputs;
  Shape shape;
  bool integer;
  Details details;
  std::string name;        // the file's, or empty
  std::string block = {};  // the numbered part of the model that the file's names tell: "model.layers.0"
  // Follow from the operands.
  bool constant = false;                           // made from constants alone
  bool trained = false;                            // made from parameters, among others
  std::optional<std::vector<double>> values = {};  // of small constants
  std::vector<double> head = {};                   // of others, the first kMaxHead of their numbers, if they are known
};

// A factor of the number of devices: devices whose numbers differ by a multiple of (all / (begin * size)) are in
// different pieces of it.
struct MeshFactor {
  std::int64_t begin, size;
};

// How a file says that a tensor lies on devices (file_sharding.h).
struct FileSharding {
  std::string text = {};                           // as the file has it
  std::int64_t devices = 0;                        // 0: of any number, the same everywhere
  std::vector<std::vector<MeshFactor>> dims = {};  // outermost factor first
  std::set<std::int64_t> cuts = {};                // where factors begin
  std::string problem = {};                        // why no layout on a mesh says it; empty: one does
};

// What is read of one node stays in its place while others are made.
using Nodes = std::deque<Node>;

struct Module {
  Nodes nodes;
  int result = -1;                                     // the loss where it is a CrossEntropy, or a sum of such
  std::int64_t batch = 0;                              // the file's, 0: open
  bool one_sample = false;                             // as one sample has it, without a batch (one_sample.h)
  std::map<std::string, std::int64_t> file_ops;        // by the file's names
  std::map<std::string, std::int64_t> recognised;      // patterns that became one op
  std::vector<std::string> notes;                      // what differs from the file
  std::map<std::string, FileSharding> shardings = {};  // of parameters, by name, where the file has them
};

[[nodiscard]] std::int64_t elements_of(const Shape& shape);  // throws InputError beyond 2^62
[[nodiscard]] std::string to_text(const Shape& shape);       // "[batch, 16, 32]"

// Drops the nodes that the result does not depend on; inputs and parameters too.
void drop_unused(Module& module);
// The cross entropies that node i is, or is the sum of; none: it is something else.
[[nodiscard]] std::vector<int> cross_entropies_of(const Module& module, int i);
// Whether each node is made of integer inputs and constants alone, of at least one input.
[[nodiscard]] std::vector<bool> made_of_integers(const Module& module);
// How many nodes read each.
[[nodiscard]] std::vector<int> uses_of(const Module& module);

}  // namespace meshwright::primitive
