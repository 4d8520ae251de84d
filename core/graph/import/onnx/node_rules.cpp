// SPDX-License-Identifier: Apache-2.0
// What each operator of ONNX is in primitive ops, but for layers (layer_rules.cpp) and those that choose elements
// (choice_rules.cpp).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/errors.h"
#include "core/graph/import/onnx/node_reader.h"
#include "core/graph/import/primitive/einsum.h"

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
Made remainder(const NodeReader& r) { return {r.b.remainder(r.in(0), r.in(1), r.number("fmod", 0) == 0)}; }
template <Builder::Rounding rounding>
Made rounded(const NodeReader& r) {
  return {r.b.rounded(r.in(0), rounding)};
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
Made hard_sigmoid(const NodeReader& r) {
  return {r.b.clamped_line(r.in(0), r.real("alpha", 0.2), r.real("beta", 0.5))};
}
Made hard_swish(const NodeReader& r) { return {r.b.hard_swish(r.in(0))}; }
Made leaky_relu(const NodeReader& r) { return {r.b.leaky_relu(r.in(0), r.real("alpha", 0.01))}; }
Made elu(const NodeReader& r) { return {r.b.elu(r.in(0), r.real("alpha", 1.0))}; }
Made prelu(const NodeReader& r) {
  const int x = r.in(0), below = r.b.clamp(x, {}, 0.0);
  return {r.b.binary(Kind::Add, r.b.unary(Kind::Relu, x), r.b.binary(Kind::Multiply, below, r.in(1)))};
}
Made selu(const NodeReader& r) {
  const int bent = r.b.elu(r.in(0), r.real("alpha", 1.67326319217681884765625));
  return {r.b.binary(Kind::Multiply, bent, r.b.scalar(r.real("gamma", 1.05070102214813232421875)))};
}
Made celu(const NodeReader& r) {
  const double alpha = r.real("alpha", 1.0);
  r.b.expect(alpha > 0.0, "a CELU without a positive alpha has no equal here");
  const int narrow = r.b.elu(r.b.binary(Kind::Multiply, r.in(0), r.b.scalar(1.0 / alpha)), 1.0);
  return {r.b.binary(Kind::Multiply, narrow, r.b.scalar(alpha))};
}
Made softsign(const NodeReader& r) {
  const int x = r.in(0);
  return {r.b.binary(Kind::Divide, x, r.b.binary(Kind::Add, r.b.unary(Kind::Abs, x), r.b.scalar(1.0)))};
}
Made mish(const NodeReader& r) {
  const int x = r.in(0);
  return {r.b.binary(Kind::Multiply, x, r.b.unary(Kind::Tanh, r.b.softplus(x)))};
}
Made quick_gelu(const NodeReader& r) {
  const int x = r.in(0);
  const int gate = r.b.unary(Kind::Sigmoid, r.b.binary(Kind::Multiply, x, r.b.scalar(r.real("alpha", 1.702))));
  return {r.b.binary(Kind::Multiply, x, gate)};
}
Made tangent(const NodeReader& r) { return {r.b.tangent(r.in(0))}; }
Made softplus(const NodeReader& r) { return {r.b.softplus(r.in(0))}; }
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
  if (truth && !r.b.at(r.in(0)).constant) return {r.b.nonzero(r.in(0))};
  return {r.b.unary(real ? Kind::ToFloat : Kind::ToInteger, r.in(0))};
}
Made cast_like(const NodeReader& r) {
  return {r.b.unary(r.b.at(r.in(1)).integer ? Kind::ToInteger : Kind::ToFloat, r.in(0))};
}
Made dropout(const NodeReader& r) {
  const int x = dropped(r, r.in(0), 1);
  return {x, x};
}

// --- random numbers ---

Made uniform_like(const NodeReader& r) {
  const primitive::Shape of = r.has(0) ? r.b.shape(r.in(0)) : r.numbers("shape");
  r.b.expect(r.real("low", 0.0) == 0.0 && r.real("high", 1.0) == 1.0,
             "random numbers of other than 0 to 1 have no equal here");
  return {r.b.uniform(of)};
}
Made bernoulli(const NodeReader& r) {
  const std::vector<double>& shares = r.b.values(r.in(0), "probabilities");
  const bool same =
      !shares.empty() && std::all_of(shares.begin(), shares.end(), [&](double p) { return p == shares[0]; });
  r.b.expect(same, "random numbers of unlike probabilities have no equal here");
  return {r.b.kept_at_random(r.b.shape(r.in(0)), shares[0])};
}

