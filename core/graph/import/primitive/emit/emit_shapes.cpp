// SPDX-License-Identifier: Apache-2.0
#include "core/graph/import/primitive/emit/emitter.h"

#include <algorithm>

#include "core/base/errors.h"

namespace meshwright::primitive {

// --- biases ---

// Whether n has its operand's elements, at other places or several times.
bool Emitter::moves(int n) const {
  const Kind kind = node(n).kind;
  return kind == Kind::Transpose || kind == Kind::Broadcast || (kind == Kind::Reshape && !axes_.explicit_reshape(n));
}

void Emitter::find_bias(int addition) {
  if (node(addition).kind != Kind::Add) return;
  const AxisList all = joined(axes_.of(addition));
  for (const std::size_t k : {1, 0}) {
    std::vector<int> between;
    int n = node(addition).inputs[k];
    for (; readers_of_.at(n).size() == 1 && moves(n); n = node(n).inputs[0]) between.push_back(n);
    const AxisList own = joined(axes_.of(n)), other = joined(axes_.of(node(addition).inputs[1 - k]));
    const bool fits = node(n).kind == Kind::Parameter && readers_of_.at(n).size() == 1 && !scalar(n) &&
                      own.size() < all.size() &&
                      std::is_permutation(all.begin(), all.end(), other.begin(), other.end()) &&
                      std::all_of(own.begin(), own.end(),
                                  [&](int axis) { return std::find(all.begin(), all.end(), axis) != all.end(); });
    if (!fits) continue;
    biases_[addition] = n;
    below_bias_.insert(between.begin(), between.end());
    return;
  }
}

// The order of a product's axes where a bias is added to it: a bias is over the last ones.
AxisList Emitter::with_bias_last(int product, AxisList order) const {
  for (int n = product; readers_of_.contains(n) && readers_of_.at(n).size() == 1;) {
    n = readers_of_.at(n).front();
    if (const auto bias = biases_.find(n); bias != biases_.end()) {
      const AxisList last = joined(axes_.of(bias->second));
      std::erase_if(order, [&](int axis) { return std::find(last.begin(), last.end(), axis) != last.end(); });
      order.insert(order.end(), last.begin(), last.end());
      return order;
    }
    if (!moves(n) || node(n).kind == Kind::Broadcast) break;
  }
  return order;
}

// --- products of which only slices are read ---

std::optional<int> Emitter::own_parameter(int n) const {
  while (readers_of_.at(n).size() == 1 && node(n).kind == Kind::Transpose) n = node(n).inputs[0];
  return node(n).kind == Kind::Parameter && readers_of_.at(n).size() == 1 ? std::optional(n) : std::nullopt;
}

// Whether every reader of n is a slice of one index of `axis`; `chain`: the nodes between the product and the slices.
bool Emitter::only_slices(int n, int axis, std::vector<int>& chain, std::set<std::int64_t>& indices) const {
  chain.push_back(n);
  const auto readers = readers_of_.find(n);
  if (readers == readers_of_.end() || chain.size() > 16) return false;
  for (const int reader : readers->second) {
    const Node& of = node(reader);
    if (axes_.of_operand(reader, 0) != axes_.of(of.inputs[0])) return false;
    if (of.kind == Kind::Slice) {
      const Cut cut = cut_of(reader);
      if (cut.from != AxisList{axis} || !cut.to.empty()) return false;
      indices.insert(of.details.start[0] / product(cut.inner));
      continue;
    }
    bool passes = moves(reader) && of.kind != Kind::Broadcast;
    if (const auto bias = biases_.find(reader); bias != biases_.end() && of.inputs[0] == n) {
      const AxisList own = joined(axes_.of(bias->second)), last = axes_.of(n).back();
      passes = own.size() >= last.size() && std::equal(last.rbegin(), last.rend(), own.rbegin());
    }
    if (!passes || !only_slices(reader, axis, chain, indices)) return false;
  }
  return true;
}

// A fused projection of queries, keys and values: each part of the weight makes its part of the result, so that no
// slice has to be copied and each can be split along its own heads.
void Emitter::find_parts(int n) {
  if (node(n).kind != Kind::MatMul || !own_parameter(node(n).inputs[1])) return;
  if (axes_.of_operand(n, 1) != axes_.of(node(n).inputs[1])) return;
  const AxisList columns = axes_.of(n).back();
  for (const int axis : columns) {
    std::vector<int> chain;
    std::set<std::int64_t> indices;
    if (!only_slices(n, axis, chain, indices) || static_cast<std::int64_t>(indices.size()) != size(axis)) continue;
    for (const int part : chain) {
      part_axis_[part] = axis;
      if (node(part).inputs.size() < 2) continue;
      for (int weight = node(part).inputs[1];; weight = node(weight).inputs[0]) {
        part_axis_[weight] = -1;
        if (node(weight).kind == Kind::Parameter) break;
      }
    }
    return;
  }
}

// "<name>.0", "<name>.1", ...: a parameter's parts along the axis, which `order` loses.
std::vector<TensorId> Emitter::parameter_parts(int n, int axis, AxisList& order) {
  order = joined(axes_.of(n));
  order.erase(std::find(order.begin(), order.end(), axis));
  std::vector<TensorId> parts;
  for (std::int64_t i = 0; i < size(axis); ++i)
    parts.push_back(graph_.add_tensor(unique(fmt::format("{}.{}", node(n).name, i)), TensorKind::Parameter,
                                      graph_.dtype, dims(order)));
  return parts;
}

Value Emitter::part_by_part(int n) {
  const int axis = part_axis_.at(n);
  const Node& of = node(n);
  const std::string whole_name = name_;
  Value made;
  if (moves(n)) return values_[static_cast<std::size_t>(of.inputs[0])];
  AxisList order;
  const int parameter = of.kind == Kind::MatMul ? *own_parameter(of.inputs[1]) : biases_.at(n);
  const std::vector<TensorId> weights = parameter_parts(parameter, axis, order);
  const Value x = of.kind == Kind::MatMul ? operand(n, 0) : values_[static_cast<std::size_t>(of.inputs[0])];
  if (of.kind == Kind::MatMul) {
    const AxisList contracted = axes_.of_operand(n, 0).back();
    const auto is_contracted = [&](int met) {
      return std::find(contracted.begin(), contracted.end(), met) != contracted.end();
    };
    for (const int met : x.order)
      if (!is_contracted(met)) made.order.push_back(met);
    for (const int met : order)
      if (!is_contracted(met) && std::find(made.order.begin(), made.order.end(), met) == made.order.end())
        made.order.push_back(met);
    made.order.push_back(axis);
    made.order = with_bias_last(n, std::move(made.order));
    std::erase(made.order, axis);
  } else {
    made.order = x.order;
  }
  for (std::size_t i = 0; i < weights.size(); ++i) {
    name_ = fmt::format("{}.{}", whole_name, i);
    made.parts.push_back(of.kind == Kind::MatMul
                             ? add(OpKind::Contract, "", {x.tensor, weights[i]}, {.result_names = names(made.order)})
                             : add(OpKind::BiasAdd, "", {x.parts[i], weights[i]}));
  }
  name_ = whole_name;
  return made;
}

// --- shapes ---

// What the result shares of the sliced dimension, its inner axes, is no part of the slice.
Emitter::Cut Emitter::cut_of(int n) const {
  const auto d = static_cast<std::size_t>(node(n).details.axes[0]);
  Cut cut{axes_.of_operand(n, 0)[d], axes_.of(n)[d], {}};
  while (!cut.from.empty() && !cut.to.empty() && cut.from.back() == cut.to.back()) {
    cut.inner.insert(cut.inner.begin(), cut.from.back());
    cut.from.pop_back();
    cut.to.pop_back();
  }
  return cut;
}

Value Emitter::slice(int n) {
  const Node& of = node(n);
  const auto [from, to, inner] = cut_of(n);
  const Value& source = values_[static_cast<std::size_t>(of.inputs[0])];
  if (!source.parts.empty())
    return {source.parts[static_cast<std::size_t>(of.details.start[0] / product(inner))], source.order};
  const Value x = operand(n, 0);
  std::vector<Wanted> wanted, has;
  bool placed = false;
  for (const int axis : x.order) {
    const bool sliced = std::find(from.begin(), from.end(), axis) != from.end();
    if (!sliced) {
      wanted.push_back({{axis}, ""});
      has.push_back({{axis}, ""});
    } else if (!placed) {
      placed = true;
      wanted.push_back({from, "whole"});
      has.push_back({to, "part"});
    }
  }
  const TensorId whole = shaped(x, wanted);
  std::vector<Dim> result = graph_.tensor(whole).dims;
  for (std::size_t k = 0; k < has.size(); ++k)
    if (has[k].name == "part") result[k] = to.size() == 1 ? dim(to[0]) : Dim{"part", product(to)};
  const TensorId sliced =
      add(OpKind::Slice, "", {whole}, {.result_dims = result, .start = of.details.start[0] / product(inner)});
  return unshaped(sliced, has);
}

Value Emitter::concat(int n) {
  const Node& of = node(n);
  const auto d = static_cast<std::size_t>(of.details.axes[0]);
  const AxisList whole = axes_.of(n)[d];
  // The dimensions lie as in the first operand that has more than one element of what is put together.
  std::size_t base = 0;
  while (base + 1 < of.inputs.size() && axes_.of_operand(n, base)[d].empty()) ++base;
  const AxisList along = axes_.of_operand(n, base)[d];
  std::vector<Wanted> has;
  for (const int axis : operand_order(n, base)) {
    if (std::find(along.begin(), along.end(), axis) == along.end())
      has.push_back({{axis}, ""});
    else if (axis == along.front())
      has.push_back({whole, "whole"});
  }
  if (along.empty()) has.push_back({whole, "whole"});
  std::vector<TensorId> pieces;
  for (std::size_t k = 0; k < of.inputs.size(); ++k) {
    std::vector<Wanted> wanted = has;
    for (Wanted& dim_of : wanted)
      if (dim_of.axes == whole) dim_of = {axes_.of_operand(n, k)[d], fmt::format("piece{}", k + 1)};
    AxisList order;
    for (const Wanted& of_dim : wanted) order.insert(order.end(), of_dim.axes.begin(), of_dim.axes.end());
    pieces.push_back(shaped(widened(operand(n, k), order), wanted));
  }
  std::vector<Dim> result;
  for (const Wanted& of_dim : has)
    result.push_back(of_dim.axes.size() == 1 ? dim(of_dim.axes[0]) : Dim{of_dim.name, product(of_dim.axes)});
  return unshaped(add(OpKind::Concat, "", pieces, {.result_dims = result}), has);
}

Value Emitter::reshape(int n) {
  const int from = node(n).inputs[0];
  const Value x = values_[static_cast<std::size_t>(from)];
  if (!axes_.explicit_reshape(n)) return x;
  const AxisList order = joined(axes_.of(n));
  const Value logical = ordered(x, joined(axes_.of(from)));
  return {add(OpKind::Reshape, "", {logical.tensor}, {.result_dims = dims(order)}), order};
}

}  // namespace meshwright::primitive
