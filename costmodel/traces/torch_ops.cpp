// SPDX-License-Identifier: Apache-2.0
// One function per family of operators; the table at the end says which operator is read by which, and where its
// operands are. An op's work comes from a graph of this one op, so that its signature, flops and bytes are those that
// the planner asks for.
#include "costmodel/traces/torch_ops.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <map>

#include "core/base/errors.h"
#include "core/graph/op_table.h"
#include "costmodel/terms/op_shapes.h"

namespace meshwright {

namespace {

using Sizes = std::vector<std::int64_t>;
using Dims = std::vector<Dim>;

constexpr std::int64_t kMaxSize = std::int64_t{1} << 40, kMaxElements = std::int64_t{1} << 50;

constexpr const char* kNoShapes = "ops recorded without shapes";

// Elements of a tensor; NoRow where it has none, or more than memory holds.
std::int64_t elements_of(const Sizes& dims) {
  std::int64_t product = 1;
  for (const std::int64_t size : dims) {
    if (size < 1 || size > kMaxSize || product > kMaxElements / size) throw NoRow{"tensors without elements"};
    product *= size;
  }
  return product;
}

// A tensor of the op's graph.
struct Operand {
  DType dtype;
  Dims dims;
};

OpWork work_of(OpKind kind, const std::vector<Operand>& operands, const Attributes& attributes = {}) {
  Graph graph;
  std::vector<TensorId> inputs;
  for (std::size_t i = 0; i < operands.size(); ++i)
    inputs.push_back(graph.add_tensor(fmt::format("x{}", i), TensorKind::Input, operands[i].dtype, operands[i].dims));
  try {
    if (row_of(kind).in_place)
      graph.add_in_place_op(kind, "op", inputs, std::vector<TensorId>(inputs.begin(), inputs.end() - 1), attributes);
    else
      (void)graph.add_op(kind, "op", inputs, attributes);
  } catch (const InputError&) {
    throw NoRow{fmt::format("{} of operands that do not fit", name_of(kind))};
  }
  const Op& op = graph.ops().back();
  Sizes sizes;
  for (const IterationAxis& axis : iteration_space(graph, op).axes) sizes.push_back(axis.size);
  return op_work(graph, op, sizes);
}

class CallReader {
 public:
  CallReader(const TorchCall& call, std::string_view kernel) : call_(call), kernel_(kernel) {}

  [[nodiscard]] const Sizes& tensor(std::size_t i) const {
    if (!call_.has_shapes) throw NoRow{kNoShapes};
    if (i >= call_.operands.size() || call_.operands[i].type.empty()) throw NoRow{call_.name + " without its operands"};
    (void)elements_of(call_.operands[i].dims);
    return call_.operands[i].dims;
  }
  [[nodiscard]] const Sizes& tensor(std::size_t i, std::size_t rank) const {
    const Sizes& dims = tensor(i);
    if (dims.size() != rank) throw NoRow{fmt::format("{} of operands that do not fit", call_.name)};
    return dims;
  }
  [[nodiscard]] bool is_tensor(std::size_t i) const {
    return i < call_.operands.size() && torch_dtype(call_.operands[i].type).has_value();
  }
  [[nodiscard]] DType dtype(std::size_t i) const {
    (void)tensor(i);
    const std::optional<DType> type = torch_dtype(call_.operands[i].type);
    if (!type) throw NoRow{fmt::format("{} of type {}", call_.name, call_.operands[i].type)};
    return *type;
  }
  [[nodiscard]] const std::string& value(std::size_t i) const {
    if (i >= call_.values.size() || call_.values[i].empty())
      throw NoRow{"ops recorded without the values of their arguments"};
    return call_.values[i];
  }
  [[nodiscard]] bool truth(std::size_t i) const {
    const std::string& text = value(i);
    if (text == "True" || text == "true") return true;
    if (text == "False" || text == "false") return false;
    throw NoRow{fmt::format("{} with the argument {}", call_.name, text.substr(0, 20))};
  }
  // "[1, 1]", or "1".
  [[nodiscard]] Sizes integers(std::size_t i) const {
    Sizes numbers;
    const std::string& text = value(i);
    for (std::size_t at = 0; at < text.size();) {
      if (text[at] == '-' || (text[at] >= '0' && text[at] <= '9')) {
        std::int64_t number = 0;
        const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
        if (error != std::errc()) throw NoRow{fmt::format("{} with an argument out of range", call_.name)};
        numbers.push_back(number);
        at = static_cast<std::size_t>(end - text.data());
      } else {
        ++at;
      }
    }
    return numbers;
  }
  [[nodiscard]] std::int64_t integer(std::size_t i) const {
    const Sizes numbers = integers(i);
    if (numbers.size() != 1) throw NoRow{fmt::format("{} with the argument {}", call_.name, value(i).substr(0, 20))};
    return numbers.front();
  }
  [[nodiscard]] bool kernel_has(std::string_view word) const { return kernel_.find(word) != std::string_view::npos; }
  [[nodiscard]] const TorchCall& call() const { return call_; }
  [[nodiscard]] std::string kernel_dtype(DType dtype) const {
    // Products of 32 bits on units of 19 say so in their kernel's name.
    const bool rounded = dtype == DType::F32 && (kernel_has("tf32") || kernel_has("s1688") || kernel_has("TF32"));
    return rounded ? "tf32" : name_of(dtype);
  }