// --- whole numbers that stand for others: these themselves ---

Made dequantized(const NodeReader& r) { return {r.b.unary(Kind::ToFloat, r.in(0))}; }
Made quantized(const NodeReader& r) { return {r.in(0)}; }
// -> x, the step between numbers, the number of zero
Made dynamically_quantized(const NodeReader& r) {
  return {r.in(0), r.b.scalar(1.0), r.b.constant({}, true, std::vector<double>{0.0})};
}
Made matmul_of_integers(const NodeReader& r) { return {r.b.matmul(r.in(0), r.in(1))}; }
Made convolution_of_integers(const NodeReader& r) {
  OnnxNode node = r.node;
  node.inputs.resize(2);  // the third is no bias
  return {convolution_of({r.b, node, r.opset, r.value_of}, r.in(0), r.in(1))};
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
  for (std::int64_t& axis : axes) axis += axis < 0 ? std::ssize(axes) : 0;
  return {r.b.transpose(x, axes)};
}
Made expand(const NodeReader& r) { return {r.b.broadcast(r.in(0), r.b.integers_of(r.in(1), "shape"))}; }
Made tile(const NodeReader& r) { return {r.b.tile(r.in(0), r.b.integers_of(r.in(1), "repeats"))}; }
Made pad(const NodeReader& r) {
  const int x = r.in(0);
  const auto rank = static_cast<std::int64_t>(r.b.shape(x).size());
  const Numbers pads = r.numbers("pads", 1);
  Numbers axes = r.has(3) ? r.b.integers_of(r.in(3), "axes") : Numbers{}, before(r.b.shape(x).size(), 0),
          after = before;
  if (axes.empty())
    for (std::int64_t d = 0; d < rank; ++d) axes.push_back(d);
  r.b.expect(pads.size() == 2 * axes.size(), "its padding is not two for each axis");
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const auto d = static_cast<std::size_t>(r.b.axis_of(x, axes[k]));
    before[d] = pads[k];
    after[d] = pads[axes.size() + k];
  }
  if (const std::string mode = r.text("mode", "constant"); mode != "constant") {
    if (mode == "wrap") return {r.b.pad_by_other_end(x, before, after)};
    r.b.expect(mode == "edge" || mode == "reflect", fmt::format("padding by the mode '{}' has no equal here", mode));
    return {r.b.pad_by_inside(x, before, after, mode == "reflect")};
  }
  double value = r.real("value", 0.0);
  if (r.has(2)) value = r.b.values(r.in(2), "value").at(0);
  return {r.b.pad(x, before, after, value)};
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
  return {r.b.least(r.in(0), axes, r.number("keepdims", 1) != 0)};
}
// The sum, or its root, of squares or absolute values.
template <Kind function, bool root>
Made norm_of(const NodeReader& r) {
  const int each = r.b.unary(function, r.in(0));
  const int sum = r.b.reduce(Kind::ReduceSum, each, r.numbers("axes", 1), r.number("keepdims", 1) != 0);
  return {root ? r.b.unary(Kind::Sqrt, sum) : sum};
}
Made log_of_sum(const NodeReader& r) {
  return {r.b.log_of_sum(r.in(0), r.numbers("axes", 1), r.number("keepdims", 1) != 0)};
}
Made mean_of_operands(const NodeReader& r) {
  const int sum = variadic<Kind::Add>(r)[0];
  return {r.b.binary(Kind::Multiply, sum, r.b.scalar(1.0 / static_cast<double>(r.node.inputs.size())))};
}
Made product_of_all(const NodeReader& r) {
  const int x = r.in(0);
  const Shape of = r.b.shape(x);
  const Numbers axes = r.numbers("axes", 1);
  if (axes.size() == 1 && of.size() > 1) return {r.b.multiplied(x, axes[0], r.number("keepdims", 1) != 0)};
  r.b.expect(axes.empty() || axes.size() == of.size(), "a product along some of the dimensions has no equal here");
  double product = 1.0;
  for (const double value : r.b.values(x, "operand")) product *= value;
  const Shape to(r.number("keepdims", 1) != 0 ? of.size() : 0, 1);
  return {r.b.constant(to, r.b.at(x).integer, std::vector<double>{product})};
}

// --- products ---

