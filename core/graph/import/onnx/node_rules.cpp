// SPDX-License-Identifier: Apache-2.0
// What each operator of ONNX is in primitive ops.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/errors.h"
#include "core/graph/import/onnx/einsum.h"
#include "core/graph/import/onnx/node_reader.h"
#include "core/graph/import/primitive/turning.h"

namespace meshwright::onnx {

using primitive::Builder;
using primitive::Kind;
using primitive::Shape;
using Numbers = std::vector<std::int64_t>;
using Made = std::vector<int>;

namespace {

// --- elementwise ---

template <Kind kind>
Made binary(const NodeReader& r) {
  return {r.b.binary(kind, r.in(0), r.in(1))};
}
template <Kind kind>
Made unary(const NodeReader& r) {
  return {r.b.unary(kind, r.in(0))};
}
template <Comparison comparison>
Made compare(const NodeReader& r) {
  return {r.b.compare(comparison, r.in(0), r.in(1))};
}
template <Kind kind>
Made variadic(const NodeReader& r) {
  int sum = r.in(0);
  for (std::size_t k = 1; k < r.node.inputs.size(); ++k) sum = r.b.binary(kind, sum, r.in(k));
  return {sum};
}
Made same(const NodeReader& r) { return {r.in(0)}; }
Made negated(const NodeReader& r) { return {r.b.negated(r.in(0))}; }
Made gelu(const NodeReader& r) {
  return {r.b.unary(r.text("approximate", "none") == "tanh" ? Kind::Gelu : Kind::GeluErf, r.in(0))};
}
Made fast_gelu(const NodeReader& r) {
  return {r.b.unary(Kind::Gelu, r.has(1) ? r.b.binary(Kind::Add, r.in(0), r.in(1)) : r.in(0))};
}
Made biased_gelu(const NodeReader& r) {
  return {r.b.unary(Kind::GeluErf, r.has(1) ? r.b.binary(Kind::Add, r.in(0), r.in(1)) : r.in(0))};
}
Made swish(const NodeReader& r) {
  const double alpha = r.real("alpha", 1.0);
  r.b.expect(alpha == 1.0, fmt::format("a Swish with alpha = {} has no equal here, one with 1 has", alpha));
  return {r.b.unary(Kind::Silu, r.in(0))};
}
// Bounds are inputs, or attributes before operator set 11; one may be missing.
Made clip(const NodeReader& r) {
  int x = r.in(0);
  if (r.has(1) || r.has("min")) x = r.b.binary(Kind::Maximum, x, r.has(1) ? r.in(1) : r.b.scalar(r.real("min", 0.0)));
  if (r.has(2) || r.has("max")) x = r.b.binary(Kind::Minimum, x, r.has(2) ? r.in(2) : r.b.scalar(r.real("max", 0.0)));
  return {x};
}
int clamped_line(const NodeReader& r, double slope, double offset) {
  const int line = r.b.binary(Kind::Add, r.b.binary(Kind::Multiply, r.in(0), r.b.scalar(slope)), r.b.scalar(offset));
  return r.b.binary(Kind::Minimum, r.b.binary(Kind::Maximum, line, r.b.scalar(0.0)), r.b.scalar(1.0));
}
Made hard_sigmoid(const NodeReader& r) { return {clamped_line(r, r.real("alpha", 0.2), r.real("beta", 0.5))}; }
Made hard_swish(const NodeReader& r) { return {r.b.binary(Kind::Multiply, r.in(0), clamped_line(r, 1.0 / 6.0, 0.5))}; }
// x for x > 0, alpha x below: what is kept of both halves.
Made leaky_relu(const NodeReader& r) {
  const int below = r.b.binary(Kind::Minimum, r.in(0), r.b.scalar(0.0));
  return {r.b.binary(Kind::Add, r.b.unary(Kind::Relu, r.in(0)),
                     r.b.binary(Kind::Multiply, below, r.b.scalar(r.real("alpha", 0.01))))};
}
Made elu(const NodeReader& r) {
  const int below = r.b.unary(Kind::Exp, r.b.binary(Kind::Minimum, r.in(0), r.b.scalar(0.0)));
  const int bent =
      r.b.binary(Kind::Multiply, r.b.binary(Kind::Add, below, r.b.scalar(-1.0)), r.b.scalar(r.real("alpha", 1.0)));
  return {r.b.binary(Kind::Add, r.b.unary(Kind::Relu, r.in(0)), bent)};
}
// log(1 + e^x), by e^-|x| so that no exponential grows.
Made softplus(const NodeReader& r) {
  const int small = r.b.unary(Kind::Exp, r.b.negated(r.b.unary(Kind::Abs, r.in(0))));
  const int rest = r.b.unary(Kind::Log, r.b.binary(Kind::Add, small, r.b.scalar(1.0)));
  return {r.b.binary(Kind::Add, r.b.unary(Kind::Relu, r.in(0)), rest)};
}
// Scores are hidden by a number here, not by minus infinity, so that no softmax is without one.
Made is_nan(const NodeReader& r) {
  const int x = r.in(0);
  if (r.b.at(x).kind == Kind::Softmax) return {r.b.constant({}, true, std::vector<double>{0.0})};
  return {r.b.compare(Comparison::NotEqual, x, x)};
}
Made where(const NodeReader& r) { return {r.b.select(r.in(0), r.in(1), r.in(2))}; }
Made cast(const NodeReader& r) {
  const std::int64_t to = r.number("to", 1);
  const bool real = to == 1 || to == 10 || to == 11 || to == 16, truth = to == 9;
  if (truth && !r.b.at(r.in(0)).constant)
    return {r.b.compare(Comparison::NotEqual, r.in(0),
                        r.b.constant({}, r.b.at(r.in(0)).integer, std::vector<double>{0.0}))};
  return {r.b.unary(real ? Kind::ToFloat : Kind::ToInteger, r.in(0))};
}
Made cast_like(const NodeReader& r) {
  return {r.b.unary(r.b.at(r.in(1)).integer ? Kind::ToInteger : Kind::ToFloat, r.in(0))};
}
// Exported for inference, its probability often stays in the file; trained with, it drops.
Made dropout(const NodeReader& r) {
  double ratio = r.real("ratio", 0.5);
  if (r.has(1))
    if (const auto given = r.b.scalar_of(r.in(1))) ratio = *given;
  const int x = r.b.dropout(r.in(0), ratio);
  return {x, x};
}

// --- shapes ---

Made reshape(const NodeReader& r) {
  const int x = r.in(0);
  Numbers to = r.numbers("shape", 1);
  if (r.number("allowzero", 0) == 0)
    for (std::size_t d = 0; d < to.size(); ++d)
      if (to[d] == 0 && d < r.b.shape(x).size()) to[d] = r.b.shape(x)[d];
  return {r.b.reshape(x, to)};
}
Made flatten(const NodeReader& r) {
  const int x = r.in(0);
  const Shape& from = r.b.shape(x);
  std::int64_t axis = r.number("axis", 1);
  if (axis < 0) axis += static_cast<std::int64_t>(from.size());
  r.b.expect(axis >= 0 && axis <= static_cast<std::int64_t>(from.size()), "its axis is beyond its dimensions");
  Shape to = {1, 1};
  for (std::size_t d = 0; d < from.size(); ++d) to[static_cast<std::int64_t>(d) < axis ? 0 : 1] *= from[d];
  return {r.b.reshape(x, to)};
}
Made transpose(const NodeReader& r) {
  const int x = r.in(0);
  Numbers axes = r.numbers("perm");
  if (axes.empty())
    for (std::size_t d = r.b.shape(x).size(); d-- > 0;) axes.push_back(static_cast<std::int64_t>(d));
  return {r.b.transpose(x, axes)};
}
Made expand(const NodeReader& r) { return {r.b.broadcast(r.in(0), r.b.integers_of(r.in(1), "shape"))}; }
Made tile(const NodeReader& r) {
  const int x = r.in(0);
  const Numbers times = r.b.integers_of(r.in(1), "repeats");
  const Shape& from = r.b.shape(x);
  r.b.expect(times.size() == from.size(), "its repeats are not one for each dimension");
  for (std::size_t d = 0; d < from.size(); ++d)
    r.b.expect(times[d] == 1 || from[d] == 1, "tiles of more than one element have no equal here");
  return {r.b.broadcast(x, times)};
}
Made slice(const NodeReader& r) {
  int x = r.in(0);
  const Numbers starts = r.numbers("starts", 1), ends = r.numbers("ends", 2);
  Numbers axes = r.numbers("axes", 3), steps = r.has(4) ? r.b.integers_of(r.in(4), "steps") : Numbers{};
  if (axes.empty())
    for (std::size_t d = 0; d < starts.size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
  if (steps.empty()) steps.assign(starts.size(), 1);
  r.b.expect(ends.size() == starts.size() && axes.size() == starts.size() && steps.size() == starts.size(),
             "its starts, ends, axes and steps are not as many");
  for (std::size_t k = 0; k < starts.size(); ++k) x = r.b.slice(x, axes[k], starts[k], ends[k], steps[k]);
  return {x};
}
Made split(const NodeReader& r) {
  const int x = r.in(0);
  const std::int64_t axis = r.b.axis_of(x, r.number("axis", 0));
  const std::int64_t whole = r.b.shape(x)[static_cast<std::size_t>(axis)];
  Numbers sizes = r.numbers("split", 1);
  if (sizes.empty()) {
    const auto parts = static_cast<std::int64_t>(r.node.outputs.size());
    const std::int64_t each = (whole + parts - 1) / parts;
    for (std::int64_t left = whole; static_cast<std::int64_t>(sizes.size()) < parts; left -= each)
      sizes.push_back(std::clamp<std::int64_t>(left, 0, each));
  }
  r.b.expect(
      sizes.size() == r.node.outputs.size() && std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == whole,
      "its parts are not as long as the whole");
  return r.b.parts(x, axis, sizes);
}
Made concat(const NodeReader& r) {
  std::vector<int> pieces;
  for (std::size_t k = 0; k < r.node.inputs.size(); ++k) pieces.push_back(r.in(k));
  return {r.b.concat(pieces, r.number("axis", 0))};
}
Made squeeze(const NodeReader& r) { return {r.b.squeeze(r.in(0), r.numbers("axes", 1))}; }
Made unsqueeze(const NodeReader& r) { return {r.b.unsqueeze(r.in(0), r.numbers("axes", 1))}; }
Made shape(const NodeReader& r) {
  const Shape& of = r.b.shape(r.in(0));
  const auto rank = static_cast<std::int64_t>(of.size());
  const auto within = [rank](std::int64_t d) { return std::clamp<std::int64_t>(d < 0 ? d + rank : d, 0, rank); };
  const std::int64_t start = within(r.number("start", 0)), end = within(r.number("end", rank));
  return {r.b.integers(start < end ? Numbers(of.begin() + start, of.begin() + end) : Numbers{})};
}
Made size(const NodeReader& r) {
  return {r.b.constant({}, true, std::vector<double>{static_cast<double>(primitive::elements_of(r.b.shape(r.in(0))))})};
}
Made range(const NodeReader& r) {
  const double start = r.b.values(r.in(0), "start").at(0), limit = r.b.values(r.in(1), "limit").at(0),
               step = r.b.values(r.in(2), "delta").at(0);
  return {r.b.range(start, limit, step, r.b.at(r.in(0)).integer)};
}
// --- reductions ---

template <Kind kind>
Made reduce(const NodeReader& r) {
  const Numbers axes = r.numbers("axes", 1);
  if (axes.empty() && r.number("noop_with_empty_axes", 0) != 0) return {r.in(0)};
  return {r.b.reduce(kind, r.in(0), axes, r.number("keepdims", 1) != 0)};
}
Made reduce_min(const NodeReader& r) {
  const Numbers axes = r.numbers("axes", 1);
  if (axes.empty() && r.number("noop_with_empty_axes", 0) != 0) return {r.in(0)};
  const int most = r.b.reduce(Kind::ReduceMax, r.b.negated(r.in(0)), axes, r.number("keepdims", 1) != 0);
  return {r.b.negated(most)};
}
// The sum, or its root, of squares or absolute values.
template <Kind function, bool root>
Made norm_of(const NodeReader& r) {
  const int each = r.b.unary(function, r.in(0));
  const int sum = r.b.reduce(Kind::ReduceSum, each, r.numbers("axes", 1), r.number("keepdims", 1) != 0);
  return {root ? r.b.unary(Kind::Sqrt, sum) : sum};
}
Made mean_of_operands(const NodeReader& r) {
  const int sum = variadic<Kind::Add>(r)[0];
  return {r.b.binary(Kind::Multiply, sum, r.b.scalar(1.0 / static_cast<double>(r.node.inputs.size())))};
}
Made product_of_all(const NodeReader& r) {
  double product = 1.0;
  for (const double value : r.b.values(r.in(0), "operand")) product *= value;
  return {r.b.constant({}, r.b.at(r.in(0)).integer, std::vector<double>{product})};
}

// --- products ---

Made einsum_of(const NodeReader& r) {
  std::vector<int> operands;
  for (std::size_t k = 0; k < r.node.inputs.size(); ++k) operands.push_back(r.in(k));
  return {einsum(r.b, r.text("equation", ""), operands)};
}
Made matmul(const NodeReader& r) { return {r.b.matmul(r.in(0), r.in(1))}; }
Made fused_matmul(const NodeReader& r) {
  r.b.expect(r.number("transBatchA", 0) == 0 && r.number("transBatchB", 0) == 0, "its batches are transposed");
  const int x = r.number("transA", 0) != 0 ? r.b.swap(r.in(0), -1, -2) : r.in(0);
  const int y = r.number("transB", 0) != 0 ? r.b.swap(r.in(1), -1, -2) : r.in(1);
  return {r.b.binary(Kind::Multiply, r.b.matmul(x, y), r.b.scalar(r.real("alpha", 1.0)))};
}
Made gemm(const NodeReader& r) {
  const int x = r.number("transA", 0) != 0 ? r.b.swap(r.in(0), -1, -2) : r.in(0);
  const int y = r.number("transB", 0) != 0 ? r.b.swap(r.in(1), -1, -2) : r.in(1);
  int result = r.b.binary(Kind::Multiply, r.b.matmul(x, y), r.b.scalar(r.real("alpha", 1.0)));
  if (r.has(2) && r.real("beta", 1.0) != 0.0)
    result = r.b.binary(Kind::Add, result, r.b.binary(Kind::Multiply, r.in(2), r.b.scalar(r.real("beta", 1.0))));
  return {result};
}

// Two entries each, from 2 or 4 given.
Builder::Windows windows_of(const NodeReader& r, const Shape& image, const Numbers& window) {
  Builder::Windows windows{window, r.numbers("strides"), {0, 0}, {0, 0}, r.number("ceil_mode", 0) != 0};
  if (windows.stride.empty()) windows.stride = {1, 1};
  const Numbers pads = r.numbers("pads"), dilations = r.numbers("dilations");
  r.b.expect(windows.window.size() == 2 && windows.stride.size() == 2 && image.size() == 4,
             "windows over other than two dimensions have no equal here");
  r.b.expect(std::all_of(dilations.begin(), dilations.end(), [](std::int64_t d) { return d == 1; }),
             "dilated windows have no equal here");
  for (const std::int64_t number : {windows.window[0], windows.window[1], windows.stride[0], windows.stride[1]})
    r.b.expect(number >= 1 && number <= 1'000'000, "its window or stride is out of range");
  if (pads.size() == 4) {
    windows.before = {pads[0], pads[1]};
    windows.after = {pads[2], pads[3]};
  }
  for (const std::int64_t pad : pads) r.b.expect(pad >= 0 && pad <= 1'000'000, "its padding is out of range");
  const std::string automatic = r.text("auto_pad", "NOTSET");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER")
    for (std::size_t d = 0; d < 2; ++d) {
      const std::int64_t results = (image[d + 2] + windows.stride[d] - 1) / windows.stride[d];
      const std::int64_t all =
          std::max<std::int64_t>(0, (results - 1) * windows.stride[d] + windows.window[d] - image[d + 2]);
      windows.before[d] = automatic == "SAME_LOWER" ? (all + 1) / 2 : all / 2;
      windows.after[d] = all - windows.before[d];
    }
  return windows;
}
Made convolution(const NodeReader& r) {
  const int x = r.in(0), w = r.in(1);
  const Shape& weight = r.b.shape(w);
  r.b.expect(weight.size() == 4, "convolutions over other than two dimensions have no equal here");
  const auto windows = windows_of(r, r.b.shape(x), {weight[2], weight[3]});
  return {r.b.convolution(x, w, windows, r.number("group", 1), r.has(2) ? std::optional(r.in(2)) : std::nullopt)};
}
template <Kind kind>
Made pool(const NodeReader& r) {
  const auto windows = windows_of(r, r.b.shape(r.in(0)), r.numbers("kernel_shape"));
  if (kind == Kind::AveragePool && r.number("count_include_pad", 0) != 0) r.b.note_padding(windows);
  return {r.b.pool(kind, r.in(0), windows)};
}
Made global_average(const NodeReader& r) {
  Numbers axes(r.b.shape(r.in(0)).size());
  std::iota(axes.begin(), axes.end(), 0);
  r.b.expect(axes.size() > 2, "there is nothing to pool over");
  axes.erase(axes.begin(), axes.begin() + 2);
  return {r.b.reduce(Kind::ReduceMean, r.in(0), axes, true)};
}

// --- normalisations ---

Made softmax(const NodeReader& r) {
  const int x = r.in(0);
  const bool old = r.opset > 0 && r.opset < 13;
  const std::int64_t axis = r.b.axis_of(x, r.number("axis", old ? 1 : -1));
  for (std::size_t d = static_cast<std::size_t>(axis) + 1; old && d < r.b.shape(x).size(); ++d)
    r.b.expect(r.b.shape(x)[d] == 1, "a softmax over several dimensions has no equal here");
  return {r.b.softmax(x, axis)};
}
Made log_softmax(const NodeReader& r) { return {r.b.unary(Kind::Log, softmax(r)[0])}; }
void expect_last(const NodeReader& r, std::int64_t axis) {
  r.b.expect(r.b.axis_of(r.in(0), axis) + 1 == static_cast<std::int64_t>(r.b.shape(r.in(0)).size()),
             "a normalisation over more than the last dimension has no equal here");
}
int no_bias(const NodeReader& r, int like) {
  const Shape& of = r.b.shape(like);
  return r.b.constant(
      of, false,
      std::vector<double>(static_cast<std::size_t>(std::min(primitive::elements_of(of), primitive::kMaxValues)), 0.0));
}
Made layer_norm(const NodeReader& r) {
  expect_last(r, r.number("axis", -1));
  const int beta = r.has(2) ? r.in(2) : no_bias(r, r.in(1));
  const int x = r.b.layer_norm(r.in(0), r.in(1), beta, r.real("epsilon", 1e-5));
  return {x, x, x};  // the statistics are for a backward alone
}
Made rms_norm(const NodeReader& r) {
  expect_last(r, r.number("axis", -1));
  return {r.b.rms_norm(r.in(0), r.in(1), r.real("epsilon", 1e-5))};
}
Made skip_layer_norm(const NodeReader& r) {
  int sum = r.b.binary(Kind::Add, r.in(0), r.in(1));
  if (r.has(4)) sum = r.b.binary(Kind::Add, sum, r.in(4));
  const int beta = r.has(3) ? r.in(3) : no_bias(r, r.in(2));
  const int x = r.b.layer_norm(sum, r.in(2), beta, r.real("epsilon", 1e-12));
  return {x, x, x, sum};
}
Made batch_norm(const NodeReader& r) { return {r.b.batch_norm(r.in(0), r.in(1), r.in(2), r.real("epsilon", 1e-5))}; }

// --- attention (operator set 23) ---

int as_heads(const NodeReader& r, int x, std::int64_t heads) {
  const Shape of = r.b.shape(x);
  if (of.size() == 4) return x;
  r.b.expect(of.size() == 3 && heads > 0 && of[2] % heads == 0, "its heads do not share the last dimension evenly");
  return r.b.swap(r.b.reshape(x, {of[0], of[1], heads, of[2] / heads}), 1, 2);
}
Made attention(const NodeReader& r) {
  const bool flat = r.b.shape(r.in(0)).size() == 3;
  const int q = as_heads(r, r.in(0), r.number("q_num_heads", 0));
  const int k = as_heads(r, r.in(1), r.number("kv_num_heads", 0));
  const int v = as_heads(r, r.in(2), r.number("kv_num_heads", 0));
  r.b.expect(!r.has(4) && !r.has(5), "keys of earlier steps have no place in training; export without a cache");
  r.b.expect(r.real("softcap", 0.0) == 0.0, "scores with a softcap have no equal here");
  const bool causal = r.number("is_causal", 0) != 0;
  int x = r.has(3) ? r.b.masked_attention(q, k, v, r.real("scale", 0.0), causal, r.in(3))
                   : r.b.attention(q, k, v, r.real("scale", 0.0), {.causal = causal});
  if (flat) {
    const Shape of = r.b.shape(x);
    x = r.b.reshape(r.b.swap(x, 1, 2), {of[0], of[2], of[1] * of[3]});
  }
  return {x};
}

// (x, cosines, sines, [position ids])
Made rotary(const NodeReader& r) {
  r.b.expect(r.number("interleaved", 0) == 0, "a rotary embedding of interleaved pairs has no equal here");
  const bool flat = r.b.shape(r.in(0)).size() == 3;
  const int x = as_heads(r, r.in(0), r.number("num_heads", 0));
  const Shape of = r.b.shape(x);
  r.b.expect(of.size() == 4, "its operand has neither heads nor a number of them");
  const std::int64_t given = r.number("rotary_embedding_dim", 0), dims = given > 0 ? given : of[3];
  const std::optional<primitive::Turning> turning = primitive::turning_of_tables(r.b, r.in(1), r.in(2), dims, 1);
  r.b.expect(turning.has_value(), "its tables are no cosines and sines of a rotation from position 0 on");
  const int made = r.b.rotary(x, 2, dims, *turning);
  return {flat ? r.b.reshape(r.b.swap(made, 1, 2), {of[0], of[2], of[1] * of[3]}) : made};
}

std::map<std::string, Rule> elementwise_rules() {
  return {{"Add", binary<Kind::Add>},
          {"Sub", binary<Kind::Subtract>},
          {"Mul", binary<Kind::Multiply>},
          {"Div", binary<Kind::Divide>},
          {"Pow", binary<Kind::Power>},
          {"And", binary<Kind::Multiply>},
          {"Or", binary<Kind::Maximum>},
          {"Max", variadic<Kind::Maximum>},
          {"Min", variadic<Kind::Minimum>},
          {"Sum", variadic<Kind::Add>},
          {"Exp", unary<Kind::Exp>},
          {"Log", unary<Kind::Log>},
          {"Sqrt", unary<Kind::Sqrt>},
          {"Reciprocal", unary<Kind::Reciprocal>},
          {"Abs", unary<Kind::Abs>},
          {"Sin", unary<Kind::Sin>},
          {"Cos", unary<Kind::Cos>},
          {"Erf", unary<Kind::Erf>},
          {"Tanh", unary<Kind::Tanh>},
          {"Sigmoid", unary<Kind::Sigmoid>},
          {"Relu", unary<Kind::Relu>},
          {"Not", unary<Kind::Not>},
          {"Clip", clip},
          {"HardSigmoid", hard_sigmoid},
          {"HardSwish", hard_swish},
          {"LeakyRelu", leaky_relu},
          {"Elu", elu},
          {"Softplus", softplus},
          {"Mean", mean_of_operands},
          {"Neg", negated},
          {"Gelu", gelu},
          {"Swish", swish},
          {"com.microsoft:Gelu", biased_gelu},
          {"com.microsoft:BiasGelu", biased_gelu},
          {"com.microsoft:FastGelu", fast_gelu},
          {"Less", compare<Comparison::Less>},
          {"LessOrEqual", compare<Comparison::LessEqual>},
          {"Equal", compare<Comparison::Equal>},
          {"GreaterOrEqual", compare<Comparison::GreaterEqual>},
          {"Greater", compare<Comparison::Greater>},
          {"Where", where},
          {"IsNaN", is_nan},
          {"Cast", cast},
          {"CastLike", cast_like},
          {"Identity", same},
          {"Dropout", dropout}};
}

std::map<std::string, Rule> other_rules() {
  return {{"Reshape", reshape},
          {"Flatten", flatten},
          {"Transpose", transpose},
          {"Expand", expand},
          {"Tile", tile},
          {"Slice", slice},
          {"Split", split},
          {"Concat", concat},
          {"com.microsoft:ConcatTraining", concat},
          {"Squeeze", squeeze},
          {"Unsqueeze", unsqueeze},
          {"Shape", shape},
          {"Size", size},
          {"Range", range},
          {"ReduceSum", reduce<Kind::ReduceSum>},
          {"ReduceMean", reduce<Kind::ReduceMean>},
          {"ReduceMax", reduce<Kind::ReduceMax>},
          {"ReduceMin", reduce_min},
          {"ReduceL1", norm_of<Kind::Abs, false>},
          {"ReduceL2", norm_of<Kind::Square, true>},
          {"ReduceSumSquare", norm_of<Kind::Square, false>},
          {"ReduceProd", product_of_all},
          {"Einsum", einsum_of},
          {"MatMul", matmul},
          {"com.microsoft:FusedMatMul", fused_matmul},
          {"Gemm", gemm},
          {"Conv", convolution},
          {"MaxPool", pool<Kind::MaxPool>},
          {"AveragePool", pool<Kind::AveragePool>},
          {"GlobalAveragePool", global_average},
          {"Softmax", softmax},
          {"LogSoftmax", log_softmax},
          {"LayerNormalization", layer_norm},
          {"RMSNormalization", rms_norm},
          {"SimplifiedLayerNormalization", rms_norm},
          {"com.microsoft:SkipLayerNormalization", skip_layer_norm},
          {"BatchNormalization", batch_norm},
          {"RotaryEmbedding", rotary},
          {"Attention", attention}};
}

}  // namespace

const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> all = [] {
    std::map<std::string, Rule> found = elementwise_rules();
    found.merge(other_rules());
    found.merge(choice_rules());
    return found;
  }();
  return all;
}

}  // namespace meshwright::onnx