 private:
  const TorchCall& call_;
  std::string_view kernel_;
};

TracedOp with_product(OpWork work, const CallReader& call, DType dtype) {
  const auto signature = parse_signature(work.signature);
  const auto shape = signature ? product_of(*signature) : std::nullopt;
  TracedOp op{std::move(work), std::nullopt, call.kernel_dtype(dtype)};
  if (shape) op.kernel = *shape;
  return op;
}

// --- products: operands `first` and `first` + 1 ---

TracedOp product(const CallReader& call, std::size_t first) {
  const Sizes &a = call.tensor(first, 2), &b = call.tensor(first + 1, 2);
  const DType type = call.dtype(first);
  return with_product(work_of(OpKind::Contract,
                              {{type, {{"m", a[0]}, {"k", a[1]}}}, {call.dtype(first + 1), {{"k", b[0]}, {"n", b[1]}}}},
                              {.result_names = {"m", "n"}}),
                      call, type);
}
TracedOp batched_product(const CallReader& call, std::size_t first) {
  const Sizes &a = call.tensor(first, 3), &b = call.tensor(first + 1, 3);
  const DType type = call.dtype(first);
  return with_product(work_of(OpKind::Contract,
                              {{type, {{"e", a[0]}, {"m", a[1]}, {"k", a[2]}}},
                               {call.dtype(first + 1), {{"e", b[0]}, {"k", b[1]}, {"n", b[2]}}}},
                              {.result_names = {"e", "m", "n"}}),
                      call, type);
}
// x (..., k), weight (n, k).
TracedOp linear(const CallReader& call, std::size_t) {
  const Sizes &x = call.tensor(0), &w = call.tensor(1, 2);
  if (x.empty()) throw NoRow{"linear layers of a scalar"};
  const std::int64_t rows = elements_of(x) / x.back();
  const DType type = call.dtype(0);
  return with_product(
      work_of(OpKind::Contract, {{type, {{"m", rows}, {"k", x.back()}}}, {call.dtype(1), {{"n", w[0]}, {"k", w[1]}}}},
              {.result_names = {"m", "n"}}),
      call, type);
}

// --- attention ---

// Where a fused attention has its operands.
struct AttentionCall {
  std::size_t q;       // operand; k and v follow
  bool heads_first;    // (batch, heads, seq, width), else (batch, seq, heads, width)
  std::size_t causal;  // argument: a truth value, or a kind of mask (0: none, 1 and 2: causal)
  bool kind_of_mask, backward;
  std::optional<std::size_t> lengths;  // argument: where sequences of unequal lengths begin, if any
  std::optional<std::size_t> bias;     // operand: what is added to the scores, if anything
};

TracedOp attention(const CallReader& call, const AttentionCall& at) {
  const Sizes &q = call.tensor(at.q, 4), &k = call.tensor(at.q + 1, 4), &v = call.tensor(at.q + 2, 4);
  if (at.lengths && call.is_tensor(*at.lengths)) throw NoRow{"attention over sequences of unequal lengths"};
  if (at.bias && call.is_tensor(*at.bias)) throw NoRow{"attention with a mask of its own"};
  const bool causal = at.kind_of_mask ? call.integer(at.causal) != 0 : call.truth(at.causal);
  const std::size_t seq = at.heads_first ? 2 : 1, head = at.heads_first ? 1 : 2;
  if (q[head] % k[head] != 0 || k[head] != v[head] || k[seq] != v[seq] || q[0] != k[0] || k[0] != v[0] || q[3] != k[3])
    throw NoRow{"attention of operands that do not fit"};
  const DType type = call.dtype(at.q);
  const Dim batch{"b", q[0]}, queries{"s", q[seq]}, keys{"t", k[seq]}, heads{"h", k[head]},
      group{"g", q[head] / k[head]}, width{"d", q[3]}, value = v[3] == q[3] ? width : Dim{"e", v[3]};
  std::vector<Operand> operands = {{type, {batch, queries, heads, group, width}},
                                   {type, {batch, keys, heads, width}},
                                   {type, {batch, keys, heads, value}}};
  if (at.backward) operands.push_back({type, {batch, queries, heads, group, value}});
  TracedOp op{
      work_of(at.backward ? OpKind::GroupedAttentionBackward : OpKind::GroupedAttention, operands, {.causal = causal}),
      std::nullopt, name_of(type)};
  const auto signature = parse_signature(op.work.signature);
  if (const auto shape = signature ? attention_of(*signature) : std::nullopt) op.kernel = *shape;
  return op;
}

// --- norms and softmax over the last dimension ---

struct RowsOf {
  DType dtype;
  Dim rows, width;
};
RowsOf rows_of(const CallReader& call, std::size_t i) {
  const Sizes& x = call.tensor(i);
  if (x.empty()) throw NoRow{call.call().name + " of a scalar"};
  return {call.dtype(i), {"m", elements_of(x) / x.back()}, {"n", x.back()}};
}
TracedOp plain(OpWork work) {
  TracedOp op{std::move(work), std::nullopt, ""};
  op.kernel_dtype = name_of(op.work.dtype);
  return op;
}

// The weight, operand 2, says over how many dimensions.
void expect_one_dimension(const CallReader& call) {
  if (call.is_tensor(2) && call.tensor(2).size() != 1) throw NoRow{"norms over several dimensions"};
}
TracedOp layer_norm(const CallReader& call, std::size_t x) {
  expect_one_dimension(call);
  const RowsOf r = rows_of(call, x);
  return plain(work_of(OpKind::LayerNorm, {{r.dtype, {r.rows, r.width}}, {r.dtype, {r.width}}, {r.dtype, {r.width}}}));
}
TracedOp rms_norm(const CallReader& call, std::size_t x) {
  expect_one_dimension(call);
  const RowsOf r = rows_of(call, x);
  return plain(work_of(OpKind::RmsNorm, {{r.dtype, {r.rows, r.width}}, {r.dtype, {r.width}}}));
}
// One call, two kernels: of the data, and of the parameters (whose partial sums may take another).
bool is_of_parameters(const CallReader& call) {
  return call.kernel_has("GammaBeta") || call.kernel_has("gamma_beta") || call.kernel_has("Gamma");
}
TracedOp layer_norm_backward(const CallReader& call, std::size_t dy) {
  const RowsOf r = rows_of(call, dy + 1);
  const Operand x{r.dtype, {r.rows, r.width}};
  if (is_of_parameters(call)) return plain(work_of(OpKind::LayerNormParamBackward, {x, x}));
  return plain(work_of(OpKind::LayerNormBackward, {x, {r.dtype, {r.width}}, x}));
}
TracedOp rms_norm_backward(const CallReader& call, std::size_t dy) {
  const RowsOf r = rows_of(call, dy + 1);
  const Operand x{r.dtype, {r.rows, r.width}};
  if (is_of_parameters(call)) return plain(work_of(OpKind::RmsNormParamBackward, {x, x}));
  return plain(work_of(OpKind::RmsNormBackward, {x, {r.dtype, {r.width}}, x}));
}
void expect_last(const CallReader& call, std::size_t argument, std::size_t rank) {
  const std::int64_t dim = call.integer(argument);
  if (dim != -1 && dim != static_cast<std::int64_t>(rank) - 1)
    throw NoRow{call.call().name + " over an inner dimension"};
}
TracedOp softmax(const CallReader& call, std::size_t) {
  const RowsOf r = rows_of(call, 0);
  expect_last(call, 1, call.tensor(0).size());
  return plain(work_of(OpKind::Softmax, {{r.dtype, {r.rows, r.width}}}));
}
TracedOp softmax_backward(const CallReader& call, std::size_t) {
  const RowsOf r = rows_of(call, 0);
  expect_last(call, 2, call.tensor(0).size());
  return plain(work_of(OpKind::SoftmaxBackward, {{r.dtype, {r.rows, r.width}}, {r.dtype, {r.rows, r.width}}}));
}

// --- elementwise ---

Operand flat(const CallReader& call, std::size_t i) { return {call.dtype(i), {{"m", elements_of(call.tensor(i))}}}; }

TracedOp one_operand(const CallReader& call, OpKind kind, const Attributes& attributes = {}) {
  return plain(work_of(kind, {flat(call, 0)}, attributes));
}
// Operands `a` and `b` of one shape, in this order.
TracedOp two_operands(const CallReader& call, OpKind kind, std::size_t a, std::size_t b) {
  if (call.tensor(a) != call.tensor(b)) throw NoRow{call.call().name + " with broadcasting"};
  return plain(work_of(kind, {flat(call, a), flat(call, b)}));
}
// A second operand with fewer dimensions is a bias where it has the last of the first's.
TracedOp sum(const CallReader& call, std::size_t) {
  const Sizes &x = call.tensor(0), &y = call.tensor(1);
  if (!x.empty() && y == Sizes{x.back()} && x.size() > 1) {
    const RowsOf r = rows_of(call, 0);
    return plain(work_of(OpKind::BiasAdd, {{r.dtype, {r.rows, r.width}}, {call.dtype(1), {r.width}}}));
  }
  return two_operands(call, OpKind::Add, 0, 1);
}
TracedOp product_of_elements(const CallReader& call, std::size_t) {
  const bool scalar = !call.is_tensor(1) || (call.tensor(1).empty() && !call.tensor(0).empty());
  return scalar ? one_operand(call, OpKind::Scale) : two_operands(call, OpKind::Multiply, 0, 1);
}
// Only a copy that changes the type, and no layout, is an op.
TracedOp copy(const CallReader& call, std::size_t) {
  const DType to = call.dtype(0), from = call.dtype(1);
  if (to == from || call.tensor(0) != call.tensor(1)) throw NoRow{"copies from layout to layout"};
  return plain(work_of(OpKind::Cast, {flat(call, 1)}, {.dtype = to}));
}
TracedOp sum_over_rows(const CallReader& call, std::size_t) {
  const RowsOf r = rows_of(call, 0);
  const std::size_t rank = call.tensor(0).size();
  Sizes all;
  for (std::size_t i = 0; i + 1 < rank; ++i) all.push_back(static_cast<std::int64_t>(i));
  if (rank < 2 || call.integers(1) != all) throw NoRow{"sums over other dimensions than a bias's"};
  return plain(work_of(OpKind::BiasGradient, {{r.dtype, {r.rows, r.width}}}, {.result_names = {"n"}}));
}

// --- embedding ---

TracedOp embedding(const CallReader& call, std::size_t) {
  const Sizes& table = call.tensor(0, 2);
  return plain(work_of(OpKind::Embedding, {{DType::I32, {{"m", elements_of(call.tensor(1))}}},
                                           {call.dtype(0), {{"v", table[0]}, {"n", table[1]}}}}));
}
TracedOp embedding_backward(const CallReader& call, std::size_t) {
  const RowsOf r = rows_of(call, 0);
  const std::int64_t vocabulary = call.integer(2);
  if (vocabulary < 1 || vocabulary > kMaxSize) throw NoRow{"embeddings of no vocabulary"};
  return plain(work_of(OpKind::EmbeddingBackward, {{DType::I32, {r.rows}}, {r.dtype, {r.rows, r.width}}},
                       {.result_names = {"v"}, .result_size = vocabulary}));
}

// --- convolution over two dimensions; x (batch, in, h, w), w (out, in / groups, kh, kw) ---

struct ConvolutionCall {
  std::size_t x, stride, padding, dilation;  // x: operand, w follows; the others: arguments
  std::optional<std::size_t> transposed;
  std::size_t groups;
};

struct Images {
  Operand x, w, y;
  Attributes attributes;
};
Images images_of(const CallReader& call, const ConvolutionCall& at) {
  const Sizes &x = call.tensor(at.x, 4), &w = call.tensor(at.x + 1, 4);
  const auto pair = [&](std::size_t argument) {
    Sizes numbers = call.integers(argument);
    if (numbers.size() == 1) numbers.push_back(numbers.front());
    if (numbers.size() != 2) throw NoRow{"convolutions of other than two dimensions"};
    return numbers;
  };
  const Sizes stride = pair(at.stride), pad = pair(at.padding);
  const std::int64_t groups = call.integer(at.groups);
  const bool sparse = pair(at.dilation) != Sizes{1, 1};
  if (sparse || (at.transposed && call.truth(*at.transposed))) throw NoRow{"dilated and transposed convolutions"};
  if (groups < 1 || w[0] % groups != 0 || x[1] != groups * w[1])
    throw NoRow{"convolutions of operands that do not fit"};
  Sizes out;
  for (std::size_t s = 0; s < 2; ++s) {
    if (stride[s] < 1 || pad[s] < 0 || pad[s] > kMaxSize || x[s + 2] + 2 * pad[s] < w[s + 2])
      throw NoRow{"convolutions of operands that do not fit"};
    out.push_back((x[s + 2] + 2 * pad[s] - w[s + 2]) / stride[s] + 1);
  }
  const DType type = call.dtype(at.x);
  const Dim batch{"b", x[0]}, in{"i", w[1]}, to{"o", w[0] / groups};
  const std::array<Dim, 2> from = {{{"h", x[2]}, {"w", x[3]}}};
  Dims spatial;
  for (std::size_t s = 0; s < 2; ++s)
    spatial.push_back(out[s] == from[s].size ? from[s] : Dim{from[s].name + "2", out[s]});
  Images made{{type, {batch, from[0], from[1]}},
              {call.dtype(at.x + 1), {}},
              {type, {batch, spatial[0], spatial[1]}},
              {.result_dims = spatial, .stride = stride, .pad_before = pad, .pad_after = pad}};
  if (groups > 1)
    for (Operand* operand : {&made.x, &made.w, &made.y}) operand->dims.push_back({"g", groups});
  made.x.dims.push_back(in);
  made.w.dims.insert(made.w.dims.end(), {{"kh", w[2]}, {"kw", w[3]}, in, to});
  made.y.dims.push_back(to);
  return made;
}
TracedOp convolution(const CallReader& call, const ConvolutionCall& at) {
  const Images images = images_of(call, at);
  return plain(work_of(OpKind::Convolution, {images.x, images.w}, images.attributes));
}
// One call, two gradients, told by the names of their kernels.
TracedOp convolution_backward(const CallReader& call, std::size_t) {
  Images images = images_of(call, {1, 4, 5, 6, 7, 9});
  const std::string& wanted = call.value(10);  // "[True, True, False]": of x, of the weight, of the bias
  const bool of_x = wanted.find("[True") == 0, of_weight = wanted.find(", True", 4) == wanted.find(',');
  const bool x = call.kernel_has("dgrad") || (of_x && !of_weight),
             weight = call.kernel_has("wgrad") || (of_weight && !of_x);
  if (x == weight) throw NoRow{"gradients of convolutions whose kernels name neither dgrad nor wgrad"};
  images.attributes.result_dims = x ? images.x.dims : images.w.dims;
  if (x) return plain(work_of(OpKind::ConvolutionBackwardInput, {images.w, images.y}, images.attributes));
  return plain(work_of(OpKind::ConvolutionBackwardWeight, {images.x, images.y}, images.attributes));
}

// --- optimizer: one kernel over all parameters (self, grads, exp_avgs, exp_avg_sqs, ...) ---

TracedOp adam(const CallReader& call, std::size_t) {
  if (!call.call().has_shapes || call.call().operands.empty() || call.call().operands[0].list.empty())
    throw NoRow{kNoShapes};
  std::int64_t elements = 0;
  for (const Sizes& dims : call.call().operands[0].list) {
    elements += elements_of(dims);
    if (elements > kMaxElements) throw NoRow{"tensors without elements"};
  }
  // The type of tensors in a list is recorded by some; else the kernel's name has it.
  std::optional<DType> type = torch_dtype(call.call().operands[0].type);
  if (!type && call.kernel_has("<float")) type = DType::F32;
  if (!type && call.kernel_has("BFloat16")) type = DType::BF16;
  if (!type) throw NoRow{call.call().name + " of unknown type"};
  const Operand weights{*type, {{"m", elements}}};
  return plain(work_of(OpKind::AdamUpdate, {weights, weights, weights, weights}));
}

using Rule = std::function<TracedOp(const CallReader&)>;

template <class Function>
Rule at(Function function, std::size_t operand) {
  return [=](const CallReader& call) { return function(call, operand); };
}
Rule is_attention(AttentionCall place) {
  return [=](const CallReader& call) { return attention(call, place); };
}
Rule is_convolution(ConvolutionCall place) {
  return [=](const CallReader& call) { return convolution(call, place); };
}
Rule unary(OpKind kind) {
  return [=](const CallReader& call) { return one_operand(call, kind); };
}
// PyTorch's backwards have (grad, x), ours (x, grad); both are of one shape.
Rule binary(OpKind kind) {
  return [=](const CallReader& call) { return two_operands(call, kind, 0, 1); };
}
// The approximation that GELU takes is its last argument.
Rule gelu(OpKind erf, OpKind tanh, std::size_t argument) {
  return [=](const CallReader& call) {
    const std::vector<std::string>& values = call.call().values;
    const OpKind kind = argument < values.size() && values[argument].find("tanh") != std::string::npos ? tanh : erf;
    return argument == 1 ? one_operand(call, kind) : two_operands(call, kind, 0, 1);
  };
}
Rule dropout(OpKind kind) {
  return [=](const CallReader& call) { return one_operand(call, kind, {.probability = 0.1}); };
}

const std::map<std::string_view, Rule>& rules() {
  using K = OpKind;
  constexpr auto none = std::nullopt;
  static const std::map<std::string_view, Rule> all = {
      {"aten::mm", at(product, 0)},
      {"aten::addmm", at(product, 1)},
      {"aten::addmm_", at(product, 1)},
      {"aten::_addmm_activation", at(product, 1)},
      {"aten::bmm", at(batched_product, 0)},
      {"aten::baddbmm", at(batched_product, 1)},
      {"aten::baddbmm_", at(batched_product, 1)},
      {"aten::linear", at(linear, 0)},
      // q, heads first, causal, kind of mask, backward, lengths, bias
      {"aten::_scaled_dot_product_flash_attention", is_attention({0, true, 4, false, false, none, none})},
      {"aten::_flash_attention_forward", is_attention({0, false, 8, false, false, 3, none})},
      {"aten::_scaled_dot_product_efficient_attention", is_attention({0, true, 6, false, false, none, 3})},
      {"aten::_efficient_attention_forward", is_attention({0, false, 9, true, false, 4, 3})},
      {"aten::_scaled_dot_product_cudnn_attention", is_attention({0, true, 6, false, false, none, 3})},
      {"aten::_cudnn_attention_forward", is_attention({0, true, 10, false, false, 4, 3})},
      {"flash_attn::_flash_attn_forward", is_attention({0, false, 5, false, false, none, none})},
      {"FlashAttnFunc", is_attention({0, false, 5, false, false, none, none})},
      {"aten::_scaled_dot_product_flash_attention_backward", is_attention({1, true, 11, false, true, none, none})},
      {"aten::_flash_attention_backward", is_attention({1, false, 11, false, true, 6, none})},
      {"aten::_scaled_dot_product_efficient_attention_backward", is_attention({1, true, 11, false, true, none, 4})},
      {"aten::_efficient_attention_backward", is_attention({1, false, 14, true, true, 6, 4})},
      {"aten::_scaled_dot_product_cudnn_attention_backward", is_attention({1, true, 14, false, true, 9, 8})},
      {"flash_attn::_flash_attn_backward", is_attention({1, false, 11, false, true, none, none})},
      {"aten::native_layer_norm", at(layer_norm, 0)},
      {"aten::native_layer_norm_backward", at(layer_norm_backward, 0)},
      {"aten::_fused_rms_norm", at(rms_norm, 0)},
      {"aten::_fused_rms_norm_backward", at(rms_norm_backward, 0)},
      {"aten::_softmax", at(softmax, 0)},
      {"aten::_softmax_backward_data", at(softmax_backward, 0)},
      {"aten::embedding", at(embedding, 0)},
      {"aten::embedding_dense_backward", at(embedding_backward, 0)},
      {"aten::add", at(sum, 0)},
      {"aten::add_", at(sum, 0)},
      {"aten::sub", binary(K::Subtract)},
      {"aten::mul", at(product_of_elements, 0)},
      {"aten::mul_", at(product_of_elements, 0)},
      {"aten::sum", at(sum_over_rows, 0)},
      {"aten::copy_", at(copy, 0)},
      {"aten::relu", unary(K::Relu)},
      {"aten::relu_", unary(K::Relu)},
      {"aten::clamp_min", unary(K::Relu)},
      {"aten::clamp_min_", unary(K::Relu)},
      {"aten::threshold_backward", binary(K::ReluBackward)},
      {"aten::gelu", gelu(K::GeluErf, K::Gelu, 1)},
      {"aten::gelu_backward", gelu(K::GeluErfBackward, K::GeluBackward, 2)},
      {"aten::silu", unary(K::Silu)},
      {"aten::silu_", unary(K::Silu)},
      {"aten::silu_backward", binary(K::SiluBackward)},
      {"aten::tanh", unary(K::Tanh)},
      {"aten::tanh_backward", binary(K::TanhBackward)},
      {"aten::sigmoid", unary(K::Sigmoid)},
      {"aten::sigmoid_backward", binary(K::SigmoidBackward)},
      {"aten::native_dropout", dropout(K::Dropout)},
      {"aten::native_dropout_backward", dropout(K::DropoutBackward)},
      // x, stride, padding, dilation, transposed, groups
      {"aten::cudnn_convolution", is_convolution({0, 3, 2, 4, none, 5})},
      {"aten::miopen_convolution", is_convolution({0, 4, 3, 5, none, 6})},
      {"aten::convolution", is_convolution({0, 3, 4, 5, 6, 8})},
      {"aten::conv2d", is_convolution({0, 3, 4, 5, none, 6})},
      {"aten::_convolution", is_convolution({0, 3, 4, 5, 6, 8})},
      {"aten::convolution_backward", at(convolution_backward, 0)},
      {"aten::_fused_adam_", at(adam, 0)},
      {"aten::_fused_adamw_", at(adam, 0)},
  };
  return all;
}

}  // namespace

bool is_known_call(std::string_view name) { return rules().count(name) != 0; }

std::optional<CallMeaning> meaning_of(const TorchCall& call, std::string_view kernel) {
  const auto rule = rules().find(call.name);
  if (rule == rules().end()) return std::nullopt;
  try {
    return rule->second(CallReader(call, kernel));
  } catch (const NoRow& none) {
    return none;
  }
}

}  // namespace meshwright
