// SPDX-License-Identifier: Apache-2.0
// What each ATen op is in primitive ops.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/errors.h"
#include "core/graph/import/torch/aten_node.h"

namespace meshwright::torch {

using primitive::Builder;
using primitive::Kind;
using primitive::Shape;
using Numbers = std::vector<std::int64_t>;
using Made = std::vector<int>;

namespace {

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

// --- elementwise ---

template <Kind kind>
Made binary(const AtenNode& a) {
  int other = a.operand("other");
  const double alpha = a.number("alpha", 1.0);
  if (alpha != 1.0) other = a.b.binary(Kind::Multiply, other, a.b.scalar(alpha));
  return {a.b.binary(kind, a.operand("self"), other)};
}
Made reversed_subtract(const AtenNode& a) { return {a.b.binary(Kind::Subtract, a.operand("other"), a.tensor("self"))}; }
Made power(const AtenNode& a) { return {a.b.binary(Kind::Power, a.tensor("self"), a.operand("exponent"))}; }
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
  const std::optional<bool> real = names_float(a);
  return {real ? a.b.unary(*real ? Kind::ToFloat : Kind::ToInteger, x) : x};
}
Made where(const AtenNode& a) { return {a.b.select(a.tensor("condition"), a.operand("self"), a.operand("other"))}; }
Made masked_fill(const AtenNode& a) { return {a.b.select(a.tensor("mask"), a.operand("value"), a.tensor("self"))}; }
Made dropout(const AtenNode& a) {
  const bool drops = a.flag("train", false);
  return {a.b.dropout(a.tensor("input"), drops ? a.number("p", 0.5) : 0.0)};
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
Made zeros_like(const AtenNode& a) { return filled(a, a.b.shape(a.tensor("self")), 0.0, true); }
Made ones_like(const AtenNode& a) { return filled(a, a.b.shape(a.tensor("self")), 1.0, true); }
Made scalar_tensor(const AtenNode& a) {
  return {a.b.constant({}, !names_float(a).value_or(true), std::vector<double>{a.number("s", 0.0)})};
}
Made arange(const AtenNode& a) {
  const double start = a.find("start", "as_sym_int") != nullptr ? static_cast<double>(a.integer("start", 0))
                                                                : a.number("start", 0.0),
               end = a.find("end", "as_sym_int") != nullptr ? static_cast<double>(a.integer("end", 0))
                                                            : a.number("end", 0.0),
               step = a.number("step", 1.0);
  return {a.b.range(start, end, step, !names_float(a).value_or(false))};
}
Made triangle(const AtenNode& a) {
  const int x = a.tensor("self");
  a.b.expect(a.b.at(x).constant, "a triangle of what is no constant has no equal here");
  return {a.b.constant(a.b.shape(x), a.b.at(x).integer, std::nullopt)};
}

// --- shapes ---

Made view(const AtenNode& a) { return {a.b.reshape(a.tensor("self"), a.integers(a.has("size") ? "size" : "shape"))}; }
Made flatten(const AtenNode& a) {
  const int x = a.tensor("self");
  const auto first = static_cast<std::size_t>(a.b.axis_of(x, a.integer("start_dim", 0))),
             last = static_cast<std::size_t>(a.b.axis_of(x, a.integer("end_dim", -1)));
  const Shape from = a.b.shape(x);
  Shape to;
  for (std::size_t d = 0; d < from.size(); ++d)
    if (d > first && d <= last)
      to.back() *= from[d];
    else
      to.push_back(from[d]);
  return {a.b.reshape(x, to)};
}
Made unflatten(const AtenNode& a) {
  const int x = a.tensor("self");
  const std::int64_t axis = a.b.axis_of(x, a.integer("dim", 0));
  Shape to = a.b.shape(x);
  const Numbers sizes = a.integers("sizes");
  to.erase(to.begin() + axis);
  to.insert(to.begin() + axis, sizes.begin(), sizes.end());
  return {a.b.reshape(x, to)};
}
Made transpose(const AtenNode& a) { return {a.b.swap(a.tensor("self"), a.integer("dim0", 0), a.integer("dim1", 1))}; }
Made permute(const AtenNode& a) {
  const int x = a.tensor("self");
  Numbers axes = a.integers("dims");
  for (std::int64_t& axis : axes) axis = a.b.axis_of(x, axis);
  return {a.b.transpose(x, axes)};
}
Made turned(const AtenNode& a) {
  const int x = a.tensor("self");
  return {a.b.shape(x).size() < 2 ? x : a.b.swap(x, 0, 1)};
}
Made squeeze(const AtenNode& a) {
  const int x = a.tensor("self");
  Numbers axes;
  for (std::int64_t axis : a.integers("dim")) {
    axis = a.b.axis_of(x, axis);
    if (a.b.shape(x)[static_cast<std::size_t>(axis)] == 1) axes.push_back(axis);
  }
  return {axes.empty() ? x : a.b.squeeze(x, axes)};
}
Made unsqueeze(const AtenNode& a) { return {a.b.unsqueeze(a.tensor("self"), {a.integer("dim", 0)})}; }
Made expand(const AtenNode& a) {
  const int x = a.tensor("self");
  Numbers to = a.integers("size");
  const Shape& from = a.b.shape(x);
  for (std::size_t d = 0; d < to.size(); ++d)
    if (to[d] == -1 && d + from.size() >= to.size()) to[d] = from[d + from.size() - to.size()];
  return {a.b.broadcast(x, to)};
}
Made slice(const AtenNode& a) {
  return {a.b.slice(a.tensor("self"), a.integer("dim", 0), a.integer("start", 0), a.integer("end", kEnd),
                    a.integer("step", 1))};
}
Made pick_by_lists(const AtenNode& a) {
  a.b.expect(a.find("indices", "as_tensors") != nullptr,
             "indices into other than the first dimensions have no equal here");
  const std::vector<int> ids = a.tensors("indices");
  for (const int one : ids) a.b.expect(a.b.at(one).integer, "indices by truth values have no equal here");
  return {a.b.pick_leading(a.tensor("self"), ids)};
}
Made differences(const AtenNode& a) {
  a.b.expect(a.integer("n", 1) == 1 && !a.has("append"), "differences of differences have no equal here");
  const std::optional<int> front = a.has("prepend") ? std::optional(a.tensor("prepend")) : std::nullopt;
  return {a.b.differences(a.tensor("self"), front, a.integer("dim", -1))};
}
Made cumulative_sum(const AtenNode& a) { return {a.b.cumulative_sum(a.tensor("self"), a.integer("dim", 0))}; }
Made select(const AtenNode& a) {
  const int x = a.tensor("self");
  const std::int64_t axis = a.b.axis_of(x, a.integer("dim", 0));
  std::int64_t index = a.integer("index", 0);
  if (index < 0) index += a.b.shape(x)[static_cast<std::size_t>(axis)];
  return {a.b.squeeze(a.b.slice(x, axis, index, index + 1), {axis})};
}
Made split(const AtenNode& a) {
  const int x = a.tensor("self");
  const std::int64_t axis = a.b.axis_of(x, a.integer("dim", 0));
  const std::int64_t whole = a.b.shape(x)[static_cast<std::size_t>(axis)];
  Numbers sizes = a.integers(a.has("split_sizes") ? "split_sizes" : "split_size");
  if (sizes.size() == 1 && !a.has("split_sizes")) {
    const std::int64_t each = sizes[0];
    a.b.expect(each > 0 && whole / each < 10'000, "its parts are empty");
    sizes.clear();
    for (std::int64_t left = whole; left > 0; left -= each) sizes.push_back(std::min(each, left));
  }
  return a.b.parts(x, axis, sizes);
}
Made chunk(const AtenNode& a) {
  const int x = a.tensor("self");
  const std::int64_t axis = a.b.axis_of(x, a.integer("dim", 0)), chunks = a.integer("chunks", 1);
  const std::int64_t whole = a.b.shape(x)[static_cast<std::size_t>(axis)];
  a.b.expect(chunks > 0 && chunks < 10'000, "its parts are none");
  Numbers sizes;
  const std::int64_t each = (whole + chunks - 1) / chunks;
  for (std::int64_t left = whole; left > 0; left -= each) sizes.push_back(std::min(each, left));
  return a.b.parts(x, axis, sizes);
}
Made concat(const AtenNode& a) { return {a.b.concat(a.tensors("tensors"), a.integer("dim", 0))}; }
Made repeat(const AtenNode& a) {
  a.b.expect(a.find("dim", "as_int") != nullptr, "repeats over all dimensions have no equal here");
  return {a.b.repeat(a.tensor("self"), a.integer("dim", 0), a.integer("repeats", 1))};
}

// --- reductions ---

template <Kind kind>
Made reduce(const AtenNode& a) {
  const int x = a.tensor("self");
  return {a.b.reduce(kind, kind == Kind::ReduceMax ? x : a.b.unary(Kind::ToFloat, x), a.integers("dim"),
                     a.flag("keepdim", false))};
}
Made softmax(const AtenNode& a) { return {a.b.softmax(a.tensor("self"), a.integer("dim", -1))}; }
Made log_softmax(const AtenNode& a) { return {a.b.unary(Kind::Log, softmax(a)[0])}; }
// An element for each index, along any dimension, where both are constants.
std::optional<int> picked_constant(const AtenNode& a, int x, int ids, std::size_t d) {
  const primitive::Node &table = a.b.at(x), &chosen = a.b.at(ids);
  if (!table.values || !chosen.values || table.shape.size() != chosen.shape.size()) return std::nullopt;
  for (std::size_t i = 0; i < table.shape.size(); ++i)
    if (i != d && chosen.shape[i] != table.shape[i]) return std::nullopt;
  std::int64_t inner = 1;
  for (std::size_t i = d + 1; i < table.shape.size(); ++i) inner *= table.shape[i];
  std::vector<double> picked;
  for (std::size_t i = 0; i < chosen.values->size(); ++i) {
    const auto at = static_cast<std::int64_t>(i), row = static_cast<std::int64_t>((*chosen.values)[i]);
    if (row < 0 || row >= table.shape[d]) a.b.fail(fmt::format("index {} is beyond its table", row));
    const std::int64_t outer = at / inner / chosen.shape[d];
    picked.push_back((*table.values)[static_cast<std::size_t>((outer * table.shape[d] + row) * inner + at % inner)]);
  }
  return a.b.constant(chosen.shape, table.integer, std::move(picked));
}
Made pick(const AtenNode& a) {
  const int x = a.tensor("self"), ids = a.tensor("index");
  if (const auto made = picked_constant(a, x, ids, static_cast<std::size_t>(a.b.axis_of(x, a.integer("dim", 0)))))
    return {*made};
  const auto last = static_cast<std::int64_t>(a.b.shape(x).size()) - 1;
  a.b.expect(a.b.axis_of(x, a.integer("dim", 0)) == last && a.b.shape(ids).back() == 1,
             "a gather of other than one element of the last dimension has no equal here");
  return {a.b.unsqueeze(a.b.pick_label(x, a.b.squeeze(ids, {last})), {last})};
}
Made cross_entropy(const AtenNode& a) {
  a.b.expect(a.number("label_smoothing", 0.0) == 0.0 && a.integer("reduction", 1) == 1,
             "a cross entropy that is no plain mean has no equal here");
  return {a.b.cross_entropy(a.tensor("self"), a.tensor("target"))};
}

// --- products and tables ---

Made linear(const AtenNode& a) {
  const int product = a.b.matmul(a.tensor("input"), a.b.swap(a.tensor("weight"), 0, 1));
  return {a.has("bias") ? a.b.binary(Kind::Add, product, a.tensor("bias")) : product};
}
Made matmul(const AtenNode& a) { return {a.b.matmul(a.tensor("self"), a.tensor(a.has("mat2") ? "mat2" : "other"))}; }
Made addmm(const AtenNode& a) {
  return {a.b.binary(Kind::Add, a.b.matmul(a.tensor("mat1"), a.tensor("mat2")), a.tensor("self"))};
}
Made embedding(const AtenNode& a) { return {a.b.gather(a.tensor("weight"), a.tensor("indices"), 0)}; }

Numbers pair(Numbers given, std::int64_t otherwise) {
  if (given.empty()) given = {otherwise};
  if (given.size() == 1) given.push_back(given[0]);
  return given;
}
Builder::Windows windows_of(const AtenNode& a, Numbers window) {
  const Numbers pad = pair(a.integers("padding"), 0), dilation = pair(a.integers("dilation"), 1);
  Builder::Windows windows{pair(std::move(window), 1), pair(a.integers("stride"), 1), pad, pad,
                           a.flag("ceil_mode", false)};
  a.b.expect(a.find("padding", "as_string") == nullptr, "padding by name has no equal here; give it in numbers");
  a.b.expect(dilation == Numbers({1, 1}), "dilated windows have no equal here");
  for (const Numbers* of : std::initializer_list<const Numbers*>{&windows.window, &windows.stride, &pad})
    a.b.expect(of->size() == 2 &&
                   std::all_of(of->begin(), of->end(),
                               [&](std::int64_t size) { return size >= (of == &pad ? 0 : 1) && size < 1'000'000; }),
               "its window, stride or padding is out of range");
  return windows;
}
Made convolution(const AtenNode& a) {
  a.b.expect(!a.flag("transposed", false), "a transposed convolution has no equal here");
  const int x = a.tensor("input"), w = a.tensor("weight");
  return {a.b.convolution(x, w, windows_of(a, {}), a.integer("groups", 1),
                          a.has("bias") ? std::optional(a.tensor("bias")) : std::nullopt)};
}
template <Kind kind>
Made pool(const AtenNode& a) {
  const Numbers window = pair(a.integers("kernel_size"), 1);
  Builder::Windows windows = windows_of(a, window);
  if (a.integers("stride").empty()) windows.stride = window;
  if (kind == Kind::AveragePool && a.flag("count_include_pad", true)) a.b.note_padding(windows);
  const int made = a.b.pool(kind, a.tensor("self"), windows);
  return {made, made};  // positions of maxima are for a backward alone
}
Made global_average(const AtenNode& a) {
  const Numbers to = a.integers("output_size");
  a.b.expect(to == Numbers({1, 1}), "an adaptive pooling to other than one element has no equal here");
  return {a.b.reduce(Kind::ReduceMean, a.tensor("self"), {-2, -1}, true)};
}

// --- normalisations and attention ---

int constant_of(const AtenNode& a, int x, double value) {
  return a.b.broadcast(a.b.scalar(value), {a.b.shape(x).back()});
}
Made layer_norm(const AtenNode& a) {
  const int x = a.tensor("input");
  a.b.expect(a.integers("normalized_shape").size() == 1,
             "a normalisation over more than the last dimension has no equal here");
  a.b.expect(a.has("weight"), "a layer normalisation without weights has no equal here");
  const int beta = a.has("bias") ? a.tensor("bias") : constant_of(a, x, 0.0);
  const int made = a.b.layer_norm(x, a.tensor("weight"), beta, a.number("eps", 1e-5));
  return {made, made, made};
}
Made rms_norm(const AtenNode& a) {
  a.b.expect(a.integers("normalized_shape").size() == 1 && a.has("weight"),
             "an RMS normalisation without weights or over more than the last dimension has no equal here");
  return {a.b.rms_norm(a.tensor("input"), a.tensor("weight"), a.number("eps", 1.1920928955078125e-7))};
}
Made batch_norm(const AtenNode& a) {
  a.b.expect(a.has("weight") && a.has("bias"), "a batch normalisation without weights has no equal here");
  const int made = a.b.batch_norm(a.tensor("input"), a.tensor("weight"), a.tensor("bias"), a.number("eps", 1e-5));
  return {made, made, made, made, made};
}
Made attention(const AtenNode& a) {
  const int q = a.tensor("query"), k = a.tensor("key"), v = a.tensor("value");
  const bool causal = a.flag("is_causal", false);
  if (a.has("attn_mask")) {
    const int mask = a.tensor("attn_mask");
    return {a.b.masked_attention(q, k, v, a.number("scale", 0.0), causal, mask)};
  }
  return {a.b.attention(q, k, v, a.number("scale", 0.0), {.causal = causal})};
}

std::map<std::string, Rule> elementwise_rules() {
  return {{"add", binary<Kind::Add>},
          {"sub", binary<Kind::Subtract>},
          {"mul", binary<Kind::Multiply>},
          {"div", binary<Kind::Divide>},
          {"maximum", binary<Kind::Maximum>},
          {"minimum", binary<Kind::Minimum>},
          {"bitwise_and", binary<Kind::Multiply>},
          {"logical_and", binary<Kind::Multiply>},
          {"__and__", binary<Kind::Multiply>},
          {"__or__", binary<Kind::Maximum>},
          {"logical_or", binary<Kind::Maximum>},
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
          {"relu_", unary<Kind::Relu>},
          {"silu", unary<Kind::Silu>},
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
          {"clone", same},
          {"alias", same},
          {"contiguous", same},
          {"detach", same},
          {"detach_", same},
          {"lift_fresh_copy", same},
          {"_to_copy", to_type},
          {"to", to_type},
          {"type_as", same}};
}

std::map<std::string, Rule> other_rules() {
  return {{"full", full},
          {"full_like", full_like},
          {"zeros", zeros},
          {"ones", ones},
          {"new_zeros", zeros},
          {"new_ones", ones},
          {"new_full", full},
          {"zeros_like", zeros_like},
          {"ones_like", ones_like},
          {"scalar_tensor", scalar_tensor},
          {"arange", arange},
          {"tril", triangle},
          {"triu", triangle},
          {"view", view},
          {"_unsafe_view", view},
          {"reshape", view},
          {"flatten", flatten},
          {"unflatten", unflatten},
          {"transpose", transpose},
          {"permute", permute},
          {"t", turned},
          {"squeeze", squeeze},
          {"unsqueeze", unsqueeze},
          {"expand", expand},
          {"slice", slice},
          {"select", select},
          {"index", pick_by_lists},
          {"diff", differences},
          {"cumsum", cumulative_sum},
          {"split", split},
          {"split_with_sizes", split},
          {"chunk", chunk},
          {"cat", concat},
          {"repeat_interleave", repeat},
          {"sum", reduce<Kind::ReduceSum>},
          {"mean", reduce<Kind::ReduceMean>},
          {"amax", reduce<Kind::ReduceMax>},
          {"any", reduce<Kind::ReduceMax>},
          {"softmax", softmax},
          {"_softmax", softmax},
          {"log_softmax", log_softmax},
          {"_log_softmax", log_softmax},
          {"gather", pick},
          {"cross_entropy_loss", cross_entropy},
          {"linear", linear},
          {"mm", matmul},
          {"bmm", matmul},
          {"matmul", matmul},
          {"addmm", addmm},
          {"embedding", embedding},
          {"conv2d", convolution},
          {"convolution", convolution},
          {"max_pool2d", pool<Kind::MaxPool>},
          {"max_pool2d_with_indices", pool<Kind::MaxPool>},
          {"avg_pool2d", pool<Kind::AveragePool>},
          {"adaptive_avg_pool2d", global_average},
          {"_adaptive_avg_pool2d", global_average},
          {"layer_norm", layer_norm},
          {"native_layer_norm", layer_norm},
          {"rms_norm", rms_norm},
          {"batch_norm", batch_norm},
          {"_native_batch_norm_legit_functional", batch_norm},
          {"scaled_dot_product_attention", attention}};
}

}  // namespace

const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> all = [] {
    std::map<std::string, Rule> found = elementwise_rules();
    found.merge(other_rules());
    return found;
  }();
  return all;
}

}  // namespace meshwright::torch
