// SPDX-License-Identifier: Apache-2.0
// What each ATen op is in primitive ops, but for those that move elements (aten_rules_shapes.cpp) and layers
// (aten_rules_layers.cpp).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/base/errors.h"
#include "core/graph/import/primitive/sorted_experts.h"
#include "core/graph/import/torch/aten_node.h"

namespace meshwright::torch {

using primitive::Builder;
using primitive::Kind;
using primitive::Shape;
using Numbers = std::vector<std::int64_t>;
using Made = std::vector<int>;

namespace {

// --- elementwise ---

template <Kind kind>
Made binary(const AtenNode& a) {
  int other = a.operand("other");
  const double alpha = a.number("alpha", 1.0);
  if (alpha != 1.0) other = a.b.binary(Kind::Multiply, other, a.b.scalar(alpha));
  const int x = a.operand("self");
  if (kind == Kind::Multiply)
    for (const auto& [rows, weights] : {std::pair{x, other}, std::pair{other, x}})
      if (const std::optional<int> sum = primitive::weighed_rows(a.b, rows, weights)) return {*sum};
  return {a.b.binary(kind, x, other)};
}
template <Builder::Rounding rounding>
Made rounded(const AtenNode& a) {
  a.b.expect(a.integer("decimals", 0) == 0, "a rounding to decimals has no equal here");
  return {a.b.rounded(a.tensor("self"), rounding)};
}
template <bool of_divisor>
Made remainder(const AtenNode& a) {
  return {a.b.remainder(a.operand("self"), a.operand("other"), of_divisor)};
}
Made truncated(const AtenNode& a) {
  const int x = a.tensor("self");
  a.b.expect(a.b.at(x).constant, "a rounding of what is no small constant has no equal here");
  return {a.b.unary(Kind::ToFloat, a.b.unary(Kind::ToInteger, x))};
}
// Rounded down or towards zero, whole numbers alone; of these both are the same where none is negative.
Made divide(const AtenNode& a) {
  const std::string mode = a.text("rounding_mode", "");
  int x = a.operand("self"), y = a.operand("other");
  if (mode.empty()) {  // of whole numbers, too, with what is behind the point
    if (a.b.at(x).integer && a.b.at(y).integer) x = a.b.unary(Kind::ToFloat, x);
    return {a.b.binary(Kind::Divide, x, y)};
  }
  if (mode == "floor" && a.b.at(x).constant && a.b.at(y).constant && !(a.b.at(x).integer && a.b.at(y).integer))
    return {a.b.rounded(a.b.binary(Kind::Divide, x, y), Builder::Rounding::Down)};
  a.b.expect(a.b.at(x).integer && a.b.at(y).integer,
             "a rounded quotient of other than whole numbers has no equal here");
  if (mode == "trunc") return {a.b.binary(Kind::Divide, x, y)};
  return {a.b.binary(Kind::Divide, a.b.binary(Kind::Subtract, x, a.b.remainder(x, y, true)), y)};
}
Made reversed_subtract(const AtenNode& a) {
  int x = a.tensor("self");
  if (const double alpha = a.number("alpha", 1.0); alpha != 1.0) x = a.b.binary(Kind::Multiply, x, a.b.scalar(alpha));
  return {a.b.binary(Kind::Subtract, a.operand("other"), x)};
}
Made power(const AtenNode& a) { return {a.b.binary(Kind::Power, a.operand("self"), a.operand("exponent"))}; }
template <Kind kind>
Made unary(const AtenNode& a) {
  return {a.b.unary(kind, a.tensor("self"))};
}
template <Comparison comparison>
Made compare(const AtenNode& a) {
  return {a.b.compare(comparison, a.operand("self"), a.operand("other"))};
}
Made same(const AtenNode& a) { return {a.tensor(a.has("self") ? "self" : "input")}; }
Made negated(const AtenNode& a) { return {a.b.negated(a.tensor("self"))}; }
Made gelu(const AtenNode& a) {
  return {a.b.unary(a.text("approximate", "none") == "tanh" ? Kind::Gelu : Kind::GeluErf, a.tensor("self"))};
}
// Whether the op's dtype is a floating-point type; nullopt: it names none. torch.dtype codes: 6 half, 7 float, 8
// double, 13 bfloat16.
std::optional<bool> names_float(const AtenNode& a) {
  const Json* type = a.find("dtype", "as_scalar_type");
  if (type == nullptr || !type->is_number_integer()) return std::nullopt;
  const auto code = type->get<std::int64_t>();
  return code == 6 || code == 7 || code == 8 || code == 13;
}
Made to_type(const AtenNode& a) {
  const int x = a.tensor("self");
  const Json* type = a.find("dtype", "as_scalar_type");
  const bool truth = type != nullptr && type->is_number_integer() && type->get<std::int64_t>() == kBoolType;
  const bool known = !a.b.at(x).integer || a.b.at(x).values;  // others stand for truth values, as masks' 0 and 1 do
  if (truth && known && !a.is_truth("self")) return {a.b.nonzero(x)};
  const std::optional<bool> real = names_float(a);
  return {real ? a.b.unary(*real ? Kind::ToFloat : Kind::ToInteger, x) : x};
}
Made square(const AtenNode& a) {
  const int x = a.tensor("self");
  return {a.b.binary(Kind::Multiply, x, x)};
}
Made expm1(const AtenNode& a) {
  return {a.b.binary(Kind::Add, a.b.unary(Kind::Exp, a.tensor("self")), a.b.scalar(-1.0))};
}
Made log1p(const AtenNode& a) {
  return {a.b.unary(Kind::Log, a.b.binary(Kind::Add, a.tensor("self"), a.b.scalar(1.0)))};
}
// The greatest, or the least, of two tensors, or along a dimension.
template <Kind of_two>
Made greatest(const AtenNode& a) {
  if (a.has("other")) return binary<of_two>(a);
  const int x = a.tensor("self");
  const Numbers axes = a.has("dim") ? Numbers{a.integer("dim", 0)} : Numbers{};
  const bool keeps = a.flag("keepdim", false);
  return {of_two == Kind::Minimum ? a.b.least(x, axes, keeps) : a.b.reduce(Kind::ReduceMax, x, axes, keeps)};
}
Made clamp(const AtenNode& a) {
  const auto bound = [&](const char* name) { return a.has(name) ? std::optional(a.number(name, 0.0)) : std::nullopt; };
  if (a.find("min", "as_tensor") == nullptr && a.find("max", "as_tensor") == nullptr)
    return {a.b.clamp(a.tensor("self"), bound("min"), bound("max"))};
  int x = a.tensor("self");
  if (a.has("min")) x = a.b.binary(Kind::Maximum, x, a.operand("min"));
  if (a.has("max")) x = a.b.binary(Kind::Minimum, x, a.operand("max"));
  return {x};
}
Made hardtanh(const AtenNode& a) {
  return {a.b.clamp(a.tensor("self"), a.number("min_val", -1.0), a.number("max_val", 1.0))};
}
Made relu6(const AtenNode& a) { return {a.b.clamp(a.tensor("self"), 0.0, 6.0)}; }
Made hard_sigmoid(const AtenNode& a) { return {a.b.clamped_line(a.tensor("self"), 1.0 / 6.0, 0.5)}; }
Made hard_swish(const AtenNode& a) { return {a.b.hard_swish(a.tensor("self"))}; }
Made leaky_relu(const AtenNode& a) { return {a.b.leaky_relu(a.tensor("self"), a.number("negative_slope", 0.01))}; }
Made elu(const AtenNode& a) {
  a.b.expect(a.number("input_scale", 1.0) == 1.0, "an ELU of a scaled operand has no equal here");
  const int bent = a.b.elu(a.tensor("self"), a.number("alpha", 1.0));
  return {a.b.binary(Kind::Multiply, bent, a.b.scalar(a.number("scale", 1.0)))};
}
// log(1 + e^(beta x)) / beta; beyond the threshold it is x to within rounding.
Made softplus(const AtenNode& a) {
  const double beta = a.number("beta", 1.0);
  a.b.expect(beta > 0.0, "a softplus of no slope has no equal here");
  const int x = a.tensor("self"), inner = a.b.binary(Kind::Multiply, x, a.b.scalar(beta));
  const int made = a.b.binary(Kind::Multiply, a.b.softplus(inner), a.b.scalar(1.0 / beta));
  constexpr double kRounding = 16.0;  // e^-16 is less than what 32 bits tell apart
  const double threshold = a.number("threshold", 20.0);
  if (threshold >= kRounding) return {made};
  return {a.b.select(a.b.compare(Comparison::Greater, inner, a.b.scalar(threshold)), x, made)};
}
Made mish(const AtenNode& a) {
  const int x = a.tensor("self");
  return {a.b.binary(Kind::Multiply, x, a.b.unary(Kind::Tanh, a.b.softplus(x)))};
}
Made prelu(const AtenNode& a) {
  const int x = a.tensor("self");
  int slopes = a.tensor("weight");
  if (const Shape of = a.b.shape(slopes); of.size() == 1 && of[0] > 1 && a.b.shape(x).size() > 2)
    slopes = a.b.reshape(slopes, [&] {
      Shape to(a.b.shape(x).size() - 1, 1);
      to[0] = of[0];
      return to;
    }());
  return {a.b.binary(Kind::Add, a.b.unary(Kind::Relu, x), a.b.binary(Kind::Multiply, a.b.clamp(x, {}, 0.0), slopes))};
}
Made selu(const AtenNode& a) {
  const int bent = a.b.elu(a.tensor("self"), 1.6732632423543772848170429916717);
  return {a.b.binary(Kind::Multiply, bent, a.b.scalar(1.0507009873554804934193349852946))};
}
Made celu(const AtenNode& a) {
  const double alpha = a.number("alpha", 1.0);
  a.b.expect(alpha > 0.0, "a CELU without a positive alpha has no equal here");
  const int narrow = a.b.elu(a.b.binary(Kind::Multiply, a.tensor("self"), a.b.scalar(1.0 / alpha)), 1.0);
  return {a.b.binary(Kind::Multiply, narrow, a.b.scalar(alpha))};
}
Made glu(const AtenNode& a) {
  const int x = a.tensor("self");
  const std::int64_t axis = a.b.axis_of(x, a.integer("dim", -1)), size = a.b.shape(x)[static_cast<std::size_t>(axis)];
  a.b.expect(size % 2 == 0, "its two halves are not alike");
  const std::vector<int> parts = a.b.parts(x, axis, {size / 2, size / 2});
  return {a.b.binary(Kind::Multiply, parts[0], a.b.unary(Kind::Sigmoid, parts[1]))};
}
Made log_sigmoid(const AtenNode& a) { return {a.b.negated(a.b.softplus(a.b.negated(a.tensor("self"))))}; }
// self + value * tensor1 * tensor2, or / tensor2.
template <Kind kind>
Made add_product(const AtenNode& a) {
  const int product = a.b.binary(kind, a.tensor("tensor1"), a.tensor("tensor2"));
  return {
      a.b.binary(Kind::Add, a.tensor("self"), a.b.binary(Kind::Multiply, product, a.b.scalar(a.number("value", 1.0))))};
}
Made where(const AtenNode& a) { return {a.b.select(a.tensor("condition"), a.operand("self"), a.operand("other"))}; }
Made masked_fill(const AtenNode& a) { return {a.b.select(a.tensor("mask"), a.operand("value"), a.tensor("self"))}; }
Made dropout(const AtenNode& a) {
  const bool drops = a.flag("train", false);
  return {a.b.dropout(a.tensor(a.has("input") ? "input" : "self"), drops ? a.number("p", 0.5) : 0.0)};
}

Made bernoulli(const AtenNode& a) {
  a.b.expect(a.has("p"), "random numbers whose probabilities are a tensor have no equal here");
  return {a.b.kept_at_random(a.b.shape(a.tensor("self")), a.number("p", 0.5))};
}
Made uniform(const AtenNode& a) {
  return {a.b.uniform(a.has("self") ? a.b.shape(a.tensor("self")) : a.integers("size"))};
}

// --- constants ---

Made filled(const AtenNode& a, const Shape& shape, double value, bool real) {
  const int one = a.b.constant({}, !real, std::vector<double>{value});
  return {a.b.broadcast(one, shape)};
}
Made full(const AtenNode& a) {
  return filled(a, a.integers("size"), a.number("fill_value", 0.0), names_float(a).value_or(true));
}
Made full_like(const AtenNode& a) {
  const int x = a.tensor("self");
  return filled(a, a.b.shape(x), a.number("fill_value", 0.0), names_float(a).value_or(!a.b.at(x).integer));
}
Made zeros(const AtenNode& a) { return filled(a, a.integers("size"), 0.0, names_float(a).value_or(true)); }
Made ones(const AtenNode& a) { return filled(a, a.integers("size"), 1.0, names_float(a).value_or(true)); }
template <bool ones>
Made filled_like(const AtenNode& a) {
  const int x = a.tensor("self");
  return filled(a, a.b.shape(x), ones ? 1.0 : 0.0, names_float(a).value_or(!a.b.at(x).integer));
}
Made filled_with(const AtenNode& a) {
  const int x = a.tensor("self");
  return filled(a, a.b.shape(x), a.number("value", 0.0), !a.b.at(x).integer);
}
Made zeroed(const AtenNode& a) {
  const int x = a.tensor("self");
  return filled(a, a.b.shape(x), 0.0, !a.b.at(x).integer);
}
Made copied(const AtenNode& a) { return {a.b.broadcast(a.tensor("src"), a.b.shape(a.tensor("self")))}; }
Made scalar_tensor(const AtenNode& a) {
  return {a.b.constant({}, !names_float(a).value_or(true), std::vector<double>{a.number("s", 0.0)})};
}
Made arange(const AtenNode& a) {
  const double start = a.find("start", "as_sym_int") != nullptr ? static_cast<double>(a.integer("start", 0))
                                                                : a.number("start", 0.0),
               end = a.find("end", "as_sym_int") != nullptr ? static_cast<double>(a.integer("end", 0))
                                                            : a.number("end", 0.0),
               step = a.number("step", 1.0);
  const bool any_real = a.find("start", "as_float") || a.find("end", "as_float") || a.find("step", "as_float");
  return {a.b.range(start, end, step, !names_float(a).value_or(any_real))};
}
Made outer(const AtenNode& a) {
  const int x = a.tensor("self"), y = a.tensor(a.has("vec2") ? "vec2" : "other");
  return {a.b.binary(Kind::Multiply, a.b.unsqueeze(x, {1}), a.b.unsqueeze(y, {0}))};
}

// --- complex numbers ---

// Of pairs in the last dimension, and back.
Made view_as_complex(const AtenNode& a) {
  const int x = a.tensor("self");
  a.b.expect(!a.b.shape(x).empty() && a.b.shape(x).back() == 2, "its last dimension has no two parts");
  const auto part = [&](std::int64_t which) { return a.b.squeeze(a.b.slice(x, -1, which, which + 1), {-1}); };
  const int first = part(0);
  return {a.b.complex(first, part(1))};
}
Made view_as_real(const AtenNode& a) {
  const int x = a.tensor("self"), first = a.b.real_of(x);
  return {a.b.stack({first, a.b.imaginary_of(x)}, -1)};
}
Made complex(const AtenNode& a) { return {a.b.complex(a.tensor("real"), a.tensor("imag"))}; }
Made polar(const AtenNode& a) {
  const int length = a.tensor("abs"), angle = a.tensor("angle");
  const int first = a.b.binary(Kind::Multiply, length, a.b.unary(Kind::Cos, angle));
  return {a.b.complex(first, a.b.binary(Kind::Multiply, length, a.b.unary(Kind::Sin, angle)))};
}
Made real(const AtenNode& a) { return {a.b.real_of(a.tensor("self"))}; }
Made imaginary(const AtenNode& a) { return {a.b.imaginary_of(a.tensor("self"))}; }
Made conjugate(const AtenNode& a) {
  const int x = a.tensor("self");
  return {a.b.is_complex(x) ? a.b.complex(a.b.real_of(x), a.b.negated(a.b.imaginary_of(x))) : x};
}
template <bool upper>
Made triangle(const AtenNode& a) {
  return {a.b.triangle(a.tensor("self"), a.integer("diagonal", 0), upper)};
}

// --- reductions ---

template <Kind kind>
Made reduce(const AtenNode& a) {
  const int x = a.tensor("self");
  return {a.b.reduce(kind, kind == Kind::ReduceMax ? x : a.b.unary(Kind::ToFloat, x), a.integers("dim"),
                     a.flag("keepdim", false))};
}
Made variance(const AtenNode& a, bool root) {
  const int x = a.tensor("self");
  Numbers axes = a.integers("dim");
  const bool all = axes.empty();
  if (all)
    for (std::int64_t d = 0; d < std::ssize(a.b.shape(x)); ++d) axes.push_back(d);
  double terms = 1.0;
  for (const std::int64_t axis : axes)
    terms *= static_cast<double>(a.b.shape(x)[static_cast<std::size_t>(a.b.axis_of(x, axis))]);
  const double less = a.has("correction") ? a.number("correction", 1.0) : (a.flag("unbiased", true) ? 1.0 : 0.0);
  a.b.expect(terms > less, "a variance of one element has no equal here");
  const int centred = a.b.binary(Kind::Subtract, x, a.b.reduce(Kind::ReduceMean, x, axes, true));
  int made = a.b.reduce(Kind::ReduceMean, a.b.unary(Kind::Square, centred), axes, a.flag("keepdim", false));
  if (less != 0.0) made = a.b.binary(Kind::Multiply, made, a.b.scalar(terms / (terms - less)));
  return {root ? a.b.unary(Kind::Sqrt, made) : made};
}
Made variance_of(const AtenNode& a) { return variance(a, false); }
Made variance_and_mean(const AtenNode& a) {
  const int mean = a.b.reduce(Kind::ReduceMean, a.tensor("self"), a.integers("dim"), a.flag("keepdim", false));
  return {variance(a, false)[0], mean};
}
Made deviation_of(const AtenNode& a) { return variance(a, true); }
Made vector_norm(const AtenNode& a) {
  const double order = a.number("ord", 2.0);
  const int x = a.tensor("self");
  const Numbers axes = a.integers("dim");
  const bool keeps = a.flag("keepdim", false);
  if (std::isinf(order) && order > 0.0) return {a.b.reduce(Kind::ReduceMax, a.b.unary(Kind::Abs, x), axes, keeps)};
  a.b.expect(order >= 1.0, fmt::format("a norm of order {} has no equal here", order));
  const int size = order == 2.0 ? x : a.b.unary(Kind::Abs, x);
  const int each = order == 1.0 ? size : a.b.binary(Kind::Power, size, a.b.scalar(order));
  const int sum = a.b.reduce(Kind::ReduceSum, each, axes, keeps);
  return {order == 1.0 ? sum : a.b.binary(Kind::Power, sum, a.b.scalar(1.0 / order))};
}
Made softmax(const AtenNode& a) { return {a.b.softmax(a.tensor("self"), a.integer("dim", -1))}; }
Made log_softmax(const AtenNode& a) { return {a.b.unary(Kind::Log, softmax(a)[0])}; }
Made pick(const AtenNode& a) { return {a.b.pick_along(a.tensor("self"), a.tensor("index"), a.integer("dim", 0))}; }

std::map<std::string, Rule> elementwise_rules() {
  return {{"add", binary<Kind::Add>},
          {"sub", binary<Kind::Subtract>},
          {"mul", binary<Kind::Multiply>},
          {"div", divide},
          {"remainder", remainder<true>},
          {"fmod", remainder<false>},
          {"trunc", truncated},
          {"ceil", rounded<Builder::Rounding::Up>},
          {"floor", rounded<Builder::Rounding::Down>},
          {"round", rounded<Builder::Rounding::Nearest>},
          {"sign", rounded<Builder::Rounding::ToSign>},
          {"multiply", binary<Kind::Multiply>},
          {"maximum", binary<Kind::Maximum>},
          {"minimum", binary<Kind::Minimum>},
          {"bitwise_and", binary<Kind::Multiply>},
          {"__and__", binary<Kind::Multiply>},
          {"__or__", binary<Kind::Maximum>},
          {"bitwise_or", binary<Kind::Maximum>},
          {"rsub", reversed_subtract},
          {"pow", power},
          {"neg", negated},
          {"exp", unary<Kind::Exp>},
          {"log", unary<Kind::Log>},
          {"sqrt", unary<Kind::Sqrt>},
          {"rsqrt", unary<Kind::Rsqrt>},
          {"reciprocal", unary<Kind::Reciprocal>},
          {"abs", unary<Kind::Abs>},
          {"sin", unary<Kind::Sin>},
          {"cos", unary<Kind::Cos>},
          {"erf", unary<Kind::Erf>},
          {"tanh", unary<Kind::Tanh>},
          {"sigmoid", unary<Kind::Sigmoid>},
          {"relu", unary<Kind::Relu>},
          {"silu", unary<Kind::Silu>},
          {"square", square},
          {"outer", outer},
          {"ger", outer},
          {"view_as_complex", view_as_complex},
          {"view_as_real", view_as_real},
          {"complex", complex},
          {"polar", polar},
          {"real", real},
          {"imag", imaginary},
          {"conj", conjugate},
          {"_conj", conjugate},
          {"resolve_conj", same},
          {"expm1", expm1},
          {"log1p", log1p},
          {"max", greatest<Kind::Maximum>},
          {"min", greatest<Kind::Minimum>},
          {"clamp", clamp},
          {"clamp_min", clamp},
          {"clamp_max", clamp},
          {"clip", clamp},
          {"hardtanh", hardtanh},
          {"relu6", relu6},
          {"hardsigmoid", hard_sigmoid},
          {"hardswish", hard_swish},
          {"leaky_relu", leaky_relu},
          {"elu", elu},
          {"softplus", softplus},
          {"mish", mish},
          {"log_sigmoid", log_sigmoid},
          {"prelu", prelu},
          {"_prelu_kernel", prelu},
          {"selu", selu},
          {"celu", celu},
          {"glu", glu},
          {"addcmul", add_product<Kind::Multiply>},
          {"addcdiv", add_product<Kind::Divide>},
          {"logical_not", unary<Kind::Not>},
          {"bitwise_not", unary<Kind::Not>},
          {"gelu", gelu},
          {"eq", compare<Comparison::Equal>},
          {"ne", compare<Comparison::NotEqual>},
          {"lt", compare<Comparison::Less>},
          {"le", compare<Comparison::LessEqual>},
          {"gt", compare<Comparison::Greater>},
          {"ge", compare<Comparison::GreaterEqual>},
          {"where", where},
          {"masked_fill", masked_fill},
          {"dropout", dropout},
          {"bernoulli", bernoulli},
          {"rand", uniform},
          {"rand_like", uniform},
          {"clone", same},
          {"alias", same},
          {"contiguous", same},
          {"detach", same},
          {"lift_fresh_copy", same},
          {"_to_copy", to_type},
          {"to", to_type},
          {"type_as", same}};
}

std::map<std::string, Rule> other_rules() {
  return {{"full", full},
          {"full_like", full_like},
          {"zeros", zeros},
          {"empty", zeros},
          {"empty_permuted", zeros},
          {"new_empty", zeros},
          {"fill", filled_with},
          {"zero", zeroed},
          {"copy", copied},
          {"ones", ones},
          {"new_zeros", zeros},
          {"new_ones", ones},
          {"new_full", full},
          {"zeros_like", filled_like<false>},
          {"ones_like", filled_like<true>},
          {"scalar_tensor", scalar_tensor},
          {"arange", arange},
          {"tril", triangle<false>},
          {"triu", triangle<true>},
          {"sum", reduce<Kind::ReduceSum>},
          {"mean", reduce<Kind::ReduceMean>},
          {"amax", reduce<Kind::ReduceMax>},
          {"var", variance_of},
          {"std", deviation_of},
          {"var_mean", variance_and_mean},
          {"linalg_vector_norm", vector_norm},
          {"softmax", softmax},
          {"_softmax", softmax},
          {"log_softmax", log_softmax},
          {"_log_softmax", log_softmax},
          {"gather", pick}};
}

}  // namespace

const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> all = [] {
    std::map<std::string, Rule> found = elementwise_rules();
    found.merge(other_rules());
    found.merge(function_rules());
    found.merge(piece_rules());
    found.merge(shape_rules());
    found.merge(layer_rules());
    found.merge(expert_rules());
    found.merge(image_rules());
    found.merge(fourier_rules());
    found.merge(recurrent_rules());
    return found;
  }();
  return all;
}

}  // namespace meshwright::torch
