// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/emit/emitter.h"

#include <algorithm>
#include <cmath>

#include "core/base/errors.h"

namespace meshwright::primitive {

// --- products and tables ---

Value Emitter::matmul(int n) {
  // One number for all elements of a factor, such as zeros, has none of the axes of the product.
  const auto whole = [&](std::size_t k) {
    const Value value = operand(n, k);
    return scalar(node(n).inputs[k]) ? widened(value, joined(axes_.of_operand(n, k))) : value;
  };
  const Value x = whole(0), y = whole(1);
  const AxisList all = joined(axes_.of(n));
  AxisList order;
  for (const Value* of : {&x, &y})
    for (const int axis : of->order)
      if (std::find(all.begin(), all.end(), axis) != all.end() &&
          std::find(order.begin(), order.end(), axis) == order.end())
        order.push_back(axis);
  order = with_bias_last(n, std::move(order));
  return {add(OpKind::Contract, "", {x.tensor, y.tensor}, {.result_names = names(order)}), order};
}

Value Emitter::gather(int n) {
  const Value ids = operand(n, 1);
  const std::vector<AxisList> table = axes_.of_operand(n, 0);
  std::vector<AxisList> row(table.begin() + 1, table.end());
  const std::vector<Wanted> wanted = {{table[0], "rows"}, {joined(row), "row"}};
  std::vector<Wanted> has;
  for (const int axis : ids.order) has.push_back({{axis}, ""});
  has.push_back({joined(row), "row"});
  return unshaped(add(OpKind::Embedding, "", {ids.tensor, shaped(operand(n, 0), wanted)}), has);
}

Value Emitter::reduce(int n) {
  const Node& of = node(n);
  const Value x = operand(n, 0);
  const AxisList kept = joined(axes_.of(n));
  AxisList order;
  for (const int axis : x.order)
    if (std::find(kept.begin(), kept.end(), axis) != kept.end()) order.push_back(axis);
  if (order == x.order) return x;
  const TensorId numbers = as_float(x.tensor);
  const double count = static_cast<double>(product(x.order)) / static_cast<double>(product(order));
  Attributes attributes{.result_names = names(order)};
  if (of.kind == Kind::ReduceMean) attributes.scale = 1.0 / count;
  return {add(of.kind == Kind::ReduceMax ? OpKind::ReduceMax : OpKind::ReduceSum, "", {numbers}, attributes), order};
}

// --- images ---

// The first axes, which tell the groups, and the others.
std::pair<AxisList, AxisList> Emitter::in_groups(const AxisList& channels, std::int64_t groups) const {
  auto inner = channels.begin();
  for (std::int64_t met = 1; inner != channels.end() && met < groups; ++inner) met *= size(*inner);
  return {{channels.begin(), inner}, {inner, channels.end()}};
}

// (batch, height, width, [groups], channels). A height of several axes has another name than an axis may have.
std::vector<Wanted> Emitter::image(const std::vector<AxisList>& of, std::int64_t groups) const {
  std::vector<Wanted> wanted = {{of[0], "images"}, {of[2], "whole_height"}, {of[3], "whole_width"}};
  const auto [outer, channels] = in_groups(of[1], groups);
  if (groups > 1) wanted.push_back({outer, "groups"});
  wanted.push_back({channels, "channel"});
  return wanted;
}

Value Emitter::convolution(int n) {
  const Node& of = node(n);
  const std::int64_t groups = of.details.groups;
  const std::vector<AxisList> w = axes_.of_operand(n, 1);
  std::vector<Wanted> weight = {{w[2], "kh"}, {w[3], "kw"}, {w[1], "channel"}, {w[0], "out_channel"}};
  if (groups > 1) {
    const auto [outer, out] = in_groups(w[0], groups);
    weight[3].axes = out;
    weight.insert(weight.begin(), {outer, "groups"});
  }
  std::vector<Wanted> result = image(axes_.of(n), groups);
  result.back().name = "out_channel";
  const TensorId x = shaped(operand(n, 0), image(axes_.of_operand(n, 0), groups));
  std::vector<Dim> spatial;
  for (const std::size_t k : {1, 2})
    spatial.push_back(result[k].axes.size() == 1 ? dim(result[k].axes[0])
                                                 : Dim{result[k].name, product(result[k].axes)});
  for (std::size_t k = 0; k < 2; ++k)  // a size that is not kept needs a name that x lacks
    if (graph_.tensor(x).dims[k + 1].name == spatial[k].name && graph_.tensor(x).dims[k + 1].size != spatial[k].size)
      spatial[k].name += "_out";
  // A weight of one convolution alone is made as that needs it.
  const int w_node = of.inputs[1];
  const bool own = node(w_node).kind == Kind::Parameter && readers_of_.at(w_node).size() == 1;
  // Channels of a group that several axes make have a name of their own, which the weight then has, too.
  std::vector<Dim> to = dims_of(weight);
  Dim& channel = to[to.size() - 2];
  const bool unlike = channel.name != graph_.tensor(x).dims.back().name;
  channel.name = graph_.tensor(x).dims.back().name;
  const auto shared = [&] {
    const TensorId made = shaped(operand(n, 1), weight);
    return unlike ? add(OpKind::Reshape, ".renamed", {made}, {.result_dims = to}) : made;
  };
  const TensorId w_tensor =
      own ? graph_.add_tensor(unique(node(w_node).name), TensorKind::Parameter, graph_.dtype, to) : shared();
  const TensorId made = add(OpKind::Convolution, "", {x, w_tensor},
                            {.result_dims = spatial,
                             .stride = of.details.stride,
                             .pad_before = of.details.before,
                             .pad_after = of.details.after});
  return unshaped(made, result);
}

Value Emitter::pool(int n) {
  const Node& of = node(n);
  std::vector<Wanted> result = image(axes_.of(n), 1);
  const TensorId x = shaped(operand(n, 0), image(axes_.of_operand(n, 0), 1));
  std::vector<Dim> spatial;
  for (const std::size_t k : {1, 2}) {
    spatial.push_back(result[k].axes.size() == 1 ? dim(result[k].axes[0])
                                                 : Dim{result[k].name, product(result[k].axes)});
    const Dim& from = graph_.tensor(x).dims[k];
    if (from.name == spatial.back().name && from.size != spatial.back().size) spatial.back().name += "_out";
  }
  const TensorId made = add(of.kind == Kind::MaxPool ? OpKind::MaxPool : OpKind::AveragePool, "", {x},
                            {.result_dims = spatial,
                             .window = of.details.window,
                             .stride = of.details.stride,
                             .pad_before = of.details.before,
                             .pad_after = of.details.after});
  return unshaped(made, result);
}

// --- normalisations ---

Value Emitter::norm(int n) {
  const Node& of = node(n);
  std::vector<Wanted> wanted;
  const Value value = with_last(n, operand(n, 0), of.shape.size() - 1, wanted);
  const TensorId x = shaped(value, wanted);
  std::vector<TensorId> inputs = {x};
  for (std::size_t k = 1; k < of.inputs.size(); ++k) inputs.push_back(shaped(operand(n, k), {wanted.back()}));
  const OpKind kind = of.kind == Kind::LayerNorm ? OpKind::LayerNorm : OpKind::RmsNorm;
  return unshaped(add(kind, "", inputs, {.epsilon = of.details.number}), wanted);
}

Value Emitter::batch_norm(int n) {
  std::vector<Wanted> wanted;
  const Value value = with_last(n, operand(n, 0), 1, wanted);
  const TensorId x = shaped(value, wanted);
  const TensorId sums = add(OpKind::BatchSums, ".sums", {x});
  const double count =
      static_cast<double>(graph_.tensor(x).elements()) / static_cast<double>(graph_.tensor(x).dims.back().size);
  std::vector<TensorId> inputs = {x, sums};
  for (const std::size_t k : {1, 2}) inputs.push_back(shaped(operand(n, k), {wanted.back()}));
  return unshaped(add(OpKind::BatchNorm, "", inputs, {.scale = 1.0 / count, .epsilon = node(n).details.number}),
                  wanted);
}

Value Emitter::softmax(int n) {
  std::vector<Wanted> wanted;
  const Value value = with_last(n, operand(n, 0), static_cast<std::size_t>(node(n).details.axes[0]), wanted);
  return unshaped(add(OpKind::Softmax, "", {shaped(value, wanted)}), wanted);
}

// --- attention ---

Value Emitter::attention(int n) {
  const std::vector<AxisList> q = axes_.of_operand(n, 0), k = axes_.of_operand(n, 1), v = axes_.of_operand(n, 2);
  // Heads of keys that are made together with queries have the group of one, too.
  const bool together = q[1] == k[1] && q[1].size() > 1 && size(q[1].back()) == 1;
  const auto split = static_cast<std::ptrdiff_t>(k[1].size() - (together ? 1 : 0));
  const AxisList group(q[1].begin() + split, q[1].end());
  const Wanted batch{q[0], "batch"}, seq{q[2], "seq"}, heads{{k[1].begin(), k[1].begin() + split}, "kv_heads"},
      width{q[3], "head_dim"}, value{v[3], v[3] == q[3] ? "head_dim" : "v_dim"};
  const TensorId queries = shaped(operand(n, 0), {batch, seq, heads, {group, "group"}, width});
  // A query meets every key, so their positions are two dimensions.
  const auto of_keys = [&](std::size_t operand_of, const Wanted& last, const char* suffix) {
    const std::vector<Wanted> wanted = {batch, {k[2], "kv_seq"}, {k[1], "kv_heads"}, last};
    const Value value_of = ordered(operand(n, operand_of), order_of(wanted));
    std::vector<Dim> to = dims_of(wanted);
    const std::vector<Dim>& of_q = graph_.tensor(queries).dims;
    const bool shared = std::any_of(of_q.begin(), of_q.end(), [&](const Dim& met) { return met.name == to[1].name; });
    if (!shared && plain(wanted)) return value_of.tensor;
    if (shared) to[1].name = "kv_seq";
    to[2] = of_q[2];
    return add(OpKind::Reshape, suffix, {value_of.tensor}, {.result_dims = to});
  };
  // A scale of 1 stands for 1 / sqrt(head_dim); the next representable number stands for 1.
  const double given = node(n).details.number;
  const double scale = given == 0.0 ? 1.0 : given == 1.0 ? std::nextafter(1.0, 2.0) : given;
  const Details& details = node(n).details;
  std::vector<TensorId> inputs = {queries, of_keys(1, width, ".keys"), of_keys(2, value, ".values")};
  Attributes attributes{
      .scale = scale, .causal = details.causal, .attention_window = details.window.empty() ? 0 : details.window[0]};
  if (!details.numbers.empty()) attributes.score_cap = details.numbers[0];
  if (details.alibi) attributes.extra = Attributes::Extra::Alibi;
  const bool more = node(n).inputs.size() > 3;
  if (more && axes_.of_operand(n, 3).size() == 1) {
    inputs.push_back(shaped(operand(n, 3), {heads, {group, "group"}}));
    attributes.extra = Attributes::Extra::Sink;
  } else if (more) {
    inputs.push_back(attention_mask(n, graph_.tensor(inputs[0]).dims, graph_.tensor(inputs[1]).dims[1]));
    attributes.extra = Attributes::Extra::Mask;
  }
  const TensorId made = add(OpKind::GroupedAttention, "", inputs, attributes);
  return unshaped(made, {batch, seq, heads, {group, "group"}, value});
}

Value Emitter::packed_attention(int n) {
  const std::vector<AxisList> x = axes_.of_operand(n, 0);
  const Wanted batch{x[0], "batch"}, seq{x[1], "seq"}, heads{x[3], "heads"}, width{x[4], "head_dim"};
  const TensorId packed = shaped(operand(n, 0), {batch, seq, {x[2], "qkv"}, heads, width});
  return unshaped(add(OpKind::Attention, "", {packed}), {batch, seq, heads, width});
}

// The mask by the names of queries and keys, without dimensions in which it is the same.
TensorId Emitter::attention_mask(int n, const std::vector<Dim>& queries, const Dim& keys) {
  const std::vector<AxisList> own = axes_.of_operand(n, 3);
  std::vector<Wanted> wanted;
  std::vector<Dim> to;
  for (const std::size_t d : {0, 1})
    if (!own[d].empty()) {
      wanted.push_back({own[d], "mask_queries"});
      to.push_back(queries[d]);
    }
  wanted.push_back({own[2], "mask_keys"});
  to.push_back(keys);
  const TensorId mask = shaped(operand(n, 3), wanted);
  return graph_.tensor(mask).dims == to ? mask : add(OpKind::Reshape, ".mask", {mask}, {.result_dims = to});
}

Value Emitter::rotary(int n) {
  const Node& of = node(n);
  const std::vector<AxisList> x = axes_.of_operand(n, 0);
  const auto positions = static_cast<std::size_t>(of.details.axes[0]);
  std::vector<Wanted> wanted = {{{}, "batch"}, {x[positions], "seq"}};
  const Value value = operand(n, 0);
  for (const int axis : value.order) {
    const auto in = [&](const AxisList& list) { return std::find(list.begin(), list.end(), axis) != list.end(); };
    if (axis == Axes::batch())
      wanted[0].axes = {axis};
    else if (!in(x[positions]) && !in(x.back()))
      wanted.push_back({{axis}, ""});
  }
  wanted.push_back({x.back(), "head_dim"});
  const std::vector<double>& numbers = of.details.numbers;
  return unshaped(add(OpKind::Rotary, "", {shaped(value, wanted)},
                      {.rotary_base = of.details.number,
                       .rotary_dims = of.details.window[0],
                       .rotary_divisors = {numbers.begin() + 1, numbers.end()},
                       .rotary_amplitude = numbers.front(),
                       .rotary_interleaved = of.details.interleaved}),
                  wanted);
}

}  // namespace meshwright::primitive
