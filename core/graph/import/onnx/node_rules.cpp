// SPDX-License-Identifier: Apache-2.0
// What each operator of ONNX is in primitive ops, but for layers (layer_rules.cpp) and those that choose elements
// (choice_rules.cpp).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/errors.h"
#include "core/graph/import/onnx/einsum.h"
#include "core/graph/import/onnx/node_reader.h"

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
Made hard_sigmoid(const NodeReader& r) {
  return {r.b.clamped_line(r.in(0), r.real("alpha", 0.2), r.real("beta", 0.5))};
}
Made hard_swish(const NodeReader& r) { return {r.b.hard_swish(r.in(0))}; }
Made leaky_relu(const NodeReader& r) { return {r.b.leaky_relu(r.in(0), r.real("alpha", 0.01))}; }
Made elu(const NodeReader& r) { return {r.b.elu(r.in(0), r.real("alpha", 1.0))}; }
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
Made tile(const NodeReader& r) { return {r.b.tile(r.in(0), r.b.integers_of(r.in(1), "repeats"))}; }
Made pad(const NodeReader& r) {
  r.b.expect(r.text("mode", "constant") == "constant", "padding by what lies inside has no equal here");
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
// Rows are images one element high.
int convolution_of_rows(const NodeReader& r, int x, int w) {
  Numbers stride = r.numbers("strides"), pads = r.numbers("pads");
  const Numbers dilations = r.numbers("dilations");
  if (stride.empty()) stride = {1};
  if (pads.empty()) pads = {0, 0};
  r.b.expect(r.text("auto_pad", "NOTSET") == "NOTSET" && (dilations.empty() || dilations == Numbers{1}),
             "dilated windows and padding by name have no equal here");
  r.b.expect(stride.size() == 1 && pads.size() == 2, "its strides and padding are not those of one dimension");
  for (const std::int64_t pad : pads) r.b.expect(pad >= 0 && pad <= 1'000'000, "its padding is out of range");
  r.b.expect(stride[0] >= 1 && stride[0] <= 1'000'000, "its stride is out of range");
  return r.b.convolution(x, w, {{}, {1, stride[0]}, {0, pads[0]}, {0, pads[1]}}, r.number("group", 1),
                         r.has(2) ? std::optional(r.in(2)) : std::nullopt);
}
Made convolution(const NodeReader& r) {
  const int x = r.in(0), w = r.in(1);
  const Shape& weight = r.b.shape(w);
  if (weight.size() == 3 && r.b.shape(x).size() == 3) return {convolution_of_rows(r, x, w)};
  r.b.expect(weight.size() == 4, "convolutions over other than one or two dimensions have no equal here");
  const auto windows = windows_of(r, r.b.shape(x), {weight[2], weight[3]});
  return {r.b.convolution(x, w, windows, r.number("group", 1), r.has(2) ? std::optional(r.in(2)) : std::nullopt)};
}
Made transposed_convolution(const NodeReader& r) {
  const auto only = [&](const char* name, std::int64_t value) {
    const Numbers given = r.numbers(name);
    return std::all_of(given.begin(), given.end(), [value](std::int64_t one) { return one == value; });
  };
  const std::string padding = r.text("auto_pad", "NOTSET");
  r.b.expect(only("pads", 0) && only("output_padding", 0) && only("dilations", 1) && !r.has("output_shape") &&
                 r.number("group", 1) == 1 && (padding == "NOTSET" || padding == "VALID"),
             "a transposed convolution with padding, dilation or groups has no equal here");
  Numbers stride = r.numbers("strides");
  if (stride.empty()) stride = {1, 1};
  return {r.b.transposed_convolution(r.in(0), r.in(1), stride, r.has(2) ? std::optional(r.in(2)) : std::nullopt)};
}
// (x, [region], [factors], [sizes]): each element several times in a row.
Made resize(const NodeReader& r) {
  const Shape of = r.b.shape(r.in(0));
  r.b.expect(r.text("mode", "nearest") == "nearest" && of.size() == 4,
             "it makes other than an image of each element several times in a row");
  if (r.has(3)) {
    const Shape to = r.b.integers_of(r.in(3), "sizes");
    r.b.expect(to.size() == 4 && to[1] == of[1], "it enlarges other than an image");
    return {r.b.enlarged(r.in(0), {to[2], to[3]})};
  }
  r.b.expect(r.has(2), "it has neither sizes nor factors");
  const std::vector<double> factors = r.b.values(r.in(2), "factors");
  r.b.expect(factors.size() == 4 && factors[0] == 1.0 && factors[1] == 1.0, "it enlarges other than an image");
  return {r.b.enlarged_by(r.in(0), factors[2], factors[3])};
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
          {"ReduceL1", norm_of<Kind::Abs, false>},
          {"ReduceL2", norm_of<Kind::Square, true>},
          {"ReduceSumSquare", norm_of<Kind::Square, false>},
          {"ReduceProd", product_of_all},
          {"Einsum", einsum_of},
          {"MatMul", matmul},
          {"com.microsoft:FusedMatMul", fused_matmul},
          {"Gemm", gemm},
          {"Conv", convolution},
          {"ConvTranspose", transposed_convolution},
          {"Resize", resize},
          {"MaxPool", pool<Kind::MaxPool>},
          {"AveragePool", pool<Kind::AveragePool>},
          {"GlobalAveragePool", global_average}};
}

}  // namespace

const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> all = [] {
    std::map<std::string, Rule> found = elementwise_rules();
    found.merge(other_rules());
    found.merge(layer_rules());
    found.merge(choice_rules());
    return found;
  }();
  return all;
}

}  // namespace meshwright::onnx