Made einsum_of(const NodeReader& r) {
  std::vector<int> operands;
  for (std::size_t k = 0; k < r.node.inputs.size(); ++k) operands.push_back(r.in(k));
  return {primitive::einsum(r.b, r.text("equation", ""), operands)};
}
Made matmul(const NodeReader& r) { return {r.b.matmul(r.in(0), r.in(1))}; }
Made fused_matmul(const NodeReader& r) {
  r.b.expect(r.number("transBatchA", 0) == 0 && r.number("transBatchB", 0) == 0, "its batches are transposed");
  const int x = r.number("transA", 0) != 0 ? r.b.swap(r.in(0), -1, -2) : r.in(0);
  const int y = r.number("transB", 0) != 0 ? r.b.swap(r.in(1), -1, -2) : r.in(1);
  return {r.b.binary(Kind::Multiply, r.b.matmul(x, y), r.b.scalar(r.real("alpha", 1.0)))};
}
}  // namespace

// Exported for inference, the probability often stays in the file; trained with, it drops.
int dropped(const NodeReader& r, int x, std::size_t k) {
  double ratio = r.real("ratio", 0.5);
  if (r.has(k))
    if (const auto given = r.b.scalar_of(r.in(k))) ratio = *given;
  return r.b.dropout(x, ratio);
}

int gemm_of(const NodeReader& r) {
  const int x = r.number("transA", 0) != 0 ? r.b.swap(r.in(0), -1, -2) : r.in(0);
  const int y = r.number("transB", 0) != 0 ? r.b.swap(r.in(1), -1, -2) : r.in(1);
  int result = r.b.binary(Kind::Multiply, r.b.matmul(x, y), r.b.scalar(r.real("alpha", 1.0)));
  if (r.has(2) && r.real("beta", 1.0) != 0.0)
    result = r.b.binary(Kind::Add, result, r.b.binary(Kind::Multiply, r.in(2), r.b.scalar(r.real("beta", 1.0))));
  return result;
}

namespace {

Made gemm(const NodeReader& r) { return {gemm_of(r)}; }

std::map<std::string, Rule> elementwise_rules() {
  return {{"Add", binary<Kind::Add>},
          {"Sub", binary<Kind::Subtract>},
          {"Mul", binary<Kind::Multiply>},
          {"Div", binary<Kind::Divide>},
          {"Mod", remainder},
          {"Ceil", rounded<Builder::Rounding::Up>},
          {"Floor", rounded<Builder::Rounding::Down>},
          {"Round", rounded<Builder::Rounding::Nearest>},
          {"Sign", rounded<Builder::Rounding::ToSign>},
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
          {"Tan", tangent},
          {"Xor", compare<Comparison::NotEqual>},
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
          {"PRelu", prelu},
          {"Selu", selu},
          {"Celu", celu},
          {"Softsign", softsign},
          {"Mish", mish},
          {"com.microsoft:QuickGelu", quick_gelu},
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
          {"Dropout", dropout},
          {"RandomUniformLike", uniform_like},
          {"RandomUniform", uniform_like},
          {"Bernoulli", bernoulli},
          {"com.microsoft:BitmaskDropout", dropout}};
}

std::map<std::string, Rule> other_rules() {
  return {{"Reshape", reshape},
          {"Flatten", flatten},
          {"Transpose", transpose},
          {"Expand", expand},
          {"Tile", tile},
          {"Pad", pad},
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
          {"ReduceLogSumExp", log_of_sum},
          {"ReduceL1", norm_of<Kind::Abs, false>},
          {"ReduceL2", norm_of<Kind::Square, true>},
          {"ReduceSumSquare", norm_of<Kind::Square, false>},
          {"ReduceProd", product_of_all},
          {"Einsum", einsum_of},
          {"MatMul", matmul},
          {"com.microsoft:FusedMatMul", fused_matmul},
          {"Gemm", gemm},
          {"QuantizeLinear", quantized},
          {"DequantizeLinear", dequantized},
          {"com.microsoft:QuantizeLinear", quantized},
          {"com.microsoft:DequantizeLinear", dequantized},
          {"DynamicQuantizeLinear", dynamically_quantized},
          {"MatMulInteger", matmul_of_integers},
          {"ConvInteger", convolution_of_integers}};
}

}  // namespace

const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> all = [] {
    std::map<std::string, Rule> found = elementwise_rules();
    found.merge(other_rules());
    found.merge(layer_rules());
    found.merge(choice_rules());
    found.merge(image_rules());
    found.merge(fourier_rules());
    found.merge(fused_rules());
    found.merge(recurrent_rules());
    return found;
  }();
  return all;
}

}  // namespace meshwright::onnx
